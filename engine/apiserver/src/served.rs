//! Everything that is served at the moment, as discovery and OpenAPI list it.

use pillion_kinds::resource;

use crate::discovery::Served;
use crate::state::Inner;

/// Kubernetes' own resources, then those of CustomResourceDefinitions.
pub(crate) fn all(inner: &Inner) -> Vec<Served> {
    let custom = inner.custom.definitions();
    let custom = custom.iter().flat_map(|definition| Served::custom(definition));
    resource::all().iter().map(Served::builtin).chain(custom).collect()
}
