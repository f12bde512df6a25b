//! Installations on an embedded cluster, with its controllers and simulated pods, in virtual time. The manager is the real one.
// Helpers of tests are tests as well.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use pillion_embedded::{Config, Embedded};
use pillion_install::{AgentOptions, ControllerName, Error, Options, agent, install, manifests, prepare, uninstall};
use pillion_manager::{Manager, WebhookAddress};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const TIMEOUT: Duration = Duration::from_mins(5);

/// A cluster, and the lines that were said.
struct Cluster {
    engine: Embedded,
    said: Mutex<Vec<String>>,
}

impl Cluster {
    async fn start() -> Cluster {
        let engine = Embedded::start(Config::simulated("2026-01-01T00:00:00Z".parse().unwrap())).await.unwrap();
        // Until the controllers have made what every namespace has.
        tokio::time::sleep(Duration::from_mins(1)).await;
        Cluster { engine, said: Mutex::default() }
    }

    fn client(&self) -> Client {
        self.engine.client()
    }

    async fn install(&self, options: &Options) -> Result<(), Error> {
        self.said.lock().unwrap().clear();
        install(&self.client(), options, TIMEOUT, &|line| self.said.lock().unwrap().push(line.to_owned())).await
    }

    async fn uninstall(&self, all: bool) -> Result<(), Error> {
        uninstall(&self.client(), all, TIMEOUT, &|line| self.said.lock().unwrap().push(line.to_owned())).await
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// What the pods of the Deployment would do.
    fn manager(&self) -> JoinHandle<()> {
        let (server, client, clock) = (self.engine.server().clone(), self.client(), self.engine.server().clock());
        tokio::spawn(async move {
            let deployments = kind(&client, "apps/v1", "Deployment");
            let exists = |live: Option<&DynamicObject>| live.is_some();
            kube::runtime::wait::await_condition(
                Api::<DynamicObject>::namespaced_with(client.clone(), "pillion-system", &deployments.1),
                "pillion-manager",
                exists,
            )
            .await
            .unwrap();
            let address = WebhookAddress::Service {
                namespace: "pillion-system".into(),
                name: "pillion-webhook".into(),
                port: 443,
            };
            let config = pillion_manager::Config::new(client, Arc::new(move || clock.now()), address);
            let manager = Manager::new(pillion_manager::Config { installs_definition: false, ..config });
            for service in ["pillion-webhook", "pillion-webhook-conversion"] {
                server.register_webhook(&format!("https://{service}.pillion-system.svc:443"), manager.webhooks());
            }
            manager.start().await.unwrap();
            manager.register().await.unwrap();
            std::future::pending::<()>().await;
        })
    }

    /// Everything in the cluster that is not made by its own controllers, with its generation.
    async fn everything(&self) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        let mut kinds: Vec<(String, String)> = manifests(&with_every_part())
            .iter()
            .map(|object| (object["apiVersion"].as_str().unwrap().into(), object["kind"].as_str().unwrap().into()))
            .collect();
        kinds.extend(
            [
                ("v1", "Pod"),
                ("v1", "Secret"),
                ("v1", "ConfigMap"),
                ("coordination.k8s.io/v1", "Lease"),
                ("apps/v1", "ControllerRevision"),
            ]
            .map(|(version, kind)| (version.to_owned(), kind.to_owned())),
        );
        for (version, name) in kinds {
            let (api, _) = kind(&self.client(), &version, &name);
            for object in api.list(&ListParams::default()).await.unwrap() {
                let place = format!("{name} {} {}", object.namespace().unwrap_or_default(), object.name_any());
                found.insert(place, json!(object.metadata.resource_version));
            }
        }
        // Renewed all the time.
        found.retain(|place, _| !place.starts_with("Lease kube-node-lease"));
        found
    }
}

fn with_every_part() -> Options {
    Options { controllers: ControllerName::ALL.to_vec(), ..Options::default() }
}

fn kind(client: &Client, api_version: &str, kind: &str) -> (Api<DynamicObject>, ApiResource) {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    (Api::all_with(client.clone(), &resource), resource)
}

fn sets(client: &Client, version: &str) -> Api<DynamicObject> {
    kind(client, &format!("apps.kruise.io/{version}"), "SidecarSet").0
}

