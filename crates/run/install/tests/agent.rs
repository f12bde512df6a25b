//! What the agent's token can and cannot do: it is in every container of the pod.
#![allow(clippy::unwrap_used, clippy::panic)]

use axum::body::{Body, to_bytes};
use axum::http::Request;
use pillion_api::names::agent::NAME as AGENT;
use pillion_apiserver::{ApiServer, Config as ServerConfig, User};
use pillion_assist::Config;
use pillion_install::{AgentOptions, ControllerName, Options, agent, agent_config, manifests};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const CONFIG: &str = include_str!("../../../decide/assist/src/config/samples/proposal-1.yaml");
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

fn game_server(name: &str) -> String {
    format!("/apis/game.kruise.io/v1alpha1/namespaces/default/gameservers/{name}").trim_end_matches('/').to_owned()
}

fn options(namespace: &str) -> AgentOptions {
    AgentOptions { namespace: namespace.into(), image: "pillion-agent:1".into(), user: None, mirror: None }
}

struct Cluster(ApiServer);

impl Cluster {
    async fn send(&self, method: &str, path: &str, media: &str, body: &Value, user: Option<&User>) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path).header("content-type", media);
        if let Some(user) = user {
            request = request.extension(user.clone());
        }
        let answer = self.0.router().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 24).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let (status, answer) = self.send("POST", path, "application/json", object, None).await;
        assert!(status < 300, "{path}: {answer}");
        answer
    }
}

/// A namespace with the agent's objects, two pods, and whoever holds the token of the first.
async fn cluster() -> (Cluster, User) {
    let server = ApiServer::new(ServerConfig::in_memory());
    server.bootstrap().await.unwrap();
    let cluster = Cluster(server);
    let options = options("default");
    let config = Config::parse(CONFIG, None).unwrap();
    for object in agent(&config, CONFIG, &options) {
        let kind = object["kind"].as_str().unwrap();
        let (group, plural) = match kind {
            "SidecarSet" => continue,
            "ServiceAccount" => ("/api/v1/namespaces/default", "serviceaccounts"),
            "ConfigMap" => ("/api/v1/namespaces/default", "configmaps"),
            "Role" => ("/apis/rbac.authorization.k8s.io/v1/namespaces/default", "roles"),
            "RoleBinding" => ("/apis/rbac.authorization.k8s.io/v1/namespaces/default", "rolebindings"),
            "ValidatingAdmissionPolicy" => ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
            "ValidatingAdmissionPolicyBinding" => {
                ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
            }
            other => panic!("{other}"),
        };
        cluster.create(&format!("{group}/{plural}"), &object).await;
    }
    for name in ["web-1", "web-0"] {
        let spec = json!({"serviceAccountName": AGENT, "containers": [{"name": "main", "image": "app"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec});
        cluster.create("/api/v1/namespaces/default/pods", &pod).await;
    }
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gameservers.game.kruise.io"},
        "spec": {"group": "game.kruise.io", "scope": "Namespaced", "versions": [version],
                 "names": {"kind": "GameServer", "plural": "gameservers", "singular": "gameserver", "listKind": "GameServerList"}},
    });
    cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    for name in ["web-1", "web-0", "web", "we"] {
        let server = json!({"apiVersion": "game.kruise.io/v1alpha1", "kind": "GameServer", "metadata": {"name": name}, "spec": {"opsState": "None", "other": 1}});
        cluster.create(&game_server(""), &server).await;
    }
    // What the API server makes of a token that the kubelet has mounted.
    let user = User {
        name: format!("system:serviceaccount:default:{AGENT}"),
        uid: String::new(),
        groups: vec!["system:serviceaccounts".into(), "system:authenticated".into()],
        extra: vec![("authentication.kubernetes.io/pod-name".into(), vec!["web-0".into()])],
    };
    (cluster, user)
}

