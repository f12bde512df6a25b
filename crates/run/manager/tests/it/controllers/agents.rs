//! What the manager keeps for in-pod agents.

use std::time::Duration;

use axum::http::Method;
use pillion_manager::Manager;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, SIDECARSETS, pod, sidecarset};

const CONFIG: &str = include_str!("../../../../../decide/assist/src/config/samples/proposal-3.yaml");

fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn map(name: &str, labels: Value, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data})
}

async fn managed() -> (Cluster, Manager) {
    let (cluster, manager) = Cluster::managed().await;
    let running = manager.clone();
    tokio::spawn(async move { running.run().await });
    for namespace in ["games", "shop"] {
        cluster.namespace(namespace, json!({})).await;
    }
    (cluster, manager)
}

async fn agent_pod(cluster: &Cluster, namespace: &str, name: &str) {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"pillion.dev/agent": "enabled"});
    cluster.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await.object();
}

/// Long enough for watches and for what is collected.
async fn settled() {
    sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_is_mirrored_into_namespaces_with_agents_and_nowhere_else() {
    let (cluster, _manager) = managed().await;
    agent_pod(&cluster, "games", "game-0").await;
    cluster.namespace("own", json!({})).await;
    agent_pod(&cluster, "own", "game-0").await;
    // It has no label of ours, and is not known to the manager.
    cluster
        .create(&maps("own"), map("sidecar-config", json!({}), json!({"config.yaml": "plugins: []"})))
        .await
        .object();
    let source = map("agents", json!({"pillion.dev/mirror": "true"}), json!({"config.yaml": CONFIG}));
    cluster.create(&maps("kube-system"), source).await.object();
    settled().await;
    let mirror = format!("{}/sidecar-config", maps("games"));
    let found = cluster.get(&mirror).await;
    assert_eq!(found["data"]["config.yaml"], CONFIG);
    assert_eq!(found["metadata"]["annotations"]["pillion.dev/mirror-of"], "kube-system/agents");
    assert_eq!(cluster.get(&maps("shop")).await["items"], json!([]), "nobody there needs it");
    let own = cluster.get(&format!("{}/sidecar-config", maps("own"))).await;
    assert_eq!(own["data"]["config.yaml"], "plugins: []", "what a namespace has itself stays");

    let source = format!("{}/agents", maps("kube-system"));
    let literal = CONFIG.replace("method: \"GET\"", "headers: {Authorization: Bearer x}");
    assert_ne!(literal, CONFIG);
    cluster.merge(&source, json!({"data": {"config.yaml": literal}})).await.object();
    settled().await;
    assert_eq!(cluster.get(&mirror).await["data"]["config.yaml"], CONFIG, "a literal credential is not mirrored");
    let events = cluster.get("/api/v1/namespaces/kube-system/events").await;
    let is_warned = |event: &Value| {
        event["reason"] == "NotMirrored" && event["message"].as_str().unwrap().contains("Authorization")
    };
    assert!(events["items"].as_array().unwrap().iter().any(is_warned), "{events:#}");

    let newer = CONFIG.replace("startDelaySeconds: 60", "startDelaySeconds: 6");
    cluster.merge(&source, json!({"data": {"config.yaml": newer}})).await.object();
    settled().await;
    assert_eq!(cluster.get(&mirror).await["data"]["config.yaml"], newer);

    cluster
        .request(Method::DELETE, "/api/v1/namespaces/games/pods/game-0?gracePeriodSeconds=0", "", None)
        .await
        .object();
    settled().await;
    assert_eq!(cluster.get(&maps("games")).await["items"], json!([]), "nobody needs it any more");
}

#[tokio::test(start_paused = true)]
async fn the_parameters_of_the_policy_follow_the_configuration() {
    let (cluster, _manager) = managed().await;
    let config = map("sidecar-config", json!({"pillion.dev/agent": "config"}), json!({"config.yaml": CONFIG}));
    cluster.create(&maps("games"), config).await.object();
    let parameters = map("pillion-agent", json!({"pillion.dev/agent": "parameters"}), json!({"labels": "stale"}));
    cluster.create(&maps("games"), parameters).await.object();
    settled().await;
    let parameters = format!("{}/pillion-agent", maps("games"));
    assert_eq!(cluster.get(&parameters).await["data"]["labels"], "gameserver-idle");
    let config = format!("{}/sidecar-config", maps("games"));
    let newer = CONFIG.replace("gameserver-idle", "idle");
    cluster.merge(&config, json!({"data": {"config.yaml": newer}})).await.object();
    settled().await;
    assert_eq!(cluster.get(&parameters).await["data"]["labels"], "idle");
    cluster.merge(&config, json!({"data": {"config.yaml": "plugins: 1"}})).await.object();
    settled().await;
    assert_eq!(cluster.get(&parameters).await["data"]["labels"], "idle", "a wrong configuration changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_key_stays_allowed_until_no_pod_with_an_agent_has_it() {
    let (cluster, _manager) = managed().await;
    agent_pod(&cluster, "games", "game-0").await;
    let pod = "/api/v1/namespaces/games/pods/game-0";
    cluster.merge(pod, json!({"metadata": {"labels": {"gameserver-idle": "true"}}})).await.object();
    let config = map("sidecar-config", json!({"pillion.dev/agent": "config"}), json!({"config.yaml": CONFIG}));
    cluster.create(&maps("games"), config).await.object();
    let parameters = map("pillion-agent", json!({"pillion.dev/agent": "parameters"}), json!({}));
    cluster.create(&maps("games"), parameters).await.object();
    settled().await;
    let labels = async || {
        let parameters = cluster.get(&format!("{}/pillion-agent", maps("games"))).await;
        parameters["data"]["labels"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(labels().await, "gameserver-idle");
    let newer = CONFIG.replace("gameserver-idle", "idle");
    let config = format!("{}/sidecar-config", maps("games"));
    cluster.merge(&config, json!({"data": {"config.yaml": newer}})).await.object();
    settled().await;
    assert_eq!(labels().await, "gameserver-idle,idle", "the agent has yet to remove it");
    cluster.merge(pod, json!({"metadata": {"labels": {"gameserver-idle": null}}})).await.object();
    settled().await;
    assert_eq!(labels().await, "idle");
}

#[tokio::test(start_paused = true)]
async fn a_condition_stays_allowed_only_as_long_as_an_agent_reports_it() {
    let (cluster, _manager) = managed().await;
    agent_pod(&cluster, "games", "game-0").await;
    let report = async |reason: &str| {
        let conditions = json!([
            {"type": "game.io/idle", "status": "True", "reason": reason},
            {"type": "game.io/given-up", "status": "Unknown", "reason": "PluginRemoved"},
            // What an agent reports has a reason.
            {"type": "game.io/of-others", "status": "True"},
        ]);
        let pod = "/api/v1/namespaces/games/pods/game-0/status";
        cluster.merge(pod, json!({"status": {"conditions": conditions}})).await.object();
        settled().await;
    };
    report("ProbeSucceeded").await;
    let config = map("sidecar-config", json!({"pillion.dev/agent": "config"}), json!({"config.yaml": CONFIG}));
    cluster.create(&maps("games"), config).await.object();
    let before = json!({"conditions": "game.io/given-up,game.io/idle,game.io/of-others,pillion.dev/Agent"});
    let parameters = map("pillion-agent", json!({"pillion.dev/agent": "parameters"}), before);
    cluster.create(&maps("games"), parameters).await.object();
    settled().await;
    let allowed = async || {
        let parameters = cluster.get(&format!("{}/pillion-agent", maps("games"))).await;
        parameters["data"]["conditions"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(allowed().await, "game.io/idle,pillion.dev/Agent");
    report("PluginRemoved").await;
    assert_eq!(allowed().await, "pillion.dev/Agent");
}

#[tokio::test(start_paused = true)]
async fn results_of_pods_that_are_gone_are_pruned() {
    let (cluster, _manager) = managed().await;
    agent_pod(&cluster, "games", "game-0").await;
    let entry = |time: &str| {
        let entry = json!({"workload": "game", "version": "v1", "url": "https://cdn.example.com/a", "file": "a", "sha256": "a".repeat(64), "size": 1, "result": "", "time": time});
        entry.to_string()
    };
    let data = json!({
        "game-0": entry("2025-01-01T00:00:00Z"), "game-1": entry("2025-01-02T00:00:00Z"), "game-2": entry("2025-01-03T00:00:00Z"),
        "poison": "{",
    });
    cluster.create(&maps("games"), map("sidecar-result", json!({"pillion.dev/agent": "result"}), data)).await.object();
    settled().await;
    let left = cluster.get(&format!("{}/sidecar-result", maps("games"))).await["data"].clone();
    let left: Vec<&String> = left.as_object().unwrap().keys().collect();
    assert_eq!(left, ["game-0", "game-2"], "one is there, and one was the last of its workload");
}

#[tokio::test(start_paused = true)]
async fn results_of_pods_that_are_gone_are_pruned_behind_any_number_of_pods_that_live() {
    let (cluster, _manager) = managed().await;
    let mut data = serde_json::Map::new();
    let entry = |workload: &str, second: u32| {
        let entry = json!({"workload": workload, "version": "v1", "url": "https://cdn.example.com/a", "file": "a", "sha256": "a".repeat(64), "size": 1, "result": "", "time": format!("2025-01-01T00:{:02}:{:02}Z", second / 60, second % 60)});
        json!(entry.to_string())
    };
    for number in 0..120 {
        let name = format!("game-{number}");
        agent_pod(&cluster, "games", &name).await;
        data.insert(name, entry("game", number));
    }
    for number in 0..3 {
        data.insert(format!("z-{number}"), entry("z", number));
    }
    let results = map("sidecar-result", json!({"pillion.dev/agent": "result"}), Value::Object(data));
    cluster.create(&maps("games"), results).await.object();
    settled().await;
    let left = cluster.get(&format!("{}/sidecar-result", maps("games"))).await["data"].clone();
    assert_eq!((left.as_object().unwrap().len(), left["z-0"].is_null(), left["z-2"].is_null()), (121, true, false));
}

const MARKERS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/games/podprobemarkers";

fn marker(name: &str) -> Value {
    let policy = |state: &str, cost: &str| json!({"state": state, "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}, "labels": {"idle": state.to_lowercase()}});
    let probe = json!({
        "name": "idle", "containerName": "app", "podConditionType": "game.io/idle",
        "probe": {"httpGet": {"path": "/idle", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 5},
        "markerPolicy": [policy("Succeeded", "-10"), policy("Failed", "10")],
    });
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": name, "namespace": "games"},
        "spec": {"selector": {"matchLabels": {"pillion.dev/agent": "enabled"}}, "probes": [probe]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_probe_marker_has_its_probes_written_on_pods_and_their_results_mark_the_pods() {
    let (cluster, _manager) = managed().await;
    agent_pod(&cluster, "games", "game-0").await;
    let config = map("sidecar-config", json!({"pillion.dev/agent": "config"}), json!({"config.yaml": CONFIG}));
    cluster.create(&maps("games"), config).await.object();
    let parameters = map("pillion-agent", json!({"pillion.dev/agent": "parameters"}), json!({}));
    cluster.create(&maps("games"), parameters).await.object();
    let refused = |change: fn(&mut Value)| {
        let mut marker = marker("refused");
        change(&mut marker["spec"]);
        marker
    };
    for (what, wrong) in [
        ("reserved", refused(|spec| spec["probes"][0]["podConditionType"] = json!("Ready"))),
        ("two probes", refused(|spec| spec["probes"][0]["probe"]["exec"] = json!({"command": ["true"]}))),
        ("no selector", refused(|spec| spec["selector"] = json!({}))),
        ("state", refused(|spec| spec["probes"][0]["markerPolicy"][0]["state"] = json!("idle"))),
    ] {
        assert_eq!(cluster.create(MARKERS, wrong).await.status.as_u16(), 422, "{what}");
    }
    cluster.create(MARKERS, marker("games")).await.object();
    settled().await;
    let path = "/api/v1/namespaces/games/pods/game-0";
    let pod = cluster.get(path).await;
    let annotations = &pod["metadata"]["annotations"];
    let probes: Value = serde_json::from_str(annotations["kruise.io/podprobe"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&probes[0]["name"], &annotations["kruise.io/podprobemarker-list"]),
        (&json!("games#idle"), &json!("games"))
    );
    let conditions = cluster.get(&format!("{}/pillion-agent", maps("games"))).await["data"]["conditions"].clone();
    assert_eq!(conditions, "game.io/idle,pillion.dev/Agent", "the policy lets the agent report it");
    let marker = format!("{MARKERS}/games");
    assert_eq!(cluster.get(&marker).await["status"]["matchedPods"], 1);
    let other = json!({"spec": {"selector": {"matchLabels": {"app": "game"}}}});
    assert_eq!(cluster.merge(&marker, other).await.status.as_u16(), 422, "a selector is immutable");

    for (status, cost, idle) in [("True", "-10", "succeeded"), ("False", "10", "failed")] {
        let condition = json!({"status": {"conditions": [{"type": "game.io/idle", "status": status}]}});
        cluster.merge(&format!("{path}/status"), condition).await.object();
        settled().await;
        let pod = cluster.get(path).await;
        let cost_is = &pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"];
        assert_eq!((cost_is, &pod["metadata"]["labels"]["idle"]), (&json!(cost), &json!(idle)));
    }
    // What nothing changes is not written again.
    let version = cluster.get(path).await["metadata"]["resourceVersion"].clone();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.get(path).await["metadata"]["resourceVersion"], version);

    cluster.request(Method::DELETE, &marker, "", None).await.object();
    settled().await;
    let pod = cluster.get(path).await;
    assert!(pod["metadata"]["annotations"]["kruise.io/podprobe"].is_null(), "{pod:#}");
    let conditions = cluster.get(&format!("{}/pillion-agent", maps("games"))).await["data"]["conditions"].clone();
    assert_eq!(conditions, "pillion.dev/Agent");
}

#[tokio::test(start_paused = true)]
async fn an_account_is_injected_once_its_owner_says_so() {
    let (cluster, _manager) = managed().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.create(accounts, json!({"metadata": {"name": "agent"}})).await.object();
    cluster.create(SIDECARSETS, sidecarset("agent", json!({"serviceAccount": {"name": "agent"}}))).await.object();
    settled().await;
    let reply = cluster.create(crate::PODS, pod("before")).await;
    assert!(reply.warnings[0].contains("pillion.dev/injectable"), "{:?}", reply.warnings);
    assert_eq!(reply.object()["spec"]["serviceAccountName"], "default");
    cluster
        .merge(&format!("{accounts}/agent"), json!({"metadata": {"annotations": {"pillion.dev/injectable": "true"}}}))
        .await
        .object();
    settled().await;
    let after = cluster.create(crate::PODS, pod("after")).await.object();
    assert_eq!(
        (&after["spec"]["serviceAccountName"], &after["spec"]["serviceAccount"]),
        (&json!("agent"), &json!("agent"))
    );
    cluster.merge(&format!("{accounts}/agent"), json!({"metadata": {"annotations": null}})).await.object();
    settled().await;
    assert_eq!(cluster.create(crate::PODS, pod("later")).await.object()["spec"]["serviceAccountName"], "default");
}
