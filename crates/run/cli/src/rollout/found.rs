//! The SidecarSet that a command is about.

use std::sync::Arc;

use kube::core::ApiResource;
use pillion_api::sidecarset::{self, SidecarSet};
use serde_json::Value;

use crate::Failure;
use crate::cluster::known;
use crate::cluster::read::Reader;
use crate::cluster::target::nearest;

/// A SidecarSet of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) set: Arc<SidecarSet>,
    /// In which version the cluster serves it.
    pub(crate) resource: ApiResource,
}

/// Reads the SidecarSet, or says what may have been meant.
pub(crate) async fn find(reader: &Reader, name: &str) -> Result<Found, Failure> {
    // Older definitions of Kruise's serve v1alpha1 alone.
    for version in ["v1beta1", "v1alpha1"] {
        let resource = known::sidecar_sets(version);
        if let Some(object) = reader.get(&resource, None, name).await? {
            let set = decode(object)?;
            return Ok(Found { set, resource });
        }
    }
    Err(Failure::no(missing(reader, name).await))
}

/// The same object again, as it is now.
pub(crate) async fn again(reader: &Reader, found: &Found) -> Result<Found, Failure> {
    let name = found.set.name();
    match reader.get(&found.resource, None, name).await? {
        Some(object) => Ok(Found { set: decode(object)?, resource: found.resource.clone() }),
        None => Err(Failure::no(format!("SidecarSet {name:?} was deleted"))),
    }
}

/// Reads an object.
pub(crate) fn decode(object: Value) -> Result<Arc<SidecarSet>, Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let set = sidecarset::decode(object);
    set.map(Arc::new).map_err(|error| Failure::no(format!("SidecarSet {name:?} cannot be read: {error}")))
}

/// That there is none, and what may have been meant. Whatever cannot be read says nothing.
async fn missing(reader: &Reader, name: &str) -> String {
    let message = format!("the cluster has no SidecarSet {name:?}");
    let Ok(sets) = known::sets(reader).await else { return message };
    let Some(sets) = sets else {
        return format!(
            "{message}: it does not serve SidecarSets, because their CustomResourceDefinition is not installed"
        );
    };
    let names: Vec<&str> = sets.iter().filter_map(|set| set["metadata"]["name"].as_str()).collect();
    match nearest(name, &names) {
        Some(near) => format!("{message}; did you mean {near:?}?"),
        None if names.is_empty() => format!("{message}: it has none at all"),
        None => message,
    }
}
