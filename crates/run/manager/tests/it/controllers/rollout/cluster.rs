//! A cluster with managers, and what is asked of it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use pillion_embedded::{Config, Embedded};
use pillion_manager::{Manager, WebhookAddress};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use crate::controllers::rollout::seen::SeenPods;

/// Where the API server finds the webhooks: a name that no network has.
pub(crate) const URL: &str = "https://pillion.invalid";

/// Nothing here takes so long, in virtual time.
const LONGEST: Duration = Duration::from_hours(2);

/// A cluster, or a namespace of it with a set of its own. What is asked of it is about that set and its pods.
pub(crate) struct Cluster {
    pub(crate) engine: Arc<Embedded>,
    namespace: String,
    set: String,
}

/// A manager that runs.
pub(crate) struct Running {
    pub(crate) manager: Manager,
    task: JoinHandle<()>,
}

impl Running {
    /// What it counts.
    pub(crate) async fn metrics(&self) -> String {
        let request = axum::http::Request::get("/metrics").body(axum::body::Body::empty()).unwrap();
        let response = self.manager.health().oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// Ends it as a killed process ends: nothing is given back.
    pub(crate) fn kill(self) {
        self.task.abort();
    }
}

impl Cluster {
    /// A cluster without a manager.
    pub(crate) async fn start() -> Cluster {
        let engine = Embedded::start(Config::simulated("2026-01-01T00:00:00Z".parse().unwrap())).await.unwrap();
        // Until the controllers have made what every namespace has.
        sleep(Duration::from_mins(1)).await;
        Cluster { engine: Arc::new(engine), namespace: "default".to_owned(), set: "mesh".to_owned() }
    }

    /// Another namespace of the same cluster, with a set that is named like it.
    pub(crate) async fn in_namespace(&self, name: &str) -> Cluster {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::all(self.client()).create(&PostParams::default(), &namespace).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        Cluster { engine: Arc::clone(&self.engine), namespace: name.to_owned(), set: name.to_owned() }
    }

    /// The same namespace, with another set in it.
    pub(crate) fn with_set(&self, name: &str) -> Cluster {
        Cluster { engine: Arc::clone(&self.engine), namespace: self.namespace.clone(), set: name.to_owned() }
    }

    /// A cluster with the only manager.
    pub(crate) async fn managed() -> (Cluster, Running) {
        let cluster = Cluster::start().await;
        let running = cluster.manage(cluster.config(cluster.client())).await;
        (cluster, running)
    }

    pub(crate) fn client(&self) -> Client {
        self.engine.client()
    }

    pub(crate) fn config(&self, client: Client) -> pillion_manager::Config {
        let clock = self.engine.server().clock();
        pillion_manager::Config::new(client, Arc::new(move || clock.now()), WebhookAddress::Url(URL.to_owned()))
    }

    /// A manager whose webhooks are called from now on.
    pub(crate) async fn manage(&self, config: pillion_manager::Config) -> Running {
        let manager = Manager::new(config);
        self.engine.server().register_webhook(URL, manager.webhooks());
        manager.start().await.unwrap();
        manager.register().await.unwrap();
        let running = manager.clone();
        Running { manager, task: tokio::spawn(async move { drop(running.run().await) }) }
    }

