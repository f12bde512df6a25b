use pillion_api::pod::Pod;
use pillion_testkit::mk_set;
use serde_json::{Value, json};

use super::{base_pod, container, inject, names};

fn set(spec: Value) -> pillion_api::sidecarset::SidecarSet {
    mk_set("s", json!({"app": "test"}), spec)
}

#[test]
fn only_volumes_that_a_sidecar_mounts_are_injected() {
    let pod = inject(
        &base_pod(),
        [set(json!({
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "volume-1", "mountPath": "/1"}, {"name": "undeclared", "mountPath": "/2"}]}],
            "volumes": [{"name": "volume-1", "emptyDir": {}}, {"name": "volume-2", "emptyDir": {}}]
        }))],
    );
    assert_eq!(names(&pod["spec"]["volumes"]), ["volume-a", "volume-b", "volume-1"]);
}

#[test]
fn the_pods_own_volume_of_a_name_wins() {
    let pod = inject(
        &base_pod(),
        [set(json!({
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "volume-a", "mountPath": "/1"}]}],
            "volumes": [{"name": "volume-a", "hostPath": {"path": "/x"}}]
        }))],
    );
    assert_eq!(pod["spec"]["volumes"], base_pod().as_value()["spec"]["volumes"]);
}

#[test]
fn shared_mounts_come_after_the_sidecars_own_and_a_path_is_used_once() {
    let mut app = base_pod().into_value();
    app["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "volume-a", "mountPath": "/a/b"}, {"name": "volume-b", "mountPath": "/e/f"}, {"name": "volume-staragent", "mountPath": "/staragent"}
    ]);
    let pod = inject(
        &Pod::new(app).unwrap(),
        [set(json!({
            "containers": [{
                "name": "c", "image": "i", "shareVolumePolicy": {"type": "enabled"},
                "volumeMounts": [{"name": "v1", "mountPath": "/a/b/c"}, {"name": "v2", "mountPath": "/d/e/f"}, {"name": "v3", "mountPath": "/staragent"}]
            }]
        }))],
    );
    let mounts = &container(&pod, "c")["volumeMounts"];
    let paths: Vec<&str> = mounts.as_array().unwrap().iter().filter_map(|m| m["mountPath"].as_str()).collect();
    assert_eq!(paths, ["/a/b/c", "/d/e/f", "/staragent", "/a/b", "/e/f"]);
    assert_eq!(names(mounts), ["v1", "v2", "v3", "volume-a", "volume-b"]);
}

#[test]
fn a_shared_sub_path_brings_the_variables_that_it_names() {
    let with_sub_path = |expression: &str| {
        let mut app = base_pod().into_value();
        app["spec"]["containers"][0]["env"] =
            json!([{"name": "POD_NAME", "value": "p"}, {"name": "OD_NAME", "value": "o"}, {"name": "X", "value": "x"}]);
        app["spec"]["containers"][0]["volumeMounts"][0]["subPathExpr"] = json!(expression);
        let pod = inject(
            &Pod::new(app).unwrap(),
            [set(json!({
                "containers": [{"name": "c", "image": "i", "shareVolumePolicy": {"type": "enabled"}}]
            }))],
        );
        names(&container(&pod, "c")["env"]).join(",")
    };
    assert_eq!(with_sub_path("foo/$(POD_NAME)/$(OD_NAME)/conf"), "IS_INJECTED,POD_NAME,OD_NAME");
    assert_eq!(with_sub_path("foo/bar"), "IS_INJECTED");
    assert_eq!(with_sub_path(""), "IS_INJECTED");
}

#[test]
fn devices_are_shared_when_asked_for() {
    let mut app = base_pod().into_value();
    app["spec"]["containers"][0]["volumeDevices"] =
        json!([{"name": "origin", "devicePath": "/origin-1"}, {"name": "share", "devicePath": "/share"}]);
    let app = Pod::new(app).unwrap();
    let devices = |policy: Value| {
        let pod = inject(
            &app,
            [set(json!({
                "containers": [{"name": "c", "image": "i", "shareVolumeDevicePolicy": policy, "volumeDevices": [{"name": "own", "devicePath": "/own"}]}],
                "volumes": [{"name": "own", "persistentVolumeClaim": {"claimName": "c"}}]
            }))],
        );
        assert_eq!(names(&pod["spec"]["volumes"]), ["volume-a", "volume-b", "own"]);
        names(&container(&pod, "c")["volumeDevices"]).join(",")
    };
    assert_eq!(devices(Value::Null), "own");
    assert_eq!(devices(json!({"type": "disabled"})), "own");
    assert_eq!(devices(json!({"type": "enabled"})), "own,origin,share");
}

