//! Marked sidecars: what admission makes of them, and pods that the manager ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::Method;
use jiff::Timestamp;
use pillion_admission::{Offline, Snapshot};
use pillion_gates::Gates;
use pillion_lifecycle::marks::Means;
use pillion_manager::{Config, Manager};
use pillion_note::Draw;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, sidecarset};

const POD: &str = "/api/v1/namespaces/default/pods/job";
const STATUS: &str = "/api/v1/namespaces/default/pods/job/status";

/// A cluster whose manager honours marks, and runs if `runs`.
async fn marking(runs: bool) -> (Cluster, Manager) {
    let cluster = Cluster::new().await;
    let manager = cluster.manage(Config { gates: on(), ..cluster.config() }).await;
    if runs {
        run(&manager);
    }
    (cluster, manager)
}

fn on() -> Gates {
    Gates::default().with(&"SidecarField=true".parse().unwrap())
}

fn run(manager: &Manager) {
    let manager = manager.clone();
    tokio::spawn(async move { manager.run().await });
}

fn job(annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job", "labels": {"app": "web"}, "annotations": annotations}, "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "main:1"}, {"name": "side", "image": "side:1"}],
    }})
}

fn status(name: &str, state: Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

/// What a kubelet writes when main has ended and the sidecar runs.
fn main_has_ended(code: i32) -> Value {
    let ended = json!({"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:10Z"}});
    let runs = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    json!({"status": {"phase": "Running", "containerStatuses": [status("main", ended), status("side", runs)]}})
}

async fn phase(cluster: &Cluster) -> Value {
    cluster.get(POD).await["status"]["phase"].clone()
}

#[tokio::test(start_paused = true)]
async fn marks_of_the_pod_and_of_sidecarsets_make_native_sidecars() {
    let (cluster, _manager) = marking(false).await;
    let agent = json!({"name": "agent", "image": "agent:1", "sidecar": true, "failPodOnSidecarError": true});
    cluster.create(SIDECARSETS, sidecarset("agent", json!({"containers": [agent]}))).await.object();
    let reply = cluster.create(PODS, job(json!({"pillion.dev/sidecars": "side"}))).await;
    assert_eq!(reply.warnings, Vec::<String>::new());
    let pod = reply.object();
    let names = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().unwrap().iter();
        containers.map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names("initContainers"), names("containers")),
        (vec!["agent".into(), "side".into()], vec!["main".into()])
    );
    let record = pod["metadata"]["annotations"]["pillion.dev/sidecar-record"].as_str().unwrap();
    assert_eq!(record, r#"{"method":"Native","sidecars":["agent","side"],"failPod":["agent"]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_sidecars_alone_is_refused() {
    let (cluster, _manager) = marking(false).await;
    let reply = cluster.create(PODS, job(json!({"pillion.dev/sidecars": "main,side"}))).await;
    assert!(
        reply.body["message"].as_str().unwrap().contains("spec.containers: every container is marked as a sidecar")
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_pods_would_be_refused_for_their_marks_is_refused_itself() {
    let (cluster, _manager) = marking(false).await;
    let template = |annotations: Value| {
        let pod = job(annotations);
        json!({"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]})
    };
    let job = |name: &str, annotations: Value| {
        let spec = json!({"template": template(annotations)});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
    };
    let all = json!({"pillion.dev/sidecars": "main,side"});
    let message = async |path: &str, object: Value| cluster.create(path, object).await.body["message"].clone();
    let refused = message("/apis/batch/v1/namespaces/default/jobs", job("all", all.clone())).await;
    let refused = refused.as_str().unwrap();
    assert!(refused.contains("jobs.pillion.dev"), "{refused}");
    assert!(refused.contains("spec.template.spec.containers: every container is marked as a sidecar"), "{refused}");
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "all"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template(all)}}},
    });
    let refused = message("/apis/batch/v1/namespaces/default/cronjobs", cron_job).await;
    assert!(refused.as_str().unwrap().contains("spec.jobTemplate.spec.template.spec.containers: "), "{refused}");
    for annotations in [json!({"pillion.dev/sidecars": "side"}), json!({})] {
        let name = format!("job-{}", annotations.as_object().unwrap().len());
        cluster.create("/apis/batch/v1/namespaces/default/jobs", job(&name, annotations)).await.object();
    }
}

