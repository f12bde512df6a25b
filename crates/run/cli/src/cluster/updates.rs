//! What becomes of the running pods of an autoscaler, as the updater would decide now.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_api::pod::Pod;
use pillion_api::vpa::{Gates, VerticalPodAutoscaler};
use pillion_embedded::resource;
use pillion_rightsize::update::{
    Action, Brake, Disrupted, Outlook, Replicas, Rules, Snapshot, UpdaterSettings, forbidding, outlook,
};
use pillion_rightsize::{LimitRanges, Owner, PodView};
use serde_json::Value;

use super::read::{Parts, ReadError, Reader, api_resource};

/// What decides beside the pods themselves.
pub(crate) struct Circumstances {
    pub(crate) gates: Gates,
    /// Whether our webhook is called for pods of the namespace.
    pub(crate) is_admitted: bool,
    pub(crate) now: Timestamp,
}

/// What becomes of each of `pods`, by name: all pods of an autoscaler in one namespace. The flags of the updater are taken to be the defaults.
/// Nothing for an autoscaler that leaves running pods alone.
pub(crate) async fn updates(
    reader: &Reader,
    autoscaler: &VerticalPodAutoscaler,
    pods: &[Value],
    circumstances: &Circumstances,
) -> Result<BTreeMap<String, String>, ReadError> {
    let namespace = pods.iter().find_map(|pod| pod["metadata"]["namespace"].as_str());
    let Some(namespace) = namespace.filter(|_| autoscaler.update_mode().updates_running_pods()) else {
        return Ok(BTreeMap::new());
    };
    let is_live = |pod: &&Value| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && matches!(pod["status"]["phase"].as_str(), Some("Running" | "Pending"))
    };
    let live: Vec<Value> = pods.iter().filter(is_live).cloned().collect();
    let (bound, unbound): (Vec<&Value>, Vec<&Value>) = live.iter().partition(|pod| pod["spec"]["nodeName"].is_string());
    let views = |pods: Vec<&Value>| -> Vec<PodView> {
        pods.into_iter().filter_map(|pod| Some(PodView::new(&Pod::new(pod.clone()).ok()?))).collect()
    };
    let (bound, unbound) = (views(bound), views(unbound));
    let (ranges, quotas, budgets) = futures::try_join!(
        list(reader, ApiResource::erase::<LimitRange>(&()), namespace),
        list(reader, ApiResource::erase::<ResourceQuota>(&()), namespace),
        list(reader, ApiResource::erase::<PodDisruptionBudget>(&()), namespace),
    )?;
    let replicas = replicas(reader, namespace, &bound).await?;
    let snapshot = Snapshot {
        autoscaler,
        pods: &bound,
        replicas: &replicas,
        ranges: &LimitRanges::merge(&ranges),
        infeasible: &HashMap::new(),
        serves_resize: true,
        is_admitted: circumstances.is_admitted,
        unbound: &unbound,
        brake: &Brake::of(autoscaler),
        rules: &Rules::new(&ranges, &quotas),
        disrupted: &Disrupted::new(),
        budgets: &forbidding(&budgets, &live),
    };
    let found = outlook(snapshot, &UpdaterSettings::default(), circumstances.gates, circumstances.now);
    let said = found.into_iter().filter_map(|(pod, outlook)| Some((bound.get(pod)?.name.clone(), text(&outlook))));
    Ok(said.collect())
}

fn text(outlook: &Outlook) -> String {
    match outlook {
        Outlook::Next(Action::Evict(reason)) => {
            format!("is evicted in one of the next passes, as --eviction-rate-limit allows: {reason}")
        }
        Outlook::Next(Action::Resize(_)) => {
            "is resized in place in one of the next passes, as --resize-rate-limit allows".to_owned()
        }
        Outlook::Next(Action::Unboost(_)) => "its start-up boost ends with the next pass".to_owned(),
        Outlook::Left(reason) => format!("is not updated: {reason}"),
    }
}

/// The same for people: one line for all pods of which the same is to be said.
pub(crate) fn lines(updates: &BTreeMap<String, String>) -> Vec<String> {
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, text) in updates {
        by_text.entry(text).or_default().push(pod);
    }
    let line = |(text, pods): (&str, Vec<&str>)| match pods.as_slice() {
        [first, others @ ..] if !others.is_empty() => format!("{first} and {} more: {text}", others.len()),
        [only, ..] => format!("{only}: {text}"),
        [] => text.to_owned(),
    };
    by_text.into_iter().map(line).collect()
}

