//! The settings of the controllers.

use kube::Client;
use pillion_clock::Clock;

/// What the controllers are given.
pub struct Config {
    /// Reaches the API server, with all rights.
    pub client: Client,
    /// The time that controllers decide by.
    pub clock: Clock,
    /// Records only warnings as events, for simulations of many pods.
    pub quiet: bool,
    /// The certificate authority, in PEM, that pods verify the API server with. Without it no `kube-root-ca.crt` is published.
    pub certificate_authority: Option<String>,
}

impl Config {
    /// Controllers that record all events and publish no certificate authority.
    pub fn new(client: Client, clock: Clock) -> Config {
        Config { client, clock, quiet: false, certificate_authority: None }
    }
}
