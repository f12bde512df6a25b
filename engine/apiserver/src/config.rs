//! The settings of an API server.

use pillion_clock::Clock;
use pillion_gates::Gates;
use pillion_store::Store;

use crate::token::TokenSigner;

/// What an API server is made of.
pub struct Config {
    /// Where objects are kept.
    pub store: Store,
    /// The time of all timestamps.
    pub clock: Clock,
    /// Signs the tokens of service accounts; without it there are none.
    pub tokens: Option<TokenSigner>,
    /// Makes uids and generated names the same in every run; `None` makes them random.
    pub seed: Option<u64>,
    /// Which features are on: `SidecarField` gives pods the field `containers[].sidecar`.
    pub gates: Gates,
}

impl Config {
    /// A server for tests and trials: nothing is kept. Without a key of its own it hands out no tokens.
    pub fn in_memory() -> Config {
        Config {
            store: Store::memory(pillion_store::Options::default()),
            clock: Clock::system(),
            tokens: TokenSigner::generate().ok(),
            seed: None,
            gates: Gates::default(),
        }
    }
}
