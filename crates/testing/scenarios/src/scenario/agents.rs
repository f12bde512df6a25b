//! The in-pod agent: the configurations of OpenKruise's proposal, and its first story.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt as _;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use pillion_assist::Config as AgentConfig;
use pillion_cluster::image::SCENARIOS;
use pillion_install::{AgentOptions, agent};
use pillion_manager::{Config, ControllerName};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::custom_resources::sidecarsets;
use super::managed::{is_injected, managed_with};
use super::{restarts, with};
use crate::game::{LEVEL, PORT};
use crate::{Namespace, wait};

const CONFIGURATIONS: [&str; 4] = [
    include_str!("../../../../decide/assist/src/config/samples/proposal-1.yaml"),
    include_str!("../../../../decide/assist/src/config/samples/proposal-2.yaml"),
    include_str!("../../../../decide/assist/src/config/samples/proposal-3.yaml"),
    include_str!("../../../../decide/assist/src/config/samples/proposal-4.yaml"),
];
/// The SHA-256 of [`LEVEL`].
const SHA256: &str = "b0432a2a38e52bad4c57121add13963f193578dac7e8d45b0b019d842511a153";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A configuration of the proposal, with what differs here: where the game is, what it is called, and that nobody waits for a minute. The keys of
/// ours follow.
fn configuration(text: &str) -> String {
    let process = "process: {command: [/proc/self/exe, plugin]}";
    let text = text
        .replace("http://localhost:8080", &format!("http://${{SELF:POD_IP}}:{PORT}/"))
        .replace("startDelaySeconds: 60", "startDelaySeconds: 1\n        probeIntervalSeconds: 1")
        .replace("nginx: master process nginx", "scenarios game")
        .replace("- name: plugin-a", &format!("- name: plugin-a\n      {process}"))
        .replace("- name: plugin-b", &format!("- name: plugin-b\n      {process}"));
    let ours = format!("allowedHosts: ['${{SELF:POD_IP}}:{PORT}']\ntokenSecretRef: {{name: agent, key: token}}\n");
    format!("{text}\nlisten: '${{SELF:POD_IP}}:5000'\n{ours}")
}

/// Embedded clusters give their pods the same addresses, and games and agents listen on the ports that the proposal names.
static PORTS: Mutex<()> = Mutex::const_new(());

fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

fn environment() -> Value {
    let hash = field("POD_TEMPLATE_HASH", "metadata.labels['pod-template-hash']");
    json!([
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_IP", "status.podIP"),
        hash
    ])
}

fn game() -> Value {
    json!({
        "name": "game", "image": SCENARIOS, "imagePullPolicy": "Never", "args": ["game"], "env": environment(),
        "volumeMounts": [{"name": "downloads", "mountPath": "/app/downloads"}],
    })
}

/// Applies the objects of an agent, and what the game needs. The SidecarSet is applied by those who have a manager.
async fn prepare(namespace: &Namespace, text: &str) -> anyhow::Result<Value> {
    let config = AgentConfig::parse(text, None).map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
    let (home, image) = (namespace.name().to_owned(), SCENARIOS.to_owned());
    let options = AgentOptions { namespace: home, image, user: None, mirror: None };
    keep_parameters_served(namespace).await?;
    let mut set = None;
    for object in agent(&config, text, &options) {
        if object["kind"] == "SidecarSet" {
            set = Some(object);
            continue;
        }
        apply(namespace, &object).await?;
    }
    namespace.create::<Secret>(json!({"metadata": {"name": "agent"}, "stringData": {"token": "sesame"}})).await?;
    namespace.create::<ConfigMap>(json!({"metadata": {"name": "game"}})).await?;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["game"], "verbs": ["get"]}]);
    namespace.create::<Role>(json!({"metadata": {"name": "game"}, "rules": rules})).await?;
    let binding = json!({
        "metadata": {"name": "game"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "game"},
        "subjects": [{"kind": "ServiceAccount", "name": "pillion-agent", "namespace": namespace.name()}]
    });
    namespace.create::<RoleBinding>(binding).await?;
    set.context("the agent has a SidecarSet")
}