fn set(version: &str, name: &str) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": "envoy"}]},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_installation_answers_admissions_and_a_second_one_changes_nothing() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    let said = cluster.said();
    assert!(
        said.iter().any(|line| line == "deployment.apps/pillion-manager in namespace pillion-system created"),
        "{said:?}"
    );
    assert_eq!(said.last().unwrap(), "a pod was admitted through the manager");
    assert!(sets(&cluster.client(), "v1beta1").list(&ListParams::default()).await.unwrap().items.is_empty());

    let before = cluster.everything().await;
    cluster.install(&Options::default()).await.unwrap();
    assert_eq!(cluster.everything().await, before);
    let said = cluster.said();
    assert!(!said.iter().any(|line| line.ends_with("created") || line.ends_with("configured")), "{said:?}");

    // An upgrade: what is not part of it any more goes.
    let options = Options { controllers: vec![ControllerName::Webhook], ..Options::default() };
    cluster.install(&options).await.unwrap();
    let gone = "clusterrole.rbac.authorization.k8s.io/pillion-repair deleted";
    assert!(cluster.said().iter().any(|line| line == gone), "{:?}", cluster.said());
    manager.abort();
}

#[tokio::test(start_paused = true)]
async fn without_a_manager_that_answers_the_installation_fails_and_says_why() {
    let cluster = Cluster::start().await;
    let error = cluster.install(&Options::default()).await.unwrap_err();
    assert!(matches!(error, Error::NotAdmitted { .. }), "{error}");
    assert!(error.to_string().contains("a SidecarSet was stored without the manager's defaults"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn objects_of_somebody_else_are_reported_and_nothing_is_changed() {
    let cluster = Cluster::start().await;
    let (client, post) = (cluster.client(), PostParams::default());
    for (version, name) in [("v1", "Namespace"), ("rbac.authorization.k8s.io/v1", "ClusterRole")] {
        let object =
            json!({"metadata": {"name": if name == "Namespace" { "kruise-system" } else { "pillion-webhook" }}});
        let mut object: DynamicObject = serde_json::from_value(object).unwrap();
        let (api, resource) = kind(&client, version, name);
        object.types = Some(kube::core::TypeMeta { api_version: version.into(), kind: resource.kind });
        api.create(&post, &object).await.unwrap();
    }
    let before = cluster.everything().await;
    let error = cluster.install(&Options::default()).await.unwrap_err();
    assert!(
        error.to_string().contains("clusterrole.rbac.authorization.k8s.io/pillion-webhook (of an unknown manager)"),
        "{error}"
    );
    assert!(!error.to_string().contains("kruise-system"), "a namespace is shared: {error}");
    assert_eq!(cluster.everything().await, before);
}

#[tokio::test(start_paused = true)]
async fn two_installations_do_not_fight() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    let other = Options { namespace: "elsewhere".to_owned(), ..Options::default() };
    let error = cluster.install(&other).await.unwrap_err();
    assert!(matches!(&error, Error::Elsewhere { namespace } if namespace == "pillion-system"), "{error}");
    manager.abort();
}

#[tokio::test(start_paused = true)]
async fn what_stays_after_an_uninstallation_can_be_read_in_every_version_and_edited() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    // Stored before v1beta1 was.
    let definitions = kind(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition").0;
    let mut definition =
        manifests(&Options::default()).into_iter().find(|object| object["kind"] == "CustomResourceDefinition").unwrap();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == "v1alpha1");
    }
    let apply = PatchParams::apply("pillion-install");
    definitions.patch("sidecarsets.apps.kruise.io", &apply, &Patch::Apply(definition)).await.unwrap();
    let mut old = set("v1alpha1", "old");
    old.data["spec"]["namespace"] = json!("default");
    sets(&client, "v1alpha1").create(&PostParams::default(), &old).await.unwrap();

    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    let stored = definitions.get("sidecarsets.apps.kruise.io").await.unwrap();
    assert_eq!(stored.data["status"]["storedVersions"], json!(["v1alpha1", "v1beta1"]));
    assert_eq!(stored.data["spec"]["conversion"]["strategy"], "Webhook");

    manager.abort();
    cluster.uninstall(false).await.unwrap();
    let stored = definitions.get("sidecarsets.apps.kruise.io").await.unwrap();
    assert_eq!(stored.data["status"]["storedVersions"], json!(["v1beta1"]));
    assert_eq!(stored.data["spec"]["conversion"], json!({"strategy": "None"}));
    let mut kept = sets(&client, "v1beta1").get("old").await.unwrap();
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    assert_eq!(kept.data["spec"]["namespaceSelector"], selector, "converted while the webhook was there");
    kept.data["spec"]["containers"][0]["image"] = json!("envoy:2");
    sets(&client, "v1beta1").replace("old", &PostParams::default(), &kept).await.unwrap();
    assert!(sets(&client, "v1alpha1").get("old").await.is_ok());
    let left = cluster.everything().await;
    let ours = |place: &String| place.contains("pillion") || place.contains("kruise");
    assert_eq!(
        left.into_keys().filter(ours).collect::<Vec<_>>(),
        [
            "CustomResourceDefinition  sidecarsets.apps.kruise.io",
            "Namespace  kruise-system",
            "ServiceAccount kruise-system default"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn uninstalling_all_leaves_nothing_and_can_be_repeated() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let before: Vec<String> = cluster.everything().await.into_keys().collect();
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    sets(&client, "v1beta1").create(&PostParams::default(), &set("v1beta1", "mesh")).await.unwrap();
    let revision = json!({
        "metadata": {"name": "mesh-1", "labels": {"kruise.io/sidecarset-name": "mesh"}}, "revision": 1, "data": {}
    });
    let revisions: Api<k8s_openapi::api::apps::v1::ControllerRevision> = Api::namespaced(client, "kruise-system");
    revisions.create(&PostParams::default(), &serde_json::from_value(revision).unwrap()).await.unwrap();
    manager.abort();
    for _ in 0..2 {
        cluster.uninstall(true).await.unwrap();
        assert_eq!(cluster.everything().await.into_keys().collect::<Vec<_>>(), before);
    }
    assert!(cluster.said().iter().any(|line| line == "1 SidecarSet deleted"), "{:?}", cluster.said());
}

#[tokio::test(start_paused = true)]
async fn the_policies_of_agents_go_with_the_part_and_with_the_installation() {
    let cluster = Cluster::start().await;
    let policies = async || {
        let found = cluster.everything().await.into_keys();
        found.filter(|place| place.starts_with("ValidatingAdmissionPolicy")).collect::<Vec<_>>()
    };
    let before: Vec<String> = cluster.everything().await.into_keys().collect();
    let manager = cluster.manager();
    for remove_the_part in [true, false] {
        cluster.install(&with_every_part()).await.unwrap();
        assert_eq!(
            policies().await,
            [
                "ValidatingAdmissionPolicy  pillion-agent-parameters",
                "ValidatingAdmissionPolicy  pillion-agents",
                "ValidatingAdmissionPolicyBinding  pillion-agent-parameters",
                "ValidatingAdmissionPolicyBinding  pillion-agents"
            ]
        );
        if remove_the_part {
            cluster.install(&Options::default()).await.unwrap();
            assert_eq!(policies().await, [""; 0]);
        }
    }
    manager.abort();
    cluster.uninstall(true).await.unwrap();
    assert_eq!(cluster.everything().await.into_keys().collect::<Vec<_>>(), before);
}

/// Creates an object as its text says.
async fn create(client: &Client, object: Value) {
    let (version, name) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (all, resource) = kind(client, version, name);
    let api = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => all,
    };
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn uninstalling_all_takes_what_the_manager_has_written_outside_of_its_own_namespaces() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    // A namespace that is used as it is, and stays.
    for name in ["pillion-system", "shop"] {
        create(&client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let before: Vec<String> = cluster.everything().await.into_keys().collect();
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    sets(&client, "v1beta1").create(&PostParams::default(), &set("v1beta1", "mesh")).await.unwrap();
    let places = json!({"name": "pillion-places-1", "namespace": "pillion-system", "labels": {"kruise.io/sidecarset-name": "mesh"}});
    create(&client, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": places})).await;
    let lease = |holder: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "vpa-admission-controller", "namespace": "kube-system"}, "spec": {"holderIdentity": holder},
        })
    };
    create(&client, lease("pillion_pod-1")).await;
    let mirror = json!({
        "name": "sidecar-config", "namespace": "shop", "labels": {"pillion.dev/agent": "config"},
        "annotations": {"pillion.dev/mirror-of": "pillion-system/agents"},
    });
    create(&client, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": mirror})).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    create(
        &client,
        json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": {"targetRef": target},
        }),
    )
    .await;
    manager.abort();
    cluster.uninstall(true).await.unwrap();
    assert_eq!(cluster.everything().await.into_keys().collect::<Vec<_>>(), before);
    let said = cluster.said();
    assert!(said.iter().any(|line| line == "1 VerticalPodAutoscaler deleted"), "{said:?}");

    // What belongs to upstream stays.
    create(&client, lease("vpa-admission-controller-6f")).await;
    cluster.uninstall(true).await.unwrap();
    let left = cluster.everything().await;
    assert!(left.contains_key("Lease kube-system vpa-admission-controller"), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn uninstalling_all_names_the_objects_of_agents_that_stay() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let before: Vec<String> = cluster.everything().await.into_keys().collect();
    let text = include_str!("../../../decide/assist/src/config/samples/proposal-1.yaml");
    let config = pillion_assist::Config::parse(text, None).unwrap();
    let options =
        AgentOptions { namespace: "default".into(), image: "pillion-agent:1".into(), user: None, mirror: None };
    let objects: Vec<Value> =
        agent(&config, text, &options).into_iter().filter(|object| object["kind"] != "SidecarSet").collect();
    for object in &objects {
        create(&client, object.clone()).await;
    }
    cluster.uninstall(true).await.unwrap();
    let said = cluster.said();
    let line =
        said.iter().find(|line| line.starts_with("objects of the in-pod agent of namespace default stay")).unwrap();
    for object in &objects {
        let kind = object["kind"].as_str().unwrap().to_ascii_lowercase();
        let named = format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap());
        assert!(line.contains(&named), "{named} is missing: {line}");
    }
    assert_eq!(said.len(), 1, "{said:?}");
    let left = cluster.everything().await.len();
    assert_eq!(left - before.len(), objects.len(), "nothing of them was deleted");
}

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