#[test]
fn variables_are_transferred_from_the_container_that_is_named_or_pointed_to() {
    let transferred = |transfer: Value| {
        let mut app = base_pod().into_value();
        app["metadata"]["annotations"] = json!({"main": "nginx"});
        let pod = inject(
            &Pod::new(app).unwrap(),
            [set(json!({
                "containers": [{"name": "c", "image": "i", "env": [{"name": "hello1", "value": "own"}], "transferEnv": [transfer]}]
            }))],
        );
        container(&pod, "c")["env"].clone()
    };
    let expected = json!([{"name": "hello1", "value": "own"}, {"name": "IS_INJECTED", "value": "true"}, {"name": "hello2", "value": "world2"}]);
    assert_eq!(transferred(json!({"sourceContainerName": "nginx", "envName": "hello2"})), expected);
    assert_eq!(
        transferred(json!({"sourceContainerName": "nginx", "envNames": ["hello2", "hello1", "none"]})),
        expected,
        "own variables win"
    );
    let by_field = |path: &str| json!({"sourceContainerName": "other", "envName": "hello2", "sourceContainerNameFrom": {"fieldRef": {"fieldPath": path}}});
    assert_eq!(transferred(by_field("metadata.annotations['main']")), expected);
    assert_eq!(
        names(&transferred(by_field("metadata.labels['main']"))),
        ["hello1", "IS_INJECTED"],
        "a label that is not there names nothing"
    );
}

#[test]
fn an_annotation_that_a_set_writes_can_name_the_container_to_copy_from() {
    let pod = inject(
        &base_pod(),
        [set(json!({
            "patchPodMetadata": [{"annotations": {"main": "nginx"}}],
            "containers": [{"name": "c", "image": "i", "transferEnv": [{
                "envName": "hello2", "sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.annotations['main']"}}}]}]
        }))],
    );
    assert_eq!(names(&container(&pod, "c")["env"]), ["IS_INJECTED", "hello2"]);
}

#[test]
fn nothing_is_taken_from_a_container_that_was_injected_before() {
    let mut app = base_pod().into_value();
    app["spec"]["containers"][0]["env"] =
        json!([{"name": "IS_INJECTED", "value": "true"}, {"name": "A", "value": "1"}]);
    let pod = inject(
        &Pod::new(app).unwrap(),
        [set(json!({"containers": [{
        "name": "c", "image": "i", "shareVolumePolicy": {"type": "enabled"}, "transferEnv": [{"sourceContainerName": "nginx", "envName": "A"}]}]}))],
    );
    assert_eq!(names(&container(&pod, "c")["env"]), ["IS_INJECTED"]);
    assert!(container(&pod, "c").get("volumeMounts").is_none());
}

#[test]
fn the_mark_of_injection_is_there_once_and_true() {
    let pod = inject(
        &base_pod(),
        [set(json!({"containers": [{"name": "c", "image": "i", "env": [{"name": "IS_INJECTED", "value": "no"}]}]}))],
    );
    assert_eq!(container(&pod, "c")["env"], json!([{"name": "IS_INJECTED", "value": "true"}]));
}

#[test]
fn pull_secrets_are_merged_by_name() {
    let merged = |pod: &[&str], set_secrets: &[&str]| {
        let list = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let mut app = base_pod().into_value();
        app["spec"]["imagePullSecrets"] = json!(list(pod));
        let pod = inject(
            &Pod::new(app).unwrap(),
            [set(json!({"containers": [{"name": "c", "image": "i"}], "imagePullSecrets": list(set_secrets)}))],
        );
        names(&pod["spec"]["imagePullSecrets"]).join(",")
    };
    assert_eq!(merged(&["s2", "s3", "s3"], &["s0", "s1", "s2"]), "s2,s3,s0,s1");
    assert_eq!(merged(&["a", "b", "c"], &["d", "e", "f"]), "a,b,c,d,e,f");
    assert_eq!(merged(&["a"], &[]), "a");
    assert_eq!(merged(&[], &["d"]), "d");
}
