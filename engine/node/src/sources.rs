//! ConfigMaps and Secrets that a pod refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kube::{Api, Client};

/// Why an object that a pod refers to cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{kind} \"{name}\" not found")]
    NotFound { kind: &'static str, name: String },
    /// What the API server said.
    #[error("{0}")]
    Refused(String),
}

/// What was fetched for one pod: each object once, present or not.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    config_maps: BTreeMap<String, Result<Arc<ConfigMap>, SourceError>>,
    secrets: BTreeMap<String, Result<Arc<Secret>, SourceError>>,
}

/// Names of objects in the pod's namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) config_maps: BTreeSet<String>,
    pub(crate) secrets: BTreeSet<String>,
}

impl Wanted {
    /// What the variables of a container need.
    pub(crate) fn by_container(container: &Container) -> Wanted {
        let mut wanted = Wanted::default();
        for from in container.env_from.iter().flatten() {
            wanted.config_maps.extend(from.config_map_ref.iter().map(|reference| reference.name.clone()));
            wanted.secrets.extend(from.secret_ref.iter().map(|reference| reference.name.clone()));
        }
        for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            wanted.config_maps.extend(from.config_map_key_ref.iter().map(|reference| reference.name.clone()));
            wanted.secrets.extend(from.secret_key_ref.iter().map(|reference| reference.name.clone()));
        }
        wanted
    }

    /// What the volumes of a pod need.
    pub(crate) fn by_volumes(pod: &Pod) -> Wanted {
        let mut wanted = Wanted::default();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            wanted.config_maps.extend(volume.config_map.iter().map(|map| map.name.clone()));
            wanted.secrets.extend(volume.secret.iter().filter_map(|secret| secret.secret_name.clone()));
            for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
                wanted.config_maps.extend(source.config_map.iter().map(|map| map.name.clone()));
                wanted.secrets.extend(source.secret.iter().map(|secret| secret.name.clone()));
            }
        }
        wanted
    }
}

impl Sources {
    /// Asks the API server for everything that is wanted.
    pub(crate) async fn fetch(client: &Client, namespace: &str, wanted: Wanted) -> Sources {
        let mut sources = Sources::default();
        let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for name in wanted.config_maps {
            let answer = found(config_maps.get_opt(&name).await, "configmap", &name);
            sources.config_maps.insert(name, answer);
        }
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        for name in wanted.secrets {
            let answer = found(secrets.get_opt(&name).await, "secret", &name);
            sources.secrets.insert(name, answer);
        }
        sources
    }

    /// A ConfigMap; `None` when it is absent and may be.
    pub(crate) fn config_map(&self, name: &str, optional: bool) -> Result<Option<Arc<ConfigMap>>, SourceError> {
        one(self.config_maps.get(name), "configmap", name, optional)
    }

    /// A Secret; `None` when it is absent and may be.
    pub(crate) fn secret(&self, name: &str, optional: bool) -> Result<Option<Arc<Secret>>, SourceError> {
        one(self.secrets.get(name), "secret", name, optional)
    }

    #[cfg(test)]
    pub(crate) fn put_config_map(&mut self, map: ConfigMap) {
        self.config_maps.insert(map.metadata.name.clone().unwrap(), Ok(Arc::new(map)));
    }

    #[cfg(test)]
    pub(crate) fn put_secret(&mut self, secret: Secret) {
        self.secrets.insert(secret.metadata.name.clone().unwrap(), Ok(Arc::new(secret)));
    }
}

fn found<K>(answer: kube::Result<Option<K>>, kind: &'static str, name: &str) -> Result<Arc<K>, SourceError> {
    match answer {
        Ok(Some(object)) => Ok(Arc::new(object)),
        Ok(None) => Err(SourceError::NotFound { kind, name: name.to_owned() }),
        Err(error) => Err(SourceError::Refused(error.to_string())),
    }
}

fn one<K>(
    known: Option<&Result<Arc<K>, SourceError>>,
    kind: &'static str,
    name: &str,
    optional: bool,
) -> Result<Option<Arc<K>>, SourceError> {
    match known {
        Some(Ok(object)) => Ok(Some(Arc::clone(object))),
        None | Some(Err(SourceError::NotFound { .. })) if optional => Ok(None),
        Some(Err(error)) => Err(error.clone()),
        None => Err(SourceError::NotFound { kind, name: name.to_owned() }),
    }
}
