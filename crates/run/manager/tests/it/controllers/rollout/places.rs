//! `policy: Quota` is exact, whatever happens on the way. `PILLION_QUOTA_RUNS` says how often that is tried. Its default is
//! fifty times where `PILLION_THOROUGH` is set, as in CI, and ten times elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::client::Body;
use kube::core::Request;
use pillion_manager::Manager;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::controllers::rollout::cluster::{Cluster, Running, URL, container, minutes};
use crate::controllers::rollout::faults::Faults;
use crate::controllers::rollout::seen::{Follower, SeenPod};

const PARTITION: usize = 90;
const PODS: usize = 300;

/// Three managers behind one address, and a set whose first revision is pinned for 90 pods.
async fn three_managers(cluster: &Cluster, faults: Option<&Faults>) -> Vec<Running> {
    let running = managers(cluster, faults).await;
    pin(cluster, json!(PARTITION)).await;
    running
}

/// Three managers behind one address.
async fn managers(cluster: &Cluster, faults: Option<&Faults>) -> Vec<Running> {
    let client = |name| faults.map_or_else(|| cluster.client(), |faults| faults.client(cluster.engine.server(), name));
    let mut running = Vec::new();
    for name in ["a", "b", "c"] {
        let config = pillion_manager::Config { identity: Some(name.to_owned()), ..cluster.config(client(name)) };
        running.push(cluster.manage(config).await);
    }
    let webhooks: Arc<[Router]> = running.iter().map(|running| Manager::webhooks(&running.manager)).collect();
    let turn = Arc::new(AtomicUsize::new(0));
    let in_turn = Router::new().fallback(move |request: axum::extract::Request| {
        let webhook = webhooks[turn.fetch_add(1, Ordering::Relaxed) % webhooks.len()].clone();
        async move { webhook.oneshot(request).await.into_response() }
    });
    cluster.engine.server().register_webhook(URL, in_turn);
    // Until they know that every API server has places confirmed.
    minutes(1).await;
    running
}

/// A set whose first revision is pinned for new pods, as many as the partition says.
async fn pin(cluster: &Cluster, partition: Value) {
    pin_with(cluster, "proxy", partition).await;
}

/// The same for a set whose sidecar has this name.
async fn pin_with(cluster: &Cluster, sidecar: &str, partition: Value) {
    let containers = |image: &str| json!([{"name": sidecar, "image": image}]);
    let spec = json!({"containers": containers("envoy:1"), "updateStrategy": {"partition": partition}});
    cluster.create_set("envoy:1", spec).await;
    cluster.until("a revision", async || cluster.revisions().await.len() == 1).await;
    let pin = json!({"revision": {"revisionName": cluster.latest_revision().await, "policy": "Quota"}});
    cluster.patch_own_set(json!({"spec": {"containers": containers("envoy:2"), "injectionStrategy": pin}})).await;
    cluster.until("places", async || places(cluster).await.is_some_and(|places| places["pods"] == 0)).await;
}

async fn places(cluster: &Cluster) -> Option<Value> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "pillion-system");
    let uid = cluster.own_set().await["metadata"]["uid"].as_str()?.to_owned();
    let map = api.get_opt(&format!("pillion-places-{uid}")).await.unwrap();
    serde_json::from_str(map?.data?.get("places")?).ok()
}

/// What is counted is who was admitted; where the pods run does not matter.
fn pod(i: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{i}"), "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}], "schedulingGates": [{"name": "test/never"}]},
    })
}

/// What was answered to a creation.
struct Answer {
    status: StatusCode,
    warnings: Vec<String>,
    body: Value,
}

impl Answer {
    /// The image that a sidecar of the created pod has.
    fn image(&self, sidecar: &str) -> &str {
        container(&self.body, sidecar)["image"].as_str().unwrap_or_default()
    }
}

