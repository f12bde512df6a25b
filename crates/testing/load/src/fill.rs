//! The objects of a large cluster.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use hyper::Method;
use pillion_api::sidecarset::crd;
use pillion_api::sidecarset::{self, InjectRevision, SidecarSet, revision};
use pillion_engine_load::client::{Target, post_all};
use serde_json::{Value, json};

use crate::manage;

const SIDECARSETS: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets";
pub(crate) const REVISIONS: &str = "/apis/apps/v1/namespaces/kruise-system/controllerrevisions";
const CLIENTS: usize = 16;

/// Puts SidecarSets and their older revisions into a server. The first sets pin the oldest one.
pub(crate) async fn fill(target: &Target, sets: usize, older: usize, pinned: usize) -> anyhow::Result<()> {
    let mut connection = target.connect().await?;
    let definition = Bytes::from(crd::sidecarset().to_string());
    connection.ask(&Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let namespace = Bytes::from(json!({"metadata": {"name": "kruise-system"}}).to_string());
    connection.ask(&Method::POST, "/api/v1/namespaces", &namespace).await?;
    // A new definition is served a moment later.
    while !connection.ask(&Method::GET, SIDECARSETS, &Bytes::new()).await?.0.is_success() {
        tokio::task::yield_now().await;
    }
    post_all(target, CLIENTS, SIDECARSETS, sets, move |i| {
        let mut set = prepared(i);
        if i < pinned && older > 0 {
            let name = old_revision(i, "", 0)["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            set.spec.injection_strategy.revision =
                Some(InjectRevision { revision_name: Some(name), ..InjectRevision::default() });
        }
        Bytes::from(serde_json::to_vec(&set).unwrap_or_default())
    })
    .await?;
    if older == 0 {
        return Ok(());
    }
    let uids = Arc::new(uids(target, sets).await?);
    post_all(target, CLIENTS, REVISIONS, sets * older, move |i| {
        let uid = uids.get(i / older).map(String::as_str).unwrap_or_default();
        Bytes::from(old_revision(i / older, uid, i % older).to_string())
    })
    .await?;
    Ok(())
}

/// The set of this number, as the webhook leaves it.
pub(crate) fn prepared(i: usize) -> SidecarSet {
    let mut set = sidecarset::decode(manage::sidecarset(i)).unwrap_or_default();
    sidecarset::prepare(&mut set);
    set
}

/// An older revision of a set.
fn old_revision(set: usize, uid: &str, number: usize) -> Value {
    let mut set = prepared(set);
    set.metadata.uid = Some(uid.to_owned());
    if let Some(container) = set.spec.containers.first_mut() {
        container.container.insert("image".to_owned(), json!(format!("sidecar:{number}")));
    }
    revision::new(&set, i64::try_from(number + 1).unwrap_or(1), "kruise-system")
}

/// The UIDs of all sets, by number.
async fn uids(target: &Target, sets: usize) -> anyhow::Result<Vec<String>> {
    let mut connection = target.connect().await?;
    let mut uids = vec![String::new(); sets];
    let mut next = String::new();
    loop {
        let path = format!("{SIDECARSETS}?limit=1000&continue={next}");
        let list: Value = serde_json::from_slice(&connection.must(&Method::GET, &path, &Bytes::new()).await?)?;
        for item in list["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let i: usize = name.trim_start_matches("set-").parse().context("a set has a number")?;
            if let Some(uid) = uids.get_mut(i) {
                item["metadata"]["uid"].as_str().unwrap_or_default().clone_into(uid);
            }
        }
        list["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
        if next.is_empty() {
            return Ok(uids);
        }
    }
}

/// Puts pods into a server: ten of each app, with a sidecar each.
pub(crate) async fn pods(target: &Target, count: usize) -> anyhow::Result<()> {
    let account = Bytes::from(json!({"metadata": {"name": "default"}}).to_string());
    let mut connection = target.connect().await?;
    connection.ask(&Method::POST, "/api/v1/namespaces/default/serviceaccounts", &account).await?;
    post_all(target, CLIENTS, "/api/v1/namespaces/default/pods", count, |i| {
        let app = format!("none-{}", i / 10);
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true});
        let pod = json!({
            "metadata": {"name": format!("{app}-{i}"), "labels": {"app": app}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "app", "image": "web:1"}, {"name": "proxy", "image": "proxy:1"}]},
        });
        Bytes::from(pod.to_string())
    })
    .await?;
    Ok(())
}