    fn sets(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet");
        Api::all_with(self.client(), &ApiResource::from_gvk(&kind))
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// The namespace's pods, with no more of them than is asked for here: decoding whole pods is most of the work of a long test.
    pub(crate) fn seen_pods(&self) -> SeenPods {
        SeenPods { client: self.client(), url: format!("/api/v1/namespaces/{}/pods", self.namespace) }
    }

    /// Creates the set, whose sidecar `proxy` has this image; `spec` comes on top.
    pub(crate) async fn create_set(&self, image: &str, spec: Value) {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": self.set},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": image}]},
        });
        if self.namespace != "default" {
            let labels = json!({"kubernetes.io/metadata.name": self.namespace});
            set["spec"]["namespaceSelector"] = json!({"matchLabels": labels});
        }
        for (key, value) in spec.as_object().unwrap() {
            set["spec"][key] = value.clone();
        }
        self.create_any_set(set).await;
    }

    pub(crate) async fn create_any_set(&self, set: Value) {
        self.sets().create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    }

    /// Changes a set with a merge patch.
    pub(crate) async fn patch_set(&self, name: &str, patch: Value) {
        self.sets().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// The same, or why it is refused.
    pub(crate) async fn try_patch_set(&self, name: &str, patch: Value) -> Result<(), String> {
        let patched = self.sets().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).map_err(|error| error.to_string())
    }

    /// Has a policy refuse every update of a pod.
    pub(crate) async fn refuse_updates_of(&self, pod: &str) {
        self.refuse("UPDATE", &format!("object.metadata.name != '{pod}'")).await;
    }

    /// Has a policy refuse an operation on pods, unless `expression` is true. Policies come after webhooks.
    pub(crate) async fn refuse(&self, operation: &str, expression: &str) {
        let pods = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": [operation]});
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "hands-off"},
            "spec": {
                "matchConstraints": {"resourceRules": [pods]},
                "validations": [{"expression": expression, "message": "hands off"}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "hands-off"},
            "spec": {"policyName": "hands-off", "validationActions": ["Deny"]},
        });
        for object in [policy, binding] {
            self.any(object["kind"].as_str().unwrap())
                .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                .await
                .unwrap();
        }
        sleep(Duration::from_secs(1)).await;
    }

    /// Ends what [`Cluster::refuse`] has begun.
    pub(crate) async fn refuse_nothing(&self) {
        self.any("ValidatingAdmissionPolicyBinding").delete("hands-off", &DeleteParams::default()).await.unwrap();
    }

    fn any(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let plural =
            if kind.kind.ends_with('y') { "validatingadmissionpolicies" } else { "validatingadmissionpolicybindings" };
        Api::all_with(self.client(), &ApiResource::from_gvk_with_plural(&kind, plural))
    }

    /// Gives the sidecar `proxy` another image.
    pub(crate) async fn set_image(&self, image: &str) {
        let set = self.own_set().await;
        let list = if set["spec"]["containers"].is_array() { "containers" } else { "initContainers" };
        let mut containers = set["spec"][list].clone();
        containers[0]["image"] = json!(image);
        self.patch_own_set(json!({"spec": {list: containers}})).await;
    }

    /// Changes the set with a merge patch.
    pub(crate) async fn patch_own_set(&self, patch: Value) {
        self.patch_set(&self.set, patch).await;
    }

    /// The set as it is.
    pub(crate) async fn own_set(&self) -> Value {
        self.set(&self.set).await
    }

    pub(crate) async fn set(&self, name: &str) -> Value {
        serde_json::to_value(self.sets().get(name).await.unwrap()).unwrap()
    }

    /// A Deployment whose pods the set matches.
    pub(crate) async fn create_deployment(&self, name: &str, replicas: usize, template: Value) {
        let mut labels = json!({"app": "web", "of": name});
        for (key, value) in template["labels"].as_object().into_iter().flatten() {
            labels[key] = value.clone();
        }
        let metadata = json!({"labels": labels, "annotations": template["annotations"]});
        let spec = json!({"containers": [{"name": "app", "image": "app:1"}], "terminationGracePeriodSeconds": 30});
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"of": name}}, "template": {"metadata": metadata, "spec": spec}},
        });
        self.create::<Deployment>(deployment).await;
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        self.api().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    /// The pods that are not on their way out, by name.
    pub(crate) async fn pods(&self) -> Vec<Value> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
        let pods = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.map(|pod| serde_json::to_value(pod).unwrap()).collect()
    }

    /// How many pods have a sidecar `proxy` with this image.
    pub(crate) async fn with_image(&self, image: &str) -> usize {
        self.pods().await.iter().filter(|pod| proxy(pod)["image"] == image).count()
    }

    /// The revisions of the set, the oldest first.
    pub(crate) async fn revisions(&self) -> Vec<ControllerRevision> {
        let api: Api<ControllerRevision> = Api::namespaced(self.client(), "kruise-system");
        let of_set = ListParams::default().labels(&format!("kruise.io/sidecarset-name={}", self.set));
        let mut found = api.list(&of_set).await.unwrap().items;
        found.sort_by_key(|revision| revision.revision);
        found
    }

    pub(crate) async fn latest_revision(&self) -> String {
        self.revisions().await.last().unwrap().name_any()
    }

    /// Waits until something holds, and fails with what there is.
    pub(crate) async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let holds = async {
            while !is_so().await {
                sleep(Duration::from_millis(500)).await;
            }
        };
        if timeout(LONGEST, holds).await.is_err() {
            let pods: Vec<Value> = self
                .pods()
                .await
                .iter()
                .map(|pod| json!([pod["metadata"]["name"], proxy(pod), pod["status"]["conditions"]]))
                .collect();
            panic!("{what}: the set is {:#}, its pods {}", self.own_set().await["status"], json!(pods));
        }
    }

    /// Waits until the status of the set has this, and is about the set as it is.
    pub(crate) async fn until_status(&self, fields: Value) {
        let is_so = async || {
            let set = self.own_set().await;
            let is_current = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            is_current && fields.as_object().unwrap().iter().all(|(key, value)| set["status"][key] == *value)
        };
        self.until(&fields.to_string(), is_so).await;
    }

    /// Waits until a condition of the set has this reason, and returns its message.
    pub(crate) async fn until_condition(&self, condition_type: &str, reason: &str) -> String {
        let is_so = async || {
            let set = self.own_set().await;
            set["status"]["observedGeneration"] == set["metadata"]["generation"]
                && condition(&set, condition_type)["reason"] == reason
        };
        self.until(&format!("{condition_type} {reason}"), is_so).await;
        condition(&self.own_set().await, condition_type)["message"].as_str().unwrap().to_owned()
    }

    /// How many sidecars and how many app containers were restarted.
    pub(crate) async fn restarts(&self) -> (u64, u64) {
        let mut counts = (0, 0);
        for pod in self.pods().await {
            for list in ["containerStatuses", "initContainerStatuses"] {
                for status in pod["status"][list].as_array().into_iter().flatten() {
                    let count = status["restartCount"].as_u64().unwrap();
                    if status["name"] == "app" { counts.1 += count } else { counts.0 += count }
                }
            }
        }
        counts
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The reasons of the events about the set, sorted.
    pub(crate) async fn event_reasons(&self) -> Vec<String> {
        let events = self.api::<k8s_openapi::api::core::v1::Event>().list(&ListParams::default()).await.unwrap();
        let about_sets = events.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some("SidecarSet"));
        let mut reasons: Vec<String> = about_sets.filter_map(|event| event.reason).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }
}

/// Pods with the sidecar `envoy:1` on a cluster with the only manager.
pub(crate) async fn rolled_out(replicas: usize, spec: Value) -> (Cluster, Running) {
    let (cluster, running) = Cluster::managed().await;
    cluster.create_set("envoy:1", spec).await;
    // Its pods take their time to end.
    let slow = json!({"annotations": {"pillion.dev/simulate": "app: forever ignores TERM"}});
    cluster.create_deployment("web", replicas, slow).await;
    cluster.until_status(json!({"matchedPods": replicas, "updatedReadyPods": replicas})).await;
    (cluster, running)
}

/// Waits in virtual time.
pub(crate) async fn minutes(minutes: u64) {
    sleep(Duration::from_mins(minutes)).await;
}

/// The sidecar `proxy` of a pod.
pub(crate) fn proxy(pod: &Value) -> &Value {
    container(pod, "proxy")
}

pub(crate) fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
    lists.flatten().find(|container| container["name"] == name).unwrap_or(&Value::Null)
}

pub(crate) fn condition<'a>(set: &'a Value, condition_type: &str) -> &'a Value {
    let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == condition_type).unwrap_or(&Value::Null)
}