async fn create(cluster: &Cluster, range: std::ops::Range<usize>, is_dry_run: bool) -> Vec<Answer> {
    let answers = try_create(cluster, range.map(pod), is_dry_run).await;
    assert!(answers.iter().all(|answer| answer.status == StatusCode::CREATED));
    answers
}

/// Creates pods, all at the same time.
async fn try_create(cluster: &Cluster, pods: impl Iterator<Item = Value>, is_dry_run: bool) -> Vec<Answer> {
    try_create_each(cluster, pods.map(|pod| (Duration::ZERO, pod)), is_dry_run).await
}

/// Creates pods, each after a time of its own.
async fn try_create_each(
    cluster: &Cluster,
    pods: impl Iterator<Item = (Duration, Value)>,
    is_dry_run: bool,
) -> Vec<Answer> {
    let parameters = PostParams { dry_run: is_dry_run, ..PostParams::default() };
    let url = cluster.seen_pods().url;
    let all = pods.map(|(after, pod)| {
        let client = cluster.client();
        let request = Request::new(&url).create(&parameters, pod.to_string().into_bytes()).unwrap();
        tokio::spawn(async move {
            sleep(after).await;
            let (parts, body) = client.send(request.map(Body::from)).await.unwrap().into_parts();
            let warnings = parts.headers.get_all(header::WARNING).iter();
            let warnings = warnings.map(|it| it.to_str().unwrap().to_owned()).collect();
            let body = axum::body::to_bytes(axum::body::Body::new(body), usize::MAX).await.unwrap();
            let body = serde_json::from_slice(&body).unwrap();
            Answer { status: parts.status, warnings, body }
        })
    });
    let mut answers = Vec::new();
    for answer in all.collect::<Vec<_>>() {
        answers.push(answer.await.unwrap());
    }
    answers
}

/// Sees every pod that is created, and whether more of them have the pinned revision than may have it at any moment.
async fn watch_over(cluster: &Cluster, places: usize) -> Follower {
    let look = move |pods: &[&SeenPod]| {
        let old = pods.iter().filter(|pod| pod.has_image("envoy:1")).count();
        if old > places { vec![format!("{old} pods have the pinned revision")] } else { Vec::new() }
    };
    cluster.seen_pods().follow(look).await
}

/// How many pods have the pinned revision.
async fn pinned(cluster: &Cluster) -> usize {
    cluster.seen_pods().list().await.iter().filter(|pod| pod.has_image("envoy:1")).count()
}

fn runs() -> u64 {
    std::env::var("PILLION_QUOTA_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(if super::is_thorough() {
        50
    } else {
        10
    })
}

/// How many of the runs have faults: they take longer.
fn with_faults() -> u64 {
    runs().div_ceil(5)
}

/// How many runs share a cluster. Each has a namespace and a set of its own.
const TOGETHER: u64 = 20;

/// Calls a function for each run, with the faults of the cluster that it is in.
async fn each_run(runs: u64, with_faults: bool, run: impl AsyncFn(&Cluster, &Faults)) {
    for first in (0..runs).step_by(usize::try_from(TOGETHER).unwrap()) {
        let cluster = Cluster::start().await;
        let faults = Faults::new(7 + first);
        let managers = managers(&cluster, with_faults.then_some(&faults)).await;
        for i in first..runs.min(first + TOGETHER) {
            let cluster = cluster.in_namespace(&format!("run-{i}")).await;
            pin(&cluster, json!(PARTITION)).await;
            run(&cluster, &faults).await;
        }
        // One write places many pods, so that there may be none in a single run.
        assert!(!with_faults || faults.count() > 0, "nothing failed in any run");
        managers.into_iter().for_each(Running::kill);
    }
}

