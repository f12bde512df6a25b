//! An API server in this process with all controllers, in virtual time. The test plays the kubelet.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use serde_json::{Value, json};

use crate::config::Config;
use crate::controllers;

/// 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600;

/// A cluster that ends with the test.
pub(crate) struct TestCluster {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
}

impl TestCluster {
    /// A cluster without nodes.
    pub(crate) async fn start() -> TestCluster {
        let clock = Clock::virtual_from(Timestamp::from_second(BEGINNING).unwrap());
        let server = ApiServer::new(pillion_apiserver::Config {
            clock,
            tokens: None,
            seed: Some(0),
            ..pillion_apiserver::Config::in_memory()
        });
        server.bootstrap().await.unwrap();
        let client = Client::new(server.router(), "default");
        let config = Config { certificate_authority: Some("PEM".to_owned()), ..Config::new(client.clone(), clock) };
        tokio::spawn(controllers::run(config));
        settle(1).await;
        TestCluster { client, clock }
    }

    /// The objects of a kind, given as `batch/v1 Job`, in a namespace; in none for kinds without.
    pub(crate) fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (version, kind) = kind.split_once(' ').unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    /// Creates an object, in the namespace `default` unless it says another.
    pub(crate) async fn create(&self, object: Value) -> Value {
        let kind = format!("{} {}", object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let namespaced = !matches!(object["kind"].as_str(), Some("Namespace" | "Node" | "CustomResourceDefinition"));
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(if namespaced { "default" } else { "" });
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = self.api(&kind, namespace).create(&PostParams::default(), &object).await.unwrap();
        serde_json::to_value(created).unwrap()
    }

    /// An object of the namespace `default`, or null.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::to_value(self.api(kind, "default").get_opt(name).await.unwrap()).unwrap()
    }

    /// The objects of a kind in a namespace.
    pub(crate) async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let list = self.api(kind, namespace).list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// The names of the pods in the namespace `default`.
    pub(crate) async fn pods(&self) -> Vec<String> {
        self.list("v1 Pod", "default")
            .await
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Changes an object of the namespace `default`.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.api(kind, "default").patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Says how a pod is, as a kubelet would.
    pub(crate) async fn report(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api("v1 Pod", "default").patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Ends the only container of a pod.
    pub(crate) async fn finish(&self, pod: &str, exit_code: i32) {
        let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
        let ended = json!({"terminated": {"exitCode": exit_code, "finishedAt": self.clock.now().strftime("%FT%TZ").to_string()}});
        let container =
            json!({"name": "main", "image": "main", "imageID": "", "ready": false, "restartCount": 0, "state": ended});
        self.report(pod, json!({"phase": phase, "containerStatuses": [container]})).await;
    }

    /// Deletes an object of the namespace `default`.
    pub(crate) async fn delete(&self, kind: &str, name: &str, how: &DeleteParams) {
        self.api(kind, "default").delete(name, how).await.unwrap();
    }

    /// The events about an object of the namespace `default`, as `Normal Reason Message`, in the order in which they were recorded.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let mut events = self.list("v1 Event", "default").await;
        events.retain(|event| event["involvedObject"]["name"] == name);
        events.sort_by_key(|event| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        events.iter().map(|event| ["type", "reason", "message"].map(|field| text(event, field)).join(" ")).collect()
    }
}

/// Lets so many seconds go by.
pub(crate) async fn settle(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
