//! Laws that hold for every pod and every set of SidecarSets.

use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarSet;
use pillion_gates::Gates;
use pillion_inject::Catalog;
use pillion_note::Draw;
use pillion_testkit::{mk_set, mk_sized};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{inject_at, inject_with};

fn any_sidecar(name: &'static str, is_init: bool) -> impl Strategy<Value = Value> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0..3_usize).prop_map(
        move |(before, hot, shares, sized, native, mounts)| {
            let mut container = json!({
                "name": name,
                "image": format!("{name}:1"),
                "podInjectPolicy": if before { "BeforeAppContainer" } else { "AfterAppContainer" },
                "shareVolumePolicy": {"type": if shares { "enabled" } else { "disabled" }},
                "shareVolumeDevicePolicy": {"type": if shares { "enabled" } else { "disabled" }},
                "transferEnv": [{"sourceContainerName": "app", "envNames": ["A", "B"]}],
                "volumeMounts": (0..mounts).map(|i| json!({"name": format!("v{i}"), "mountPath": format!("/{name}/{i}")})).collect::<Vec<_>>()
            });
            if hot {
                container["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
            }
            if is_init && native {
                container["restartPolicy"] = json!("Always");
            }
            if sized && (native || !is_init) {
                container["resourcesPolicy"] = json!({"targetContainersMode": "sum", "resourcesExpr": {
                    "limits": {"cpu": "max(cpu*50%, 50m)", "memory": "memory/3"}, "requests": {"cpu": "cpu*2"}}});
            }
            container
        },
    )
}

fn any_set(name: &'static str, containers: [&'static str; 2]) -> impl Strategy<Value = SidecarSet> {
    let [container, init] = containers;
    let patches = prop::collection::vec(
        (
            prop::sample::select(vec!["Retain", "Overwrite", "MergePatchJson"]),
            prop::sample::select(vec![r#"{"x":1}"#, r#"{ "y": {"z": 2}, "n": null }"#]),
        ),
        0..2,
    );
    (any_sidecar(container, false), any_sidecar(init, true), patches).prop_map(move |(container, init, patches)| {
        let patches: Vec<Value> = patches
            .into_iter()
            .enumerate()
            .map(|(i, (policy, value))| json!({"patchPolicy": policy, "annotations": {format!("{name}-{i}"): value, format!("shared-{i}"): "{}"}}))
            .collect();
        mk_set(name, json!({"app": "a"}), json!({
            "containers": [container], "initContainers": [init], "patchPodMetadata": patches, "imagePullSecrets": [{"name": name}],
            "volumes": (0..3).map(|i| json!({"name": format!("v{i}"), "emptyDir": {}})).collect::<Vec<_>>()
        }))
    })
}

/// With some containers that have the names of sidecars, and are replaced by them.
fn any_pod() -> impl Strategy<Value = Value> {
    any_pod_of(vec!["app", "second", "one", "two-1"])
}

fn any_pod_of(names: Vec<&'static str>) -> impl Strategy<Value = Value> {
    let quantity = || prop::sample::select(vec!["", "100m", "2", "1500m"]);
    let memory = || prop::sample::select(vec!["", "100Mi", "1Gi", "1000M"]);
    let most = names.len();
    let names = prop::sample::subsequence(names, 1..=most);
    (names, quantity(), memory(), quantity(), any::<bool>(), any::<bool>()).prop_map(|(names, cpu, memory, request, has_annotations, has_init)| {
        let containers: Vec<Value> = names
            .iter()
            .map(|name| {
                let mut container = mk_sized(name, (cpu, memory), (request, memory));
                container["env"] = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
                container["volumeMounts"] = json!([{"name": "v1", "mountPath": "/data", "subPathExpr": "$(A)"}]);
                container["volumeDevices"] = json!([{"name": "d", "devicePath": format!("/dev/{name}")}]);
                container
            })
            .collect();
        let mut pod = json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {"containers": containers, "volumes": [{"name": "v1"}]}});
        if has_annotations {
            pod["metadata"]["annotations"] = json!({"shared-0": r#"{"old": true}"#});
        }
        if has_init {
            pod["spec"]["initContainers"] = json!([{"name": "setup", "image": "i"}]);
        }
        pod
    })
}

/// Puts a field that nobody knows into every object of the tree. Maps of strings and quantities have no fields, and a
/// mark in them would be a value.
fn sprinkle(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                if !["labels", "annotations", "limits", "requests"].contains(&key.as_str()) {
                    sprinkle(value);
                }
            }
            object.insert("fieldOfTheFuture".to_owned(), json!({"deep": [1]}));
        }
        Value::Array(list) => list.iter_mut().for_each(sprinkle),
        _ => {}
    }
}

/// Whether `small` is in `large`: every field at its place, every item of a list among those of the other.
fn is_within(small: &Value, large: &Value) -> bool {
    match (small, large) {
        (Value::Object(small), Value::Object(large)) => {
            small.iter().all(|(key, value)| large.get(key).is_some_and(|other| is_within(value, other)))
        }
        (Value::Array(small), Value::Array(large)) => small.iter().all(|item| large.contains(item)),
        _ => small == large,
    }
}

fn two_sets() -> impl Strategy<Value = [SidecarSet; 2]> {
    (any_set("s1", ["one", "init-one"]), any_set("s2", ["two", "init-two"])).prop_map(|(a, b)| [a, b])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn injecting_twice_is_injecting_once(pod in any_pod(), sets in two_sets()) {
        let catalog = Catalog::new(sets, &[]).unwrap();
        let Ok((once, _)) = inject_with(&Pod::new(pod).unwrap(), &catalog, &Draw::default()) else { return Ok(()) };
        let again = Pod::new(once.clone()).unwrap();
        let (twice, _) = inject_at("2027-01-01T00:00:00Z", &again, &catalog, &Draw::default(), Gates::default())
            .expect("an injected pod is admitted again");
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn fields_that_nobody_knows_survive_at_every_level(pod in any_pod_of(vec!["app", "second", "third"]), sets in two_sets()) {
        let mut pod = pod;
        sprinkle(&mut pod);
        let catalog = Catalog::new(sets, &[]).unwrap();
        let (after, _) = inject_with(&Pod::new(pod.clone()).unwrap(), &catalog, &Draw::default()).expect("admitted");
        // What a set may overwrite is an annotation of its own name.
        if let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !key.starts_with("shared-"));
        }
        prop_assert!(is_within(&pod, &after), "{after:#} does not hold all of {pod:#}");
    }
}