#[tokio::test(start_paused = true)]
async fn three_managers_and_three_hundred_pods_at_once_fill_exactly_ninety_places() {
    let run = async |cluster: &Cluster, _: &Faults| {
        create(cluster, 1000..1010, true).await;
        assert_eq!(places(cluster).await.unwrap()["granted"], json!({}), "a dry run takes no place");
        let watching = watch_over(cluster, PARTITION).await;
        create(cluster, 0..PODS, false).await;
        assert_eq!(pinned(cluster).await, PARTITION);
        cluster.until_status(json!({"matchedPods": PODS, "updatedPods": PODS - PARTITION})).await;
        assert_eq!(watching.end(), BTreeSet::new());
        assert_eq!(pinned(cluster).await, PARTITION);
        let is_counted = async || {
            let places = places(cluster).await.unwrap();
            places["pods"] == PARTITION && places["granted"] == json!({})
        };
        cluster.until("every place is seen", is_counted).await;
    };
    each_run(runs() - with_faults(), false, run).await;
}

#[tokio::test(start_paused = true)]
async fn a_percentage_is_exact_against_the_pods_that_were_admitted_before() {
    let cluster = Cluster::start().await;
    let managers = managers(&cluster, None).await;
    pin(&cluster, json!("30%")).await;
    let mut admitted = 0;
    for more in [1, 2, 7, 40, 150] {
        create(&cluster, admitted..admitted + more, false).await;
        admitted += more;
        assert_eq!(cluster.with_image("envoy:1").await, (admitted * 30).div_ceil(100), "of {admitted} pods");
    }
    cluster.until_status(json!({"matchedPods": admitted})).await;
    let is_counted = async || {
        let places = places(&cluster).await.unwrap();
        places["granted"] == json!({}) && places["passed"].is_null() && places["matched"] == admitted
    };
    cluster.until("every pod is counted", is_counted).await;
    managers.into_iter().for_each(Running::kill);
}

/// Conflicts, timeouts and lost answers.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_gives_exactly_ninety_places_in_the_end() {
    let run = async |cluster: &Cluster, faults: &Faults| {
        let watching = watch_over(cluster, PARTITION).await;
        faults.start();
        create(cluster, 0..PODS, false).await;
        faults.stop();
        assert!(pinned(cluster).await <= PARTITION);
        // Places whose answers were lost expire, and pods that come later take them.
        sleep(Duration::from_mins(5)).await;
        let is_settled = async || places(cluster).await.unwrap()["granted"] == json!({});
        cluster.until("every place is seen or expired", is_settled).await;
        create(cluster, PODS..PODS + 100, false).await;
        assert_eq!(pinned(cluster).await, PARTITION);
        assert_eq!(watching.end(), BTreeSet::new());
    };
    each_run(with_faults(), true, run).await;
}

/// Refused by somebody who comes after the webhook, which then knows nothing of it.
#[tokio::test(start_paused = true)]
async fn places_of_pods_that_were_refused_are_given_back() {
    let cluster = Cluster::start().await;
    let managers = three_managers(&cluster, None).await;
    let watching = watch_over(&cluster, PARTITION).await;
    cluster.refuse("CREATE", "!object.metadata.name.endsWith('0') && !object.metadata.name.endsWith('5')").await;
    let answers = try_create(&cluster, (0..PODS).map(pod), false).await;
    assert_eq!(answers.iter().filter(|answer| answer.status.is_client_error()).count(), PODS / 5);
    assert!(pinned(&cluster).await < PARTITION, "some places were granted to pods that never came");
    cluster.refuse_nothing().await;
    minutes(5).await;
    let is_settled = async || places(&cluster).await.unwrap()["granted"] == json!({});
    cluster.until("every place is seen or expired", is_settled).await;
    create(&cluster, PODS..PODS + 100, false).await;
    assert_eq!((pinned(&cluster).await, watching.end()), (PARTITION, BTreeSet::new()));
    managers.into_iter().for_each(Running::kill);
}