#[tokio::test(start_paused = true)]
async fn revisions_in_the_managers_namespace_stay_until_everything_is_uninstalled() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let before: Vec<String> = cluster.everything().await.into_keys().collect();
    let manager = cluster.manager();
    let options = Options { revisions_namespace: "pillion-system".to_owned(), ..Options::default() };
    cluster.install(&options).await.unwrap();
    let labels = json!({"kruise.io/sidecarset-name": "mesh"});
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {},
        "metadata": {"name": "mesh-1", "namespace": "pillion-system", "labels": labels},
    });
    create(&client, revision).await;
    manager.abort();
    cluster.uninstall(false).await.unwrap();
    let left = cluster.everything().await;
    assert!(left.contains_key("ControllerRevision pillion-system mesh-1"), "{left:?}");
    let stays = "namespace/pillion-system stays, with the revisions of SidecarSets";
    assert!(cluster.said().iter().any(|line| line == stays), "{:?}", cluster.said());

    cluster.uninstall(true).await.unwrap();
    assert_eq!(cluster.everything().await.into_keys().collect::<Vec<_>>(), before);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_in_which_somebody_else_has_something_stays_without_our_labels() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    // As it is where the output of `pillion install --print` was applied over a namespace that was there before.
    let home = manifests(&Options::default()).into_iter().find(|object| object["metadata"]["name"] == "pillion-system");
    create(&client, home.unwrap()).await;
    let orders = json!({"name": "orders", "namespace": "pillion-system"});
    create(&client, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": orders})).await;
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    manager.abort();
    for _ in 0..2 {
        cluster.uninstall(true).await.unwrap();
        let left = cluster.everything().await;
        assert!(left.contains_key("ConfigMap pillion-system orders"), "{left:?}");
        let home = kind(&client, "v1", "Namespace").0.get("pillion-system").await.unwrap();
        let is_ours = |label: &String| label.starts_with("app.kubernetes.io/") || label.starts_with("pod-security");
        assert!(!home.labels().keys().any(is_ours), "{:?}", home.labels());
    }
    let stays = "namespace/pillion-system stays, without the labels of the installation: it has configmap/orders";
    assert_eq!(cluster.said().iter().filter(|line| *line == stays).count(), 1, "{:?}", cluster.said());
}

