//! Becomes a command of a container.

use std::ffi::{CString, NulError};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use nix::sys::prctl::{set_child_subreaper, set_no_new_privs, set_pdeathsig};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{dup2_stdin, execve, setsid};
use rustix::process::ioctl_tiocsctty;

use crate::channel::Channel;
use crate::lookup::look_path;
use crate::message::{CommandSpec, Part, Stdin};
use crate::namespaces::{become_user, mount_proc};
use crate::start_error::{StartError, words};

/// The exit code of a container whose command the kernel does not take, as container runtimes have it.
const CANNOT_EXEC: i32 = 255;

/// Reads a [`CommandSpec`] from the socket that is the standard input, and becomes it. The socket closes when that
/// succeeds; otherwise a [`StartError`] comes back.
pub(super) fn become_command() -> io::Result<()> {
    let mut channel = Channel::from_stdin()?;
    let Some(spec) = channel.wait::<CommandSpec>()? else { return Ok(()) };
    match prepare(&spec, channel.descriptor()) {
        Ok(Image { file, arguments, environment }) => {
            // From here on it counts as started, and says itself what is wrong, as a container runtime does.
            drop(channel);
            // Not the standard library's: that would take a text for a shell script.
            let Err(error) = execve(&file, &arguments, &environment);
            let _ = writeln!(io::stderr(), "exec {}: {}", file.to_string_lossy(), words(&error.into()));
            std::process::exit(CANNOT_EXEC)
        }
        Err(error) => channel.send(&error),
    }
}

/// What this process becomes.
struct Image {
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

fn prepare(spec: &CommandSpec, given: Option<OwnedFd>) -> Result<Image, StartError> {
    let other = |what: &'static str| move |error: nix::Error| StartError::other(what, words(&error.into()));
    setsid().map_err(other("setsid"))?;
    match spec.part {
        Part::First => mount_proc().map_err(other("cannot mount /proc"))?,
        Part::FirstAmongOthers => {}
        // What it starts stays below it while it runs, and can be killed with it.
        Part::Exec => set_child_subreaper(true).map_err(other("prctl"))?,
    }
    if let Some(user) = spec.user {
        become_user(user)?;
    }
    // After the change of the user, which makes the kernel forget it.
    set_pdeathsig(Signal::SIGKILL).map_err(other("prctl"))?;
    if spec.no_new_privileges {
        set_no_new_privs().map_err(other("prctl"))?;
    }
    umask(Mode::from_bits_truncate(0o022));
    let folder = spec.working_directory.as_deref().unwrap_or(Path::new("/"));
    std::env::set_current_dir(folder)
        .map_err(|error| StartError::WorkingDirectory { path: folder.to_owned(), problem: words(&error) })?;
    let image = image(spec)?;
    let stdin = match given {
        Some(given) => given,
        None => File::open("/dev/null").map_err(|error| StartError::other("/dev/null", words(&error)))?.into(),
    };
    if spec.stdin == Stdin::Terminal {
        ioctl_tiocsctty(&stdin).map_err(|error| StartError::other("terminal", words(&error.into())))?;
    }
    dup2_stdin(stdin).map_err(other("standard input"))?;
    default_signals();
    Ok(image)
}

fn image(spec: &CommandSpec) -> Result<Image, StartError> {
    let invalid = |error: NulError| StartError::other("invalid argument", error);
    let text = |text: &str| CString::new(text).map_err(invalid);
    let name = spec.command.first().ok_or(StartError::NoCommand)?;
    let path = spec.environment.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    let file = look_path(name, path)?;
    Ok(Image {
        file: CString::new(file.into_os_string().into_vec()).map_err(invalid)?,
        arguments: spec.command.iter().map(|word| text(word)).collect::<Result<_, _>>()?,
        environment: spec
            .environment
            .iter()
            .map(|(name, value)| text(&format!("{name}={value}")))
            .collect::<Result<_, _>>()?,
    })
}

/// Rust ignores SIGPIPE, and the parent process may ignore others; a container ignores none.
#[expect(unsafe_code, reason = "there is no safe way to forget a signal handler")]
fn default_signals() {
    for number in Signal::iterator() {
        // SAFETY: the default action runs no code of this process, which has one thread and ends its life with `execve`.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
}
