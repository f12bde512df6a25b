//! Rollouts on a whole cluster in this process: API server, controllers, a simulated node and managers, in virtual time.

mod cluster;
mod failures;
mod faults;
mod kinds;
mod new_pods;
mod places;
mod random;
mod seen;
mod strategies;

/// Whether tests of chance are tried as often as in CI.
fn is_thorough() -> bool {
    std::env::var_os("PILLION_THOROUGH").is_some()
}