/// Objects that decide about evictions; who may not read them sees what would be without them.
async fn list(reader: &Reader, resource: ApiResource, namespace: &str) -> Result<Vec<Value>, ReadError> {
    match reader.list(&resource, Some(namespace), Parts::All, &ListParams::default(), Some).await {
        Err(error) if error.is_forbidden() || error.is_not_found() => Ok(Vec::new()),
        listed => listed,
    }
}

/// How many replicas the controllers of pods want.
async fn replicas(reader: &Reader, namespace: &str, pods: &[PodView]) -> Result<Replicas, ReadError> {
    let mut replicas = Replicas::new();
    for owner in pods.iter().filter_map(|pod| pod.owner.as_ref()) {
        if !replicas.contains_key(owner)
            && let Some(wanted) = wanted(reader, namespace, owner).await?
        {
            replicas.insert(owner.clone(), wanted);
        }
    }
    Ok(replicas)
}

/// `spec.replicas`; of a DaemonSet, how many are ready.
async fn wanted(reader: &Reader, namespace: &str, owner: &Owner) -> Result<Option<i64>, ReadError> {
    let is_meant = |known: &&resource::Resource| known.kind == owner.kind && matches!(known.group, "apps" | "");
    let Some(known) = resource::all().iter().find(is_meant) else { return Ok(None) };
    let object = match reader.get(&api_resource(known), Some(namespace), &owner.name).await {
        Err(error) if error.is_forbidden() => None,
        read => read?,
    };
    let number = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    Ok(object.and_then(|it| number(&it, "/spec/replicas").or_else(|| number(&it, "/status/numberReady"))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::testing::TestCluster;

    /// A StatefulSet, its pods with 100m each, and an autoscaler that recommends 500m.
    async fn said(replicas: usize, mode: &str, budget: Option<&str>) -> Vec<String> {
        let cluster = TestCluster::bare().await;
        if let Some(name) = budget {
            let spec = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
            let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
            cluster.create(budgets, json!({"metadata": {"name": name}, "spec": spec})).await;
        }
        let container =
            json!({"name": "app", "image": "x", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}});
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let spec = json!({"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": labels}, "template": template});
        cluster
            .create("/apis/apps/v1/namespaces/default/statefulsets", json!({"metadata": {"name": "web"}, "spec": spec}))
            .await;
        let owner = json!({"kind": "StatefulSet", "name": "web", "controller": true});
        let pod = |i: usize| {
            let metadata = json!({"name": format!("web-{i}"), "namespace": "default", "uid": i.to_string(), "labels": labels, "ownerReferences": [owner]});
            let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
            json!({"metadata": metadata, "spec": {"nodeName": "node", "containers": [container]}, "status": status})
        };
        let pods: Vec<Value> = (0..replicas).map(pod).collect();
        let amount = json!({"cpu": "500m"});
        let recommended = json!({"containerName": "app", "target": amount, "lowerBound": amount, "upperBound": amount});
        let autoscaler = pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "default"}, "spec": {"updatePolicy": {"updateMode": mode}},
            "status": {"recommendation": {"containerRecommendations": [recommended]}}
        }))
        .unwrap();
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let circumstances = Circumstances { gates: Gates::NONE, is_admitted: true, now };
        lines(&updates(&cluster.reader(), &autoscaler, &pods, &circumstances).await.unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn why_pods_are_not_updated_is_said_as_the_updater_decides() {
        let one = said(1, "Recreate", None).await;
        assert!(one[0].starts_with("web-0: is not updated: its controller has fewer pods than minReplicas"), "{one:?}");
        let gate = said(2, "InPlace", None).await;
        assert_eq!(gate, ["web-0 and 1 more: is not updated: the feature gate InPlace is off"]);
        let free = said(2, "Recreate", None).await;
        assert!(free.iter().any(|line| line.starts_with("web-0: is evicted in one of the next passes")), "{free:?}");
        assert_eq!(said(2, "Off", None).await, [""; 0]);
        let budget = said(2, "Recreate", Some("strict")).await;
        assert_eq!(budget, ["web-0 and 1 more: is not updated: a PodDisruptionBudget forbids its eviction: strict"]);
    }
}
