//! Namespaces that go: first all that is in them, its pods before the rest.

mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use pillion_informer::Controller;

use self::conditions::Findings;
use crate::context::Context;
use crate::error::Error;
use crate::garbage::resources::{self, Served};
use crate::write;

/// While content goes, it is looked at so often.
const AGAIN: Duration = Duration::from_secs(1);

/// The finalizer that a namespace has for this controller.
const FINALIZER: &str = "kubernetes";

/// Empties namespaces that go, until dropped.
pub(crate) async fn run(context: Context) {
    let namespaces = context.namespaces.clone();
    let reconcile = move |namespace| reconcile(context.clone(), namespace);
    Controller::new(&namespaces).run(reconcile).await;
}

async fn reconcile(context: Context, namespace: Arc<Namespace>) -> Result<Option<Duration>, Error> {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default();
    if namespace.metadata.deletion_timestamp.is_none() || !finalizers.iter().any(|name| name == FINALIZER) {
        return Ok(None);
    }
    let findings = empty(&context.client, &namespace.name_any()).await;
    let namespace = report(&context, &namespace, &findings).await?;
    if !findings.is_empty() {
        return Ok(Some(AGAIN));
    }
    finalize(&context.client, namespace).await?;
    Ok(None)
}

/// Deletes everything in the namespace, and returns what is left.
async fn empty(client: &Client, namespace: &str) -> Findings {
    let mut findings = Findings::default();
    let served = match resources::discover(client).await {
        Ok(served) => served,
        Err(error) => {
            findings.discovery_failure = Some(Error::from(error).message());
            return findings;
        }
    };
    let is_pods = |served: &Served| served.resource.group.is_empty() && served.resource.plural == "pods";
    let (pods, others): (Vec<Served>, Vec<Served>) =
        served.into_iter().filter(|served| served.namespaced).partition(is_pods);
    for served in &pods {
        clear(client, namespace, served, &mut findings).await;
    }
    if findings.remains() {
        findings.only_pods = true;
        return findings;
    }
    for served in &others {
        clear(client, namespace, served, &mut findings).await;
    }
    findings
}

async fn clear(client: &Client, namespace: &str, served: &Served, findings: &mut Findings) {
    match try_clear(client, namespace, served).await {
        Ok(finalizers) => findings.found(&served.resource.plural, &served.resource.group, &finalizers),
        Err(error) => findings.failures.push(Error::from(error).message()),
    }
}

/// The finalizers of each object that is left.
async fn try_clear(client: &Client, namespace: &str, served: &Served) -> kube::Result<Vec<Vec<String>>> {
    let api = served.api(client, Some(namespace));
    let how = DeleteParams::background();
    if served.deletes_collections {
        api.delete_collection(&how, &ListParams::default()).await?;
    } else {
        for object in api.list_metadata(&ListParams::default()).await? {
            write::unless_gone(api.delete(&object.name_any(), &how).await)?;
        }
    }
    let left = api.list_metadata(&ListParams::default()).await?;
    Ok(left.into_iter().map(|object| object.finalizers().to_vec()).collect())
}

async fn report(context: &Context, namespace: &Arc<Namespace>, findings: &Findings) -> Result<Namespace, Error> {
    let mut status = namespace.status.clone().unwrap_or_default();
    let known = status.conditions.unwrap_or_default();
    let conditions = findings.conditions(&known, context.clock.now());
    if conditions == known {
        return Ok(Namespace::clone(namespace));
    }
    status.conditions = Some(conditions);
    let new = Namespace { status: Some(status), ..Namespace::clone(namespace) };
    let written: Namespace = write::replace_status(&context.client, &new).await?;
    context.namespaces.written(written.clone());
    Ok(written)
}

/// Says that the namespace is empty; with that it is gone, unless others have finalizers on it.
async fn finalize(client: &Client, mut namespace: Namespace) -> Result<(), Error> {
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|name| name != FINALIZER);
    }
    let api: Api<Namespace> = Api::all(client.clone());
    let name = namespace.name_any();
    write::unless_gone(api.replace_subresource("finalize", &name, &PostParams::default(), &namespace).await)?;
    Ok(())
}

/// Names, each with how often it was found.
pub(crate) type Counts = BTreeMap<String, usize>;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_cluster::{TestCluster, settle};

    #[tokio::test(start_paused = true)]
    async fn a_namespace_goes_when_all_in_it_is_gone() {
        let cluster = TestCluster::start().await;
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}})).await;
        settle(1).await;
        let kept = json!({"name": "kept", "namespace": "old", "finalizers": ["example.com/keep"]});
        cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept})).await;
        let container = json!({"name": "main", "image": "main"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "old"}, "spec": {"containers": [container]}});
        cluster.create(pod).await;
        let namespaces = cluster.api("v1 Namespace", "");
        namespaces.delete("old", &DeleteParams::default()).await.unwrap();
        settle(3).await;
        let going = serde_json::to_value(namespaces.get("old").await.unwrap()).unwrap();
        assert_eq!(going["status"]["phase"], "Terminating");
        let messages: Vec<&Value> =
            going["status"]["conditions"].as_array().unwrap().iter().map(|condition| &condition["message"]).collect();
        assert_eq!(
            messages,
            [
                "All resources successfully discovered",
                "All legacy kube types successfully parsed",
                "All content successfully deleted, may be waiting on finalization",
                "Some resources are remaining: configmaps. has 1 resource instances",
                "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances",
            ]
        );
        assert!(cluster.list("v1 Pod", "old").await.is_empty());
        assert!(cluster.list("v1 ServiceAccount", "old").await.is_empty());

        let free = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
        cluster.api("v1 ConfigMap", "old").patch("kept", &kube::api::PatchParams::default(), &free).await.unwrap();
        settle(3).await;
        assert!(namespaces.get_opt("old").await.unwrap().is_none());
    }
}
