//! The templates that a StatefulSet or a DaemonSet had: its ControllerRevisions.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use pillion_informer::Cache;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::write;

/// What is to be done so that the newest revision is that of the template.
#[derive(Debug)]
enum Update {
    /// It is already.
    None(Arc<ControllerRevision>),
    /// An older one is: it becomes the newest, with this number.
    Renumber(Arc<ControllerRevision>, i64),
    /// There is none; a new one gets this number.
    Create(i64),
}

/// Compares a template with the revisions, in their order.
fn plan(revisions: &[Arc<ControllerRevision>], data: &Value) -> Update {
    let next = revisions.last().map_or(1, |last| last.revision + 1);
    match revisions.iter().rposition(|revision| data_of(revision) == Some(data)) {
        None => Update::Create(next),
        Some(found) if found + 1 == revisions.len() => Update::None(Arc::clone(&revisions[found])),
        Some(found) => Update::Renumber(Arc::clone(&revisions[found]), next),
    }
}

/// Oldest first.
pub(crate) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by_cached_key(|revision| {
        let created = revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (revision.revision, created, revision.name_any())
    });
}

/// A template as a revision holds it: a patch that puts it back, which is how `kubectl rollout undo` uses it.
pub(crate) fn data(template: &Value) -> Value {
    let mut patch = Map::new();
    patch.insert("$patch".to_owned(), "replace".into());
    patch.extend(template.as_object().cloned().unwrap_or_default());
    json!({"spec": {"template": patch}})
}

fn data_of(revision: &ControllerRevision) -> Option<&Value> {
    revision.data.as_ref().map(|data| &data.0)
}

pub(crate) fn template(revision: &ControllerRevision) -> Value {
    let mut template = data_of(revision).map(|data| data["spec"]["template"].clone()).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.shift_remove("$patch");
    }
    template
}

/// The name of a revision, which is cut so that it stays one.
pub(crate) fn name(parent: &str, hash: &str) -> String {
    const LONGEST: usize = 223;
    format!("{}-{hash}", parent.get(..LONGEST).unwrap_or(parent))
}

/// The revision of a template if there is one, which becomes the newest; else the number of a new one.
pub(crate) async fn newest(
    context: &Context,
    revisions: &[Arc<ControllerRevision>],
    data: &Value,
) -> Result<Result<Arc<ControllerRevision>, i64>, Error> {
    match plan(revisions, data) {
        Update::None(revision) => Ok(Ok(revision)),
        Update::Renumber(revision, number) => {
            renumber(&context.client, &context.revisions, &revision, number).await.map(Ok)
        }
        Update::Create(number) => Ok(Err(number)),
    }
}

/// Writes a new revision. There is none when another template has its name already: their hashes collide.
pub(crate) async fn add(
    context: &Context,
    namespace: &str,
    new: &Value,
) -> Result<Option<Arc<ControllerRevision>>, Error> {
    match write::create::<ControllerRevision>(&context.client, namespace, new).await {
        Ok(created) => {
            context.revisions.written(created.clone());
            Ok(Some(Arc::new(created)))
        }
        Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {
            let api: Api<ControllerRevision> = Api::namespaced(context.client.clone(), namespace);
            let found = api.get(new["metadata"]["name"].as_str().unwrap_or_default()).await?;
            Ok((data_of(&found) == Some(&new["data"])).then(|| Arc::new(found)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives a revision a new number.
async fn renumber(
    client: &Client,
    cache: &Cache<ControllerRevision>,
    revision: &ControllerRevision,
    number: i64,
) -> Result<Arc<ControllerRevision>, Error> {
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), &revision.namespace().unwrap_or_default());
    let patch = json!({"metadata": {"resourceVersion": revision.resource_version()}, "revision": number});
    let changed = api.patch(&revision.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    cache.written(changed.clone());
    Ok(Arc::new(changed))
}

/// Deletes revisions; those that are gone are fine.
pub(crate) async fn forget(client: &Client, revisions: &[Arc<ControllerRevision>]) -> Result<(), Error> {
    for revision in revisions {
        let api: Api<ControllerRevision> = Api::namespaced(client.clone(), &revision.namespace().unwrap_or_default());
        match api.delete(&revision.name_any(), &DeleteParams::default()).await.map_err(Error::from) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
        let object = json!({"metadata": {"name": name}, "revision": number, "data": data(&json!({"image": image}))});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_template_is_found_renumbered_or_new() {
        let mut revisions = [revision("b", 2, "two"), revision("a", 1, "one")];
        sort(&mut revisions);
        assert!(
            matches!(plan(&revisions, &data(&json!({"image": "two"}))), Update::None(found) if found.name_any() == "b")
        );
        assert!(
            matches!(plan(&revisions, &data(&json!({"image": "one"}))), Update::Renumber(found, 3) if found.name_any() == "a")
        );
        assert!(matches!(plan(&revisions, &data(&json!({"image": "new"}))), Update::Create(3)));
        assert!(matches!(plan(&[], &data(&json!({"image": "new"}))), Update::Create(1)));
    }

    #[test]
    fn a_revision_gives_its_template_back() {
        let held = template(&revision("a", 1, "one"));
        assert_eq!(held, json!({"image": "one"}));
    }
}
