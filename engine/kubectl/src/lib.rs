//! Real kubectl, talking with a real kube-apiserver and with the embedded one: both must make it print the same.
//!
//! ```
//! use pillion_kubectl::Session;
//!
//! let session = Session::parse("
//! A session is read like a terminal.
//!
//! $ kubectl create configmap settings --from-literal=colour=green
//! configmap/settings created
//!
//! $ kubectl delete configmap settings-of-old
//! Error from server (NotFound): configmaps \"settings-of-old\" not found
//! [exit 1]
//! ")?;
//! assert_eq!(session.commands().count(), 2);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! ```text
//!  sessions/NAME.console ─▶ Session ─┬─▶ play(real server) ─────▶ what was printed ─┬─▶ the same?
//!                                    └─▶ play(embedded server) ─▶ what was printed ─┘
//! ```
//!
//! Sessions are held with API servers alone; those in `sessions/running` with a whole cluster, where pods run, and with `pillion up`.
//!
//! # The format of a session
//! A file is a session. It is held in a namespace of its own, `$NS`, in an empty folder, with an empty cache.
//!
//! | line | meaning |
//! |---|---|
//! | `$ COMMAND` | what bash is given; `$MANIFESTS`, `$CRDS` and `$EXAMPLES` are folders, and `preamble.sh` has helpers |
//! | `> …` | the command goes on |
//! | lines up to an empty one | what the command prints, stdout and stderr; a blank line of it is a `·` |
//! | `[exit N]` | how it ends, unless well |
//! | `~ REASON` | below it is what the embedded server makes it print, which is not the same, deliberately |
//! | anything else | prose |
//!
//! To add to the sessions: write commands, run the tests with `UPDATE_SESSIONS=1` against a control plane alone (a whole cluster
//! for `running`), which writes what kubectl printed there into the file, and read it.
//!
//! **Invariants**
//! - What is recorded is what kubectl prints with a real server; where the embedded one differs, the file gives a reason.
//! - A difference that is no longer one fails the test.
//! - What is different in every run (uids, times, ages, addresses, generated names) becomes a word: see `words.rs`.

mod compare;
mod embedded;
mod play;
mod session;
mod up;
mod words;

pub use compare::{both_print_the_same, no_session_is_forgotten};
pub use embedded::Embedded;
pub use play::{Server, play};
pub use session::{Difference, Session, Step};
pub use up::Up;
