//! How the manager is reached: TLS, health and metrics, and the bounds on what it accepts at the same time.

pub(crate) mod budget;
pub(crate) mod health;
pub(crate) mod serve;
pub(crate) mod weight;