#[tokio::test]
async fn a_stolen_token_changes_nothing_but_what_the_configuration_names_on_its_own_pod() {
    let (cluster, user) = cluster().await;
    let merge = "application/merge-patch+json";
    let strategic = "application/strategic-merge-patch+json";
    let pod = |name: &str| format!("/api/v1/namespaces/default/pods/{name}");
    let own = pod("web-0");
    let map = |name: &str| format!("/api/v1/namespaces/default/configmaps/{name}");
    let condition = |name: &str| json!({"status": {"conditions": [{"type": name, "status": "True"}]}});
    let allowed = [
        (
            &own,
            merge,
            json!({"metadata": {"annotations": {COST: "-10", "http_probe": "idle"}, "labels": {"gameserver-idle": "true"}}}),
        ),
        (&own, merge, json!({"metadata": {"annotations": {COST: null}, "labels": {"gameserver-idle": null}}})),
        (&format!("{own}/status"), strategic, condition("pillion.dev/Agent")),
        (&map("sidecar-result"), merge, json!({"data": {"web-0": "mine"}})),
        (&game_server("web-0"), merge, json!({"spec": {"opsState": "Allocated"}})),
        (&game_server("web"), merge, json!({"spec": {"opsState": "Allocated"}})),
    ];
    for (path, media, patch) in allowed {
        let (status, answer) = cluster.send("PATCH", path, media, &patch, Some(&user)).await;
        assert_eq!(status, 200, "{path} {patch}: {answer:#}");
    }
    cluster.send("PATCH", &map("sidecar-result"), merge, &json!({"data": {"web-1": "its"}}), None).await;
    let refused = [
        (pod("web-1"), merge, json!({"metadata": {"annotations": {COST: "-10"}}})),
        (format!("{}/status", pod("web-1")), strategic, condition("pillion.dev/Agent")),
        (own.clone(), merge, json!({"metadata": {"annotations": {"other": "x"}}})),
        (own.clone(), merge, json!({"metadata": {"labels": {"app": "victim"}}})),
        (own.clone(), merge, json!({"metadata": {"labels": {"app": null}}})),
        (own.clone(), merge, json!({"metadata": {"finalizers": ["example.com/stay"]}})),
        (own.clone(), merge, json!({"spec": {"activeDeadlineSeconds": 1}})),
        (own.clone(), strategic, json!({"spec": {"containers": [{"name": "main", "image": "evil"}]}})),
        (format!("{own}/status"), strategic, condition("Ready")),
        (format!("{own}/status"), merge, json!({"status": {"phase": "Failed"}})),
        (format!("{own}/status"), merge, json!({"status": {"podIP": "10.0.0.1"}})),
        (
            own.clone(),
            merge,
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]}}),
        ),
        (game_server("web-1"), merge, json!({"spec": {"opsState": "Kill"}})),
        (game_server("we"), merge, json!({"spec": {"opsState": "Kill"}})),
        (game_server("web-0"), merge, json!({"spec": {"other": 2}})),
        (game_server("web-0"), merge, json!({"status": {"state": "x"}})),
        (game_server("web-0"), merge, json!({"metadata": {"finalizers": ["example.com/stay"]}})),
        (game_server("web-0"), merge, json!({"metadata": {"labels": {"a": "b"}}})),
        (map("sidecar-result"), merge, json!({"data": {"web-1": "poison"}})),
        (map("sidecar-result"), merge, json!({"data": {"web-1": null}})),
        (map("sidecar-result"), merge, json!({"data": {"web-0": "x".repeat(5000)}})),
        (map("sidecar-config"), merge, json!({"data": {"config.yaml": "plugins: []"}})),
        (map("pillion-agent"), merge, json!({"data": {"labels": "app"}})),
    ];
    for (path, media, patch) in refused {
        let (status, answer) = cluster.send("PATCH", &path, media, &patch, Some(&user)).await;
        assert_eq!(status, 403, "{path} {patch}: {answer:#}");
        assert!(answer["message"].as_str().unwrap().contains("the agent"), "{answer:#}");
    }
    let (status, _) = cluster.send("DELETE", &pod("web-1"), "application/json", &json!({}), Some(&user)).await;
    assert_eq!(status, 403);
}

