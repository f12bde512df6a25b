//! From what Prometheus has measured to the history of workloads: which pods of the past belonged to whom.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_rightsize::{ContainerKind, Workload};
use pillion_selector::Selector;
use serde_json::Value;

use super::history::{History, PastPod, Place};
use super::prometheus::{self, Past, Series, sanitized};
use super::template::Template;
use super::writer::Writer;
use crate::cluster::{Cluster, Targets};
use crate::config::{Config, Prometheus};

/// Loads the history of workloads that are new. Returns those that are loaded: of a namespace whose history cannot be read, none.
pub(super) async fn load(
    cluster: &Cluster,
    config: &Config,
    prometheus: &Prometheus,
    new: &Targets,
    writer: &Writer<'_>,
) -> Vec<Workload> {
    let now = (config.now)();
    let mut known: BTreeMap<String, Past> = BTreeMap::new();
    let followed = cluster.pods_of(new, config);
    let namespaces: BTreeSet<String> = new
        .keys()
        .map(|workload| workload.namespace.clone())
        .chain(followed.iter().map(|it| it.pod.view.namespace.clone()))
        .collect();
    let mut unread = BTreeSet::new();
    for namespace in namespaces {
        match prometheus::read(prometheus, &namespace, now).await {
            Ok(past) => drop(known.insert(namespace, past)),
            Err(error) => {
                tracing::warn!(namespace, error, "history cannot be read; nothing is recommended without it");
                unread.insert(namespace);
            }
        }
    }
    let is_read = |workload: &Workload| {
        let mut pods = followed.iter().filter(|it| *it.workload == *workload);
        !unread.contains(&workload.namespace) && !pods.any(|it| unread.contains(&it.pod.view.namespace))
    };
    let loaded: Vec<Workload> = new.keys().filter(|workload| is_read(workload)).cloned().collect();
    let mut gone = Vec::new();
    for workload in &loaded {
        gone.extend(Former::read(cluster, config, workload).await);
    }
    let history = &mut writer.learned().history;
    let mut counted = 0;
    for it in followed.iter().filter(|it| loaded.contains(&it.workload) && !it.pod.has_ended && it.pod.is_bound) {
        let Some(past) = known.get(&it.pod.view.namespace) else { continue };
        for container in it.pod.view.containers.iter().filter(|container| it.has(&container.name)) {
            let of = |all: &'_ [Series]| points(all, &it.pod.view.name, &container.name);
            let pod = PastPod {
                place: Place::Running(it),
                workload: (*it.workload).clone(),
                container: &container.name,
                kind: container.kind,
                cpu: &of(&past.cpu),
                memory: &of(&past.memory),
            };
            counted += history.add_past(&pod, now);
        }
    }
    let running = followed.iter().filter(|it| !it.pod.has_ended);
    let running: BTreeSet<(&str, &str)> =
        running.map(|it| (it.pod.view.namespace.as_str(), it.pod.view.name.as_str())).collect();
    for former in &gone {
        let Some(past) = known.get(&former.workload.namespace) else { continue };
        counted += former.add(past, &running, history, now);
    }
    tracing::info!(workloads = loaded.len(), samples = counted, "history was read from Prometheus");
    loaded
}

fn points(all: &[Series], pod: &str, container: &str) -> Vec<(Timestamp, f64)> {
    let found = all.iter().find(|series| series.pod == pod && series.container == container);
    found.map(|series| series.points.clone()).unwrap_or_default()
}

/// How pods of a workload that are gone are recognised.
struct Former {
    workload: Workload,
    selector: Selector,
    containers: BTreeMap<String, ContainerKind>,
}

impl Former {
    /// `None` for a workload without a selector: its past pods cannot be identified.
    async fn read(cluster: &Cluster, config: &Config, workload: &Workload) -> Option<Former> {
        let Template { object, of_pods: template, pod } = Template::read(cluster, config, workload).await?;
        let selector = selector(&object, &template)?;
        let containers = pod.containers.iter().map(|container| (container.name.clone(), container.kind)).collect();
        Some(Former { workload: workload.clone(), selector, containers })
    }

    fn add(&self, past: &Past, running: &BTreeSet<(&str, &str)>, history: &mut History, now: Timestamp) -> u64 {
        let mut counted = 0;
        for (pod, labels) in &past.labels {
            let is_running = running.contains(&(self.workload.namespace.as_str(), pod.as_str()));
            let label = |key: &str| labels.get(sanitized(key).as_ref()).map(String::as_str);
            if is_running || !self.selector.matches(label) {
                continue;
            }
            for (container, kind) in &self.containers {
                let pod = PastPod {
                    place: Place::Gone { name: pod },
                    workload: self.workload.clone(),
                    container,
                    kind: *kind,
                    cpu: &points(&past.cpu, pod, container),
                    memory: &points(&past.memory, pod, container),
                };
                counted += history.add_past(&pod, now);
            }
        }
        counted
    }
}

/// The selector of a workload; of a CronJob, the labels of its template.
fn selector(object: &Value, template: &Value) -> Option<Selector> {
    let stated = &object["spec"]["selector"];
    let selector = if stated["matchLabels"].is_object() || stated["matchExpressions"].is_array() {
        serde_json::from_value(stated.clone()).ok()?
    } else {
        let labels = if stated.is_object() { stated } else { &template["metadata"]["labels"] };
        LabelSelector { match_labels: serde_json::from_value(labels.clone()).ok(), match_expressions: None }
    };
    Selector::from_label_selector(&selector).ok().filter(|selector| !selector.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_of_the_past_are_found_by_the_selector_of_their_workload() {
        let matches = |object: Value, label: &str| {
            let template = object["spec"]["template"].clone();
            let labels = BTreeMap::from([("app_kubernetes_io_name".to_owned(), label.to_owned())]);
            let label = |key: &str| labels.get(sanitized(key).as_ref()).map(String::as_str);
            selector(&object, &template).is_some_and(|selector| selector.matches(label))
        };
        let labels = json!({"app.kubernetes.io/name": "web"});
        let deployment = json!({"spec": {"selector": {"matchLabels": labels}}});
        assert!(matches(deployment.clone(), "web") && !matches(deployment, "api"));
        assert!(matches(json!({"spec": {"selector": labels}}), "web"), "a ReplicationController");
        assert!(matches(json!({"spec": {"template": {"metadata": {"labels": labels}}}}), "web"), "a CronJob");
        assert!(!matches(json!({"spec": {"template": {}}}), "web"), "nothing selects nothing");
    }
}
