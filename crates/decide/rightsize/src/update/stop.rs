//! Why evictions for an autoscaler are stopped.

use std::fmt;

/// Why evictions are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// An evicted pod came back with the same resources.
    Unchanged,
    /// Nothing came in the place of an evicted pod.
    NoSuccessor,
    /// What came in its place does not become Ready.
    NotReady,
}

impl StopCause {
    pub(super) const ALL: [StopCause; 3] = [StopCause::Unchanged, StopCause::NoSuccessor, StopCause::NotReady];

    /// The reason of the condition.
    pub fn reason(self) -> &'static str {
        match self {
            StopCause::Unchanged => "PodsUnchanged",
            StopCause::NoSuccessor => "NoSuccessor",
            StopCause::NotReady => "SuccessorNotReady",
        }
    }
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopCause::Unchanged => {
                "evicted pods come back with the same resources; no more are evicted for an hour. Something undoes what admission sets, or the \
                 webhook is not called for them"
            }
            StopCause::NoSuccessor => {
                "no pod came in the place of an evicted one within ten minutes; no more are evicted until there is one. The events of its \
                 controller say why it cannot create pods"
            }
            StopCause::NotReady => {
                "the successor of an evicted pod did not become Ready within ten minutes; no more are evicted until it is. Check whether it \
                 fits on a node, and whether its containers start with what is recommended"
            }
        })
    }
}
