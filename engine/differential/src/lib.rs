//! The judge of the embedded API server: one corpus of HTTP requests, played against two API servers, whose normalised
//! answers are compared. What kube-apiserver answers is also recorded beside the corpus, so that no cluster is needed to
//! see where the embedded server differs.
//!
//! ```
//! use pillion_differential::{Answer, Conversation, Exchange, Transcript, compare};
//!
//! let text = "
//! about: The smallest conversation.
//! steps:
//!   - step: read
//!     request: GET /api/v1/namespaces/$ns/configmaps/missing
//!     expect: 404
//! ";
//! let conversation = Conversation::parse("smallest", text)?;
//! // let played = play(&client, &conversation).await?;
//! # let answer = Answer { status: 404, ..Answer::default() };
//! # let exchange = Exchange { step: "read".into(), request: String::new(), sent: None, answer, unmet: None };
//! # let played = Transcript { conversation: conversation.name.clone(), exchanges: vec![exchange] };
//! assert!(compare(&played, &played).is_empty());
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! ```text
//!  corpus/NAME.yaml ──▶ Conversation ──▶ play(client) ──▶ Transcript ─┐
//!  generate(start)  ──▶      "                │  ▲                    ├─▶ compare ─▶ judge(known.yaml) ─▶ Report
//!                                         a webhook server            │
//!  corpus/NAME.answers.yaml ────────────────────────────▶ Transcript ─┘
//! ```
//!
//! # The format of a conversation
//! A file is a conversation. It is played in a namespace of its own, `$ns`, that has the service account `default`; objects of
//! the whole cluster are named after it (`widgets.$ns.example.com`) and tidied up by `finally`.
//!
//! | key | meaning |
//! |---|---|
//! | `about` | a sentence |
//! | `steps` | the steps, in order |
//! | `finally` | requests that are sent at the end, whatever came before, and not recorded |
//! | `webhooks` | path ↦ answer of a webhook server on loopback, `$webhook`, whose authority is `$ca`: `response`, `patch`, `converts`, `delay` (seconds), `status`, `raw` |
//!
//! | key of a step | meaning |
//! |---|---|
//! | `step` | its name, unlike any other of the conversation |
//! | `request` | `METHOD /path?query`, written as one thinks it: blanks and such are encoded |
//! | `body`, `raw` | the body as a structure (YAML anchors are at hand), or as the text that is sent |
//! | `set`, `drop` | JSON pointers into the body: what is put there (`-` appends), what is taken away |
//! | `content`, `accept`, `headers` | `merge`, `strategic`, `json-patch`, `apply`, `yaml`; `table`, `metadata`, `metadata-list`; or whole media types. An empty header is not sent |
//! | `capture` | variable ↦ JSON pointer into the answer; later steps say `$variable` |
//! | `expect` | a status, or `{status: …, /pointer: value}`: for the reader, and checked when answers are recorded |
//! | `until` | the same, asked again until it is so: a real server needs a moment to notice a webhook. Only the last answer counts |
//! | `only` | JSON pointers: the parts of the answer that are compared |
//! | `reviews` | compare what the webhooks were sent; otherwise only which were called |
//! | `cases` | name ↦ changes: each is a step of its own, named `step: case`. `/pointer`s are set in the body, `$variable`s replaced in request, content, accept, headers and raw |
//! | `watch` | `/path?query` instead of a request: opened, kept open while the steps of `during` are played, closed when `collect` says (`{events: N}`, `bookmark`, or `end`: by the server) |
//!
//! To add to the corpus: write the steps, `cargo run -p pillion-differential -- record NAME` with `KUBECONFIG` at a
//! control plane alone, and read the answers: does each request test what its name says?
//!
//! # What is compared
//! The status, the Content-Type, the texts of Warning headers, Retry-After, and the body; of watches, the events. Uids,
//! versions, times, generated names, addresses and tokens become words such as `<rv of create>`: see `normalise.rs`.
//!
//! **Invariants**
//! - The same value is the same word within a conversation: an update that wrote nothing shows the version of before.
//! - Normalisation replaces values; it never hides a message, a field or the order of a list, except where
//!   kube-apiserver's own order is chance.
//! - A conversation leaves the cluster as it found it, but for its namespace, which no controller takes away.
//! - An entry of known.yaml has a reason, and fails the test when nothing differs there any more.

pub mod generate;

mod compare;
mod conversation;
mod expectation;
mod known;
mod normalise;
mod play;
mod report;
mod transcript;
mod webhook;

pub use compare::{Difference, compare};
pub use conversation::{Collect, Conversation, Step, WebhookAnswer, corpus, own_corpus};
pub use expectation::{Expectation, Unmet};
pub use known::{Known, judge, known_differences, markdown};
pub use play::{connect, play};
pub use report::{Report, check};
pub use transcript::{Answer, Exchange, Transcript};
