//! What containers use: the resource metrics API and the kubelet's resource metrics.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use pillion_patch::label_selector::LabelSelector;
use pillion_quantity::{Format, Quantity};
use serde_json::{Value, json};

use crate::runtime::{ContainerId, Runtime, Usage};
use crate::samples::Samples;
use crate::state::Inner;

/// Between measurements.
const PERIOD: Duration = Duration::from_secs(15);

/// Measures all containers, for ever.
pub(crate) async fn keep<R: Runtime>(inner: Arc<Inner<R>>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let mut measured = HashMap::new();
        for (_, containers) in measure(&inner, |_| true).await {
            for (id, usage) in containers {
                let before = inner.samples.lock().get(&id).map(|(_, last)| *last);
                measured.insert(id, (before, usage));
            }
        }
        if let Some(usage) = inner.runtime.machine_usage() {
            let before = inner.samples.lock().get(&machine()).map(|(_, last)| *last);
            measured.insert(machine(), (before, usage));
        }
        *inner.samples.lock() = measured;
    }
}

/// Stands for the whole machine among the measurements: no container has this name.
fn machine() -> ContainerId {
    ContainerId { pod_uid: String::new(), container: String::new(), attempt: 0 }
}

/// What the running containers of pods use now.
async fn measure<R: Runtime>(
    inner: &Inner<R>,
    wanted: impl Fn(&Pod) -> bool,
) -> Vec<(Arc<Pod>, Vec<(ContainerId, Usage)>)> {
    let mut pods: Vec<(Arc<Pod>, Vec<ContainerId>)> = {
        let pods = inner.pods();
        let chosen = pods.iter().filter(|(_, record)| !record.gone && wanted(&record.pod));
        chosen.map(|(uid, record)| (Arc::clone(&record.pod), record.running(uid).collect())).collect()
    };
    pods.sort_by_cached_key(|(pod, _)| (pod.namespace(), pod.name_any()));
    let mut measured = Vec::new();
    for (pod, ids) in pods.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let mut containers = Vec::new();
        for id in ids {
            if let Some(usage) = inner.runtime.usage(&id).await {
                containers.push((id, usage));
            }
        }
        measured.push((pod, containers));
    }
    measured
}

/// A container's use of CPU since the measurement before, or since it began, in billionths of a core.
fn rate(before: Option<Usage>, now: Usage) -> (i128, Duration) {
    let (cpu, since) = before.map_or((Duration::ZERO, now.since), |before| (before.cpu, before.at));
    let window = Duration::try_from(now.at.duration_since(since)).unwrap_or_default();
    let spent = i128::try_from(now.cpu.saturating_sub(cpu).as_nanos()).unwrap_or(i128::MAX);
    let nanos = i128::try_from(window.as_nanos()).unwrap_or(i128::MAX);
    (spent.saturating_mul(1_000_000_000).checked_div(nanos).unwrap_or_default(), window)
}

/// One line of a metrics answer.
#[derive(Default)]
struct Used {
    cpu: i128,
    memory: u64,
    window: Duration,
}

impl Used {
    fn of(samples: &Samples, id: &ContainerId, now: Usage) -> Used {
        // A measurement of this very moment gives no rate; the one before it does.
        let known = samples.lock().get(id).copied();
        let (before, last) = match known {
            Some((before, last)) => (before, last),
            None => (None, now),
        };
        let (cpu, window) = rate(before, last);
        Used { cpu, memory: now.working_set, window }
    }

    fn json(&self) -> Value {
        let cpu = Quantity::from_nanos(self.cpu, Format::DecimalSi).to_string();
        let memory = Quantity::from_nanos(i128::from(self.memory) * 1_000_000_000, Format::BinarySi).to_string();
        json!({"cpu": cpu, "memory": memory})
    }

    fn add(&mut self, other: &Used) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.window = self.window.max(other.window);
    }
}