#[test]
fn the_agents_rights_are_those_that_its_configuration_needs() {
    let options = options("games");
    let rules = |text: &str| {
        let objects = agent(&Config::parse(text, None).unwrap(), text, &options);
        objects.into_iter().find(|object| object["kind"] == "Role").unwrap()["rules"].clone()
    };
    let marks = "plugins: [{name: http_probe, config: {endpoints: [{url: 'http://x', storageConfig: {type: InKube, inKube: {labelKey: a}}}]}}]\nstatusCondition: ''\n";
    assert_eq!(rules(marks), json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]));
    let text = rules(CONFIG).to_string();
    for verb in ["\"list\"", "\"create\"", "\"delete\"", "\"update\"", "\"*\""] {
        assert!(!text.contains(verb), "{text}");
    }
    assert!(text.contains("game.kruise.io"));
}

#[test]
fn the_agents_container_is_as_its_configuration_says() {
    let options = options("games");
    let set = |text: &str| agent(&Config::parse(text, None).unwrap(), text, &options).pop().unwrap();
    let before = set(CONFIG);
    let container = &before["spec"]["initContainers"][0];
    assert_eq!(
        (&container["restartPolicy"], &before["spec"]["shareProcessNamespace"]),
        (&json!("Always"), &json!(true))
    );
    assert_eq!(
        container["resources"],
        json!({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}})
    );
    // The process that it signals may be another user's.
    let context = &container["securityContext"];
    assert_eq!(
        (&context["runAsUser"], &context["capabilities"]),
        (&json!(0), &json!({"drop": ["ALL"], "add": ["KILL"]}))
    );
    let as_user = AgentOptions { user: Some(101), ..options.clone() };
    let own = agent(&Config::parse(CONFIG, None).unwrap(), CONFIG, &as_user).pop().unwrap();
    let context = &own["spec"]["initContainers"][0]["securityContext"];
    assert_eq!((&context["runAsUser"], &context["capabilities"]), (&json!(101), &json!({"drop": ["ALL"]})));
    let probes = "plugins: [{name: http_probe, config: {endpoints: [{url: 'http://x', storageConfig: {type: InKube, inKube: {labelKey: a}}}]}}]\n";
    let context = &set(probes)["spec"]["initContainers"][0]["securityContext"];
    assert_eq!((&context["runAsUser"], &context["capabilities"]), (&Value::Null, &json!({"drop": ["ALL"]})));
    let after = set(&CONFIG.replace("sidecarstartorder: Before", "sidecarstartorder: After"));
    let container = &after["spec"]["containers"][0];
    assert!(after["spec"]["initContainers"].is_null() && container["name"] == AGENT);
    assert_eq!(container["podInjectPolicy"], "AfterAppContainer", "the kubelet starts containers in their order");
}

#[test]
fn what_the_printed_agents_would_refuse_is_refused() {
    let options = options("games");
    let with = |line: &str| format!("plugins: []\n{line}\n");
    let check = |text: &str, options: &AgentOptions| match agent_config(text, options) {
        Ok(_) => String::new(),
        Err(errors) => errors.join("\n"),
    };
    assert_eq!(check(CONFIG, &options), "");
    assert_eq!(check(&with("statusCondition: 'x/${SELF:NODE_NAME}'"), &options), "");
    let rows = [
        ("statusCondition: 'x/${SELF:POD_WORKLOAD}'", "2:18: ${SELF:POD_WORKLOAD} is not set"),
        ("statusCondition: 'x/${POD:NAME}'", "2:18: ${POD:NAME} cannot be read"),
        ("listen: '${SELF:POD_IP}:5000'", "2:9: an address off loopback needs `tokenSecretRef"),
    ];
    for (line, expected) in rows {
        let refused = check(&with(line), &options);
        assert!(refused.starts_with(expected), "{line}: {refused}");
    }
    let literal = with("extra: {Authorization: 'Bearer x'}");
    assert_eq!(check(&literal, &options), "");
    let mirrored = AgentOptions { mirror: Some(("kube-system".into(), "agents".into())), ..options };
    assert!(check(&literal, &mirrored).contains("would not be mirrored"));
}

