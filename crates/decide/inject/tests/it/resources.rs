use pillion_api::pod::Pod;
use pillion_note::{Reason, Severity};
use pillion_testkit::{mk_container, mk_pod, mk_set, mk_sized};
use serde_json::{Value, json};

use super::{container, inject, try_inject};

fn policy(mode: &str, regex: &str, expressions: Value) -> Value {
    json!({"targetContainersMode": mode, "targetContainersNameRegex": regex, "resourcesExpr": expressions})
}

fn sidecar(policy: &Value) -> Value {
    json!({"containers": [{"name": "sidecar", "image": "i", "resourcesPolicy": policy}]})
}

fn sized(pod: &Pod, policy: &Value) -> Value {
    container(&inject(pod, [mk_set("s", json!({"app": "a"}), sidecar(policy))]), "sidecar")["resources"].clone()
}

fn refused(pod: &Pod, policy: &Value) -> String {
    try_inject(pod, [mk_set("s", json!({"app": "a"}), sidecar(policy))]).unwrap_err().to_string()
}

fn pod(containers: impl IntoIterator<Item = Value>) -> Pod {
    mk_pod("p", json!({"app": "a"}), containers)
}

fn half() -> Value {
    json!({"limits": {"cpu": "cpu*50%", "memory": "memory*50%"}, "requests": {"cpu": "cpu*50%", "memory": "memory*50%"}})
}

#[test]
fn limits_come_from_limits_and_requests_from_requests() {
    let app =
        pod([mk_sized("a", ("200m", "200Mi"), ("50m", "100Mi")), mk_sized("b", ("400m", "400Mi"), ("100m", "200Mi"))]);
    assert_eq!(
        sized(&app, &policy("sum", ".*", half())),
        json!({"limits": {"cpu": "300m", "memory": "300Mi"}, "requests": {"cpu": "75m", "memory": "150Mi"}})
    );
    assert_eq!(
        sized(&app, &policy("max", ".*", half())),
        json!({"limits": {"cpu": "200m", "memory": "200Mi"}, "requests": {"cpu": "50m", "memory": "100Mi"}})
    );
    assert_eq!(sized(&app, &policy("sum", "^a$", half()))["limits"]["cpu"], "100m");
}

#[test]
fn a_pattern_means_what_it_means_in_go() {
    let app = pod([mk_sized("app", ("200m", "200Mi"), ("", "")), mk_sized("log", ("400m", "400Mi"), ("", ""))]);
    for pattern in ["^app{|^app$", "^[[a]pp", r"\Qapp\E"] {
        assert_eq!(sized(&app, &policy("sum", pattern, half()))["limits"]["cpu"], "100m", "{pattern}");
    }
    let denied = refused(&app, &policy("sum", r"\Qa.p\E", half()));
    assert!(denied.contains(r#"no containers match the regex pattern "\\Qa.p\\E""#), "{denied}");
}

#[test]
fn a_target_without_a_limit_makes_it_unlimited_and_one_without_a_request_counts_as_zero() {
    let app = pod([mk_sized("a", ("200m", "200Mi"), ("50m", "100Mi")), mk_sized("b", ("", "400Mi"), ("", "200Mi"))]);
    assert_eq!(
        sized(&app, &policy("sum", ".*", half())),
        json!({"limits": {"memory": "300Mi"}, "requests": {"cpu": "25m", "memory": "150Mi"}})
    );
    let bounded = policy("sum", ".*", json!({"limits": {"cpu": "min(cpu, 2)"}}));
    assert_eq!(sized(&app, &bounded)["limits"]["cpu"], "2", "a bound holds for unlimited, too");
    let constant = policy("sum", ".*", json!({"limits": {"cpu": "300m"}}));
    assert_eq!(sized(&app, &constant)["limits"]["cpu"], "300m", "a constant needs no limit");
}

#[test]
fn an_absent_request_is_written_as_zero_beside_a_limit() {
    let app = pod([mk_sized("a", ("200m", "200Mi"), ("50m", "100Mi"))]);
    let only_limits =
        policy("sum", ".*", json!({"limits": {"cpu": "cpu", "memory": ""}, "requests": {"memory": "memory"}}));
    assert_eq!(
        sized(&app, &only_limits),
        json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "0", "memory": "100Mi"}})
    );
}

