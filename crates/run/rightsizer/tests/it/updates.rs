//! What the updater writes, and when it stops.

use std::time::Duration;

use pillion_rightsizer::Config;
use serde_json::json;

use crate::{AUTOSCALERS, Rig};

#[tokio::test(start_paused = true)]
async fn a_resize_is_one_patch_and_one_event() {
    let rig = Rig::start().await;
    rig.workload("web").await;
    rig.autoscaler("web").await;
    rig.recommended("web", "InPlaceOrRecreate", 1).await;
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_mins(10)).await;
    let shown: Vec<String> = rig.take_written().iter().map(|(method, path)| format!("{method} {path}")).collect();
    assert_eq!(shown, ["PATCH /api/v1/namespaces/default/pods/web-0/resize", "POST /api/v1/namespaces/default/events"]);
}

/// At one eviction a second, 120 of them take two minutes: what changes meanwhile counts within one interval.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_that_is_switched_off_stops_evictions_within_an_interval() {
    let rig = Rig::start().await;
    rig.fleet_of("web", 120).await;
    rig.autoscaler_of("web", "apps/v1", "Deployment").await;
    rig.recommended("web", "Recreate", 120).await;
    let mut config = Config { needs_admission: false, ..rig.config() };
    config.updater.eviction_tolerance = 1.0;
    rig.update(config);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let first = rig.take_evictions();
    assert!((30..60).contains(&first), "{first}");
    rig.mode("web", "Off").await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    rig.take_written();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(rig.take_evictions(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_an_admission_controller_nothing_is_evicted_and_one_that_ends_stops_evictions_within_an_interval() {
    let rig = Rig::start().await;
    rig.fleet_of("web", 120).await;
    rig.autoscaler_of("web", "apps/v1", "Deployment").await;
    rig.recommended("web", "Recreate", 120).await;
    let mut config = rig.config();
    config.updater.eviction_tolerance = 1.0;
    rig.update(config);
    tokio::time::sleep(Duration::from_hours(1) + Duration::from_secs(30)).await;
    assert_eq!(rig.take_evictions(), 0);
    // Upstream's, which renews it once and never again: it is good for a minute, and for the pass that begins within it.
    let now = rig.server.clock().now();
    let renewed = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(now);
    let spec = json!({"holderIdentity": "vpa-admission-controller-1", "renewTime": renewed});
    let lease = json!({"metadata": {"name": "vpa-admission-controller"}, "spec": spec});
    rig.create("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease).await;
    rig.take_written();
    tokio::time::sleep(Duration::from_mins(2)).await;
    let evicted = rig.take_evictions();
    assert!((30..=71).contains(&evicted), "{evicted}");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(rig.take_evictions(), 0);
}

/// The first autoscaler alone has more to do than a pass has time for.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_with_many_pods_does_not_keep_the_others_waiting() {
    let rig = Rig::start().await;
    for (name, pods) in [("a", 150), ("b", 2)] {
        rig.fleet_of(name, pods).await;
        rig.autoscaler_of(name, "apps/v1", "Deployment").await;
        rig.recommended(name, "Recreate", pods).await;
    }
    let mut config = Config { needs_admission: false, ..rig.config() };
    config.updater.eviction_tolerance = 1.0;
    rig.update(config);
    tokio::time::sleep(Duration::from_secs(75)).await;
    let written = rig.take_written();
    let evicted = written.iter().filter(|(_, path)| path.ends_with("/eviction"));
    let of_b = evicted.filter(|(_, path)| path.contains("/pods/b-")).count();
    assert_eq!(of_b, 2, "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn where_resizes_are_not_served_pods_are_evicted_for_that_reason() {
    let rig = Rig::without(Some("/resize")).await;
    rig.workload_of("web", 4).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "InPlaceOrRecreate", 4).await;
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_secs(30)).await;
    let written = rig.take_written();
    let count = |end: &str| written.iter().filter(|(_, path)| path.ends_with(end)).count();
    assert_eq!((count("/resize"), count("/eviction")), (1, 1), "the others wait for its successor: {written:?}");
    for (reason, text) in rig.events().await {
        assert_eq!(reason, "EvictedByVPA");
        assert!(text.ends_with("this cluster cannot resize pods in place (Kubernetes 1.33 and later can)"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_never_evicts_says_once_why_it_does_not_resize() {
    let rig = Rig::without(Some("/resize")).await;
    rig.workload_of("web", 4).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "InPlace", 4).await;
    let mut config = Config { needs_admission: false, ..rig.config() };
    config.gates.in_place = true;
    rig.update(config);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(rig.take_evictions(), 0);
    let events = rig.events().await;
    let [(reason, text)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(reason, "InPlaceResizeSkipped");
    assert!(text.contains("this cluster cannot resize pods in place"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_resources_of_its_own_keeps_them() {
    let rig = Rig::start().await;
    rig.workload_of("web", 0).await;
    let sets = "/apis/apps/v1/namespaces/default/statefulsets/web";
    let set = rig.get(sets).await;
    rig.merge(sets, json!({"spec": {"replicas": 2}})).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set["metadata"]["uid"], "controller": true});
    let resources = json!({"requests": {"cpu": "300m"}});
    let containers = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]);
    for pod in 0..2 {
        let metadata = json!({"name": format!("web-{pod}"), "labels": {"app": "web"}, "ownerReferences": [owner]});
        let spec = json!({"nodeName": "node", "resources": resources, "containers": containers});
        rig.create("/api/v1/namespaces/default/pods", json!({"metadata": metadata, "spec": spec})).await;
    }
    rig.autoscaler("web").await;
    for mode in ["Recreate", "InPlaceOrRecreate"] {
        rig.recommended("web", mode, 2).await;
        rig.update(Config { needs_admission: false, ..rig.config() });
        tokio::time::sleep(Duration::from_mins(10)).await;
        let written = rig.take_written();
        assert!(!written.iter().any(|(_, path)| path.contains("/pods/")), "{mode}: {written:?}");
    }
}

/// The webhook is not called for the namespace: what is evicted there comes back as it was.
#[tokio::test(start_paused = true)]
async fn where_admission_is_not_called_nothing_is_evicted_and_resizes_go_on() {
    let not_admitted = || ["default".to_owned()].into();
    for (mode, resized) in [("Recreate", 0), ("InPlaceOrRecreate", 2)] {
        let rig = Rig::start().await;
        rig.workload_of("web", 2).await;
        rig.autoscaler("web").await;
        rig.recommended("web", mode, 2).await;
        rig.update(Config { needs_admission: false, not_admitted: not_admitted(), ..rig.config() });
        tokio::time::sleep(Duration::from_mins(10)).await;
        let written = rig.take_written();
        let count = |end: &str| written.iter().filter(|(_, path)| path.ends_with(end)).count();
        assert_eq!((count("/eviction"), count("/resize")), (0, resized), "{mode}");
    }
    let rig = Rig::without(Some("/resize")).await;
    rig.workload_of("web", 2).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "InPlaceOrRecreate", 2).await;
    rig.update(Config { needs_admission: false, not_admitted: not_admitted(), ..rig.config() });
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(rig.take_evictions(), 0);
    let events = rig.events().await;
    assert_eq!(events.len(), 2, "{events:?}");
    for (reason, text) in events {
        assert_eq!(reason, "InPlaceResizeSkipped");
        assert!(text.contains("admission is not called for pods of its namespace"), "{text}");
    }
}

/// Upstream's admission controller is called for every namespace.
#[tokio::test(start_paused = true)]
async fn with_an_admission_controller_of_others_pods_are_evicted_everywhere() {
    let rig = Rig::start().await;
    rig.workload_of("web", 2).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "Recreate", 2).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let spec = |holder: &str| {
        let renewed = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(rig.server.clock().now());
        json!({"holderIdentity": holder, "renewTime": renewed})
    };
    rig.create(leases, json!({"metadata": {"name": "vpa-admission-controller"}, "spec": spec("pillion_1")})).await;
    rig.update(Config { not_admitted: ["default".to_owned()].into(), ..rig.config() });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(rig.take_evictions(), 0);
    let renewed = json!({"spec": spec("vpa-admission-controller-1")});
    rig.merge(&format!("{leases}/vpa-admission-controller"), renewed).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(rig.take_evictions() > 0);
}

/// No controller runs here: nothing comes in the place of what is evicted.
#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_come_back_is_the_only_one_that_is_evicted_and_a_restart_does_not_forget_it() {
    let rig = Rig::start().await;
    rig.workload_of("web", 8).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "Recreate", 8).await;
    let config = || Config { needs_admission: false, ..rig.config() };
    let running = rig.update(config());
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!((rig.take_evictions(), rig.condition("web", "EvictionsStopped").await), (1, None));
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.condition("web", "EvictionsStopped").await.as_deref(), Some("True"));
    running.abort();
    let restarted = rig.update(config());
    tokio::time::sleep(Duration::from_mins(45)).await;
    assert_eq!(rig.take_evictions(), 0);
    let events = rig.events().await;
    let stops: Vec<_> = events.iter().filter(|(reason, _)| reason == "EvictionsStopped").collect();
    assert!(
        matches!(stops[..], [(_, text)] if text.contains("no pod came in the place of an evicted one")),
        "{events:?}"
    );
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(rig.take_evictions(), 1, "after an hour one more is tried");
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!(rig.condition("web", "EvictionsStopped").await.as_deref(), Some("True"));
    rig.merge(&format!("{AUTOSCALERS}/web"), json!({"spec": {"updatePolicy": {"updateMode": "Off"}}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(rig.condition("web", "EvictionsStopped").await.as_deref(), Some("False"), "it is switched off");
    assert!(!restarted.is_finished());
}

#[tokio::test(start_paused = true)]
async fn the_other_pods_follow_in_the_same_pass_once_the_successor_of_the_first_one_runs() {
    let rig = Rig::start().await;
    rig.workload_of("web", 8).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "Recreate", 8).await;
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_secs(10)).await;
    let written = rig.take_written();
    let evicted: Vec<&str> =
        written.iter().filter_map(|(_, path)| path.strip_suffix("/eviction")?.rsplit('/').next()).collect();
    assert_eq!(evicted.len(), 1, "{evicted:?}");
    rig.successor("web", "web-8").await;
    rig.take_written();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(rig.take_evictions(), 3, "four of eight may be disrupted in one pass");
}

