//! Writes the ControllerRevisions of a set.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, Request};
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use pillion_informer::Watched;
use pillion_rollout::RevisionWrite;
use serde_json::{Value, json};

use super::{CONTROLLER, Rollout};
use crate::error::Error;
use crate::lock::lock;

/// By SidecarSet, the ControllerRevisions of others that have the name of one of its own.
#[derive(Debug, Default)]
pub(super) struct Collisions {
    by_set: HashMap<String, Vec<Arc<Value>>>,
}

impl Collisions {
    pub(super) fn of(&self, set: &str) -> Vec<Arc<Value>> {
        self.by_set.get(set).cloned().unwrap_or_default()
    }

    pub(super) fn remove(&mut self, set: &str) {
        self.by_set.remove(set);
    }

    fn add(&mut self, set: &str, foreign: Value) {
        self.by_set.entry(set.to_owned()).or_default().push(Arc::new(foreign));
    }
}

impl Rollout<'_> {
    fn revisions(&self) -> Api<DynamicObject> {
        let config = &self.inner.config;
        let resource = ApiResource::erase::<ControllerRevision>(&());
        Api::namespaced_with(config.client.clone(), &config.revisions_namespace, &resource)
    }

    /// The revisions of a set with what they hold.
    pub(super) async fn read_revisions(&self, set: &str) -> Result<Vec<Value>, Error> {
        let of_set = ListParams::default().labels(&format!("{}={set}", names::REVISION_OWNER));
        let what = format!("list the ControllerRevisions of SidecarSet {set:?}");
        let listed = self.revisions().list(&of_set).await.map_err(Error::api(what))?;
        Ok(listed.items.into_iter().filter_map(|stored| serde_json::to_value(stored).ok()).collect())
    }

    /// Puts what a write was answered with into the cache.
    fn wrote_revision(&self, stored: &DynamicObject) {
        if let Some(stored) = Watched::of(stored) {
            self.inner.caches.revisions.written(stored);
        }
    }

    pub(super) async fn write_revision(&self, set: &SidecarSet, write: &RevisionWrite) -> Result<(), Error> {
        match write {
            RevisionWrite::Create(object) => self.create_revision(set, object).await,
            RevisionWrite::Renumber { name, revision } => {
                self.patch_revision(name, json!({"revision": revision})).await
            }
            RevisionWrite::SetCustomVersion { name, custom_version } => {
                let labels = json!({names::CUSTOM_VERSION: custom_version});
                self.patch_revision(name, json!({"metadata": {"labels": labels}})).await
            }
        }
    }

    async fn create_revision(&self, set: &SidecarSet, object: &Value) -> Result<(), Error> {
        let api = self.revisions();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let what = || format!("create ControllerRevision {}/{name}", self.inner.config.revisions_namespace);
        let parameters = PostParams { field_manager: Some(CONTROLLER.to_owned()), ..PostParams::default() };
        let created = match self.post_revision(object, &parameters).await {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => {
                self.create_namespace().await?;
                self.post_revision(object, &parameters).await
            }
            created => created,
        };
        match created {
            Ok(created) => {
                tracing::info!(sidecarset = set.name(), revision = name, "a new revision");
                self.wrote_revision(&created);
                Ok(())
            }
            Err(kube::Error::Api(answer)) if answer.is_already_exists() => {
                // The next plan sees it: as its own if it is, else under another name.
                if let Some(found) = api.get_opt(name).await.map_err(Error::api(what()))? {
                    let value = serde_json::to_value(&found).unwrap_or_default();
                    self.wrote_revision(&found);
                    let known = self.inner.caches.revisions.in_group(set.name());
                    if !known.iter().any(|stored| stored.name() == name) {
                        lock(&self.collisions).add(set.name(), value);
                    }
                }
                Err(Error::api(what())(kube::Error::Api(answer)))
            }
            Err(error) => Err(Error::api(what())(error)),
        }
    }

    /// Sends the text that Go would send. The data of a revision must never change, and an API server compares its bytes: one that was
    /// created with `&` could not even get another number, since the API server itself writes `\u0026`.
    async fn post_revision(&self, object: &Value, parameters: &PostParams) -> kube::Result<DynamicObject> {
        let config = &self.inner.config;
        let url = <ControllerRevision as kube::Resource>::url_path(&(), Some(&config.revisions_namespace));
        let request =
            Request::new(url).create(parameters, escaped(object).into_bytes()).map_err(kube::Error::BuildRequest)?;
        config.client.request(request).await
    }

    /// An installation has the namespace; the only manager of a cluster that nobody installed anything in makes it.
    async fn create_namespace(&self) -> Result<(), Error> {
        let config = &self.inner.config;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(config.revisions_namespace.clone());
        match Api::<Namespace>::all(config.client.clone()).create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(answer)) if answer.is_already_exists() => Ok(()),
            created => created.map(drop).map_err(Error::api(format!(
                "create namespace {:?} for the revisions of SidecarSets",
                config.revisions_namespace
            ))),
        }
    }

    async fn patch_revision(&self, name: &str, patch: Value) -> Result<(), Error> {
        match self.revisions().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => {
                self.wrote_revision(&written);
                Ok(())
            }
            Err(error) => Err(Error::api(format!("change ControllerRevision {name:?}"))(error)),
        }
    }

    pub(super) async fn trim_revisions(&self, names: &[String]) -> Result<(), Error> {
        for name in names {
            self.trim_revision(name).await?;
        }
        Ok(())
    }

    async fn trim_revision(&self, name: &str) -> Result<(), Error> {
        match self.revisions().delete(name, &DeleteParams::background()).await {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
            deleted => deleted.map(drop).map_err(Error::api(format!("delete ControllerRevision {name:?}"))),
        }
    }
}

/// JSON as Go writes it: some characters, which are only in its strings, are escaped.
fn escaped(object: &Value) -> String {
    let mut text = object.to_string();
    for (character, escape) in
        [('&', "\\u0026"), ('<', "\\u003c"), ('>', "\\u003e"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")]
    {
        if text.contains(character) {
            text = text.replace(character, escape);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_escapes_is_escaped_and_means_the_same() {
        let object = json!({"data": {"args": ["a && b > c < d \u{2028}", "\\u0026"]}});
        let text = escaped(&object);
        assert!(!text.contains(['&', '<', '>', '\u{2028}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), object);
    }
}
