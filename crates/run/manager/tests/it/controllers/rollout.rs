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