#[tokio::test(start_paused = true)]
async fn where_somebody_else_refuses_pods_the_installation_is_fine_and_says_why_they_are_not_checked() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let pods = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let validation = json!({"expression": "request.namespace != 'default'", "message": "no pods in default"});
    let object = |kind: &str, spec: Value| json!({"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": "no-pods"}, "spec": spec});
    let spec = json!({"matchConstraints": {"resourceRules": [pods]}, "validations": [validation]});
    create(&client, object("ValidatingAdmissionPolicy", spec)).await;
    let spec = json!({"policyName": "no-pods", "validationActions": ["Deny"]});
    create(&client, object("ValidatingAdmissionPolicyBinding", spec)).await;
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    manager.abort();
    let said = cluster.said();
    let (pod, others) = said.split_last().unwrap();
    assert_eq!(others.last().unwrap(), "a SidecarSet was admitted through the manager");
    assert!(pod.starts_with("pods cannot be checked: pods \"pillion-install-check\" is forbidden: "), "{pod}");
    assert!(pod.ends_with("denied request: no pods in default"), "{pod}");
}

async fn set_finalizers(pods: &Api<Pod>, finalizers: Value) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }
}

/// What the replica that leads does to a registration that somebody has emptied, until it ends. Gives how often it did so.
async fn leader(client: &Client) -> JoinHandle<u32> {
    let configurations = CONFIGURATIONS.map(|name| kind(client, ADMISSION, name).0);
    let mut wanted = Vec::new();
    for configuration in &configurations {
        wanted.push(configuration.get("pillion").await.unwrap().data["webhooks"].take());
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "pillion-system");
    set_finalizers(&pods, json!(["example.com/ends-in-three-seconds"])).await;
    tokio::spawn(async move {
        let mut written = 0;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            for (configuration, wanted) in configurations.iter().zip(&wanted) {
                let live = configuration.get("pillion").await.unwrap();
                if live.data["webhooks"].as_array().is_none_or(Vec::is_empty) {
                    let again = Patch::Merge(json!({"webhooks": wanted}));
                    configuration.patch("pillion", &PatchParams::default(), &again).await.unwrap();
                    written += 1;
                }
            }
        }
        set_finalizers(&pods, Value::Null).await;
        written
    })
}

