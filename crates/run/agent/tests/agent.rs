//! The agent does what the proposal's configurations say, with real servers and real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::{Agent, Cluster, POD, Site, eventually, sha256};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The proposal's first configuration, with a server, a directory and delays of a test.
fn proposal(number: u32, site: &Site, files: &std::path::Path) -> String {
    let text = match number {
        1 => include_str!("../../../decide/assist/src/config/samples/proposal-1.yaml"),
        2 => include_str!("../../../decide/assist/src/config/samples/proposal-2.yaml"),
        3 => include_str!("../../../decide/assist/src/config/samples/proposal-3.yaml"),
        _ => include_str!("../../../decide/assist/src/config/samples/proposal-4.yaml"),
    };
    let text = text
        .replace("http://localhost:8080", &site.url("/state"))
        .replace("/app/downloads", &files.display().to_string())
        .replace("startDelaySeconds: 60", "startDelaySeconds: 0\n        probeIntervalSeconds: 1");
    format!("{text}\nlisten: 127.0.0.1:0\nallowedHosts: ['{}']\n", site.host())
}

async fn game_servers(cluster: &Cluster) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions =
        json!([{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let names =
        json!({"plural": "gameservers", "singular": "gameserver", "kind": "GameServer", "listKind": "GameServerList"});
    let spec = json!({"group": "game.kruise.io", "scope": "Namespaced", "names": names, "versions": versions});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gameservers.game.kruise.io"}, "spec": spec});
    cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let list = "/apis/game.kruise.io/v1alpha1/namespaces/default/gameservers";
    cluster
        .until("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gameservers.game.kruise.io", |object| {
            object["status"]["conditions"].as_array().is_some_and(|conditions| {
                conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
            })
        })
        .await;
    let server = json!({"apiVersion": "game.kruise.io/v1alpha1", "kind": "GameServer", "metadata": {"name": "web-0"}, "spec": {}});
    cluster.create(list, server).await;
}

const GAME_SERVER: &str = "/apis/game.kruise.io/v1alpha1/namespaces/default/gameservers/web-0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_configuration_probes_marks_and_updates() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    game_servers(&cluster).await;
    site.set("/state", 200, "idle\n");
    let folder = tempfile::tempdir().unwrap();
    let config = proposal(1, &site, &folder.path().join("files"));
    let agent = Agent::start_in(folder, &cluster, &config, "");
    cluster.annotation(COST, "-10").await;
    let pod = cluster.get(POD).await;
    assert_eq!(
        (&pod["metadata"]["labels"]["gameserver-idle"], &pod["metadata"]["annotations"]["http_probe"]),
        (&json!("true"), &json!("idle"))
    );
    cluster.until(GAME_SERVER, |server| server["spec"]["opsState"] == "idle").await;

    site.set("/state", 200, "allocated");
    cluster.annotation(COST, "10").await;
    site.set("/state", 500, "idle");
    cluster.annotation(COST, "5").await;
    cluster.annotation("http_probe", "unknown").await;
    // A state without a policy leaves no mark of another.
    site.set("/state", 200, "draining");
    let pod = cluster.until(POD, |pod| pod["metadata"]["annotations"]["http_probe"] == "draining").await;
    assert_eq!(
        (&pod["metadata"]["annotations"][COST], &pod["metadata"]["labels"]["gameserver-idle"]),
        (&Value::Null, &Value::Null)
    );
    cluster
        .until(POD, |pod| {
            pod["status"]["conditions"].as_array().is_some_and(|conditions| {
                conditions
                    .iter()
                    .any(|condition| condition["type"] == "pillion.dev/Agent" && condition["status"] == "True")
            })
        })
        .await;

    site.set("/app.conf", 200, "new");
    let (status, text) =
        agent.post(&format!("version=v1&url={}&sha256={}", site.url("/app.conf"), sha256(b"new"))).await;
    assert_eq!((status, text.as_str()), (200, "File downloaded and update successfully"));
    assert_eq!(std::fs::read_to_string(agent.files().join("app.conf")).unwrap(), "new");
    agent.hups_reach(1).await;
    cluster.annotation("sidecar.vke.volcengine.com/hot-update-result", "v1: Update success").await;
    let entry = cluster.entry(|entry| entry["version"] == "v1").await;
    assert_eq!((&entry["workload"], &entry["sha256"]), (&json!("web"), &json!(sha256(b"new"))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_while_nothing_changes() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    game_servers(&cluster).await;
    site.set("/state", 200, "idle");
    let folder = tempfile::tempdir().unwrap();
    let config = proposal(3, &site, &folder.path().join("files"));
    let _agent = Agent::start_in(folder, &cluster, &config, "");
    cluster.annotation(COST, "-10").await;
    cluster.until(GAME_SERVER, |server| server["spec"]["opsState"] == "idle").await;
    let looks = |site: &Site| site.seen.lock().unwrap().len();
    let before = looks(&site);
    eventually(async || (looks(&site) >= before + 4).then_some(())).await.expect("it looks again");
    let writes = cluster.writes.lock().unwrap().clone();
    let to = |path: &str| writes.iter().filter(|(target, _)| target == path).count();
    assert_eq!((to(&format!("PATCH {POD}")), to(&format!("PATCH {GAME_SERVER}"))), (1, 1), "{writes:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fourth_configuration_forbids_by_default_and_names_the_key() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/app.conf", 200, "new");
    let folder = tempfile::tempdir().unwrap();
    let config = proposal(4, &site, &folder.path().join("files")).replace("allowedHosts", "#");
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let (status, text) = agent.post(&format!("version=v1&url={}", site.url("/app.conf"))).await;
    assert_eq!(status, 403);
    assert!(text.contains("`allowedHosts`"), "{text}");
    assert_eq!(agent.post("version=1&url=http://a/b").await.0, 400);
    assert_eq!(agent.post("version=v1").await.0, 400);
    assert_eq!(agent.get("/hot-update").await.0, 405);

    agent.configure(&format!("{config}\nsecurity: permissive\n"));
    let status = agent.until(|status| status["problems"].to_string().contains("permissive")).await;
    assert!(status["problems"][0].as_str().unwrap().contains("everybody who reaches port 5000"), "{status}");
    let (status, text) = agent.post(&format!("version=v1&url={}", site.url("/app.conf"))).await;
    assert_eq!((status, text.as_str()), (200, "File downloaded and update successfully"));
    agent.hups_reach(1).await;
    cluster.annotation("sidecar.vke.volcengine.com/hot-update-result", "v1: Update success").await;
}

/// A plugin in another language, as docs/agent.md prints it.
const PLUGIN: &str = include_str!("../../../../examples/agent/plugins/players.py");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_configuration_runs_plugins_of_others_which_come_and_go() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    game_servers(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    for name in ["plugin-a", "plugin-b"] {
        let path = folder.path().join(name);
        std::fs::write(&path, PLUGIN).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::write(folder.path().join("players"), "3").unwrap();
    let players = format!("config:\n        file: {}", folder.path().join("players").display());
    let config = proposal(2, &site, &folder.path().join("files")).replace("config:", &players);
    let agent = Agent::start_in(folder, &cluster, &config, "");
    cluster.annotation("xxx", "3").await;
    cluster.until(GAME_SERVER, |server| server["spec"]["opsState"] == "3").await;
    let status = agent.until(|status| status["plugins"].as_array().is_some_and(|plugins| plugins.len() >= 2)).await;
    assert_eq!((&status["plugins"][0]["name"], &status["plugins"][0]["running"]), (&json!("plugin-a"), &json!(true)));

    // Removed at run time, with what it has written; the other goes on.
    let (_, second) = config.split_once("    - name: plugin-b").unwrap();
    agent.configure(&format!("plugins:\n    - name: plugin-b{second}"));
    cluster.until(POD, |pod| pod["metadata"]["annotations"]["xxx"].is_null()).await;
    std::fs::write(agent.folder.path().join("players"), "4").unwrap();
    cluster.until(GAME_SERVER, |server| server["spec"]["opsState"] == "4").await;
    // And added again.
    agent.configure(&config);
    cluster.annotation("xxx", "4").await;
    assert_eq!(agent.status().await["plugins"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_plugins_failure_is_its_own_and_a_wrong_configuration_changes_nothing() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/state", 200, "idle");
    let config = format!(
        "listen: 127.0.0.1:0\nrestartpolicy: OnFailure\nplugins:\n- name: broken\n  process: {{command: [/bin/false]}}\n- name: http_probe\n  config:\n    startDelaySeconds: 0\n    probeIntervalSeconds: 1\n    endpoints:\n    - url: {}\n      storageConfig: {{type: InKube, inKube: {{annotationKey: state}}}}\n",
        site.url("/state")
    );
    let agent = Agent::start(&cluster, &config);
    cluster.annotation("state", "idle").await;
    let status = agent.until(|status| status["plugins"][0]["health"] == "Waiting").await;
    assert_eq!((&status["plugins"][0]["name"], &status["plugins"][1]["health"]), (&json!("broken"), &json!("Running")));
    cluster
        .until(POD, |pod| {
            pod["status"]["conditions"].as_array().is_some_and(|conditions| {
                conditions.iter().any(|condition| {
                    condition["type"] == "pillion.dev/Agent" && condition["message"] == "broken: Waiting"
                })
            })
        })
        .await;

    agent.configure(&config.replace("OnFailure", "Sometimes"));
    let status =
        agent.until(|status| status["problems"][0].as_str().is_some_and(|problem| problem.contains("2:16"))).await;
    assert!(status["problems"][0].as_str().unwrap().contains("\"Sometimes\" is not one of"), "{status}");
    site.set("/state", 200, "busy");
    cluster.annotation("state", "busy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_probe_is_made() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let config = format!(
        "
listen: 127.0.0.1:0
plugins:
- name: http_probe
  config:
    startDelaySeconds: 0
    endpoints:
    - {{tcpSocket: {{port: {open}}}, storageConfig: {{type: InKube, inKube: {{annotationKey: tcp, conditionType: x/tcp}}}}}}
    - {{tcpSocket: {{port: {closed}}}, storageConfig: {{type: InKube, inKube: {{annotationKey: closed, conditionType: x/closed}}}}}}
    - {{exec: {{command: [echo, hello]}}, storageConfig: {{type: InKube, inKube: {{labelKey: exec}}}}}}
    - {{exec: {{command: [/nowhere/to/be/found]}}, storageConfig: {{type: InKube, inKube: {{conditionType: x/none}}}}}}
    - {{grpc: {{port: {open}}}, timeout: 1, storageConfig: {{type: InKube, inKube: {{annotationKey: grpc}}}}}}
    - {{url: '{url}', method: POST, jsonPathConfig: {{jsonPath: '{{.players}}'}}, storageConfig: {{type: HTTPMetric, httpMetric: {{metricName: players}}}}}}
",
        open = site.port,
        url = site.url("/json"),
    );
    // Longer than what is kept of other answers.
    site.set("/json", 200, format!(r#"{{"padding": "{}", "players": 7}}"#, "x".repeat(20 << 10)));
    let agent = Agent::start(&cluster, &config);
    for (key, value) in [("tcp", "Succeeded"), ("closed", "unknown"), ("grpc", "unknown")] {
        cluster.annotation(key, value).await;
    }
    let pod = cluster.until(POD, |pod| pod["metadata"]["labels"]["exec"] == "hello").await;
    assert!(pod["metadata"]["labels"]["exec"] == "hello");
    let status = |pod: &Value, name: &str| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().find(|condition| condition["type"] == name).map(|condition| condition["status"].clone())
    };
    cluster
        .until(POD, |pod| {
            status(pod, "x/tcp") == Some(json!("True"))
                && status(pod, "x/closed") == Some(json!("False"))
                && status(pod, "x/none") == Some(json!("Unknown"))
        })
        .await;
    let metric = eventually(async || agent.get("/metrics").await.1.contains("players 7").then_some(())).await;
    metric.expect("the metric is there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_of_a_pod_probe_marker_are_made_as_the_node_would() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/idle", 200, "");
    let folder = tempfile::tempdir().unwrap();
    let probe = json!([
        {"name": "ppm#idle", "containerName": "main", "podConditionType": "game.io/idle",
         "probe": {"httpGet": {"path": "/idle", "port": site.port, "scheme": "HTTP"}, "periodSeconds": 1}},
        {"name": "ppm#sh", "containerName": "main", "podConditionType": "game.io/sh", "probe": {"exec": {"command": ["/idle.sh"]}}},
    ]);
    let line = |value: &Value| format!("a=\"b\"\nkruise.io/podprobe={}\n", json!(value.to_string()));
    std::fs::write(folder.path().join("annotations"), line(&probe)).unwrap();
    let agent = Agent::start_in(folder, &cluster, "plugins: []\nlisten: 127.0.0.1:0\n", "");
    let condition = |pod: &Value, name: &str| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == name).unwrap_or_default()
    };
    cluster.until(POD, |pod| condition(pod, "game.io/idle")["status"] == "True").await;
    let pod = cluster.until(POD, |pod| condition(pod, "game.io/sh")["status"] == "Unknown").await;
    assert!(condition(&pod, "game.io/sh")["message"].as_str().unwrap().contains("cannot be run from inside the pod"));
    // The kubelet writes the file for every annotation of the pod; the probes go on.
    let other = line(&probe).replace("a=\"b\"", "a=\"c\"");
    std::fs::write(agent.folder.path().join("annotations"), other).unwrap();
    site.set("/idle", 404, "");
    cluster.until(POD, |pod| condition(pod, "game.io/idle")["status"] == "False").await;
    site.set("/idle", 200, "");
    cluster.until(POD, |pod| condition(pod, "game.io/idle")["status"] == "True").await;
    // The kubelet changes the file when the annotation changes.
    std::fs::write(agent.folder.path().join("annotations"), "a=\"b\"\n").unwrap();
    cluster.until(POD, |pod| condition(pod, "game.io/idle")["reason"] == "PluginRemoved").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_come_by_config_map_and_dropped_file_and_by_every_reload() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/app.conf", 200, "one");
    site.set("/reload", 200, "");
    let folder = tempfile::tempdir().unwrap();
    let drop_dir = folder.path().join("drop");
    std::fs::create_dir(&drop_dir).unwrap();
    let config = |reload: &str| {
        format!(
            "listen: 127.0.0.1:0\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config:\n    fileDir: {}\n    dropDir: {}\n    configMap: update\n    storageConfig: {{type: InKube, inKube: {{annotationKey: result}}}}\n{reload}",
            site.host(),
            folder.path().join("files").display(),
            drop_dir.display()
        )
    };
    let request = config(&format!(
        "    loadPatchType: request\n    request: {{address: 127.0.0.1, port: {}, path: reload}}\n",
        site.port
    ));
    let command = config(&format!(
        "    loadPatchType: command\n    command: [touch, '{}']\n",
        folder.path().join("touched").display()
    ));
    // The ConfigMap still asks for an older version: with both, the last one that is read wins.
    let command = command.replace("    configMap: update\n", "");
    let agent = Agent::start_in(folder, &cluster, &request, "");
    let trigger = |version: &str, content: &[u8]| json!({"version": version, "url": site.url("/app.conf"), "sha256": sha256(content)});
    let data = trigger("v1", b"one");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "update"}, "data": data});
    cluster.create("/api/v1/namespaces/default/configmaps", map).await;
    cluster.annotation("result", "v1: Update success").await;
    assert!(site.seen.lock().unwrap().iter().any(|path| path == "/reload"));

    site.set("/app.conf", 200, "two");
    cluster.merge("/api/v1/namespaces/default/configmaps/update", json!({"data": trigger("v2", b"two")})).await;
    cluster.annotation("result", "v2: Update success").await;

    agent.configure(&command);
    let in_use = || agent.log.lock().unwrap().matches("the configuration is in use").count();
    eventually(async || (in_use() >= 2).then_some(())).await.expect("the new configuration is in use");
    site.set("/app.conf", 200, "three");
    std::fs::write(drop_dir.join(".x"), trigger("v3", b"three").to_string()).unwrap();
    std::fs::rename(drop_dir.join(".x"), drop_dir.join("x.json")).unwrap();
    cluster.annotation("result", "v3: Update success").await;
    assert_eq!(std::fs::read_to_string(agent.files().join("app.conf")).unwrap(), "three");
    eventually(async || drop_dir.join("x.result").exists().then_some(())).await.expect("a result is written");
    assert!(agent.folder.path().join("touched").exists() && !drop_dir.join("x.json").exists());

    // After a restart the ConfigMap asks for nothing new, and the dropped file, which came later, stays.
    let folder = agent.into_folder();
    let agent = Agent::start_in(folder, &cluster, &request, "");
    agent
        .until(|status| {
            status["plugins"].as_array().is_some_and(|plugins| plugins.iter().any(|it| it["health"] == "Running"))
        })
        .await;
    site.set("/app.conf", 200, "four");
    cluster.merge("/api/v1/namespaces/default/configmaps/update", json!({"data": trigger("v4", b"four")})).await;
    cluster.annotation("result", "v4: Update success").await;
    let log = agent.log.lock().unwrap().clone();
    assert!(!log.contains("v2"), "the ConfigMap was followed a second time: {log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_config_map_asks_for_is_followed_once_the_configuration_allows_it() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/app.conf", 200, "one");
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "listen: 127.0.0.1:0\nplugins:\n- name: hot_update\n  config:\n    fileDir: {}\n    configMap: update\n    loadPatchType: none\n    storageConfig: {{type: InKube, inKube: {{annotationKey: result}}}}\n",
        folder.path().join("files").display()
    );
    let data = json!({"version": "v1", "url": site.url("/app.conf"), "sha256": sha256(b"one")});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "update"}, "data": data});
    cluster.create("/api/v1/namespaces/default/configmaps", map).await;
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let is_refused = || agent.log.lock().unwrap().contains("`allowedHosts`");
    eventually(async || is_refused().then_some(())).await.expect("it is refused");
    agent.configure(&format!("allowedHosts: ['{}']\n{config}", site.host()));
    cluster.annotation("result", "v1: Update success").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_pod_gets_what_its_workload_runs_and_a_rollback_stays() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    let entry = |workload: &str, version: &str, content: &[u8], second: u32| {
        json!({
            "workload": workload, "version": version, "url": site.url(&format!("/{version}")), "file": "app.conf",
            "sha256": sha256(content), "size": content.len(), "result": "", "time": format!("2026-01-01T00:00:{second:02}Z"),
        })
        .to_string()
    };
    for version in ["v1", "v2", "v9"] {
        site.set(&format!("/{version}"), 200, version);
    }
    // v1 was applied after v2; another workload has v9; somebody has written nonsense.
    let data = json!({
        "web-1": entry("web", "v2", b"v2", 1), "web-2": entry("web", "v1", b"v1", 2), "db-0": entry("db", "v9", b"v9", 3),
        "web-3": "nonsense", "web-4": entry("web", "v3", b"v3", 9).replace("app.conf", "../../evil"),
        "web-5": entry("web", "v4", b"v4", 1).replace(&site.host(), "evil.example.com:80"),
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sidecar-result"}, "data": data});
    cluster.create("/api/v1/namespaces/default/configmaps", map).await;
    let folder = tempfile::tempdir().unwrap();
    let config = proposal(4, &site, &folder.path().join("files"));
    let agent = Agent::start_in(folder, &cluster, &config, "");
    cluster.entry(|entry| entry["version"] == "v1").await;
    assert_eq!(std::fs::read_to_string(agent.files().join("app.conf")).unwrap(), "v1");
    // A restart of the container finds its files, and fetches nothing.
    let seen = site.seen.lock().unwrap().len();
    let agent = Agent::start_in(agent.into_folder(), &cluster, &config, "");
    agent.until(|status| status["plugins"][0]["message"] == "v1: Update success").await;
    assert_eq!(site.seen.lock().unwrap().len(), seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_fetched_does_not_keep_other_updates_away() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    // As with a presigned URL: the entry has no query, and the ConfigMap has all of it.
    site.set("/signed", 403, "");
    site.set("/good", 200, "new");
    let entry = json!({
        "workload": "web", "version": "v1", "url": site.url("/signed"), "file": "app.conf", "sha256": sha256(b"new"), "size": 3,
        "result": "", "time": "2026-01-01T00:00:00Z",
    });
    let map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let maps = "/api/v1/namespaces/default/configmaps";
    cluster.create(maps, map("sidecar-result", json!({"web-1": entry.to_string()}))).await;
    let folder = tempfile::tempdir().unwrap();
    let config = proposal(4, &site, &folder.path().join("files"))
        .replace("        loadPatchType", "        configMap: update\n        loadPatchType");
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let failed = || agent.log.lock().unwrap().contains("Failed to download the file");
    eventually(async || failed().then_some(())).await.expect("the entry is tried");
    let update = json!({"version": "v1", "url": site.url("/good"), "file": "app.conf", "sha256": sha256(b"new")});
    cluster.create(maps, map("update", update)).await;
    cluster.entry(|entry| entry["version"] == "v1").await;
    assert_eq!(std::fs::read_to_string(agent.files().join("app.conf")).unwrap(), "new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_pod_waits_for_no_main_process() {
    for reload in ["signal", "request"] {
        let (cluster, site) = (Cluster::start().await, Site::start().await);
        let entry = json!({
            "workload": "web", "version": "v1", "url": site.url("/v1"), "file": "app.conf", "sha256": sha256(b"one"), "size": 3,
            "result": "", "time": "2026-01-01T00:00:00Z",
        });
        site.set("/v1", 200, "one");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sidecar-result"}, "data": {"web-1": entry.to_string()}});
        cluster.create("/api/v1/namespaces/default/configmaps", map).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("alone"), "").unwrap();
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let config = proposal(4, &site, &folder.path().join("files")).replace(
            "        loadPatchType: signal",
            &format!("        reloadTimeoutSeconds: 1\n        request: {{address: 127.0.0.1, port: {closed}, path: /}}\n        loadPatchType: {reload}"),
        );
        let agent = Agent::start_in(folder, &cluster, &config, "");
        cluster.entry(|entry| entry["result"] == "v1: Update success").await;
        assert_eq!(std::fs::read_to_string(agent.files().join("app.conf")).unwrap(), "one", "{reload}");
        let status = agent.status().await;
        assert_eq!(
            (&status["plugins"][0]["health"], &status["plugins"][0]["restarts"]),
            (&json!("Running"), &json!(0)),
            "{reload}"
        );
        // An update that somebody asks for is one that somebody wants to know of.
        let form = format!("version=v2&url={}&file=app.conf&sha256={}", site.url("/v1"), sha256(b"one"));
        assert_eq!(agent.post(&form).await.0, 500, "{reload}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_comes_late_and_an_address_that_is_taken_are_waited_for() {
    let cluster = Cluster::start().await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = format!("listen: 127.0.0.1:{port}\ntokenSecretRef: {{name: agent, key: token}}\nplugins: []\n");
    let mut agent = Agent::spawn(tempfile::tempdir().unwrap(), &cluster, &config, "");
    agent.port = port;
    let condition = |pod: &Value, reason: &str| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "pillion.dev/Agent" && condition["reason"] == reason)
    };
    cluster.until(POD, |pod| condition(pod, "NotListening")).await;
    drop(taken);
    cluster.until(POD, |pod| condition(pod, "PluginsRunning")).await;
    let status = async |token: &str| agent.request("GET", "/status", "", "", Some(token)).await.0;
    assert_eq!(status("s3cret").await, 401, "the Secret is not there yet");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "agent"}, "stringData": {"token": "s3cret"}});
    cluster.create("/api/v1/namespaces/default/secrets", secret).await;
    eventually(async || (status("s3cret").await == 200).then_some(())).await.expect("the Secret is read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_work_is_rolled_back() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/v1", 200, "good");
    site.set("/v2", 200, "bad");
    site.set("/health", 200, "");
    let folder = tempfile::tempdir().unwrap();
    let config = proposal(4, &site, &folder.path().join("files")).replace(
        "        loadPatchType: signal",
        &format!("        verify: {{url: '{}', withinSeconds: 1}}\n        loadPatchType: signal", site.url("/health")),
    );
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let form = |version: &str, content: &[u8]| {
        format!("version={version}&url={}&file=app.conf&sha256={}", site.url(&format!("/{version}")), sha256(content))
    };
    assert_eq!(agent.post(&form("v1", b"good")).await.0, 200);
    agent.hups_reach(1).await;
    site.set("/health", 500, "");
    let (status, text) = agent.post(&form("v2", b"bad")).await;
    assert_eq!(status, 500);
    assert!(text.contains("the old file is in place"), "{text}");
    assert_eq!(std::fs::read_to_string(agent.files().join("app.conf")).unwrap(), "good");
    let entry =
        cluster.entry(|entry| entry["result"].as_str().is_some_and(|result| result.starts_with("v2: Failed"))).await;
    assert_eq!(entry["version"], "v1");
    // It is asked again for what is back.
    agent.rereads(1, "good").await;
    // A neighbour that is gone cannot be asked: nothing is lost.
    site.set("/health", 200, "");
    let gone = config
        .replace("nginx: master process nginx", "no such process")
        .replace("loadPatchType", "reloadTimeoutSeconds: 1\n        loadPatchType");
    agent.configure(&gone);
    agent.until(|status| status["plugins"][0]["health"] == "Running" && status["plugins"][0]["message"] != "").await;
    // An update to what is in place succeeds until the new configuration is in use. Either way the file stays.
    let is_in_use = async || (agent.post(&form("v1", b"good")).await.0 == 500).then_some(());
    eventually(is_in_use).await.expect("the new configuration is in use");
    let answer = agent.post(&form("v2", b"bad")).await;
    assert!(answer.1.contains("no process of this pod"), "{answer:?}");
    assert_eq!(std::fs::read_to_string(agent.files().join("app.conf")).unwrap(), "good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_that_failed_is_a_failure_wherever_it_is_stored() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/v1", 200, "good");
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "listen: 127.0.0.1:0\nrequireChecksum: false\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config:\n    fileDir: {}\n    loadPatchType: none\n    storageConfig:\n      type: InKube\n      inKube:\n        annotationKey: result\n        labelKey: update\n        conditionType: game.io/updated\n        markerPolicies:\n        - {{state: Succeeded, annotations: {{updated: 'yes'}}}}\n        - {{state: Failed, annotations: {{updated: 'no'}}}}\n",
        site.host(),
        folder.path().join("files").display()
    );
    let is_stored = async |status: &str, updated: &str, label: &str| {
        cluster
            .until(POD, |pod| {
                let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let mut found = conditions.iter().filter(|condition| condition["type"] == "game.io/updated");
                found.any(|condition| condition["status"] == status)
                    && pod["metadata"]["annotations"]["updated"] == updated
                    && pod["metadata"]["labels"]["update"] == label
            })
            .await
    };
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let form = |version: &str| format!("version={version}&url={}&file=app.conf", site.url(&format!("/{version}")));
    assert_eq!(agent.post(&form("v1")).await.0, 200);
    is_stored("True", "yes", "v1-succeeded").await;
    assert_eq!(agent.post(&form("v2")).await.0, 500);
    let pod = is_stored("False", "no", "v2-failed").await;
    let sentence = pod["metadata"]["annotations"]["result"].as_str().unwrap();
    assert!(sentence.starts_with("v2: Failed to download the file") && sentence.contains("404"), "{sentence}");
    // Another agent in the same pod knows it as well.
    let folder = agent.into_folder();
    cluster.merge(POD, json!({"metadata": {"annotations": {"updated": null}, "labels": {"update": null}}})).await;
    let agent = Agent::start_in(folder, &cluster, &config, "");
    is_stored("False", "no", "v2-failed").await;
    assert_eq!(agent.post(&form("v1")).await.0, 200);
    is_stored("True", "yes", "v1-succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_no_volume_is_mounted_at_is_an_error() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/app.conf", 200, "new");
    let missing = "/pillion-agent-of-a-test/downloads";
    let config = format!(
        "listen: 127.0.0.1:0\nrequireChecksum: false\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config: {{fileDir: {missing}, loadPatchType: none}}\n",
        site.host()
    );
    let agent = Agent::start(&cluster, &config);
    let (status, text) = agent.post(&format!("version=v1&url={}", site.url("/app.conf"))).await;
    assert!(status == 500 && text.contains(missing) && text.contains("no volume is mounted there"), "{text}");
    assert!(!std::path::Path::new(missing).exists());
    let failing =
        |condition: &Value| condition["type"] == "pillion.dev/Agent" && condition["reason"] == "PluginsFailing";
    cluster
        .until(POD, |pod| {
            pod["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(failing))
        })
        .await;
    agent.until(|status| status["plugins"][0]["message"].to_string().contains("no volume is mounted there")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_is_read_from_a_config_map_of_another_namespace_and_followed() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/state", 200, "idle");
    let config = |key: &str| {
        format!(
            "listen: 127.0.0.1:0\nplugins:\n- name: http_probe\n  config:\n    startDelaySeconds: 0\n    probeIntervalSeconds: 1\n    endpoints:\n    - url: {}\n      storageConfig: {{type: InKube, inKube: {{annotationKey: {key}}}}}\n",
            site.url("/state")
        )
    };
    let maps = "/api/v1/namespaces/kube-system/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sidecar-config"}, "data": {"config.yaml": config("one")}});
    cluster.create(maps, map).await;
    let source = ["--config-map".to_owned(), "kube-system/sidecar-config".to_owned()];
    let _agent = Agent::spawn_with(tempfile::tempdir().unwrap(), &cluster, "", "", &source);
    cluster.annotation("one", "idle").await;
    cluster.merge(&format!("{maps}/sidecar-config"), json!({"data": {"config.yaml": config("two")}})).await;
    cluster.annotation("two", "idle").await;
    cluster.until(POD, |pod| pod["metadata"]["annotations"]["one"].is_null()).await;
    // A wrong one changes nothing.
    cluster.merge(&format!("{maps}/sidecar-config"), json!({"data": {"config.yaml": "plugins: 1"}})).await;
    site.set("/state", 200, "busy");
    cluster.annotation("two", "busy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_is_reached_over_a_unix_socket() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("plugin.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let config = format!(
        "listen: 127.0.0.1:0\nplugins:\n- name: players\n  process: {{socket: {}}}\n  config:\n    room: 7\n    storageConfig: {{type: InKube, inKube: {{annotationKey: players}}}}\n",
        socket.display()
    );
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let (stream, _) = listener.accept().await.unwrap();
    let (input, mut output) = stream.into_split();
    let mut lines = BufReader::new(input).lines();
    let mut next = async || -> Value { serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap() };
    let init = next().await;
    assert_eq!((&init["type"], &init["protocol"], &init["config"]["room"]), (&json!("init"), &json!(1), &json!(7)));
    assert_eq!(init["pod"], json!({"namespace": "default", "name": "web-0"}));
    output.write_all(b"{\"type\": \"hello\", \"version\": \"v1.2.3\"}\n").await.unwrap();
    assert_eq!(next().await["type"], "start");
    output.write_all(b"{\"type\": \"store\", \"data\": \"5\"}\n").await.unwrap();
    cluster.annotation("players", "5").await;
    agent.configure("listen: 127.0.0.1:0\nplugins: []\n");
    assert_eq!(next().await["type"], "stop");
    drop(output);
    cluster.until(POD, |pod| pod["metadata"]["annotations"]["players"].is_null()).await;
}