/// The API server refuses half of the pods after the webhook has given them a place. They are pods of another workload, or of the same.
#[tokio::test(start_paused = true)]
async fn refused_creates_leave_every_place_to_those_that_are_not() {
    const PLACES: usize = 37;
    let every = |milliseconds: usize, i: usize| Duration::from_millis((milliseconds * i).try_into().unwrap());
    for has_workload in [true, false] {
        let cluster = Cluster::start().await;
        let managers = managers(&cluster, None).await;
        pin(&cluster, json!(PLACES)).await;
        cluster.refuse("CREATE", "!object.metadata.name.startsWith('bad')").await;
        let watching = watch_over(&cluster, PLACES).await;
        let mut owners = Vec::new();
        for name in ["bad", "good"] {
            // What it is does not matter, as long as it exists.
            let owner: ConfigMap = cluster.create(json!({"metadata": {"name": name}})).await;
            owners.push(json!([{
                "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.metadata.uid, "controller": true,
            }]));
        }
        let pod_of = |workload: usize, i: usize| {
            let mut pod = pod(i);
            pod["metadata"]["name"] = json!(format!("{}-{i}", ["bad", "good"][workload]));
            if has_workload {
                pod["metadata"]["ownerReferences"] = owners[workload].clone();
            }
            pod
        };
        let bad = (0..200).map(|i| (every(100, i), pod_of(0, i)));
        let good = (0..200).map(|i| (every(150, i), pod_of(1, i)));
        let answers = try_create_each(&cluster, bad.chain(good), false).await;
        let created = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
        assert_eq!((created, pinned(&cluster).await), (200, PLACES), "{has_workload}");
        assert_eq!(watching.end(), BTreeSet::new());
        managers.into_iter().for_each(Running::kill);
    }
}

/// Another webhook holds a pod up for longer than the place waits for its confirmation.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_place_went_to_another_one_meanwhile_is_refused() {
    let cluster = Cluster::start().await;
    let managers = managers(&cluster, None).await;
    pin(&cluster, json!(1)).await;
    let slow = Router::new().fallback(|body: axum::body::Bytes| async move {
        sleep(Duration::from_secs(8)).await;
        let review: Value = serde_json::from_slice(&body).unwrap();
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        axum::Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
    });
    cluster.engine.server().register_webhook("https://slow.invalid", slow);
    let slow: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "slow"},
        "webhooks": [{
            "name": "slow.example.com", "clientConfig": {"url": "https://slow.invalid"}, "sideEffects": "None",
            "objectSelector": {"matchLabels": {"slow": "yes"}}, "admissionReviewVersions": ["v1"], "timeoutSeconds": 10,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        }],
    }))
    .unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &slow).await.unwrap();
    let slow = |i: usize| {
        let mut pod = pod(i);
        pod["metadata"]["labels"]["slow"] = json!("yes");
        pod
    };
    // The second one takes the place of the first one.
    let pods = [(Duration::ZERO, slow(0)), (Duration::from_secs(6), pod(1))];
    let answers = try_create_each(&cluster, pods.into_iter(), false).await;
    assert_eq!(answers[1].image("proxy"), "envoy:1");
    assert_eq!(answers[0].status, StatusCode::CONFLICT, "{}", answers[0].body);
    let message = answers[0].body["message"].as_str().unwrap();
    assert!(message.contains("the place was not confirmed in time"), "{message}");
    // From now on requests are given the time that they take.
    cluster.delete_pod("web-1").await;
    cluster.until("the pod is gone", async || places(&cluster).await.unwrap()["pods"] == 0).await;
    let answers =
        try_create_each(&cluster, [(Duration::ZERO, slow(2)), (Duration::from_secs(6), pod(3))].into_iter(), false)
            .await;
    assert_eq!((answers[0].image("proxy"), answers[1].image("proxy")), ("envoy:1", "envoy:2"));
    managers.into_iter().for_each(Running::kill);
}

/// The value of a counter, of all its series together.
async fn counted(running: &Running, name: &str, labels: &str) -> u64 {
    let metrics = running.metrics().await;
    let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(labels));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[tokio::test(start_paused = true)]