#[test]
fn a_request_above_its_limit_is_lowered_with_a_warning() {
    let app = pod([mk_sized("a", ("100m", "1Gi"), ("50m", "100Mi"))]);
    let set = mk_set(
        "s",
        json!({"app": "a"}),
        sidecar(&policy("sum", ".*", json!({"limits": {"cpu": "cpu"}, "requests": {"cpu": "1"}}))),
    );
    let (pod, notes) = try_inject(&app, [set]).unwrap();
    assert_eq!(
        container(&pod, "sidecar")["resources"],
        json!({"limits": {"cpu": "100m"}, "requests": {"cpu": "100m"}})
    );
    let warnings: Vec<String> =
        notes.iter().filter(|n| n.severity == Severity::Warning).map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [r#"SidecarSet "s", container "sidecar": requests.cpu 1 is above the limit 100m and was lowered to it"#]
    );
}

#[test]
fn targets_are_the_pods_own_containers_and_native_sidecars() {
    let mut app =
        pod([mk_sized("app", ("1", "1Gi"), ("1", "1Gi")), mk_sized("other", ("8", "8Gi"), ("8", "8Gi"))]).into_value();
    let mut native = mk_sized("native", ("2", "2Gi"), ("2", "2Gi"));
    native["restartPolicy"] = json!("Always");
    app["spec"]["initContainers"] = json!([mk_sized("plain", ("4", "4Gi"), ("4", "4Gi")), native]);
    // `other` is the name of a sidecar of another set, which replaces it: it is not the pod's own any more.
    let sets = [
        mk_set("s", json!({"app": "a"}), sidecar(&policy("sum", ".*", json!({"limits": {"cpu": "cpu"}})))),
        mk_set("t", json!({"app": "a"}), json!({"containers": [mk_container("other")]})),
    ];
    let pod = inject(&Pod::new(app).unwrap(), sets);
    assert_eq!(container(&pod, "sidecar")["resources"]["limits"]["cpu"], "3");
}

#[test]
fn a_pair_for_hot_upgrade_is_sized_alike() {
    let mut spec = sidecar(&policy("sum", ".*", json!({"limits": {"cpu": "cpu"}})));
    spec["containers"][0]["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty"});
    let pod = inject(&pod([mk_sized("a", ("1", "1Gi"), ("1", "1Gi"))]), [mk_set("s", json!({"app": "a"}), spec)]);
    assert_eq!(container(&pod, "sidecar-1")["resources"], container(&pod, "sidecar-2")["resources"]);
    assert_eq!(container(&pod, "sidecar-1")["resources"]["limits"]["cpu"], "1");
}

#[test]
fn a_refusal_names_set_container_and_expression() {
    let app = pod([mk_sized("a", ("1", "1Gi"), ("500m", "1Gi"))]);
    assert_eq!(
        refused(&app, &policy("sum", "^engine$", json!({"limits": {"cpu": "cpu*2"}}))),
        "SidecarSet \"s\", container \"sidecar\": no containers match the regex pattern \"^engine$\" of resourcesPolicy \
         (the pod's own containers: a); its expression \"cpu*2\" has nothing to compute from"
    );
    assert_eq!(
        refused(&app, &policy("sum", ".*", json!({"requests": {"cpu": "cpu-1"}}))),
        "SidecarSet \"s\", container \"sidecar\": calculation result is negative: requests.cpu = cpu-1 is -500m for cpu = 500m"
    );
}

#[test]
fn claims_beside_a_policy_are_kept() {
    let mut spec = sidecar(&policy("sum", ".*", json!({"limits": {"cpu": "cpu"}})));
    spec["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}]});
    let pod = inject(&pod([mk_sized("a", ("1", "1Gi"), ("1", "1Gi"))]), [mk_set("s", json!({"app": "a"}), spec)]);
    assert_eq!(
        container(&pod, "sidecar")["resources"],
        json!({"claims": [{"name": "gpu"}], "limits": {"cpu": "1"}, "requests": {"cpu": "0"}})
    );
}

#[test]
fn the_notes_say_where_each_value_comes_from() {
    let app = pod([mk_sized("a", ("200m", ""), ("50m", "")), mk_sized("b", ("400m", ""), ("100m", ""))]);
    let set = mk_set(
        "s",
        json!({"app": "a"}),
        sidecar(&policy("sum", ".*", json!({"limits": {"cpu": "max(cpu*50%, 50m)", "memory": "1Gi"}}))),
    );
    let (_, notes) = try_inject(&app, [set]).unwrap();
    let sized: Vec<&str> = notes.iter().filter(|n| n.reason == Reason::Sized).map(|n| n.message.as_str()).collect();
    assert_eq!(
        sized,
        [
            "limits.cpu = max(cpu*50%, 50m) = 300m, with cpu = 600m, the sum of the limits of a, b",
            "requests.cpu = 0: the policy has no expression for it, and the API server would copy the limit if it were absent",
            "limits.memory = 1Gi",
            "requests.memory = 0: the policy has no expression for it, and the API server would copy the limit if it were absent",
        ]
    );
}
