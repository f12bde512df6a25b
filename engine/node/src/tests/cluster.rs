//! A cluster with one node and nothing else.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Client};
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_events::Recorder;
use pillion_gates::Gates;
use pillion_store::{Options, Store};
use serde_json::{Value, json};

use crate::{Capacity, Config, Node, Runtime, SimulatedRuntime};

/// The gate of `containers[].sidecar`.
pub(super) const SIDECAR_FIELD: &str = "SidecarField=true";

pub(super) struct Cluster<R = SimulatedRuntime> {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) server: ApiServer,
    pub(super) node: Arc<Node<R>>,
    recorder: Recorder,
}

pub(super) async fn simulated() -> Cluster {
    with(SimulatedRuntime::new).await
}

/// A simulated cluster whose pods can have marked sidecars.
pub(super) async fn with_sidecar_field() -> Cluster {
    with_gates(SIDECAR_FIELD, SimulatedRuntime::new).await
}

/// A cluster whose time begins with the year 2026, and whose node runs containers by what `runtime` makes.
pub(super) async fn with<R: Runtime>(runtime: impl FnOnce(Clock) -> R) -> Cluster<R> {
    with_gates("", runtime).await
}

/// As [`with`], with these feature gates.
pub(super) async fn with_gates<R: Runtime>(gates: &str, runtime: impl FnOnce(Clock) -> R) -> Cluster<R> {
    over(Store::memory(Options::default()), gates, runtime).await
}

/// As [`with_gates`], with its objects in this store.
pub(super) async fn over<R: Runtime>(store: Store, gates: &str, runtime: impl FnOnce(Clock) -> R) -> Cluster<R> {
    let gates = Gates::default().with(&gates.parse().unwrap());
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let server = ApiServer::new(pillion_apiserver::Config {
        store,
        clock,
        seed: Some(0),
        gates,
        ..pillion_apiserver::Config::in_memory()
    });
    server.bootstrap().await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(Client::new(server.router(), "default"), "default");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("default".into());
    accounts.create(&PostParams::default(), &account).await.unwrap();
    on_gated(server, runtime(clock), gates)
}

/// A node over a server that is there already.
pub(super) fn on<R: Runtime>(server: ApiServer, runtime: R) -> Cluster<R> {
    on_gated(server, runtime, Gates::default())
}

/// As [`on`], with these feature gates of the node.
pub(super) fn on_gated<R: Runtime>(server: ApiServer, runtime: R, gates: Gates) -> Cluster<R> {
    let (client, clock) = (Client::new(server.router(), "default"), server.clock());
    let recorder = Recorder::new(client.clone(), move || clock.now(), "kubelet");
    let config = Config {
        name: "one".into(),
        client: client.clone(),
        clock,
        recorder: recorder.clone(),
        capacity: Capacity {
            cpu: "4".parse().unwrap(),
            memory: "8Gi".parse().unwrap(),
            ephemeral_storage: "64Gi".parse().unwrap(),
            pods: 110,
        },
        labels: [("zone".to_owned(), "here".to_owned())].into(),
        address: "192.168.0.1".parse().unwrap(),
        api_server: None,
        gates,
    };
    let node = Arc::new(Node::new(config, runtime));
    server.register_node("one", node.kubelet());
    server.register_metrics(node.metrics());
    let running = Arc::clone(&node);
    tokio::spawn(async move { running.run().await });
    Cluster { client, clock, server, node, recorder }
}

impl<R: Runtime> Cluster<R> {
    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Makes a pod that is bound to the node.
    pub(super) async fn create(&self, name: &str, spec: Value) -> Pod {
        self.create_annotated(name, "", spec).await
    }

    /// Makes a pod with a script for the simulation.
    pub(super) async fn create_annotated(&self, name: &str, script: &str, mut spec: Value) -> Pod {
        spec["nodeName"] = json!("one");
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                container["image"] = json!("image");
            }
        }
        let pod = json!({"metadata": {"name": name, "annotations": {"pillion.dev/simulate": script}}, "spec": spec});
        let request = Request::new("/api/v1/namespaces/default/pods")
            .create(&PostParams::default(), json!(pod).to_string().into_bytes())
            .unwrap();
        self.client.request(request).await.unwrap()
    }

    pub(super) async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(super) async fn patch(&self, name: &str, subresource: Option<&str>, patch: Value) -> Pod {
        let (pods, patch) = (self.pods(), Patch::Strategic(patch));
        let parameters = PatchParams::default();
        match subresource {
            None => pods.patch(name, &parameters, &patch).await.unwrap(),
            Some(subresource) => pods.patch_subresource(subresource, name, &parameters, &patch).await.unwrap(),
        }
    }

    pub(super) async fn get(&self, name: &str) -> Option<Value> {
        self.pods().get_opt(name).await.unwrap().map(|pod| json!(pod))
    }

    /// Waits until the pod is as wanted; the answer is when that was, in seconds since the beginning.
    pub(super) async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> i64 {
        let wanted = |pod: Option<&Pod>| wanted(&pod.map_or(Value::Null, |pod| json!(pod)));
        let waiting = kube::runtime::wait::await_condition(self.pods(), name, wanted);
        let came = tokio::time::timeout(Duration::from_mins(10), waiting).await.is_ok();
        let status = if came { Value::Null } else { self.get(name).await.unwrap_or_default()["status"].take() };
        assert!(came, "pod {name} never came there: {status:#}");
        self.seconds()
    }

    pub(super) async fn until_phase(&self, name: &str, phase: &str) -> i64 {
        self.until(name, |pod| pod["status"]["phase"] == phase).await
    }

    pub(super) async fn until_gone(&self, name: &str) -> i64 {
        self.until(name, Value::is_null).await
    }

    /// Whole seconds since the beginning.
    pub(super) fn seconds(&self) -> i64 {
        let beginning: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        self.clock.now().duration_since(beginning).as_secs()
    }

    /// Events of a pod: reason, container, message and count, in the order of its first time.
    pub(super) async fn events(&self, name: &str) -> String {
        self.recorder.flush().await;
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let mut reported = events.list(&ListParams::default()).await.unwrap().items;
        reported.retain(|event| event.involved_object.name.as_deref() == Some(name));
        reported.sort_by_key(|event| {
            let version = event.metadata.name.clone().unwrap();
            u128::from_str_radix(version.rsplit('.').next().unwrap(), 16).unwrap()
        });
        let line = |event: Event| {
            let about = event.involved_object.field_path.unwrap_or_default();
            let count = event.count.filter(|count| *count > 1).map(|count| format!(" (x{count})")).unwrap_or_default();
            format!("{} {} {about}: {}{count}\n", event.type_.unwrap(), event.reason.unwrap(), event.message.unwrap())
        };
        reported.into_iter().map(line).collect()
    }
}

/// The state of a container in short: `running`, `waiting Reason`, `terminated Reason CODE`.
pub(super) fn state(pod: &Value, container: &str) -> String {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let all = lists.iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let Some(status) = all.into_iter().find(|status| status["name"] == container) else { return String::new() };
    let state = &status["state"];
    if state["running"].is_object() {
        "running".to_owned()
    } else if let Some(terminated) = state["terminated"].as_object() {
        format!("terminated {} {}", terminated["reason"].as_str().unwrap_or_default(), terminated["exitCode"])
    } else {
        format!("waiting {}", state["waiting"]["reason"].as_str().unwrap_or_default())
    }
}

pub(super) fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Lets virtual time pass: everything that is due until then happens, each at its moment.
pub(super) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