async fn api_servers_ask_only_about_pods_that_have_an_id_of_places() {
    let (cluster, running) = Cluster::managed().await;
    minutes(1).await;
    pin(&cluster, json!(1)).await;
    let asked = async || counted(&running, "pillion_admission_reviews_total", "/confirm-place").await;
    let mut others = [pod(0), pod(1)];
    for other in &mut others {
        other["metadata"]["labels"]["app"] = json!("db");
    }
    others[1]["metadata"]["annotations"] = json!({"team": "db"});
    let answers = try_create(&cluster, others.into_iter(), false).await;
    assert!(answers.iter().all(|answer| answer.status == StatusCode::CREATED));
    let reviewed = counted(&running, "pillion_admission_reviews_total", "/mutate-pod").await;
    assert_eq!((reviewed, asked().await), (2, 0));
    assert_eq!(create(&cluster, 2..3, false).await[0].image("proxy"), "envoy:1");
    assert_eq!(asked().await, 1);
    running.kill();
}

#[tokio::test(start_paused = true)]
async fn places_that_are_withdrawn_are_counted() {
    let (cluster, running) = Cluster::managed().await;
    minutes(1).await;
    // A quarter of them is given on trust.
    pin(&cluster, json!(8)).await;
    cluster.refuse("CREATE", "object.metadata.name == 'web-2'").await;
    let withdrawn = async || counted(&running, "pillion_places_withdrawn_total", "{sidecarset=\"mesh\"}").await;
    let refused = try_create(&cluster, (0..2).map(pod), false).await;
    assert!(refused.iter().all(|answer| answer.status.is_client_error()));
    assert_eq!(places(&cluster).await.unwrap()["granted"].as_object().unwrap().len(), 2);
    assert_eq!(withdrawn().await, 0, "they may still be confirmed");
    // They are withdrawn when the next pod asks after that.
    sleep(Duration::from_secs(6)).await;
    assert_eq!(create(&cluster, 2..3, false).await[0].image("proxy"), "envoy:1");
    assert_eq!(withdrawn().await, 2);
    running.kill();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_webhook_itself_refuses_gives_its_place_back_at_once() {
    let cluster = Cluster::start().await;
    let managers = three_managers(&cluster, None).await;
    let mut nonsense = pod(0);
    nonsense["metadata"]["annotations"] = json!({"kruise.io/sidecarset-hash": "nonsense"});
    let answers = try_create(&cluster, [nonsense].into_iter(), false).await;
    assert_eq!(answers[0].status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answers[0].body);
    // Much sooner than it would expire.
    sleep(Duration::from_secs(5)).await;
    assert_eq!(places(&cluster).await.unwrap()["granted"], json!({}));
    managers.into_iter().for_each(Running::kill);
}

/// A pod may be on its way with a revision that is no longer pinned.
#[tokio::test(start_paused = true)]
async fn a_revision_that_pods_may_still_come_with_is_not_trimmed() {
    for pin_again in [json!(null), json!({"revision": {"revisionName": "NAME", "policy": "Quota"}})] {
        let (cluster, manager) = Cluster::managed().await;
        pin(&cluster, json!(PARTITION)).await;
        let first = cluster.revisions().await[0].metadata.name.clone().unwrap();
        let second = cluster.latest_revision().await;
        cluster.refuse("CREATE", "false").await;
        try_create(&cluster, [pod(0)].into_iter(), false).await;
        assert!(!places(&cluster).await.unwrap()["granted"].as_object().unwrap().is_empty());
        // The pin goes, or is another, and with the next revision there is one too many.
        let pin_again: Value = serde_json::from_str(&pin_again.to_string().replace("NAME", &second)).unwrap();
        let containers = json!([{"name": "proxy", "image": "envoy:3"}]);
        let spec = json!({"containers": containers, "injectionStrategy": pin_again, "revisionHistoryLimit": 1});
        cluster.patch_own_set(json!({"spec": spec})).await;
        cluster.until_status(json!({"matchedPods": 0})).await;
        sleep(Duration::from_mins(1)).await;
        let has_first =
            async || cluster.revisions().await.iter().any(|it| it.metadata.name.as_deref() == Some(&*first));
        assert!(has_first().await, "it was trimmed while a pod may come with it");
        cluster.until("it is trimmed", async || !has_first().await).await;
        manager.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_when_its_pod_is_gone_and_a_lower_partition_pins_no_new_pods() {
    let cluster = Cluster::start().await;
    let managers = three_managers(&cluster, None).await;
    create(&cluster, 0..100, false).await;
    let is_counted = async || places(&cluster).await.unwrap()["granted"] == json!({});
    cluster.until("every pod is counted", is_counted).await;
    let old: Vec<String> = cluster
        .pods()
        .await
        .iter()
        .filter(|pod| crate::controllers::rollout::cluster::proxy(pod)["image"] == "envoy:1")
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(old.len(), PARTITION);
    for name in &old[..3] {
        cluster.delete_pod(name).await;
    }
    cluster.until("the pods are gone", async || places(&cluster).await.unwrap()["pods"] == PARTITION - 3).await;
    create(&cluster, 200..210, false).await;
    assert_eq!(cluster.with_image("envoy:1").await, PARTITION);
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": 50, "maxUnavailable": "50%"}}})).await;
    for answer in create(&cluster, 300..310, false).await {
        assert_eq!(answer.image("proxy"), "envoy:2", "as it was created, before any update");
    }
    cluster.until("pods beyond the partition are updated", async || cluster.with_image("envoy:1").await == 50).await;
    managers.into_iter().for_each(Running::kill);
}

/// Pods that come with the pinned revision in the meantime take no places: by the old count there would be too many of them.
#[tokio::test(start_paused = true)]
async fn an_old_count_grants_nothing_when_the_policy_was_another_one_in_between() {
    let cluster = Cluster::start().await;
    let managers = three_managers(&cluster, None).await;
    let policy = async |policy: &str| {
        let change = json!({"spec": {"injectionStrategy": {"revision": {"policy": policy}}}});
        cluster.patch_set("mesh", change).await;
    };
    policy("Always").await;
    cluster.until("no count", async || places(&cluster).await.unwrap()["pods"].is_null()).await;
    create(&cluster, 0..15, false).await;
    assert_eq!(cluster.with_image("envoy:1").await, 15);
    assert!(places(&cluster).await.unwrap()["pods"].is_null());
    policy("Quota").await;
    cluster.until("the pods are counted", async || places(&cluster).await.unwrap()["pods"] == 15).await;
    managers.into_iter().for_each(Running::kill);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_gives_the_latest_revision_and_a_warning() {
    let cluster = Cluster::start().await;
    let managers = three_managers(&cluster, None).await;
    let sidecars = ["proxy", "logs", "metrics"];
    for name in &sidecars[1..] {
        pin_with(&cluster.with_set(name), name, json!(PARTITION)).await;
    }
    managers.into_iter().for_each(Running::kill);
    let silent = crate::controllers::rollout::faults::silent_config_maps(cluster.engine.server());
    let _running = cluster.manage(cluster.config(silent)).await;
    let before = tokio::time::Instant::now();
    let created = create(&cluster, 0..1, false).await.remove(0);
    assert!(before.elapsed() < Duration::from_secs(2), "a second for all sets together: {:?}", before.elapsed());
    assert_eq!(sidecars.map(|name| created.image(name).to_owned()), ["envoy:2"; 3]);
    for set in ["mesh", "logs", "metrics"] {
        let text = format!("SidecarSet \\\"{set}\\\": the places of its partition could not be counted in time");
        assert!(created.warnings.iter().any(|warning| warning.contains(&text)), "{set}: {:?}", created.warnings);
    }
}
