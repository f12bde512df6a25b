//! The name of the Lease of an admission controller, and its times.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use pillion_api::names::VPA_ADMISSION_LEASE;

/// Where it is, as upstream's default.
pub const NAMESPACE: &str = "kube-system";
/// Between renewals, as upstream.
pub(crate) const RENEW: Duration = Duration::from_secs(10);
/// For how long a renewal is good, as upstream.
pub(crate) const VALID: SignedDuration = SignedDuration::from_mins(1);

/// The name of a Lease. The default is upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

impl Default for LeaseName {
    fn default() -> LeaseName {
        LeaseName { namespace: NAMESPACE.to_owned(), name: VPA_ADMISSION_LEASE.to_owned() }
    }
}

impl LeaseName {
    pub(crate) fn api(&self, client: &Client) -> Api<Lease> {
        Api::namespaced(client.clone(), &self.namespace)
    }
}
