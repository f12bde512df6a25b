use std::collections::BTreeMap;

use pillion_admission::Snapshot;
use pillion_api::sidecarset::SidecarSet;
use pillion_inject::Catalog;
use pillion_rules::pod::apply_service_account;
use pillion_testkit::{mk_container, mk_set};

use super::*;

fn at() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn offline(sets: impl IntoIterator<Item = SidecarSet>) -> Offline {
    Offline {
        snapshot: Snapshot { catalog: Catalog::new(sets, &[]).unwrap(), ..Snapshot::default() },
        namespace: "default".to_owned(),
        ..Offline::default()
    }
}

fn mesh(image: &str) -> SidecarSet {
    let proxy = json!({
        "name": "proxy", "image": image, "volumeMounts": [{"name": "certs", "mountPath": "/certs"}],
        "readinessProbe": {"httpGet": {"port": 80}},
        "resourcesPolicy": {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}},
    });
    let volume = json!({"name": "certs", "configMap": {"name": "certs"}});
    mk_set(
        "mesh",
        json!({"app": "web"}),
        json!({"containers": [proxy], "volumes": [volume], "imagePullSecrets": [{"name": "registry"}]}),
    )
}

/// The pod that an API server would have stored.
fn created(offline: &Offline) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "containers": [{
                "name": "app", "image": "app:1", "resources": {"limits": {"cpu": "2"}},
                "env": [{"name": "MODE", "value": "fast"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    });
    apply_defaults(&mut pod);
    apply_service_account(&mut pod, &json!({}), "abcde");
    let (asked, _) = offline.pod(&pod).unwrap().unwrap();
    offline.apply(&mut pod, &offline.decide(&asked, Some(at())).outcome.unwrap()).unwrap();
    finish(&mut pod);
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn of(pod: &Value, offline: &Offline) -> Drift {
    drift(pod, offline, "2026-02-02T00:00:00Z".parse().unwrap()).unwrap()
}

fn states(drift: &Drift) -> Vec<String> {
    drift.sidecar_sets.iter().map(|set| format!("{}: {}", set.sidecar_set, set.state)).collect()
}

fn lines(drift: &Drift) -> Vec<String> {
    let of_container = |container: &ContainerDrift| {
        let differences = container.differences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let set = container.sidecar_set.as_deref().unwrap_or("?");
        format!("{set}/{} {:?} {differences}", container.container, container.change).trim_end().to_owned()
    };
    drift.containers.iter().map(of_container).chain(drift.pod.iter().map(ToString::to_string)).collect()
}

#[test]
fn a_pod_that_was_just_created_has_what_it_would_get() {
    let offline = offline([mesh("envoy:1")]);
    let pod = created(&offline);
    let drift = of(&pod, &offline);
    assert_eq!(lines(&drift), Vec::<String>::new());
    assert!(drift.is_empty(), "{drift:?}");
    let [set] = &drift.sidecar_sets[..] else { panic!() };
    assert_eq!(set.has_revision, set.revision);
    assert_eq!(set.injected_at.as_deref(), Some("2026-01-01T00:00:00Z"));
}

#[test]
fn an_older_revision_shows_what_has_changed_since() {
    let pod = created(&offline([mesh("envoy:1")]));
    let mut newer = mesh("envoy:2");
    newer.spec.containers[0].container.insert("args".to_owned(), json!(["-v"]));
    pillion_api::sidecarset::prepare(&mut newer);
    let drift = of(&pod, &offline([newer]));
    assert_eq!(states(&drift), ["mesh: other revision"]);
    assert_eq!(lines(&drift), [r#"mesh/proxy Changed image: envoy:1 -> envoy:2, args: + ["-v"]"#]);
    assert_ne!(drift.sidecar_sets[0].has_revision, drift.sidecar_sets[0].revision);
}

#[test]
fn a_container_that_was_edited_is_not_what_its_revision_says() {
    let offline = offline([mesh("envoy:1")]);
    let mut pod = created(&offline);
    let proxy =
        pod["spec"]["containers"].as_array_mut().unwrap().iter_mut().find(|own| own["name"] == "proxy").unwrap();
    proxy["image"] = json!("envoy:debug");
    let drift = of(&pod, &offline);
    assert_eq!(states(&drift), ["mesh: same revision, but changed since it was injected"]);
    assert_eq!(lines(&drift), ["mesh/proxy Changed image: envoy:debug -> envoy:1"]);
}

#[test]
fn a_pod_of_before_the_set_misses_its_sidecars() {
    let pod = created(&offline([]));
    let drift = of(&pod, &offline([mesh("envoy:1")]));
    assert_eq!(states(&drift), ["mesh: missing"]);
    assert_eq!(
        lines(&drift),
        [
            "mesh/proxy Added",
            "volumes[certs].configMap.name: + certs",
            "volumes[certs].configMap.defaultMode: + 420",
            "imagePullSecrets[registry]: + registry"
        ]
    );
}

#[test]
fn the_sidecars_of_a_set_that_was_deleted_are_left_over() {
    let pod = created(&offline([
        mesh("envoy:1"),
        mk_set("logs", json!({"app": "web"}), json!({"containers": [mk_container("logs")]})),
    ]));
    let drift = of(&pod, &offline([mesh("envoy:1")]));
    assert_eq!(states(&drift), ["logs: would not be injected today", "mesh: up to date"]);
    assert_eq!(lines(&drift), ["logs/logs Removed"]);
}

#[test]
fn a_record_that_was_copied_is_not_believed() {
    let offline = offline([mesh("envoy:1")]);
    let record = created(&offline)["metadata"]["annotations"].clone();
    let mut copy = created(&super::tests::offline([]));
    copy["metadata"]["annotations"] = record;
    assert_eq!(states(&of(&copy, &offline)), ["mesh: missing"]);
    let mut broken = created(&offline);
    broken["metadata"]["annotations"][names::HASH] = json!("nonsense");
    assert_eq!(states(&of(&broken, &offline)), ["mesh: missing"], "a record that cannot be read says nothing");
}

#[test]
fn what_a_limit_range_adds_to_sidecars_is_no_difference() {
    let range = json!({"spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}});
    let mut offline = offline([mesh("envoy:1")]);
    offline.limit_ranges = BTreeMap::from([("default".to_owned(), vec![range])]);
    let pod = created(&offline);
    assert!(of(&pod, &offline).is_empty());
    offline.limit_ranges.clear();
    let drift = of(&pod, &offline);
    assert_eq!(lines(&drift), ["mesh/proxy Changed resources.limits.memory: - 1Gi, resources.requests.memory: - 1Gi"]);
}

#[test]
fn an_opted_out_pod_and_one_that_ends_are_compared_like_any_other() {
    let offline = offline([mesh("envoy:1")]);
    let mut pod = created(&offline);
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(of(&pod, &offline).is_empty());
    pod["metadata"]["annotations"][names::INJECT] = json!("false");
    assert_eq!(states(&of(&pod, &offline)), ["mesh: would not be injected today"]);
}

#[test]
fn a_hot_upgrade_pair_is_compared_by_the_container_that_works() {
    let hot = |image: &str| {
        let strategy = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        mk_set(
            "mesh",
            json!({"app": "web"}),
            json!({"containers": [{"name": "hot", "image": image, "upgradeStrategy": strategy}]}),
        )
    };
    let first = offline([hot("hot:1")]);
    let mut pod = created(&first);
    assert!(of(&pod, &first).is_empty());
    // After an upgrade the second container works.
    pod["metadata"]["annotations"][names::WORKING_HOT_UPGRADE_CONTAINER] = json!(r#"{"hot":"hot-2"}"#);
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        match container["name"].as_str().unwrap() {
            "hot-1" => container["image"] = json!("empty:1"),
            "hot-2" => container["image"] = json!("hot:2"),
            _ => {}
        }
    }
    assert_eq!(lines(&of(&pod, &offline([hot("hot:2")]))), Vec::<String>::new());
    assert_eq!(lines(&of(&pod, &offline([hot("hot:3")]))), ["mesh/hot-2 Changed image: hot:2 -> hot:3"]);
}

#[test]
fn a_pod_that_would_be_refused_is_compared_with_nothing() {
    let pod = created(&offline([mesh("envoy:1")]));
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu - 5"}}});
    let strict = mk_set(
        "mesh",
        json!({"app": "web"}),
        json!({"containers": [{"name": "proxy", "image": "p", "resourcesPolicy": policy}]}),
    );
    let drift = of(&pod, &offline([strict]));
    assert!(drift.denied.as_deref().unwrap().contains("calculation result is negative"), "{drift:?}");
    assert_eq!(states(&drift), ["mesh: a new pod would be refused"]);
}

#[test]
fn a_pod_that_a_limit_range_would_refuse_is_compared_with_nothing() {
    let mut offline = offline([mesh("envoy:1")]);
    let pod = created(&offline);
    let range = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}});
    offline.limit_ranges = BTreeMap::from([("default".to_owned(), vec![range])]);
    let drift = of(&pod, &offline);
    assert_eq!(drift.denied.as_deref(), Some("LimitRange: maximum cpu usage per Pod is 2, but limit is 3"));
    assert_eq!(states(&drift), ["mesh: a new pod would be refused"]);
}

/// What a set can do to a pod, in all combinations.
#[test]
fn whatever_was_just_injected_is_no_difference() {
    type Part = fn(&mut Value);
    let parts: [Part; 8] = [
        |spec| {
            spec["initContainers"] =
                json!([{"name": "native", "image": "n:1", "restartPolicy": "Always"}, mk_container("setup")]);
        },
        |spec| {
            spec["containers"][0]["upgradeStrategy"] =
                json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        },
        |spec| spec["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"}),
        |spec| spec["containers"][0]["transferEnv"] = json!([{"sourceContainerName": "app", "envName": "MODE"}]),
        |spec| spec["containers"][0]["podInjectPolicy"] = json!("AfterAppContainer"),
        |spec| spec["patchPodMetadata"] = json!([{"annotations": {"a": "1"}, "patchPolicy": "Overwrite"}]),
        |spec| {
            spec["containers"][1]["volumeMounts"] =
                json!([{"name": "certs", "mountPath": "/certs"}, {"name": "data", "mountPath": "/d"}]);
            spec["volumes"] =
                json!([{"name": "certs", "secret": {"secretName": "s"}}, {"name": "data", "emptyDir": {}}]);
            spec["imagePullSecrets"] = json!([{"name": "registry"}]);
        },
        |spec| {
            spec["containers"][1]["ports"] = json!([{"containerPort": 80}]);
            spec["containers"][1]["livenessProbe"] = json!({"tcpSocket": {"port": 80}});
            spec["containers"][1]["lifecycle"] = json!({"preStop": {"httpGet": {"port": 80}}});
        },
    ];
    for combination in 0..1_usize << parts.len() {
        let mut spec = json!({"containers": [mk_container("first"), mk_container("second")]});
        for (_, part) in parts.iter().enumerate().filter(|(i, _)| combination & (1 << i) != 0) {
            part(&mut spec);
        }
        let offline = offline([mk_set("mesh", json!({"app": "web"}), spec.clone())]);
        let drift = of(&created(&offline), &offline);
        assert!(drift.is_empty(), "{spec:#}: {:#?}", lines(&drift));
    }
}
