use pillion_gates::Gates;
use pillion_inject::Catalog;
use pillion_note::{Draw, Reason};
use pillion_testkit::{mk_container, mk_pod, mk_set};
use serde_json::{Value, json};

use super::{NOW, base_pod, container, inject, inject_at, names, try_inject};

/// A container with one more field.
fn with(mut container: Value, key: &str, value: &str) -> Value {
    container[key] = Value::String(value.to_owned());
    container
}

#[test]
fn sidecars_stand_before_or_after_the_app_and_init_containers_after_its_own_by_name() {
    let set = mk_set(
        "s",
        json!({"app": "test"}),
        json!({
            "initContainers": [mk_container("init-2"), mk_container("init-1")],
            "containers": [mk_container("dns-f"), with(mk_container("log-agent"), "podInjectPolicy", "AfterAppContainer")]
        }),
    );
    let pod = inject(&base_pod(), [set]);
    assert_eq!(names(&pod["spec"]["containers"]), ["dns-f", "nginx", "log-agent"]);
    assert_eq!(names(&pod["spec"]["initContainers"]), ["init-0", "init-1", "init-2"]);
    for injected in ["dns-f", "log-agent", "init-1", "init-2"] {
        assert_eq!(container(&pod, injected)["env"], json!([{"name": "IS_INJECTED", "value": "true"}]), "{injected}");
    }
    assert!(container(&pod, "dns-f").get("podInjectPolicy").is_none(), "fields of the SidecarSet do not reach the pod");
}

#[test]
fn a_container_that_is_there_is_replaced_in_its_place_with_a_warning() {
    let set = || {
        mk_set(
            "s",
            json!({"app": "a"}),
            json!({"containers": [
                with(mk_container("new-sidecar-1"), "podInjectPolicy", "BeforeAppContainer"),
                with(mk_container("sidecar-1"), "podInjectPolicy", "AfterAppContainer"),
                with(mk_container("sidecar-2"), "podInjectPolicy", "AfterAppContainer"),
            ]}),
        )
    };
    let pod = |own: &[&str]| mk_pod("p", json!({"app": "a"}), own.iter().map(|name| mk_container(name)));
    let order = |own: &[&str]| names(&inject(&pod(own), [set()])["spec"]["containers"]).join(",");
    assert_eq!(order(&["app"]), "new-sidecar-1,app,sidecar-1,sidecar-2");
    assert_eq!(order(&["sidecar-1", "app", "sidecar-2"]), "new-sidecar-1,sidecar-1,app,sidecar-2");
    assert_eq!(order(&[]), "new-sidecar-1,sidecar-1,sidecar-2");

    let (_, notes) = try_inject(&pod(&["sidecar-1"]), [set()]).expect("admitted");
    let warned: Vec<&str> =
        notes.iter().filter(|n| n.reason == Reason::ContainerReplaced).filter_map(|n| n.container.as_deref()).collect();
    assert_eq!(warned, ["sidecar-1"]);
}

#[test]
fn init_containers_honour_their_inject_policy() {
    let init = |policy: Option<[&str; 3]>| {
        let containers = ["a", "c", "b"].iter().enumerate().map(|(i, name)| match policy {
            Some(policies) => with(mk_container(name), "podInjectPolicy", policies[i]),
            None => mk_container(name),
        });
        let set = mk_set("s", json!({"app": "x"}), json!({"initContainers": containers.collect::<Vec<_>>()}));
        let mut pod = mk_pod("p", json!({"app": "x"}), [mk_container("app")]).into_value();
        pod["spec"]["initContainers"] = json!([mk_container("app1-init"), mk_container("app2-init")]);
        let pod = inject(&pillion_api::pod::Pod::new(pod).expect("a pod"), [set]);
        names(&pod["spec"]["initContainers"]).join(",")
    };
    let policies = Some(["AfterAppContainer", "BeforeAppContainer", "BeforeAppContainer"]);
    assert_eq!(init(policies), "b,c,app1-init,app2-init,a");
    assert_eq!(init(None), "app1-init,app2-init,a,b,c");
}

#[test]
fn several_sets_are_injected_in_the_order_of_their_names_however_they_are_listed() {
    let set =
        |name: &str| mk_set(name, json!({"app": "test"}), json!({"containers": [mk_container(&format!("of-{name}"))]}));
    let one = inject(&base_pod(), [set("a"), set("b"), set("c")]);
    let other = inject(&base_pod(), [set("c"), set("a"), set("b")]);
    assert_eq!(one, other);
    assert_eq!(names(&one["spec"]["containers"]), ["of-a", "of-b", "of-c", "nginx"]);
}

#[test]
fn with_kruises_gate_injected_containers_are_sorted_by_name_across_sets() {
    let set = |name: &str, containers: [&str; 2]| {
        let after = |name: &str| json!({"name": name, "image": "i", "podInjectPolicy": "AfterAppContainer"});
        mk_set(name, json!({"app": "test"}), json!({"containers": containers.map(after)}))
    };
    let catalog = Catalog::new([set("s1", ["d", "a"]), set("s2", ["c", "b"])], &[]).unwrap();
    let order = |gates: &str| {
        let gates = Gates::default().with(&gates.parse().unwrap());
        let (pod, _) = inject_at(NOW, &base_pod(), &catalog, &Draw::default(), gates).unwrap();
        names(&pod["spec"]["containers"]).join(" ")
    };
    assert_eq!(order(""), "nginx d a c b");
    assert_eq!(order("EnableSortSidecarContainerByName=true"), "nginx a b c d");
}