#[test]
fn a_configuration_that_is_mirrored_stays_where_it_is() {
    let mirror = Some(("kube-system".to_owned(), "agents".to_owned()));
    let objects = agent(&Config::parse(CONFIG, None).unwrap(), CONFIG, &AgentOptions { mirror, ..options("games") });
    let maps: Vec<(&Value, &Value)> = objects
        .iter()
        .filter(|object| object["kind"] == "ConfigMap")
        .map(|object| (&object["metadata"]["namespace"], &object["metadata"]["name"]))
        .collect();
    let expected = [("kube-system", "agents"), ("games", "pillion-agent"), ("games", "sidecar-result")];
    let expected = expected.map(|(namespace, name)| (json!(namespace), json!(name)));
    assert_eq!(maps, expected.each_ref().map(|(namespace, name)| (namespace, name)));
    let source = objects.iter().find(|object| object["metadata"]["name"] == "agents").unwrap();
    assert_eq!(source["metadata"]["labels"]["pillion.dev/mirror"], "true");
}

#[tokio::test]
async fn the_manager_writes_the_config_maps_of_agents_and_no_others() {
    let server = ApiServer::new(ServerConfig::in_memory());
    server.bootstrap().await.unwrap();
    let cluster = Cluster(server);
    let installed =
        Options { controllers: vec![ControllerName::Webhook, ControllerName::Agents], ..Options::default() };
    let objects = manifests(&installed);
    for (kind, plural) in [
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ] {
        let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
        cluster.create(&format!("/apis/admissionregistration.k8s.io/v1/{plural}"), object).await;
    }
    let binding = objects
        .iter()
        .find(|object| object["kind"] == "ClusterRoleBinding" && object["metadata"]["name"] == "pillion-agents");
    let subject = &binding.unwrap()["subjects"][0];
    let user = User {
        name: format!(
            "system:serviceaccount:{}:{}",
            subject["namespace"].as_str().unwrap(),
            subject["name"].as_str().unwrap()
        ),
        uid: String::new(),
        groups: vec!["system:authenticated".into()],
        extra: Vec::new(),
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str, annotations: Value, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}, "data": data});
    for (name, data) in
        [("pillion-agent", json!({})), ("sidecar-result", json!({"a": "1", "b": "2"})), ("app", json!({"x": "y"}))]
    {
        cluster.create(maps, &map(name, json!({}), data)).await;
    }
    let (create, merge, delete) = ("POST", "PATCH", "DELETE");
    let mirror = json!({"pillion.dev/mirror-of": "kube-system/agents"});
    let config = |text: &str| json!({"config.yaml": text});
    let named = |name: &str| format!("{maps}/{name}");
    let rows = [
        (201, create, maps.to_owned(), map("sidecar-config", mirror.clone(), config("plugins: []"))),
        (200, merge, named("sidecar-config"), json!({"data": config("plugins: [] # new")})),
        (200, merge, named("pillion-agent"), json!({"data": {"labels": "a"}})),
        (200, merge, named("sidecar-result"), json!({"data": {"a": null}})),
        (403, merge, named("sidecar-result"), json!({"data": {"b": "poison"}})),
        (403, merge, named("sidecar-result"), json!({"data": {"c": "3"}})),
        (403, delete, named("sidecar-result"), json!({})),
        (403, delete, named("pillion-agent"), json!({})),
        (403, merge, named("app"), json!({"data": {"x": "z"}})),
        (403, delete, named("app"), json!({})),
        (403, create, maps.to_owned(), map("other", mirror.clone(), json!({}))),
        (200, delete, named("sidecar-config"), json!({})),
        (403, create, maps.to_owned(), map("sidecar-config", json!({}), config("plugins: []"))),
    ];
    for (expected, method, path, body) in rows {
        let media = if method == merge { "application/merge-patch+json" } else { "application/json" };
        let (status, answer) = cluster.send(method, &path, media, &body, Some(&user)).await;
        assert_eq!(status, expected, "{method} {path} {body}: {answer:#}");
    }
    // What a namespace has itself is not a mirror, and nobody makes it one.
    cluster.create(maps, &map("sidecar-config", json!({}), config("plugins: []"))).await;
    for (method, body) in
        [(merge, json!({"metadata": {"annotations": mirror}, "data": config("x")})), (delete, json!({}))]
    {
        let media = if method == merge { "application/merge-patch+json" } else { "application/json" };
        let (status, answer) = cluster.send(method, &named("sidecar-config"), media, &body, Some(&user)).await;
        assert_eq!(status, 403, "{method}: {answer:#}");
    }
}