#[tokio::test(start_paused = true)]
async fn before_a_release_of_helm_is_deleted_nothing_is_sent_to_its_webhooks_any_more() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    let leader = leader(&client).await;
    prepare(&client, "pillion-system", TIMEOUT, &|_| {}).await.unwrap();
    assert!(leader.await.unwrap() > 0, "the manager has registered its webhooks again");
    manager.abort();
    for name in CONFIGURATIONS {
        let live = kind(&client, ADMISSION, name).0.get("pillion").await.unwrap();
        assert!(live.data["webhooks"].as_array().is_none_or(Vec::is_empty), "{name}: {:?}", live.data);
    }
    let created = sets(&client, "v1beta1").create(&PostParams::default(), &set("v1beta1", "mesh")).await.unwrap();
    assert!(!created.annotations().contains_key("kruise.io/sidecarset-hash"), "{created:?}");
}

#[tokio::test(start_paused = true)]
async fn a_vertical_pod_autoscaler_is_taken_over_once_it_has_stopped_and_its_definition_stays_as_it_is() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let definition = manifests(&Options::default()).into_iter().find(|object| {
        object["kind"] == "CustomResourceDefinition"
            && object["metadata"]["name"] == "verticalpodautoscalers.autoscaling.k8s.io"
    });
    let mut definition = definition.unwrap();
    definition["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "vpa"});
    create(&client, definition).await;
    let updater = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "vpa-updater", "namespace": "kube-system"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "vpa-updater"}},
            "template": {"metadata": {"labels": {"app": "vpa-updater"}}, "spec": {"containers": [{"name": "updater", "image": "vpa-updater"}]}},
        },
    });
    create(&client, updater).await;
    let configuration = json!({
        "apiVersion": ADMISSION, "kind": "MutatingWebhookConfiguration", "metadata": {"name": "vpa-webhook-config"},
        "webhooks": [{
            "name": "vpa.k8s.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"service": {"namespace": "kube-system", "name": "vpa-webhook"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        }],
    });
    create(&client, configuration).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let has_webhook = async || {
        let all = kind(&client, ADMISSION, "MutatingWebhookConfiguration").0;
        all.get_opt("vpa-webhook-config").await.unwrap().is_some()
    };
    let options = Options { take_over: "vpa".to_owned(), ..Options::default() };
    let before = cluster.everything().await;
    let error = cluster.install(&options).await.unwrap_err().to_string();
    assert!(
        error.starts_with("nothing was changed: vpa-updater of the VerticalPodAutoscaler project still runs"),
        "{error}"
    );
    assert_eq!(cluster.everything().await, before);

    let deployments = kind(&client, "apps/v1", "Deployment").1;
    let deployments: Api<DynamicObject> = Api::namespaced_with(client.clone(), "kube-system", &deployments);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch("vpa-updater", &PatchParams::default(), &none).await.unwrap();
    let manager = cluster.manager();
    cluster.install(&Options::default()).await.unwrap();
    assert!(has_webhook().await, "nobody has asked for the take-over");
    cluster.install(&options).await.unwrap();
    assert!(!has_webhook().await);
    manager.abort();
    let after = cluster.everything().await;
    let definition = "CustomResourceDefinition  verticalpodautoscalers.autoscaling.k8s.io";
    assert_eq!(after[definition], before[definition]);
    cluster.uninstall(true).await.unwrap();
    assert!(cluster.everything().await.contains_key(definition));
}

#[tokio::test(start_paused = true)]
async fn a_vertical_pod_autoscaler_that_a_chart_has_installed_is_taken_over_once_it_has_stopped() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let name = "vpa-vertical-pod-autoscaler-updater";
    let labels = json!({"app.kubernetes.io/component": "updater"});
    let container = json!({"name": "updater", "image": "registry.k8s.io/autoscaling/vpa-updater:1.5.1"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    create(&client, deployment).await;
    for (name, webhook) in [("release-vpa-webhook-config", "vpa.k8s.io"), ("other", "pods.example.com")] {
        let webhook = json!({
            "name": webhook, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"service": {"namespace": "default", "name": "nobody"}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["none"], "operations": ["CREATE"]}],
        });
        let kind = "MutatingWebhookConfiguration";
        let configuration =
            json!({"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "webhooks": [webhook]});
        create(&client, configuration).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let options = Options { take_over: "vpa".to_owned(), ..Options::default() };
    let before = cluster.everything().await;
    let error = cluster.install(&options).await.unwrap_err().to_string();
    assert!(error.contains(&format!("kubectl --namespace=default scale deployment {name} --replicas=0")), "{error}");
    assert_eq!(cluster.everything().await, before);

    let deployments = kind(&client, "apps/v1", "Deployment").1;
    let deployments: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &deployments);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch(name, &PatchParams::default(), &none).await.unwrap();
    let manager = cluster.manager();
    cluster.install(&options).await.unwrap();
    manager.abort();
    let configurations = cluster.everything().await.into_keys();
    let configurations: Vec<_> = configurations.filter(|place| place.starts_with("MutatingWebhook")).collect();
    assert_eq!(configurations, ["MutatingWebhookConfiguration  other", "MutatingWebhookConfiguration  pillion"]);
}

fn leases_of_the_autoscaler(client: &Client) -> Api<DynamicObject> {
    let resource = kind(client, "coordination.k8s.io/v1", "Lease").1;
    Api::namespaced_with(client.clone(), "kube-system", &resource)
}

/// An updater that was just scaled down: a Deployment without replicas, and a Lease that is valid by every clock.
async fn stopped_updater(client: &Client) {
    let labels = json!({"app": "vpa-updater"});
    let container = json!({"name": "updater", "image": "registry.k8s.io/autoscaling/vpa-updater:1.5.1"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "vpa-updater", "namespace": "kube-system"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    create(client, deployment).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "vpa-updater", "namespace": "kube-system"},
        "spec": {"holderIdentity": "updater-1", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00.000000Z"},
    });
    create(client, lease).await;
}

#[tokio::test(start_paused = true)]
async fn a_vertical_pod_autoscaler_that_was_just_stopped_is_taken_over_once_its_lease_is_not_renewed() {
    let cluster = Cluster::start().await;
    stopped_updater(&cluster.client()).await;
    let manager = cluster.manager();
    cluster.install(&Options { take_over: "vpa".to_owned(), ..Options::default() }).await.unwrap();
    manager.abort();
    let said = cluster.said();
    assert_eq!(said[0], "waiting 15 s to see whether a VerticalPodAutoscaler runs", "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_vertical_pod_autoscaler_that_renews_its_lease_is_not_taken_over_whoever_runs_it() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    stopped_updater(&client).await;
    let running = tokio::spawn(async move {
        for second in 0_u64.. {
            let time = format!("2020-01-01T01:{:02}:{:02}.000000Z", second / 60, second % 60);
            let renewed = Patch::Merge(json!({"spec": {"renewTime": time}}));
            let leases = leases_of_the_autoscaler(&client);
            leases.patch("vpa-updater", &PatchParams::default(), &renewed).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let before: Vec<String> = cluster.everything().await.into_keys().collect();
    let options = Options { take_over: "vpa".to_owned(), ..Options::default() };
    let error = cluster.install(&options).await.unwrap_err().to_string();
    running.abort();
    let expected = "nothing was changed: vpa-updater of the VerticalPodAutoscaler project still runs: \"updater-1\" renews Lease \
                    kube-system/vpa-updater";
    assert!(error.starts_with(expected), "{error}");
    assert!(!error.contains("--replicas=0"), "that was done: {error}");
    assert_eq!(cluster.everything().await.into_keys().collect::<Vec<_>>(), before);
}

/// The traces of an OpenKruise: the definition, its Lease, and its webhook configuration.
async fn kruise(client: &Client) {
    let object = |object: Value| serde_json::from_value::<DynamicObject>(object).unwrap();
    let post = PostParams::default();
    let definition = pillion_api::sidecarset::crd::sidecarset();
    kind(client, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .0
        .create(&post, &object(definition))
        .await
        .unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-system"}});
    kind(client, "v1", "Namespace").0.create(&post, &object(namespace)).await.unwrap();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kruise-manager"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    leases(client).create(&post, &object(lease)).await.unwrap();
    let configuration = json!({
        "apiVersion": ADMISSION, "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "kruise-mutating-webhook-configuration"},
        "webhooks": [{
            "name": "msidecarset.kb.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "kruise-system", "name": "kruise-webhook-service"}},
            "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "resources": ["sidecarsets"], "operations": ["CREATE"]}],
        }],
    });
    kind(client, ADMISSION, "MutatingWebhookConfiguration").0.create(&post, &object(configuration)).await.unwrap();
}

fn leases(client: &Client) -> Api<DynamicObject> {
    let resource = kind(client, "coordination.k8s.io/v1", "Lease").1;
    Api::namespaced_with(client.clone(), "kruise-system", &resource)
}

#[tokio::test(start_paused = true)]
async fn an_open_kruise_that_runs_is_not_taken_over() {
    let cluster = Cluster::start().await;
    kruise(&cluster.client()).await;
    let client = cluster.client();
    let running = tokio::spawn(async move {
        for second in 0_u64.. {
            let renewed =
                json!({"spec": {"renewTime": format!("2026-01-01T01:{:02}:{:02}.000000Z", second / 60, second % 60)}});
            leases(&client).patch("kruise-manager", &PatchParams::default(), &Patch::Merge(renewed)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let options = Options { take_over: "kruise".to_owned(), ..Options::default() };
    let error = cluster.install(&options).await.unwrap_err();
    assert!(
        error.to_string().starts_with("nothing was changed: OpenKruise still serves SidecarSets; stop it: "),
        "{error}"
    );
    running.abort();
    let created: Vec<String> =
        cluster.everything().await.into_keys().filter(|place| place.contains("pillion")).collect();
    assert!(created.is_empty(), "{created:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_open_kruise_has_left_is_deleted_if_it_is_taken_over() {
    let cluster = Cluster::start().await;
    kruise(&cluster.client()).await;
    let error = cluster.install(&Options::default()).await.unwrap_err();
    assert!(error.to_string().contains("adopted with --take-over=kruise"), "{error}");

    let manager = cluster.manager();
    cluster.install(&Options { take_over: "kruise".to_owned(), ..Options::default() }).await.unwrap();
    let deleted =
        "mutatingwebhookconfiguration.admissionregistration.k8s.io/kruise-mutating-webhook-configuration deleted";
    assert!(cluster.said().iter().any(|line| line == deleted), "{:?}", cluster.said());
    manager.abort();
}
