//! What a server allows its clients.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};

/// What a server allows its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many connections there are at most. A quarter of the files that the process may open, if that is less.
    pub connections: usize,
    /// How long a connection may take until its first request is there as a whole, and any later request once its head is there. The TLS
    /// handshake has as long. Closing may take as long again, since connections are looked at only now and then.
    pub request: Duration,
    /// How long a connection may wait between two requests. Longer than clients keep theirs (Go: 90 s), so that none is closed under
    /// a request that is being sent.
    pub idle: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { connections: 2048, request: Duration::from_secs(20), idle: Duration::from_mins(2) }
    }
}

impl Bounds {
    /// How many connections one server may have: a quarter of the files that this process may open, since it has several servers and files of its own.
    pub(crate) fn connections_here(&self) -> usize {
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        self.connections.min(usize::try_from(files / 4).unwrap_or(usize::MAX)).max(1)
    }
}