/// What the installation of the manager has as well. It stays: kube-apiserver does not read ConfigMaps again once the last policy with them as
/// parameters is gone.
async fn keep_parameters_served(namespace: &Namespace) -> anyhow::Result<()> {
    let nothing = json!({"apiGroups": ["scenarios.pillion.dev"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["nothing"]});
    let object = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "scenarios"}, "spec": spec});
    let policy = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConstraints": {"resourceRules": [nothing]},
        "validations": [{"expression": "true"}],
    });
    let parameters = json!({"name": "scenarios", "namespace": "default", "parameterNotFoundAction": "Allow"});
    let binding = json!({"policyName": "scenarios", "validationActions": ["Deny"], "paramRef": parameters});
    apply(namespace, &object("ValidatingAdmissionPolicy", policy)).await?;
    apply(namespace, &object("ValidatingAdmissionPolicyBinding", binding)).await
}

async fn apply(namespace: &Namespace, object: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, version) = object["apiVersion"].as_str().and_then(|text| text.split_once('/')).unwrap_or(("", "v1"));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &text(&object["kind"])));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(home) => Api::namespaced_with(namespace.client(), home, &resource),
        None => Api::all_with(namespace.client(), &resource),
    };
    let parameters = PatchParams::apply("scenario").force();
    api.patch(&text(&object["metadata"]["name"]), &parameters, &Patch::Apply(object)).await?;
    Ok(())
}

/// What is not in the namespace would outlive it.
async fn clean_up(namespace: &Namespace) -> anyhow::Result<()> {
    for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
        let api: Api<DynamicObject> = Api::all_with(namespace.client(), &resource);
        api.delete(&format!("pillion-agent.{}", namespace.name()), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Tells the game of a pod what to do.
async fn order(namespace: &Namespace, pod: &str, order: &str) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"data": {pod: order}}));
    namespace.api::<ConfigMap>().patch("game", &PatchParams::default(), &patch).await?;
    Ok(())
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.annotations().get(key).map(String::as_str)
}

async fn is_annotated(namespace: &Namespace, pod: &str, key: &str, value: &str) -> anyhow::Result<Pod> {
    let has = |pod: &Pod| annotation(pod, key) == Some(value);
    namespace.wait_for_pod(pod, &format!("annotated with {key}: {value}"), has).await
}

/// Runs what steals the agent's token. When it has ended, the policy is in force.
async fn is_bounded(namespace: &Namespace, results: &str) -> anyhow::Result<()> {
    let nowhere = json!({"kubernetes.io/hostname": "nowhere"});
    let victim = json!({"metadata": {"name": "victim"}, "spec": {"nodeSelector": nowhere, "containers": [game()], "volumes": volumes("victim")}});
    namespace.create::<Pod>(victim).await?;
    let thief = with(game(), json!({"name": "thief", "args": ["steal", "victim", results]}));
    let thief = json!({"metadata": {"name": "thief"}, "spec": {
        "serviceAccountName": "pillion-agent", "restartPolicy": "OnFailure", "containers": [thief], "volumes": volumes("thief")
    }});
    namespace.create::<Pod>(thief).await?;
    let ended = |pod: &Pod| super::phase(pod) == "Succeeded";
    namespace.wait_for_pod("thief", "refused", ended).await?;
    // Earlier lines are attempts from before the policies took effect.
    let refused = "refused: its pod, its status, its own spec, another key, its result, its deletion\n";
    namespace.log_ends_with("thief", "thief", refused).await?;
    let victim = namespace.api::<Pod>().get("victim").await?;
    ensure!(victim.status.iter().all(|status| status.phase.as_deref() == Some("Pending")), "the victim has changed");
    Ok(())
}

