//! The places of a set as a ConfigMap holds them. It is changed by compare and swap: whoever read an older version reads again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use pillion_rollout::Places;

use crate::config::Config;

const KEY: &str = "places";

/// What was read.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) places: Places,
    version: Option<String>,
}

/// The ConfigMap of one set. A set that is created anew has another one.
#[derive(Clone)]
pub(crate) struct PlacesObject {
    api: Api<ConfigMap>,
    name: String,
    set: String,
    uid: String,
}

impl PlacesObject {
    pub(crate) fn new(config: &Config, set: &SidecarSet) -> PlacesObject {
        let uid = set.metadata.uid.clone().unwrap_or_default();
        PlacesObject {
            api: Api::namespaced(config.client.clone(), &config.namespace),
            name: format!("pillion-places-{uid}"),
            set: set.name().to_owned(),
            uid,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn set(&self) -> &str {
        &self.set
    }

    /// Reads the places; `None` if there are none, or none that can be read.
    pub(crate) async fn read(&self) -> kube::Result<Option<Stored>> {
        let Some(object) = self.api.get_opt(&self.name).await? else { return Ok(None) };
        Ok(stored(&object)
            .inspect_err(|error| tracing::warn!(configmap = self.name, %error, "places are counted anew"))
            .ok())
    }

    /// Replaces what was read, or creates the object. Returns what is stored then; `None` if another replica was faster, or the object is gone.
    pub(crate) async fn swap(&self, before: Option<&Stored>, places: Places) -> kube::Result<Option<Stored>> {
        let version = before.and_then(|before| before.version.clone());
        let object = self.object(&places, version);
        let written = match before {
            Some(_) => self.api.replace(&self.name, &PostParams::default(), &object).await,
            None => self.create(&object).await,
        };
        match written {
            Ok(written) => Ok(Some(Stored { places, version: written.metadata.resource_version })),
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One that is there and cannot be read is replaced, whatever it is.
    async fn create(&self, object: &ConfigMap) -> kube::Result<ConfigMap> {
        match self.api.get_opt(&self.name).await? {
            Some(unreadable) => {
                let mut object = object.clone();
                object.metadata.resource_version = unreadable.metadata.resource_version;
                self.api.replace(&self.name, &PostParams::default(), &object).await
            }
            None => self.api.create(&PostParams::default(), object).await,
        }
    }

    fn object(&self, places: &Places, version: Option<String>) -> ConfigMap {
        let owner = OwnerReference {
            api_version: names::V1BETA1.to_owned(),
            kind: names::SIDECARSET_KIND.to_owned(),
            name: self.set.clone(),
            uid: self.uid.clone(),
            ..OwnerReference::default()
        };
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(BTreeMap::from([(names::REVISION_OWNER.to_owned(), self.set.clone())])),
                owner_references: Some(vec![owner]),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(KEY.to_owned(), places.to_string())])),
            ..ConfigMap::default()
        }
    }
}

fn stored(object: &ConfigMap) -> Result<Stored, pillion_rollout::PlacesError> {
    let text = object.data.as_ref().and_then(|data| data.get(KEY)).map(String::as_str).unwrap_or_default();
    Ok(Stored { places: Places::parse(text)?, version: object.metadata.resource_version.clone() })
}
