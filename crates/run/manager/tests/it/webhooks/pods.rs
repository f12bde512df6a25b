//! What pods become.

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{self, Next};
use kube::Client;
use pillion_manager::Config;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{Cluster, PODS, SIDECARSETS, URL, names, pod, sidecarset};

#[tokio::test(start_paused = true)]
async fn a_pod_right_after_its_sidecarset_is_injected_with_computed_resources() {
    let (cluster, _manager) = Cluster::managed().await;
    let policy = json!({
        "targetContainersMode": "sum",
        "resourcesExpr": {"limits": {"cpu": "cpu*50%", "memory": "200Mi"}, "requests": {"cpu": "max(cpu*50%, 50m)"}},
    });
    let proxy = json!({"name": "proxy", "image": "envoy:1.30", "resourcesPolicy": policy});
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({"containers": [proxy]}))).await.object();
    let before = tokio::time::Instant::now();
    let pod = cluster.create(PODS, pod("web-0")).await.object();
    assert_eq!(names(&pod), ["proxy", "app"]);
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"], json!({"cpu": "1", "memory": "200Mi"}));
    assert_eq!(resources["requests"]["cpu"], "1");
    assert_eq!(before.elapsed().as_millis(), 0, "the watch is waited for, not the clock");
    assert_eq!(pod["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"], "mesh");
    assert!(
        pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap().contains("2026-01-01T00:00:00Z")
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_adds_to_a_sidecar_stays() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let range =
        json!({"metadata": {"name": "limits"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "3"}}]}});
    cluster.create("/api/v1/namespaces/default/limitranges", range).await.object();
    let pod = cluster.create(PODS, pod("web-0")).await.object();
    let proxy = &pod["spec"]["containers"][0];
    assert_eq!(proxy["volumeMounts"][0]["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(proxy["resources"]["limits"]["cpu"], "3");
}

#[tokio::test(start_paused = true)]
async fn a_changed_sidecarset_counts_for_the_next_pod_and_a_deleted_one_does_not() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let image = json!({"spec": {"containers": [{"name": "proxy", "image": "envoy:1.31"}]}});
    cluster.merge(&format!("{SIDECARSETS}/mesh"), image).await.object();
    let injected = cluster.create(PODS, pod("web-0")).await.object();
    assert_eq!(injected["spec"]["containers"][0]["image"], "envoy:1.31");

    let path = format!("{SIDECARSETS}/mesh");
    cluster.request(axum::http::Method::DELETE, &path, "", None).await.object();
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert_eq!(names(&cluster.create(PODS, pod("web-1")).await.object()), ["app"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_of_namespaces_see_labels_as_they_are_now() {
    let (cluster, _manager) = Cluster::managed().await;
    let gold = json!({"namespaceSelector": {"matchLabels": {"tier": "gold"}}});
    cluster.create(SIDECARSETS, sidecarset("mesh", gold)).await.object();
    cluster.namespace("shop", json!({"tier": "gold"})).await;
    let shop = "/api/v1/namespaces/shop/pods";
    assert_eq!(names(&cluster.create(shop, pod("web-0")).await.object()), ["proxy", "app"]);
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["app"]);

    cluster.merge("/api/v1/namespaces/shop", json!({"metadata": {"labels": {"tier": "iron"}}})).await.object();
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert_eq!(names(&cluster.create(shop, pod("web-1")).await.object()), ["app"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_opt_out_and_those_of_the_system_are_left_alone() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let mut opted_out = pod("web-0");
    opted_out["metadata"]["annotations"] = json!({"pillion.dev/inject": "false"});
    assert_eq!(names(&cluster.create(PODS, opted_out).await.object()), ["app"]);
    for namespace in ["kube-system", "pillion-system"] {
        cluster.service_account(namespace).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        assert_eq!(names(&cluster.create(&pods, pod("web-0")).await.object()), ["app"], "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_refused_with_the_reason() {
    let (cluster, _manager) = Cluster::managed().await;
    let policy = json!({"targetContainersMode": "sum", "targetContainersNameRegex": "^big$", "resourcesExpr": {"limits": {"cpu": "cpu"}}});
    let proxy = json!({"name": "proxy", "image": "envoy:1.30", "resourcesPolicy": policy});
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({"containers": [proxy]}))).await.object();
    let reply = cluster.create(PODS, pod("web-0")).await;
    assert_eq!((reply.status.as_u16(), &reply.body["reason"]), (403, &json!("Forbidden")));
    insta::assert_snapshot!(reply.body["message"].as_str().unwrap(), @r#"admission webhook "pods.pillion.dev" denied the request: SidecarSet "mesh", container "proxy": no containers match the regex pattern "^big$" of resourcesPolicy (the pod's own containers: app); its expression "cpu" has nothing to compute from"#);
}

#[tokio::test(start_paused = true)]
async fn a_warning_reaches_whoever_creates_the_pod_and_a_dry_run_leaves_nothing() {
    let (cluster, _manager) = Cluster::managed().await;
    let same_name = json!({"containers": [{"name": "app", "image": "envoy:1.30"}]});
    cluster.create(SIDECARSETS, sidecarset("mesh", same_name)).await.object();
    let reply = cluster.create(&format!("{PODS}?dryRun=All"), pod("web-0")).await;
    assert!(reply.warnings[0].contains("replaces the pod's own container of the same name"), "{:?}", reply.warnings);
    let list = cluster.get(PODS).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn without_the_webhook_pods_start_without_sidecars() {
    let (cluster, manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    cluster.server.register_webhook(URL, axum::Router::new());
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["app"]);
    let reply = cluster.create(SIDECARSETS, sidecarset("other", json!({}))).await;
    assert_eq!(reply.status.as_u16(), 500, "a SidecarSet that nobody checks is not stored");
    cluster.server.register_webhook(URL, manager.webhooks());
    assert_eq!(names(&cluster.create(PODS, pod("web-1")).await.object()), ["proxy", "app"]);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_revision_is_injected() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.namespace("kruise-system", json!({})).await;
    let set = cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let set = pillion_api::sidecarset::decode(set).unwrap();
    let revision = pillion_api::sidecarset::revision::new(&set, 1, "kruise-system");
    let name = revision["metadata"]["name"].as_str().unwrap().to_owned();
    let revisions = "/apis/apps/v1/namespaces/kruise-system/controllerrevisions";
    cluster.create(revisions, revision).await.object();
    // The set that pins the revision follows at once: the watch may not have reported the revision yet.
    let pin = |policy: &str| {
        json!({"spec": {
            "containers": [{"name": "proxy", "image": "envoy:1.31"}],
            "injectionStrategy": {"revision": {"revisionName": name, "policy": policy}},
        }})
    };
    let path = format!("{SIDECARSETS}/mesh");
    cluster.merge(&path, pin("Always")).await.object();
    let injected = cluster.create(PODS, pod("web-0")).await.object();
    assert_eq!(injected["spec"]["containers"][0]["image"], "envoy:1.30");

    cluster.merge(&path, pin("Quota")).await.object();
    let injected = cluster.create(PODS, pod("web-1")).await.object();
    assert_eq!(injected["spec"]["containers"][0]["image"], "envoy:1.31", "without a partition there are no places");
    // Nobody counts the pods: no place is granted, and whoever creates the pod learns why.
    cluster.merge(&path, json!({"spec": {"updateStrategy": {"partition": 5}}})).await.object();
    let reply = cluster.create(PODS, pod("web-2")).await;
    assert!(reply.warnings[0].contains("could not be counted in time"), "{:?}", reply.warnings);
    assert_eq!(reply.object()["spec"]["containers"][0]["image"], "envoy:1.31");
}

/// The containers of a pod that is created right after its SidecarSet, and how long that takes, if the API server opens the watch of SidecarSets
/// only after this time.
async fn pod_while_the_watch_is_interrupted(interruption: Duration) -> (Vec<String>, Duration) {
    let cluster = Cluster::new().await;
    let slow = move |request: Request, next: Next| async move {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if is_watch && request.uri().path().ends_with("/sidecarsets") {
            sleep(interruption).await;
        }
        next.run(request).await
    };
    let client = Client::new(cluster.server.router().layer(middleware::from_fn(slow)), "default");
    let _manager = cluster.manage(Config { client, ..cluster.config() }).await;
    let start = Instant::now();
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let pod = cluster.create(PODS, pod("web-0")).await.object();
    (names(&pod).into_iter().map(str::to_owned).collect(), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_while_the_watch_of_sidecarsets_is_interrupted_but_not_for_long() {
    let (containers, waited) = pod_while_the_watch_is_interrupted(Duration::from_millis(1200)).await;
    assert_eq!((containers, waited.as_millis()), (vec!["proxy".to_owned(), "app".to_owned()], 1200));
    let (containers, waited) = pod_while_the_watch_is_interrupted(Duration::from_mins(1)).await;
    assert_eq!((containers, waited.as_millis()), (vec!["app".to_owned()], 1500));
}