fn volumes(config: &str) -> Value {
    json!([{"name": "downloads", "emptyDir": {}}, {"name": "config", "configMap": {"name": config, "optional": true}}])
}

/// All four configurations of the proposal load, and do what their text says. The token of an agent does nothing to other pods.
pub async fn the_configurations_of_the_proposal_work(namespace: &Namespace) -> anyhow::Result<()> {
    let _mine = PORTS.lock().await;
    let outcome = Box::pin(configurations(namespace)).await;
    let cleaned = clean_up(namespace).await;
    let definitions = game_server_definitions(namespace);
    definitions.delete("gameservers.game.kruise.io", &DeleteParams::default()).await?;
    outcome.and(cleaned)
}

fn game_server_definitions(namespace: &Namespace) -> Api<DynamicObject> {
    let definition = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(namespace.client(), &ApiResource::from_gvk(&definition))
}

fn game_servers(namespace: &Namespace) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("game.kruise.io", "v1alpha1", "GameServer"));
    Api::namespaced_with(namespace.client(), namespace.name(), &resource)
}

async fn define_game_servers(namespace: &Namespace) -> anyhow::Result<()> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gameservers.game.kruise.io"},
        "spec": {
            "group": "game.kruise.io", "scope": "Namespaced",
            "names": {"kind": "GameServer", "plural": "gameservers", "singular": "gameserver", "listKind": "GameServerList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}],
        },
    });
    apply(namespace, &definition).await?;
    for pod in ["game-1", "game-2", "game-3"] {
        let server: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "game.kruise.io/v1alpha1", "kind": "GameServer", "metadata": {"name": pod}, "spec": {"opsState": "None"}
        }))?;
        wait::until("GameServers that are served", async || {
            match game_servers(namespace).create(&PostParams::default(), &server).await {
                Ok(_) => Ok(Some(())),
                Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
    }
    Ok(())
}

async fn ops_state(namespace: &Namespace, name: &str, expected: &str) -> anyhow::Result<()> {
    wait::until(&format!("opsState {expected} of {name}"), async || {
        let server = game_servers(namespace).get(name).await?;
        Ok((server.data["spec"]["opsState"] == expected).then_some(()))
    })
    .await
}

async fn configurations(namespace: &Namespace) -> anyhow::Result<()> {
    define_game_servers(namespace).await?;
    // The policy is for all of them: the second has annotations of its own.
    let mut all = configuration(CONFIGURATIONS[0]);
    let plugins = configuration(CONFIGURATIONS[1]);
    let plugins = plugins.trim_start_matches("plugins:\n").split("\nlisten:").next().unwrap_or_default();
    all = all.replacen("plugins:\n", &format!("plugins:\n{plugins}\n"), 1);
    prepare(namespace, &all).await?;
    is_bounded(namespace, "results").await?;
    for (index, text) in CONFIGURATIONS.into_iter().enumerate() {
        let name = format!("game-{}", index + 1);
        let data = json!({"config.yaml": configuration(text)});
        namespace.create::<ConfigMap>(json!({"metadata": {"name": name}, "data": data})).await?;
        let mut sidecar = with(
            game(),
            json!({"name": "agent", "args": ["agent", "--config", "/config/config.yaml"], "restartPolicy": "Always"}),
        );
        sidecar["volumeMounts"] =
            json!([{"name": "downloads", "mountPath": "/app/downloads"}, {"name": "config", "mountPath": "/config"}]);
        let pod = json!({"metadata": {"name": name}, "spec": {
            "serviceAccountName": "pillion-agent", "shareProcessNamespace": true, "terminationGracePeriodSeconds": 5,
            "initContainers": [sidecar], "containers": [game()], "volumes": volumes(&name),
        }});
        namespace.create::<Pod>(pod).await?;
    }
    // The first and the third: the probe marks the pod, and its result is in the target.
    for pod in ["game-1", "game-3"] {
        let idle = is_annotated(namespace, pod, COST, "-10").await?;
        ensure!(idle.labels().get("gameserver-idle").is_some_and(|idle| idle == "true"), "{:?}", idle.labels());
        is_annotated(namespace, pod, "http_probe", "idle").await?;
        ops_state(namespace, pod, "idle").await?;
        order(namespace, pod, "allocated").await?;
        is_annotated(namespace, pod, COST, "10").await?;
        ops_state(namespace, pod, "allocated").await?;
    }
    // The second: the results of plugins of others, in an annotation and in a target.
    is_annotated(namespace, "game-2", "xxx", "Allocated").await?;
    ops_state(namespace, "game-2", "Allocated").await?;
    // The first and the fourth: a file is replaced, and the process reads it again.
    for pod in ["game-1", "game-4"] {
        let live = namespace.api::<Pod>().get(pod).await?;
        let address = live.status.and_then(|status| status.pod_ip).context("the pod has an address")?;
        order(
            namespace,
            pod,
            &format!("post version=v2&url=http://{address}:{PORT}/level.txt&file=level.txt&sha256={SHA256}"),
        )
        .await?;
        is_annotated(namespace, pod, "sidecar.vke.volcengine.com/hot-update-result", "v2: Update success").await?;
        namespace.log_is(pod, "game", &format!("hangup 1: {LEVEL}\n")).await?;
        wait::until("a result of v2", async || {
            let results = namespace.api::<ConfigMap>().get("sidecar-result").await?.data.unwrap_or_default();
            let entry: Option<Value> = results.get(pod).map(|text| serde_json::from_str(text)).transpose()?;
            Ok(entry.filter(|entry| entry["version"] == "v2").map(drop))
        })
        .await?;
    }
    survives_its_neighbour(namespace).await
}

/// The game ends and is restarted; the agent goes on.
async fn survives_its_neighbour(namespace: &Namespace) -> anyhow::Result<()> {
    order(namespace, "game-3", "exit").await?;
    namespace.wait_for_pod("game-3", "restarted", |pod| restarts(pod, "game") == Some(1)).await?;
    // It begins as it began before.
    is_annotated(namespace, "game-3", COST, "-10").await?;
    order(namespace, "game-3", "allocated").await?;
    let pod = is_annotated(namespace, "game-3", COST, "10").await?;
    ensure!(restarts(&pod, "agent") == Some(0), "the agent was restarted");
    Ok(())
}

/// A ReplicaSet that is scaled down removes those pods first that the probe has marked with a lower deletion cost.
pub async fn a_replica_set_scaled_down_loses_the_idle_pods_first(namespace: &Namespace) -> anyhow::Result<()> {
    let adjust = |config| Config { parts: vec![ControllerName::Webhook, ControllerName::Agents], ..config };
    let _mine = PORTS.lock().await;
    let story = async |namespace: &Namespace| {
        let outcome = Box::pin(story_one(namespace)).await;
        let sets = sidecarsets(namespace.client());
        let removed = sets.delete(&format!("pillion-agent-{}", namespace.name()), &DeleteParams::default()).await;
        outcome.and(removed.map(drop).map_err(Into::into))
    };
    let outcome = managed_with(namespace, adjust, story).await;
    let cleaned = clean_up(namespace).await;
    outcome.and(cleaned)
}

/// A PodProbeMarker is written on a pod, the agent makes the probe, and its result marks the pod.
async fn is_marked(namespace: &Namespace, pod: &str) -> anyhow::Result<()> {
    let name = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "PodProbeMarker");
    let markers: Api<DynamicObject> =
        Api::namespaced_with(namespace.client(), namespace.name(), &ApiResource::from_gvk(&name));
    let policy = |state: &str| json!({"state": state, "labels": {"serves": state.to_lowercase()}});
    let probe = |path: &str| {
        json!({
            "name": "serves", "containerName": "game", "podConditionType": "game.io/serves",
            "probe": {"httpGet": {"path": path, "port": PORT, "scheme": "HTTP"}, "periodSeconds": 1},
            "markerPolicy": [policy("Succeeded"), policy("Failed")],
        })
    };
    let spec = json!({"selector": {"matchLabels": {"app": "game"}}, "probes": [probe("/")]});
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "game"}, "spec": spec});
    markers.create(&PostParams::default(), &serde_json::from_value(marker)?).await?;
    let has = |value: &'static str| move |pod: &Pod| pod.labels().get("serves").is_some_and(|serves| serves == value);
    namespace.wait_for_pod(pod, "marked as serving", has("succeeded")).await?;
    let patch = Patch::Merge(json!({"spec": {"probes": [probe("/nowhere")]}}));
    markers.patch("game", &PatchParams::default(), &patch).await?;
    namespace.wait_for_pod(pod, "marked as failing", has("failed")).await?;
    Ok(())
}

