//! What a cluster is made of, and why there is none.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use pillion_apiserver::{CredentialsError, Refusal, TokenError};
use pillion_clock::Clock;
use pillion_gates::Gates;
use pillion_node::ImageMap;

/// What a cluster is made of.
pub struct Config {
    /// Where the node keeps logs and volumes.
    pub folder: PathBuf,
    /// Where objects and keys are kept; without it they are gone with the cluster.
    pub keep: Option<PathBuf>,
    /// Where to listen for kubectl and for pods.
    pub listen: Option<SocketAddr>,
    /// What containers are.
    pub containers: Containers,
    /// Tells the time.
    pub clock: Clock,
    /// Makes uids and generated names the same in every run.
    pub seed: Option<u64>,
    /// Which features are on.
    pub gates: Gates,
}

impl Config {
    /// A cluster in tokio's time that runs nothing and keeps nothing, the same in every run. Call it inside a runtime.
    pub fn simulated(start: Timestamp) -> Config {
        Config {
            folder: PathBuf::new(),
            keep: None,
            listen: None,
            containers: Containers::Simulated { images: ImageMap::default() },
            clock: Clock::virtual_from(start),
            seed: Some(0),
            gates: Gates::default(),
        }
    }
}

/// What containers are.
pub enum Containers {
    /// Processes of this machine.
    Processes {
        /// What images stand for.
        images: ImageMap,
        /// The program that supervises pods, by [`pillion_process::supervise_if_asked`]; without it, this program itself.
        supervisor: Option<PathBuf>,
    },
    /// Nothing but time.
    Simulated {
        /// Images of which some may not be there; what they stand for does not matter.
        images: ImageMap,
    },
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error("cannot open the objects that were kept")]
    Store(#[source] pillion_store::OpenError),
    /// A key cannot be read or written.
    #[error("cannot keep a key in {}", path.display())]
    Key {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The key of tokens is broken.
    #[error("the key of service account tokens is unusable")]
    Token(#[source] TokenError),
    /// There is no certificate.
    #[error("cannot make the API server's credentials")]
    Credentials(#[source] CredentialsError),
    /// The port is taken, or may not be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// What every cluster has could not be made.
    #[error("the API server cannot begin: {0:?}")]
    Bootstrap(Refusal),
    /// Processes cannot be started.
    #[error("this machine cannot run containers as processes")]
    Host(#[source] io::Error),
}
