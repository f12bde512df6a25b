//! The environment of a container: its own variables, those of ConfigMaps and Secrets, of the pod itself and of services.

mod expansion;
mod fields;
mod services;

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, Service};

pub(crate) use expansion::expand;
pub(crate) use fields::{field_of_pod, resource_of_container};

use crate::config::Capacity;
use crate::sources::{SourceError, Sources};

/// Why an environment cannot be made. The text is the message of the container that waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey { kind: &'static str, key: String, namespace: String, name: String },
    #[error("unsupported fieldPath: {0}")]
    UnsupportedField(String),
    #[error("unsupported container resource : {0}")]
    UnsupportedResource(String),
    #[error("container {0} not found")]
    NoContainer(String),
}

/// What of the node and of the pod's place on it shows in the environment.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) host_ip: String,
    pub(crate) pod_ip: String,
    pub(crate) capacity: Capacity,
}

/// The variables of a container in the order of their declaration, then those of services.
///
/// A later variable sees earlier ones: `$(NAME)` is expanded with what is known so far.
pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    place: &Place,
    services: &[Service],
    sources: &Sources,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let of_services = services::variables(services, namespace, links);
    let mut made = Variables::default();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (key, value) in from_source(from, sources)? {
            made.set(format!("{prefix}{key}"), value);
        }
    }
    for variable in container.env.iter().flatten() {
        let known = |name: &str| made.get(name).or_else(|| of_services.get(name).map(String::as_str));
        let value = match variable.value.as_deref() {
            Some(text) if !text.is_empty() => Some(expand(text, known)),
            _ => value_from(pod, container, variable, place, sources)?,
        };
        if let Some(value) = value {
            made.set(variable.name.clone(), value);
        }
    }
    for (name, value) in of_services {
        if made.get(&name).is_none() {
            made.set(name, value);
        }
    }
    Ok(made.ordered)
}

/// Variables in order, each once: what is set again keeps its place.
#[derive(Default)]
struct Variables {
    ordered: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|place| self.ordered[*place].1.as_str())
    }

    fn set(&mut self, name: String, value: String) {
        if let Some(place) = self.places.get(&name) {
            self.ordered[*place].1 = value;
        } else {
            self.places.insert(name.clone(), self.ordered.len());
            self.ordered.push((name, value));
        }
    }
}

fn from_source(
    from: &k8s_openapi::api::core::v1::EnvFromSource,
    sources: &Sources,
) -> Result<BTreeMap<String, String>, EnvironmentError> {
    if let Some(reference) = &from.config_map_ref {
        let map = sources.config_map(&reference.name, reference.optional == Some(true))?;
        return Ok(map.and_then(|map| map.data.clone()).unwrap_or_default());
    }
    if let Some(reference) = &from.secret_ref {
        let secret = sources.secret(&reference.name, reference.optional == Some(true))?;
        let data = secret.iter().flat_map(|secret| secret.data.iter().flatten());
        return Ok(data.map(|(key, value)| (key.clone(), text(&value.0))).collect());
    }
    Ok(BTreeMap::new())
}

/// The value of a variable that names its source; `None` when an optional source is absent.
fn value_from(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    place: &Place,
    sources: &Sources,
) -> Result<Option<String>, EnvironmentError> {
    let Some(from) = &variable.value_from else { return Ok(Some(String::new())) };
    let namespace = || pod.metadata.namespace.clone().unwrap_or_default();
    if let Some(field) = &from.field_ref {
        return field_of_container(pod, place, &field.field_path).map(Some);
    }
    if let Some(selector) = &from.resource_field_ref {
        return resource_of_container(pod, Some(container), selector, &place.capacity).map(Some);
    }
    if let Some(reference) = &from.config_map_key_ref {
        let optional = reference.optional == Some(true);
        let Some(map) = sources.config_map(&reference.name, optional)? else { return Ok(None) };
        return match map.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => Ok(Some(value.clone())),
            None if optional => Ok(None),
            None => Err(EnvironmentError::NoKey {
                kind: "ConfigMap",
                key: reference.key.clone(),
                namespace: namespace(),
                name: reference.name.clone(),
            }),
        };
    }
    if let Some(reference) = &from.secret_key_ref {
        let optional = reference.optional == Some(true);
        let Some(secret) = sources.secret(&reference.name, optional)? else { return Ok(None) };
        return match secret.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => Ok(Some(text(&value.0))),
            None if optional => Ok(None),
            None => Err(EnvironmentError::NoKey {
                kind: "Secret",
                key: reference.key.clone(),
                namespace: namespace(),
                name: reference.name.clone(),
            }),
        };
    }
    Ok(Some(String::new()))
}

/// Fields that only the node knows come from `place`, all others from the pod.
fn field_of_container(pod: &Pod, place: &Place, path: &str) -> Result<String, EnvironmentError> {
    let spec = pod.spec.as_ref();
    match path {
        "spec.nodeName" => Ok(spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default()),
        "spec.serviceAccountName" => Ok(spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()),
        "status.hostIP" | "status.hostIPs" => Ok(place.host_ip.clone()),
        "status.podIP" | "status.podIPs" => Ok(place.pod_ip.clone()),
        _ => field_of_pod(pod, path),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