/// A registry with one artifact, as the OCI distribution specification has it.
fn registry(site: &Site, repository: &str, tag: &str, content: &[u8]) -> String {
    let digest = sha256(content);
    let layer = json!({"mediaType": "text/plain", "digest": format!("sha256:{digest}"), "size": content.len()});
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": media, "artifactType": "example/config", "layers": [layer]})
        .to_string();
    let manifest_digest = format!("sha256:{}", sha256(manifest.as_bytes()));
    for reference in [tag, &manifest_digest] {
        site.set_with(&format!("/v2/{repository}/manifests/{reference}"), 200, &manifest, &[("content-type", media)]);
    }
    site.set(&format!("/v2/{repository}/blobs/sha256:{digest}"), 200, content);
    manifest_digest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_are_fetched_from_registries_and_by_presigned_urls() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let config = format!(
        "listen: 127.0.0.1:0\nrequireChecksum: false\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config:\n    fileDir: {}\n    loadPatchType: none\n    storageConfig: {{type: InKube, inKube: {{annotationKey: result}}}}\n",
        site.host(),
        files.display()
    );
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let digest = registry(&site, "games/level", "v1", b"one");
    let oci = |reference: &str| format!("oci://{}/games/level{reference}", site.host());
    let read = |name: &str| std::fs::read_to_string(files.join(name)).unwrap();
    let (status, text) = agent.post(&format!("version=v1&url={}", oci(":v1"))).await;
    assert_eq!((status, read("level").as_str()), (200, "one"), "{text}");
    let (status, text) = agent.post(&format!("version=v2&file=level-2&url={}", oci(&format!("@{digest}")))).await;
    assert_eq!((status, read("level-2").as_str()), (200, "one"), "{text}");
    // A registry that lies: about the layer, and about the manifest.
    site.set(&format!("/v2/games/level/blobs/sha256:{}", sha256(b"one")), 200, "evil");
    let (status, text) = agent.post(&format!("version=v3&url={}", oci(":v1"))).await;
    assert!(status == 500 && text.contains("SHA-256"), "{text}");
    site.set(&format!("/v2/games/level/manifests/{digest}"), 200, "{\"layers\": []}");
    let (status, text) = agent.post(&format!("version=v3&url={}", oci(&format!("@{digest}")))).await;
    assert!(status == 500 && text.contains("manifest"), "{text}");
    let (status, text) = agent.post(&format!("version=v3&url={}", oci(":none"))).await;
    assert!(status == 500 && text.contains("404"), "{text}");
    assert_eq!(read("level"), "one");

    // A presigned URL works with its query alone, and nobody else gets to see that.
    site.set("/bucket/app.conf", 200, "presigned");
    let query = "X-Amz-Signature=abc%2Fdef&X-Amz-Expires=60";
    let url = format!("{}?{query}", site.url("/bucket/app.conf"));
    let body = json!({"version": "v4", "url": url}).to_string();
    let (status, text) = agent.request("POST", "/hot-update", "application/json", &body, None).await;
    assert_eq!((status, read("app.conf").as_str()), (200, "presigned"), "{text}");
    assert!(site.queries.lock().unwrap().iter().any(|seen| seen == query), "{:?}", site.queries.lock().unwrap());
    let entry = cluster.entry(|entry| entry["version"] == "v4").await;
    assert_eq!(entry["url"], site.url("/bucket/app.conf"));
    assert!(!agent.log.lock().unwrap().contains("Signature"));
}
