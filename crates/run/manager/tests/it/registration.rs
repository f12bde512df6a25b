//! Certificates and configurations over time.

use std::time::Duration;

use jiff::SignedDuration;
use pillion_manager::Manager;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, URL, names, pod, sidecarset};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pillion";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sidecarsets.apps.kruise.io";
const SECRET: &str = "/api/v1/namespaces/pillion-system/secrets/pillion-webhook-certificate";

/// Lets what is ready run; virtual time moves by as much.
async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

fn versions(objects: &[Value]) -> Vec<&Value> {
    objects.iter().map(|object| &object["metadata"]["resourceVersion"]).collect()
}

async fn registered(cluster: &Cluster) -> Vec<Value> {
    let mut objects = Vec::new();
    for path in [MUTATING, VALIDATING, DEFINITION, SECRET] {
        objects.push(cluster.get(path).await);
    }
    objects
}

/// Every bundle that the API server was given; they are all the same.
fn bundle(objects: &[Value]) -> String {
    let bundles = [
        &objects[0]["webhooks"][0]["clientConfig"]["caBundle"],
        &objects[0]["webhooks"][1]["clientConfig"]["caBundle"],
        &objects[1]["webhooks"][0]["clientConfig"]["caBundle"],
        &objects[2]["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"],
        &objects[3]["data"]["ca.crt"],
    ];
    assert!(bundles.iter().all(|bundle| *bundle == bundles[0]), "{bundles:?}");
    bundles[0].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_in_time_and_never_served_before_it_is_trusted() {
    let cluster = Cluster::new().await;
    let mut config = cluster.config();
    config.certificate_lifetime = SignedDuration::from_hours(24);
    let manager = Manager::start(config).await.unwrap();
    cluster.server.register_webhook(URL, manager.webhooks());
    let running = tokio::spawn(async move { manager.run().await });
    settle().await;
    let first = registered(&cluster).await;

    sleep(Duration::from_hours(15)).await;
    assert_eq!(versions(&registered(&cluster).await), versions(&first), "nothing to do is nothing written");

    sleep(Duration::from_hours(1)).await;
    let staged = registered(&cluster).await;
    assert_eq!(staged[3]["data"]["tls.crt"], first[3]["data"]["tls.crt"]);
    assert!(bundle(&staged).len() > bundle(&first).len());

    sleep(Duration::from_mins(10)).await;
    let promoted = registered(&cluster).await;
    assert_eq!(promoted[3]["data"]["tls.crt"], staged[3]["data"]["next.crt"]);
    assert_eq!(bundle(&promoted), bundle(&staged));
    assert_eq!(promoted[3]["data"]["next.crt"], Value::Null);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changes_is_set_right_and_what_somebody_adds_stays() {
    let (cluster, manager) = Cluster::managed().await;
    let running = tokio::spawn(async move { manager.run().await });
    settle().await;
    let before = registered(&cluster).await;

    let mut changed = before[0].clone();
    changed["webhooks"][0]["failurePolicy"] = json!("Fail");
    changed["webhooks"][0]["clientConfig"]["caBundle"] = json!("");
    changed["metadata"]["labels"] = json!({"team": "net"});
    cluster.request(axum::http::Method::PUT, MUTATING, "application/json", Some(changed)).await.object();
    settle().await;
    let after = registered(&cluster).await;
    assert_eq!(after[0]["webhooks"], before[0]["webhooks"]);
    assert_eq!(after[0]["metadata"]["labels"], json!({"team": "net"}));

    for path in [VALIDATING, SECRET] {
        cluster.request(axum::http::Method::DELETE, path, "", None).await.object();
    }
    settle().await;
    let again = registered(&cluster).await;
    assert_ne!(bundle(&again), bundle(&before), "a Secret that is gone is made anew");
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    cluster.merge(DEFINITION, none).await.object();
    settle().await;
    assert_eq!(registered(&cluster).await[2]["spec"]["conversion"]["strategy"], "Webhook");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_second_start_finds_everything_as_it_was() {
    let (cluster, manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let before = registered(&cluster).await;
    drop(manager);
    cluster.server.register_webhook(URL, axum::Router::new());

    let manager = Manager::start(cluster.config()).await.unwrap();
    cluster.server.register_webhook(URL, manager.webhooks());
    manager.register().await.unwrap();
    assert_eq!(versions(&registered(&cluster).await), versions(&before));
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_none_is_refused() {
    let cluster = Cluster::new().await;
    let mut config = cluster.config();
    config.reach = pillion_manager::Reach::Url("pillion".to_owned());
    let manager = Manager::start(config).await.unwrap();
    insta::assert_snapshot!(manager.register().await.unwrap_err(), @r#""pillion" is not a URL of webhooks: it must begin with https:// and name a host"#);
}
