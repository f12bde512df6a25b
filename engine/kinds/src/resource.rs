//! The resources that are served, and the rules of each.

mod catalog;

pub use crate::rules::Rules;
pub use crate::storage::Storage;

/// Every resource that is served, by group and in the order that discovery lists them.
pub fn all() -> &'static [Resource] {
    catalog::ALL
}

/// One resource of the API: `pods` of `v1`, `deployments` of `apps/v1`.
#[derive(Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Name in paths: `pods`.
    pub plural: &'static str,
    /// Name that kubectl accepts and shows: `pod`.
    pub singular: &'static str,
    /// Kind of the object: `Pod`.
    pub kind: &'static str,
    /// Short names that kubectl accepts: `po`.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl accepts: `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Verbs of the resource itself, in the order that discovery lists them.
    pub verbs: &'static [&'static str],
    /// What hangs below an object.
    pub subresources: &'static [Subresource],
    /// Name of the type in the table of schemas: `io.k8s.api.core.v1.Pod`.
    pub schema: &'static str,
    /// How it is served.
    pub service: Service,
    /// How objects are completed and checked.
    pub rules: Rules,
    /// What every response warns of.
    pub deprecation: Option<&'static str>,
    /// Where objects are kept, where they are kept as another resource: `events` of `events.k8s.io/v1` are `events` of `v1`.
    pub storage: Option<Storage>,
}

/// How a resource is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Stored, and something acts on it.
    Full,
    /// Stored so that manifests apply; nothing checks more than its metadata or acts on it, and the client is warned.
    StoredOnly,
    /// Answered and never stored: reviews and bindings.
    Answered,
}

/// Something below an object: `pods/status`.
#[derive(Debug)]
pub struct Subresource {
    /// Last part of the path: `status`.
    pub name: &'static str,
    /// Kind of the body: `Pod`, `Scale`, `Eviction`.
    pub kind: &'static str,
    /// Group of the kind where it is not the resource's own, as discovery lists it.
    pub group: &'static str,
    /// Version of that group, likewise.
    pub version: &'static str,
    /// Verbs in the order that discovery lists them.
    pub verbs: &'static [&'static str],
}