/// Each successor requests 800m more. The quota has room for one of them.
#[tokio::test(start_paused = true)]
async fn the_successors_of_one_pass_have_to_fit_into_a_quota_together() {
    // The first successor counts, or it does not count yet.
    for used in ["2400m", "1600m"] {
        let rig = Rig::start().await;
        rig.quota("3", "1600m").await;
        rig.workload_of("web", 8).await;
        rig.autoscaler("web").await;
        rig.recommended("web", "Recreate", 8).await;
        rig.update(Config { needs_admission: false, ..rig.config() });
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(rig.take_evictions(), 1);
        let status = json!({"status": {"used": {"requests.cpu": used}}});
        rig.merge("/api/v1/namespaces/default/resourcequotas/team/status", status).await;
        rig.successor("web", "web-8").await;
        rig.take_written();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(rig.take_evictions(), 0, "{used}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_autoscalers_of_a_namespace_share_a_quota_in_one_pass() {
    let rig = Rig::start().await;
    rig.quota("3", "1600m").await;
    for name in ["a", "b"] {
        rig.workload_of(name, 4).await;
        rig.autoscaler(name).await;
        rig.recommended(name, "Recreate", 4).await;
    }
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(rig.take_evictions(), 1);
}

#[tokio::test(start_paused = true)]
async fn why_a_pod_is_not_updated_is_one_event() {
    let rig = Rig::start().await;
    rig.workload_of("web", 2).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "Recreate", 2).await;
    rig.merge(&format!("{}/web", crate::AUTOSCALERS), json!({"spec": {"updatePolicy": {"minReplicas": 3}}})).await;
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_hours(3)).await;
    let events = rig.events().await;
    let [(reason, text)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(reason, "NotUpdatedByVPA");
    assert!(text.contains("and 1 more: its controller has fewer pods than minReplicas"), "{text}");
}

/// The API server answers 429 to each eviction.
#[tokio::test(start_paused = true)]
async fn a_budget_that_forbids_the_eviction_of_pods_is_one_event_about_the_autoscaler() {
    let rig = Rig::start().await;
    rig.workload_of("web", 2).await;
    rig.autoscaler("web").await;
    rig.recommended("web", "Recreate", 2).await;
    rig.exhausted_budget("web").await;
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert!(rig.take_evictions() > 2, "they are tried again in each pass");
    let events = rig.get("/api/v1/namespaces/default/events").await;
    let [event] = events["items"].as_array().unwrap().as_slice() else { panic!("{events}") };
    let about = &event["involvedObject"];
    assert_eq!((&event["reason"], &about["kind"]), (&json!("NotUpdatedByVPA"), &json!("VerticalPodAutoscaler")));
    assert_eq!(about["name"], "web");
    let text = event["message"].as_str().unwrap();
    let answer = "The disruption budget web needs 2 healthy pods and has 1 currently";
    assert!(text.ends_with(&format!(" and 1 more: a PodDisruptionBudget forbids its eviction: {answer}")), "{text}");
}

/// Upstream's admission controller and ours before accepted them.
#[tokio::test(start_paused = true)]
async fn a_negative_bound_that_is_stored_is_ignored_with_a_condition() {
    let rig = Rig::start().await;
    rig.workload_of("web", 2).await;
    rig.autoscaler("web").await;
    let policy = json!({"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "-1"}}]});
    rig.merge(&format!("{}/web", crate::AUTOSCALERS), json!({"spec": {"resourcePolicy": policy}})).await;
    rig.recommended("web", "Recreate", 2).await;
    let target = json!({"cpu": "-1"});
    let of = |name: &str| json!({"containerName": name, "target": target, "lowerBound": target, "upperBound": target});
    let status = json!({"status": {"recommendation": {"containerRecommendations": [of("a"), of("b")]}}});
    rig.merge(&format!("{}/web/status", crate::AUTOSCALERS), status).await;
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(rig.take_evictions(), 0);
    rig.serve_usage(&["web".to_owned()]);
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.condition("web", "PolicyIgnored").await.as_deref(), Some("True"));
    let autoscaler = rig.get(&format!("{}/web", crate::AUTOSCALERS)).await;
    let shown = autoscaler["status"]["recommendation"].to_string();
    assert!(shown.contains("\"cpu\"") && !shown.contains("\"-1\""), "{shown}");
}