async fn story_one(namespace: &Namespace) -> anyhow::Result<()> {
    // Without the target: GameServers are of the other scenario.
    let text = configuration(CONFIGURATIONS[2]);
    let lines = text.lines().collect::<Vec<_>>();
    let start = lines.iter().position(|line| line.trim() == "target:").context("there is a target")?;
    let end = lines.iter().position(|line| line.trim().starts_with("jsonPath:")).context("there is a path")?;
    let text = [&lines[..start], &lines[end + 1..]].concat().join("\n");
    let mut set = prepare(namespace, &text).await?;
    // The program of scenarios is many programs.
    let container = &mut set["spec"]["initContainers"][0];
    container["imagePullPolicy"] = json!("Never");
    if let Some(container) = container.as_object_mut() {
        container.remove("command");
    }
    let arguments = container["args"].as_array().cloned().unwrap_or_default();
    container["args"] = std::iter::once(json!("agent")).chain(arguments).collect();
    apply(namespace, &set).await?;
    is_bounded(namespace, "none").await?;
    let labels = json!({"app": "game", "pillion.dev/agent": "enabled"});
    let spec = json!({"terminationGracePeriodSeconds": 5, "containers": [game()], "volumes": [{"name": "downloads", "emptyDir": {}}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    is_injected(namespace, &template).await?;
    let set = json!({"metadata": {"name": "game"}, "spec": {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}});
    namespace.create::<ReplicaSet>(set).await?;
    let selected = ListParams::default().labels("app=game");
    let costs = async |wanted: &str| {
        let pods = namespace.api::<Pod>().list(&selected).await?.items;
        let names: Vec<String> =
            pods.iter().filter(|pod| annotation(pod, COST) == Some(wanted)).map(kube::ResourceExt::name_any).collect();
        Ok::<_, anyhow::Error>(names)
    };
    let mut idle =
        wait::until("four idle games", async || Ok(Some(costs("-10").await?).filter(|all| all.len() == 4))).await?;
    let account = namespace.api::<Pod>().get(&idle[0]).await?.spec.and_then(|spec| spec.service_account_name);
    ensure!(account.as_deref() == Some("pillion-agent"), "the account was not injected: {account:?}");
    is_marked(namespace, &idle[0]).await?;
    let busy = idle.split_off(2);
    for pod in &busy {
        order(namespace, pod, "allocated").await?;
    }
    wait::until("two busy games", async || Ok((costs("10").await?.len() == 2).then_some(()))).await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
    namespace.api::<ReplicaSet>().patch("game", &PatchParams::default(), &patch).await?;
    for pod in &idle {
        namespace.is_gone::<Pod>(pod).await?;
    }
    let mut left = costs("10").await?;
    left.sort();
    let mut expected = busy;
    expected.sort();
    ensure!(left == expected, "{left:?} are left, and not {expected:?}");
    Ok(())
}