#[tokio::test(start_paused = true)]
async fn the_phase_is_written_with_an_annotation_until_it_holds() {
    let (cluster, _manager) = marking(true).await;
    cluster
        .create(PODS, job(json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Strict"})))
        .await
        .object();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(phase(&cluster).await, "Pending");
    cluster.merge(STATUS, main_has_ended(0)).await.object();
    sleep(Duration::from_secs(1)).await;
    let pod = cluster.get(POD).await;
    assert_eq!(pod["status"]["phase"], "Succeeded");
    let first = pod["metadata"]["annotations"]["pillion.dev/work-done"].clone();
    assert!(first.is_string());
    // A kubelet that has not looked takes it back.
    cluster.merge(STATUS, json!({"status": {"phase": "Running"}})).await.object();
    sleep(Duration::from_secs(5)).await;
    let pod = cluster.get(POD).await;
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert_ne!(pod["metadata"]["annotations"]["pillion.dev/work-done"], first);
    let version = pod["metadata"]["resourceVersion"].clone();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.get(POD).await["metadata"]["resourceVersion"], version, "what holds is not written again");
}

#[tokio::test(start_paused = true)]
async fn a_phase_whose_write_hangs_delays_no_other_and_is_written_later() {
    let cluster = Cluster::new().await;
    let client = cluster.client_that_hangs(Method::PATCH, STATUS);
    let manager = cluster.manage(Config { client, gates: on(), ..cluster.config() }).await;
    run(&manager);
    let others: Vec<String> = (0..40).map(|i| format!("other-{i:02}")).collect();
    let names = std::iter::once("job").chain(others.iter().map(String::as_str));
    for name in names.clone() {
        let mut pod = job(json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Strict"}));
        pod["metadata"]["name"] = json!(name);
        cluster.create(PODS, pod).await.object();
        cluster.merge(&format!("{PODS}/{name}/status"), main_has_ended(0)).await.object();
    }
    sleep(Duration::from_secs(2)).await;
    assert_eq!(phase(&cluster).await, "Running");
    for name in &others {
        assert_eq!(cluster.get(&format!("{PODS}/{name}")).await["status"]["phase"], "Succeeded", "{name}");
    }
    sleep(Duration::from_secs(30)).await;
    assert_eq!(phase(&cluster).await, "Succeeded");
    let (_, metrics) = crate::asked(&manager, "/metrics").await;
    for line in [
        r#"pillion_workqueue_depth{controller="lifecycle"} 0"#,
        r#"pillion_reconcile_errors_total{controller="lifecycle"} 1"#,
        r#"pillion_workqueue_retries_total{controller="lifecycle"} 1"#,
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_failed_in_the_second_in_which_the_work_was_done_fails_the_pod_and_is_the_reason() {
    let (cluster, _manager) = marking(true).await;
    let strict = json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Strict"});
    cluster.create(PODS, job(strict)).await.object();
    let mut both_have_ended = main_has_ended(0);
    both_have_ended["status"]["containerStatuses"][1]["state"] =
        json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:10Z"}});
    cluster.merge(STATUS, both_have_ended).await.object();
    sleep(Duration::from_secs(3)).await;
    let is_failed = async || {
        let pod = cluster.get(POD).await;
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        let reason = conditions.iter().find(|it| it["type"] == "SidecarTerminated").unwrap()["reason"].clone();
        assert_eq!((&pod["status"]["phase"], &reason), (&json!("Failed"), &json!("SidecarFailed")));
    };
    is_failed().await;
    // A kubelet that has not looked takes the phase back.
    cluster.merge(STATUS, json!({"status": {"phase": "Running"}})).await.object();
    sleep(Duration::from_secs(5)).await;
    is_failed().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_work_was_done_while_the_manager_was_down_is_ended_when_it_is_back() {
    let (cluster, manager) = marking(false).await;
    // Kruise's variable needs no webhook.
    let mut pod = job(json!({}));
    pod["spec"]["containers"][1]["env"] = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
    cluster.create(PODS, pod).await.object();
    cluster.merge(STATUS, main_has_ended(1)).await.object();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(phase(&cluster).await, "Running");
    run(&manager);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(phase(&cluster).await, "Failed");
}

#[tokio::test(start_paused = true)]
async fn where_the_api_server_has_the_field_pods_are_left_to_the_node() {
    let cluster = Cluster::with_gates(on()).await;
    let manager = cluster.manage(Config { gates: on(), ..cluster.config() }).await;
    run(&manager);
    let mut by_field = job(json!({}));
    by_field["spec"]["containers"][1]["sidecar"] = json!(true);
    let by_annotation = job(json!({"pillion.dev/sidecars": "side"}));
    for (way, pod) in [("field", by_field), ("annotation", by_annotation)] {
        let pod = cluster.create(PODS, pod).await.object();
        assert_eq!(pod["spec"]["containers"][1]["sidecar"], true, "{way}");
        assert!(pod["spec"].get("initContainers").is_none(), "{way}");
        assert!(pod["metadata"]["annotations"].get("pillion.dev/sidecar-record").is_none(), "{way}");
        cluster.merge(STATUS, main_has_ended(0)).await.object();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(phase(&cluster).await, "Running", "{way}: the node has to end it");
        cluster.request(Method::DELETE, POD, "", Some(json!({"gracePeriodSeconds": 0}))).await.object();
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_whose_gate_was_switched_off_leaves_the_pods_that_it_has_admitted_alone() {
    let (cluster, _manager) = marking(false).await;
    let strict = json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Strict"});
    cluster.create(PODS, job(strict.clone())).await.object();
    cluster.merge(STATUS, main_has_ended(0)).await.object();
    let off = cluster.manage(cluster.config()).await;
    run(&off);
    sleep(Duration::from_mins(10)).await;
    assert_eq!(phase(&cluster).await, "Running");
    // A new pod is not changed, and whoever creates it is warned.
    let mut other = job(strict);
    other["metadata"]["name"] = json!("other");
    let reply = cluster.create(PODS, other).await;
    assert!(reply.warnings[0].contains("has no effect: the feature gate SidecarField is off"), "{:?}", reply.warnings);
    assert!(reply.object()["metadata"]["annotations"].get("pillion.dev/sidecar-record").is_none());
    off.stop();
    sleep(Duration::from_mins(1)).await;
    run(&cluster.manage(Config { gates: on(), ..cluster.config() }).await);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(phase(&cluster).await, "Succeeded");
}

/// What `pillion inject` makes of a manifest is what the webhook makes of the pod.
#[tokio::test(start_paused = true)]
async fn a_manifest_that_was_rewritten_offline_is_what_the_webhook_would_have_made() {
    let wrap_image = Some("pillion:1".to_owned());
    let cluster = Cluster::new().await;
    let _manager = cluster.manage(Config { gates: on(), wrap_image: wrap_image.clone(), ..cluster.config() }).await;
    let snapshot = Snapshot { sidecar_means: Means { field: false, wrap_image }, ..Snapshot::default() };
    let offline = Offline {
        snapshot,
        limit_ranges: BTreeMap::new(),
        excluded_namespaces: BTreeSet::new(),
        gates: on(),
        draw: Draw::default(),
        namespace: "default".to_owned(),
    };
    let marks = |mode: &str| json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": mode});
    let mut with_commands = job(marks("Strict"));
    for i in 0..2 {
        with_commands["spec"]["containers"][i]["command"] = json!(["/run"]);
    }
    let mut kruise = job(json!({}));
    kruise["spec"]["containers"][1]["env"] =
        json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
    for (way, mut pod) in [
        ("Native", job(marks("Native"))),
        ("wrapped", with_commands),
        ("by phase", job(marks("Strict"))),
        ("Kruise", kruise),
    ] {
        // The name of the volume with the token is another one for each pod.
        pod["spec"]["automountServiceAccountToken"] = json!(false);
        let mut rewritten = offline.inject(&pod, Timestamp::UNIX_EPOCH).unwrap().unwrap().object;
        assert_ne!(rewritten, pod, "{way}");
        rewritten["metadata"]["name"] = json!("rewritten");
        let stored = cluster.create(PODS, rewritten).await.object();
        let by_webhook = cluster.create(PODS, pod).await.object();
        assert_eq!(stored["spec"], by_webhook["spec"], "{way}");
        assert_eq!(stored["metadata"]["annotations"], by_webhook["metadata"]["annotations"], "{way}");
        for name in ["rewritten", "job"] {
            let path = format!("{PODS}/{name}");
            cluster.request(Method::DELETE, &path, "", Some(json!({"gracePeriodSeconds": 0}))).await.object();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_record_that_cannot_be_read_is_left_alone() {
    let (cluster, _manager) = marking(true).await;
    cluster.create(PODS, job(json!({"pillion.dev/sidecar-record": "nonsense"}))).await.object();
    cluster.merge(STATUS, main_has_ended(0)).await.object();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(phase(&cluster).await, "Running");
    let deleted = cluster.request(Method::DELETE, POD, "", None).await;
    assert!(deleted.status.is_success());
}
