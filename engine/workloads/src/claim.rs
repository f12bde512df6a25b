//! Which objects are a controller's children: it adopts orphans that its selector wants, and lets go of what it no longer wants.

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use pillion_informer::{Cache, controller_of};
use serde_json::{Value, json};

use crate::error::Error;
use crate::kinds::Cached;
use crate::write::controller_reference;

/// What a controller has, wants to have, and no longer wants.
pub(crate) struct Claim<C> {
    pub(crate) owned: Vec<Arc<C>>,
    pub(crate) adopt: Vec<Arc<C>>,
    pub(crate) release: Vec<Arc<C>>,
}

/// Sorts the children and the orphans. A controller that is being deleted neither adopts nor releases.
pub(crate) fn plan<C: Cached>(
    owner: &ObjectMeta,
    children: Vec<Arc<C>>,
    orphans: Vec<Arc<C>>,
    wanted: impl Fn(&C) -> bool,
) -> Claim<C> {
    let deleting = owner.deletion_timestamp.is_some();
    let (owned, mut release): (Vec<_>, Vec<_>) = children.into_iter().partition(|child| wanted(child));
    let mut adopt = orphans;
    adopt.retain(|orphan| !deleting && orphan.meta().deletion_timestamp.is_none() && wanted(orphan));
    if deleting {
        release.clear();
    }
    Claim { owned, adopt, release }
}

/// The children of `owner` among the objects of a cache, after adoption and release.
///
/// `considered` says which objects count at all, `wanted` which of them should be children.
pub(crate) async fn children<K: Cached, C: Cached + kube::Resource<Scope = NamespaceResourceScope>>(
    client: &Client,
    owner: &K,
    cache: &Cache<C>,
    considered: impl Fn(&C) -> bool,
    wanted: impl Fn(&C) -> bool,
) -> Result<Vec<Arc<C>>, Error> {
    let namespace = owner.namespace().unwrap_or_default();
    let mut children = cache.owned_by(owner.uid().unwrap_or_default().as_str());
    children.retain(|child| considered(child));
    let mut orphans = cache.orphans(&namespace);
    orphans.retain(|orphan| considered(orphan));
    let Claim { mut owned, adopt, release } = plan(owner.meta(), children, orphans, wanted);
    let api: Api<C> = Api::namespaced(client.clone(), &namespace);
    if !adopt.is_empty() {
        still_there(client, owner).await?;
    }
    for orphan in adopt {
        if let Some(adopted) = change(&api, orphan.as_ref(), adoption(owner, orphan.as_ref())).await? {
            cache.written(adopted.clone());
            owned.push(Arc::new(adopted));
        }
    }
    for child in release {
        if let Some(released) = change(&api, child.as_ref(), letting_go(owner, child.as_ref())).await? {
            cache.written(released);
        }
    }
    Ok(owned)
}

/// A controller that was deleted, or replaced by another of its name, must not adopt; a cache may not know yet.
async fn still_there<K: Cached>(client: &Client, owner: &K) -> Result<(), Error> {
    let namespace = owner.namespace().unwrap_or_default();
    let request = kube::core::Request::new(K::url_path(&(), Some(&namespace)))
        .get(&owner.name_any(), &kube::api::GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    let fresh: K = client.request(request).await?;
    if fresh.uid() != owner.uid() || fresh.meta().deletion_timestamp.is_some() {
        return Err(Error::Object(format!("{}/{} has just been deleted", namespace, owner.name_any())));
    }
    Ok(())
}

/// Patches a child. One that is gone, or is another one by now, needs no change.
async fn change<C: Cached>(api: &Api<C>, child: &C, patch: Value) -> Result<Option<C>, Error> {
    match api.patch(&child.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(changed) => Ok(Some(changed)),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_invalid() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The uid in a patch makes it fail on another object of the same name.
fn adoption<K: Cached, C: Cached>(owner: &K, child: &C) -> Value {
    json!({"metadata": {"uid": child.uid(), "ownerReferences": [controller_reference(owner)]}})
}

fn letting_go<K: Cached, C: Cached>(owner: &K, child: &C) -> Value {
    json!({"metadata": {"uid": child.uid(), "ownerReferences": [{"$patch": "delete", "uid": owner.uid()}]}})
}

/// The name of the controller of an object, if it is of this kind.
pub(crate) fn controller_name<K: Cached, C: Cached>(child: &C) -> Option<String> {
    let controller = controller_of(child)?;
    (controller.kind == K::kind(&()) && controller.api_version == K::api_version(&())).then(|| controller.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::PodView;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn pod(name: &str, app: &str) -> Arc<PodView> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": app}}})).unwrap())
    }

    fn names(pods: &[Arc<PodView>]) -> Vec<String> {
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    fn claim(owner: &ObjectMeta) -> [Vec<String>; 3] {
        let children = vec![pod("mine", "web"), pod("relabelled", "other")];
        let orphans = vec![pod("orphan", "web"), pod("stranger", "other")];
        let claim = plan(owner, children, orphans, |pod| pod.labels().get("app").is_some_and(|app| app == "web"));
        [names(&claim.owned), names(&claim.adopt), names(&claim.release)]
    }

    #[test]
    fn a_controller_adopts_what_it_selects_and_releases_what_it_does_not() {
        assert_eq!(claim(&ObjectMeta::default()), [vec!["mine"], vec!["orphan"], vec!["relabelled"]]);
    }

    #[test]
    fn a_controller_that_goes_changes_nothing() {
        let going = ObjectMeta { deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)), ..ObjectMeta::default() };
        assert_eq!(claim(&going), [vec!["mine"], vec![], vec![]]);
    }
}
