//! Children that go on in this program instead of starting it again.
//!
//! A program of tens of megabytes that starts itself again has megabytes of its own each time, mostly addresses that the loader fills in. A
//! child that is forked shares them with its parent.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;

use nix::unistd::{ForkResult, Pid, close, dup2_stderr, dup2_stdin, dup2_stdout, fork};

/// The standard streams of a child; it has no other descriptors. What is missing is `/dev/null`.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

/// Starts a child whose whole life is `role`.
#[expect(unsafe_code, reason = "nix leaves it to its callers that a child may do what it does")]
pub(super) fn spawn(streams: Streams, role: impl FnOnce() -> io::Result<()>) -> io::Result<Pid> {
    // SAFETY: supervisors have one thread, so that no other can hold a lock that the child would wait for.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let done = streams.apply().and_then(|()| role());
            std::process::exit(i32::from(done.is_err()))
        }
    }
}

impl Streams {
    fn apply(self) -> io::Result<()> {
        // A supervisor always has its standard streams, so that none of these takes the place of another.
        let or_null = |stream: Option<OwnedFd>| stream.map_or_else(null, Ok);
        dup2_stdin(or_null(self.stdin)?)?;
        dup2_stdout(or_null(self.stdout)?)?;
        dup2_stderr(or_null(self.stderr)?)?;
        close_all_but_standard_streams()
    }
}

fn null() -> io::Result<OwnedFd> {
    let null: File = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    Ok(null.into())
}

/// Closes every descriptor but the standard streams.
pub(super) fn close_all_but_standard_streams() -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The one that the list was read from is closed already.
        let _ = close(number);
    }
    Ok(())
}
