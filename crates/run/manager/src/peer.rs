//! Other programs that serve the same objects.

use std::fmt;
use std::str::FromStr;

/// A program whose objects can be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// OpenKruise, which serves SidecarSets.
    Kruise,
    /// The VerticalPodAutoscaler of Kubernetes.
    Vpa,
}

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 2] = [Peer::Kruise, Peer::Vpa];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Kruise => "kruise",
            Peer::Vpa => "vpa",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Peer {
    type Err = UnknownPeer;

    fn from_str(name: &str) -> Result<Peer, UnknownPeer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name).ok_or_else(|| UnknownPeer { name: name.to_owned() })
    }
}

/// The name of nothing that can be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be taken over; what can be is {}", Peer::ALL.map(Peer::name).join(", "))]
pub struct UnknownPeer {
    name: String,
}