pub(crate) fn router<R: Runtime>(inner: Arc<Inner<R>>) -> Router {
    let api = Router::new()
        .route("/nodes", get(nodes::<R>))
        .route("/nodes/{name}", get(node::<R>))
        .route("/pods", get(pods::<R>))
        .route("/namespaces/{namespace}/pods", get(pods_of_namespace::<R>))
        .route("/namespaces/{namespace}/pods/{name}", get(pod::<R>))
        .with_state(inner);
    Router::new().nest("/apis/metrics.k8s.io/v1beta1", api)
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selection {
    label_selector: String,
}

async fn node_metrics<R: Runtime>(inner: &Inner<R>) -> Value {
    let mut used = Used::default();
    for (_, containers) in measure(inner, |_| true).await {
        for (id, usage) in containers {
            used.add(&Used::of(&inner.samples, &id, usage));
        }
    }
    if let Some(usage) = inner.runtime.machine_usage() {
        used = Used::of(&inner.samples, &machine(), usage);
    }
    let name = &inner.config.name;
    let metadata = json!({"name": name, "labels": {"kubernetes.io/hostname": name}});
    document(inner, "NodeMetrics", metadata, used.window, json!({"usage": used.json()}))
}

fn document<R: Runtime>(inner: &Inner<R>, kind: &str, mut metadata: Value, window: Duration, rest: Value) -> Value {
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(inner.config.clock.now());
    metadata["creationTimestamp"] = json!(now);
    let window = format!("{:.3}s", window.as_secs_f64());
    let mut document = json!({"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": metadata, "timestamp": now, "window": window});
    if let (Some(document), Value::Object(rest)) = (document.as_object_mut(), rest) {
        document.extend(rest);
    }
    document
}

async fn pod_metrics<R: Runtime>(inner: &Inner<R>, wanted: impl Fn(&Pod) -> bool) -> Vec<Value> {
    let documents = measure(inner, wanted).await.into_iter().map(|(pod, containers)| {
        let mut window = Duration::ZERO;
        let mut items = Vec::new();
        for (id, usage) in containers {
            let used = Used::of(&inner.samples, &id, usage);
            window = window.max(used.window);
            items.push(json!({"name": id.container, "usage": used.json()}));
        }
        let metadata = json!({"name": pod.name_any(), "namespace": pod.namespace(), "labels": pod.labels()});
        document(inner, "PodMetrics", metadata, window, json!({"containers": items}))
    });
    documents.collect()
}

fn list(kind: &str, items: Vec<Value>) -> Response {
    Json(json!({"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})).into_response()
}

fn not_found(resource: &str, name: &str) -> Response {
    let message = format!("{resource}.metrics.k8s.io \"{name}\" not found");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": "NotFound",
        "details": {"name": name, "group": "metrics.k8s.io", "kind": resource}, "code": 404,
    });
    (StatusCode::NOT_FOUND, Json(status)).into_response()
}

async fn nodes<R: Runtime>(State(inner): State<Arc<Inner<R>>>) -> Response {
    list("NodeMetricsList", vec![node_metrics(&inner).await])
}

async fn node<R: Runtime>(State(inner): State<Arc<Inner<R>>>, Path(name): Path<String>) -> Response {
    if name == inner.config.name { Json(node_metrics(&inner).await).into_response() } else { not_found("nodes", &name) }
}

async fn pods<R: Runtime>(State(inner): State<Arc<Inner<R>>>, Query(selection): Query<Selection>) -> Response {
    selected(&inner, None, &selection).await
}

async fn pods_of_namespace<R: Runtime>(
    State(inner): State<Arc<Inner<R>>>,
    Path(namespace): Path<String>,
    Query(selection): Query<Selection>,
) -> Response {
    selected(&inner, Some(&namespace), &selection).await
}

async fn selected<R: Runtime>(inner: &Inner<R>, namespace: Option<&str>, selection: &Selection) -> Response {
    let selector = match LabelSelector::parse(&selection.label_selector) {
        Ok(selector) => selector,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let wanted = |pod: &Pod| {
        namespace.is_none_or(|namespace| pod.metadata.namespace.as_deref() == Some(namespace))
            && selector.matches(|name| pod.labels().get(name).map(String::as_str))
    };
    list("PodMetricsList", pod_metrics(inner, wanted).await)
}

async fn pod<R: Runtime>(
    State(inner): State<Arc<Inner<R>>>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let is_it = |pod: &Pod| {
        pod.metadata.name.as_deref() == Some(&name) && pod.metadata.namespace.as_deref() == Some(&namespace)
    };
    match pod_metrics(&inner, is_it).await.pop() {
        Some(metrics) => Json(metrics).into_response(),
        None => not_found("pods", &format!("{namespace}/{name}")),
    }
}

/// What Prometheus reads.
pub(crate) async fn resource_metrics<R: Runtime>(State(inner): State<Arc<Inner<R>>>) -> String {
    let mut families: BTreeMap<&str, String> = BTreeMap::new();
    let mut add = |family: &'static str, labels: &str, value: f64, at: i64| {
        // A String takes whatever is written.
        let _ = writeln!(families.entry(family).or_default(), "{family}{labels} {value} {at}");
    };
    let now = inner.config.clock.now().as_millisecond();
    let mut node = (0.0, 0.0);
    for (pod, containers) in measure(&inner, |_| true).await {
        let of = format!("namespace=\"{}\",pod=\"{}\"", pod.namespace().unwrap_or_default(), pod.name_any());
        let mut whole = (0.0, 0.0);
        for (id, usage) in containers {
            let labels = format!("{{container=\"{}\",{of}}}", id.container);
            let at = usage.at.as_millisecond();
            let (cpu, memory) = (usage.cpu.as_secs_f64(), bytes(usage.working_set));
            add("container_cpu_usage_seconds_total", &labels, cpu, at);
            add("container_memory_working_set_bytes", &labels, memory, at);
            add("container_start_time_seconds", &labels, usage.since.as_duration().as_secs_f64(), at);
            whole = (whole.0 + cpu, whole.1 + memory);
        }
        add("pod_cpu_usage_seconds_total", &format!("{{{of}}}"), whole.0, now);
        add("pod_memory_working_set_bytes", &format!("{{{of}}}"), whole.1, now);
        node = (node.0 + whole.0, node.1 + whole.1);
    }
    if let Some(usage) = inner.runtime.machine_usage() {
        node = (usage.cpu.as_secs_f64(), bytes(usage.working_set));
    }
    add("node_cpu_usage_seconds_total", "", node.0, now);
    add("node_memory_working_set_bytes", "", node.1, now);
    let mut text = String::new();
    for (family, lines) in families {
        let (kind, help) = described(family);
        let _ = write!(text, "# HELP {family} [STABLE] {help}\n# TYPE {family} {kind}\n{lines}");
    }
    text.push_str(
        "# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise\n",
    );
    text.push_str("# TYPE resource_scrape_error gauge\nresource_scrape_error 0\n");
    text
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
fn bytes(number: u64) -> f64 {
    number as f64
}

fn described(family: &str) -> (&'static str, &'static str) {
    match family {
        "container_cpu_usage_seconds_total" => {
            ("counter", "Cumulative cpu time consumed by the container in core-seconds")
        }
        "container_memory_working_set_bytes" => ("gauge", "Current working set of the container in bytes"),
        "container_start_time_seconds" => ("gauge", "Start time of the container since unix epoch in seconds"),
        "pod_cpu_usage_seconds_total" => ("counter", "Cumulative cpu time consumed by the pod in core-seconds"),
        "pod_memory_working_set_bytes" => ("gauge", "Current working set of the pod in bytes"),
        "node_cpu_usage_seconds_total" => ("counter", "Cumulative cpu time consumed by the node in core-seconds"),
        _ => ("gauge", "Current working set of the node in bytes"),
    }
}
