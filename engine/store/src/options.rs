//! How much a store remembers.

/// How much of the past is kept for watches and old lists: per resource, and whichever bound comes first. The newest
/// event is always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many events.
    pub history: usize,
    /// How many bytes of objects.
    pub history_bytes: usize,
}

impl Default for Options {
    /// 10,000 events, as many as a burst of a few minutes makes on one machine; 64 MiB.
    fn default() -> Options {
        Options { history: 10_000, history_bytes: 64 << 20 }
    }
}
