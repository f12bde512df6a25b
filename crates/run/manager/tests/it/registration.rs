//! Certificates and configurations over time.

use std::time::Duration;

use jiff::SignedDuration;
use pillion_manager::{Certificates, Config, ControllerName, Manager, WebhookAddress};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, URL, names, pod, readyz, sidecarset};

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
async fn an_authority_is_succeeded_in_time_and_never_signs_before_it_is_trusted() {
    let cluster = Cluster::new().await;
    let mut config = cluster.config();
    config.certificates = Certificates::SelfSigned { lifetime: SignedDuration::from_hours(1) };
    let manager = cluster.manage(config).await;
    let running = tokio::spawn(async move { manager.run().await });
    settle().await;
    let first = registered(&cluster).await;

    sleep(Duration::from_hours(37)).await;
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
    sleep(Duration::from_secs(2)).await;
    let again = registered(&cluster).await;
    assert_eq!(bundle(&again), bundle(&before), "a Secret that somebody deletes comes back as it was");
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    cluster.merge(DEFINITION, none).await.object();
    sleep(Duration::from_secs(4)).await;
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

    let _manager = cluster.manage(cluster.config()).await;
    assert_eq!(versions(&registered(&cluster).await), versions(&before));
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_none_is_refused() {
    let cluster = Cluster::new().await;
    let mut config = cluster.config();
    config.address = WebhookAddress::Url("pillion".to_owned());
    let manager = Manager::new(config);
    manager.start().await.unwrap();
    insta::assert_snapshot!(manager.register().await.unwrap_err(), @r#""pillion" is not a URL of webhooks: it must begin with https:// and name a host"#);
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_somebody_adds_to_the_webhook_is_left_alone() {
    let (cluster, manager) = Cluster::managed().await;
    let running = tokio::spawn(async move { manager.run().await });
    settle().await;
    let mut changed = cluster.get(MUTATING).await;
    let added = json!({"key": "control-plane", "operator": "DoesNotExist"});
    changed["webhooks"][0]["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(added);
    let changed = cluster.request(axum::http::Method::PUT, MUTATING, "application/json", Some(changed)).await.object();
    sleep(Duration::from_mins(5)).await;
    assert_eq!(cluster.get(MUTATING).await, changed);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_quarrel_over_the_registration_gets_slower() {
    let (cluster, manager) = Cluster::managed().await;
    let running = tokio::spawn(async move { manager.run().await });
    settle().await;
    let start = tokio::time::Instant::now();
    let mut turns = 0;
    // Somebody else wants another policy, and sets it as soon as it is changed.
    while start.elapsed() < Duration::from_mins(10) {
        let mut configuration = cluster.get(MUTATING).await;
        if configuration["webhooks"][0]["failurePolicy"] == "Ignore" {
            configuration["webhooks"][0]["failurePolicy"] = json!("Fail");
            cluster.request(axum::http::Method::PUT, MUTATING, "application/json", Some(configuration)).await.object();
            turns += 1;
        }
        sleep(Duration::from_millis(500)).await;
    }
    assert!((5..20).contains(&turns), "{turns} turns in ten minutes");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_set_that_must_not_be_missed_has_an_entry_until_it_is_gone() {
    let (cluster, manager) = Cluster::managed().await;
    let running = tokio::spawn(async move { manager.run().await });
    settle().await;
    let strict = json!({"injectionStrategy": {"failurePolicy": "Fail"}});
    cluster.create(SIDECARSETS, sidecarset("mesh", strict)).await.object();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);

    let asked_before = cluster.server.clone();
    asked_before.register_webhook(URL, axum::Router::new());
    let refused = cluster.create(PODS, pod("web-1")).await;
    assert_eq!(refused.status.as_u16(), 500, "{}", refused.body);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("mesh.pods.pillion.dev"), "{message}");
    let mut other = pod("other");
    other["metadata"]["labels"]["app"] = json!("other");
    cluster.create(PODS, other).await.object();

    cluster.request(axum::http::Method::DELETE, &format!("{SIDECARSETS}/mesh"), "", None).await.object();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(names(&cluster.create(PODS, pod("web-2")).await.object()), ["app"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_leaves_the_registration_to_the_leader() {
    let cluster = Cluster::new().await;
    cluster.namespace("pillion-system", json!({})).await;
    let replica = |identity: &str, url: &str| {
        let mut config = cluster.config();
        config.identity = Some(identity.to_owned());
        config.address = WebhookAddress::Url(url.to_owned());
        Manager::new(config)
    };
    let (first, second) = (replica("first", URL), replica("second", "https://other.invalid"));
    cluster.server.register_webhook(URL, first.webhooks());
    cluster.server.register_webhook("https://other.invalid", second.webhooks());
    let mut running = Vec::new();
    for manager in [&first, &second] {
        manager.start().await.unwrap();
        let manager = manager.clone();
        running.push(tokio::spawn(async move { manager.run().await }));
        sleep(Duration::from_secs(1)).await;
    }
    let before = cluster.get(MUTATING).await;
    assert!(before["webhooks"][0]["clientConfig"]["url"].as_str().unwrap().starts_with(URL));
    sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.get(MUTATING).await, before);

    first.stop();
    running.remove(0).await.unwrap().unwrap();
    sleep(Duration::from_secs(5)).await;
    let after = cluster.get(MUTATING).await;
    assert!(after["webhooks"][0]["clientConfig"]["url"].as_str().unwrap().starts_with("https://other.invalid"));
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["app"]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_sets_have_an_entry_of_their_own_and_one_beyond_says_that_it_has_none() {
    let (cluster, manager) = Cluster::managed().await;
    let running = tokio::spawn(async move { manager.run().await });
    let create = async |i: u32| {
        let selector = json!({"matchLabels": {"app": format!("app-{i}")}});
        let spec = json!({"selector": selector, "injectionStrategy": {"failurePolicy": "Fail"}});
        cluster.create(SIDECARSETS, sidecarset(&format!("set-{i:03}"), spec)).await.object();
    };
    // Its name comes first, and it is the youngest.
    for i in 1..=100 {
        create(i).await;
    }
    sleep(Duration::from_secs(2)).await;
    create(0).await;
    sleep(Duration::from_mins(1)).await;
    let own_entries = async || {
        let configuration = cluster.get(MUTATING).await;
        let entries = configuration["webhooks"].as_array().unwrap().iter();
        let names = entries.map(|entry| entry["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.ends_with(".pods.pillion.dev")).collect::<Vec<_>>()
    };
    let enforced = async |set: &str| {
        let set = cluster.get(&format!("{SIDECARSETS}/{set}")).await;
        let conditions = set["status"]["conditions"].as_array().unwrap().clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == "FailurePolicyEnforced").unwrap();
        (found["status"].clone(), found["reason"].clone())
    };
    let entries = own_entries().await;
    assert_eq!((entries.len(), entries.contains(&"set-000.pods.pillion.dev".to_owned())), (100, false));
    assert_eq!(enforced("set-000").await, (json!("False"), json!("TooMany")));
    assert_eq!(enforced("set-100").await, (json!("True"), json!("Registered")));

    let older = format!("{SIDECARSETS}/set-042");
    cluster.request(axum::http::Method::DELETE, &older, "", None).await.object();
    sleep(Duration::from_mins(1)).await;
    let entries = own_entries().await;
    assert_eq!((entries.len(), entries.contains(&"set-000.pods.pillion.dev".to_owned())), (100, true));
    assert_eq!(enforced("set-000").await, (json!("True"), json!("Registered")));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn the_entry_of_a_set_that_becomes_wider_or_narrower_does_as_well() {
    let (cluster, manager) = Cluster::managed().await;
    let running = tokio::spawn(async move { manager.run().await });
    settle().await;
    let selector = |values: Value| json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values}]});
    let strict = json!({
        "selector": selector(json!(["web", "api", "job"])), "namespaceSelector": {"matchLabels": {"tier": "gold", "zone": "a"}},
        "injectionStrategy": {"failurePolicy": "Fail"},
    });
    cluster.create(SIDECARSETS, sidecarset("mesh", strict)).await.object();
    sleep(Duration::from_secs(2)).await;
    let entry = async || {
        let configuration = cluster.get(MUTATING).await;
        let mut entries = configuration["webhooks"].as_array().unwrap().iter();
        entries.find(|entry| entry["name"] == "mesh.pods.pillion.dev").unwrap().clone()
    };
    let labels = async || entry().await["namespaceSelector"]["matchLabels"].clone();
    assert_eq!(labels().await, json!({"tier": "gold", "zone": "a"}));
    let excluded = entry().await["namespaceSelector"]["matchExpressions"].clone();

    let change = async |spec: Value| {
        cluster.merge(&format!("{SIDECARSETS}/mesh"), json!({"spec": spec})).await.object();
        sleep(Duration::from_secs(5)).await;
    };
    change(json!({"namespaceSelector": {"matchLabels": {"zone": null}}})).await;
    assert_eq!(labels().await, json!({"tier": "gold"}));
    change(json!({"selector": selector(json!(["web", "api"]))})).await;
    assert_eq!(entry().await["objectSelector"], selector(json!(["web", "api"])));

    // What a platform adds to every webhook does not keep what is not wanted any more; it may add it again.
    let add = async || {
        let mut changed = cluster.get(MUTATING).await;
        let added = json!({"key": "control-plane", "operator": "DoesNotExist"});
        for entry in changed["webhooks"].as_array_mut().unwrap().iter_mut().take(2) {
            entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(added.clone());
        }
        cluster.request(axum::http::Method::PUT, MUTATING, "application/json", Some(changed)).await.object();
    };
    add().await;
    sleep(Duration::from_secs(5)).await;
    change(json!({"namespaceSelector": null})).await;
    assert_eq!(entry().await["namespaceSelector"], json!({"matchExpressions": excluded}));
    add().await;
    let before = cluster.get(MUTATING).await;
    assert_eq!(before["webhooks"][1]["namespaceSelector"]["matchExpressions"].as_array().unwrap().len(), 2);
    sleep(Duration::from_mins(5)).await;
    assert_eq!(cluster.get(MUTATING).await, before);

    // The next one finds everything as it was, and knows what it replaces.
    running.abort();
    let next = async || {
        let manager = Manager::new(cluster.config());
        cluster.server.register_webhook(URL, manager.webhooks());
        manager.start().await.unwrap();
        // Until it knows which kinds it serves.
        sleep(Duration::from_mins(1)).await;
        manager.register().await.unwrap();
    };
    next().await;
    assert_eq!(cluster.get(MUTATING).await, before);
    change(json!({"selector": selector(json!(["web"]))})).await;
    next().await;
    assert_eq!(entry().await["objectSelector"], selector(json!(["web"])));
}

/// Where a manager in a process of its own is called.
const ELSEWHERE: &str = "https://elsewhere.invalid";

/// A manager beside one that installs the definition and leaves the webhooks out.
fn elsewhere(cluster: &Cluster) -> Config {
    let address = WebhookAddress::Url(ELSEWHERE.to_owned());
    Config { address, parts: vec![ControllerName::Webhook], installs_definition: false, ..cluster.config() }
}

/// Runs a manager whose webhooks the API server finds at [`ELSEWHERE`].
async fn run_elsewhere(cluster: &Cluster, config: Config) -> Manager {
    let manager = Manager::new(config);
    cluster.server.register_webhook(ELSEWHERE, manager.webhooks());
    manager.start().await.unwrap();
    tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    sleep(Duration::from_secs(10)).await;
    manager
}

#[tokio::test(start_paused = true)]
async fn a_manager_registers_the_webhooks_beside_one_that_leaves_them_out() {
    let cluster = Cluster::new().await;
    let without = Manager::new(Config { parts: vec![ControllerName::Rollout], ..cluster.config() });
    without.start().await.unwrap();
    sleep(Duration::from_secs(10)).await;
    for path in [MUTATING, VALIDATING] {
        assert_eq!(cluster.request(axum::http::Method::GET, path, "", None).await.status, 404, "{path}");
    }
    assert_eq!(readyz(&without).await, (axum::http::StatusCode::OK, "ok".to_owned()));

    let manager = run_elsewhere(&cluster, elsewhere(&cluster)).await;
    assert_eq!(readyz(&manager).await, (axum::http::StatusCode::OK, "ok".to_owned()));
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
    let client = cluster.get(DEFINITION).await["spec"]["conversion"]["webhook"]["clientConfig"].clone();
    assert_eq!(client["url"], format!("{ELSEWHERE}/convert"));
    let older = cluster.get(&SIDECARSETS.replace("v1beta1", "v1alpha1")).await;
    assert_eq!(older["items"][0]["apiVersion"], "apps.kruise.io/v1alpha1");
}

#[tokio::test(start_paused = true)]
async fn a_run_without_the_webhooks_takes_back_what_an_earlier_one_has_registered() {
    let (cluster, manager) = Cluster::managed().await;
    drop(manager);
    cluster.server.register_webhook(URL, axum::Router::new());
    let without = Manager::new(Config { parts: vec![ControllerName::Rollout], ..cluster.config() });
    without.start().await.unwrap();
    for path in [MUTATING, VALIDATING] {
        assert_eq!(cluster.request(axum::http::Method::GET, path, "", None).await.status, 404, "{path}");
    }
    assert_eq!(cluster.get(DEFINITION).await["spec"]["conversion"], json!({"strategy": "None"}));
    // Nothing is asked of the webhooks that are gone.
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["app"]);

    // What another program has registered stays.
    let _other = run_elsewhere(&cluster, elsewhere(&cluster)).await;
    let again = Manager::new(Config { parts: vec![ControllerName::Rollout], ..cluster.config() });
    again.start().await.unwrap();
    assert_eq!(names(&cluster.create(PODS, pod("web-1")).await.object()), ["app", "proxy"]);
}

#[tokio::test(start_paused = true)]
async fn the_definition_of_an_older_version_which_owned_every_field_itself_is_registered_as_well() {
    let cluster = Cluster::new().await;
    let definition = pillion_api::sidecarset::crd::sidecarset();
    let path = format!("{DEFINITION}?fieldManager=pillion&force=true");
    let method = axum::http::Method::PATCH;
    cluster.request(method, &path, "application/apply-patch+yaml", Some(definition)).await.object();
    let without = Manager::new(Config { parts: vec![ControllerName::Rollout], ..cluster.config() });
    without.start().await.unwrap();
    let manager = run_elsewhere(&cluster, elsewhere(&cluster)).await;
    assert_eq!(readyz(&manager).await.0, axum::http::StatusCode::OK);
    assert_eq!(cluster.get(DEFINITION).await["spec"]["group"], "apps.kruise.io");
}

#[tokio::test(start_paused = true)]
async fn a_manager_whose_webhooks_are_not_registered_is_not_ready_and_says_why() {
    let cluster = Cluster::new().await;
    Manager::new(Config { parts: vec![ControllerName::Rollout], ..cluster.config() }).start().await.unwrap();
    let refuse = async |request: axum::extract::Request, next: axum::middleware::Next| {
        if request.uri().path() == MUTATING && request.method() == axum::http::Method::PATCH {
            return axum::response::IntoResponse::into_response(axum::http::StatusCode::FORBIDDEN);
        }
        next.run(request).await
    };
    let router = cluster.server.router().layer(axum::middleware::from_fn(refuse));
    let client = kube::Client::new(router, "default");
    let manager = run_elsewhere(&cluster, Config { client, ..elsewhere(&cluster) }).await;
    let (status, text) = readyz(&manager).await;
    assert_eq!(status, axum::http::StatusCode::SERVICE_UNAVAILABLE);
    let expected = r#"the webhooks are not registered: cannot apply MutatingWebhookConfiguration "pillion": "#;
    assert!(text.starts_with(expected), "{text}");

    // A replica that may register them does so for both.
    let _other = run_elsewhere(&cluster, elsewhere(&cluster)).await;
    assert_eq!(readyz(&manager).await, (axum::http::StatusCode::OK, "ok".to_owned()));
}
