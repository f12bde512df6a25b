//! What applies and updates make of objects and of each other's fields.

use super::Step::{Apply, Conflict, Force, Update};
use super::*;

fn data(fields: Value) -> Value {
    json!({ "data": fields })
}

fn finalizers(list: &[&str]) -> Value {
    json!({"metadata": {"finalizers": list}})
}

fn containers(list: Value) -> Value {
    json!({"spec": {"containers": list}})
}

#[track_caller]
fn assert_data(steps: Vec<Step>, fields: Value, owners: &[&str]) {
    let (object, owned) = play("ConfigMap", steps);
    assert_eq!((&object["data"], owned), (&fields, owners.iter().map(ToString::to_string).collect()));
}

#[track_caller]
fn assert_finalizers(steps: Vec<Step>, list: &[&str], owners: &[&str]) {
    let (object, owned) = play("ConfigMap", steps);
    assert_eq!(
        (&object["metadata"]["finalizers"], owned),
        (&json!(list), owners.iter().map(ToString::to_string).collect())
    );
}

#[track_caller]
fn assert_containers(steps: Vec<Step>, list: Value, owners: &[&str]) {
    let (object, owned) = play("Pod", steps);
    assert_eq!((&object["spec"]["containers"], owned), (&list, owners.iter().map(ToString::to_string).collect()));
}

#[test]
fn leaves_are_owned_one_by_one() {
    // leaf_test.go: apply_twice, apply_update_apply_no_conflict, update_apply_omits, update_remove_empty_set, apply_remove_empty_set.
    assert_data(
        vec![
            Apply("default", data(json!({"numeric": "1", "string": "string"}))),
            Apply("default", data(json!({"numeric": "2", "string": "string", "bool": "false"}))),
        ],
        json!({"numeric": "2", "string": "string", "bool": "false"}),
        &["default Apply: .data.bool .data.numeric .data.string"],
    );
    assert_data(
        vec![
            Apply("default", data(json!({"numeric": "1", "string": "string"}))),
            Update("controller", data(json!({"numeric": "1", "string": "string", "bool": "true"}))),
            Apply("default", data(json!({"numeric": "2", "string": "string"}))),
        ],
        json!({"numeric": "2", "string": "string", "bool": "true"}),
        &["default Apply: .data.numeric .data.string", "controller Update: .data.bool"],
    );
    assert_data(
        vec![
            Apply("default", data(json!({"numeric": "2"}))),
            Update("controller", data(json!({"numeric": "1"}))),
            Apply("default", json!({})),
        ],
        json!({"numeric": "1"}),
        &["controller Update: .data.numeric"],
    );
    assert_data(
        vec![Apply("default", data(json!({"string": "string"}))), Apply("default", json!({}))],
        Value::Null,
        &[],
    );
}

#[test]
fn a_leaf_of_another_is_a_conflict_unless_forced() {
    // leaf_test.go: apply_update_apply_with_conflict.
    let wanted = || data(json!({"numeric": "2", "string": "user string"}));
    assert_data(
        vec![
            Apply("default", data(json!({"numeric": "1", "string": "string"}))),
            Update("controller", data(json!({"numeric": "1", "string": "controller string", "bool": "true"}))),
            Conflict(
                "default",
                wanted(),
                r#"Apply failed with 1 conflict: conflict with "controller" using v1: .data.string"#,
            ),
            Force("default", wanted()),
        ],
        json!({"numeric": "2", "string": "user string", "bool": "true"}),
        &["default Apply: .data.numeric .data.string", "controller Update: .data.bool"],
    );
}

#[test]
fn sets_are_owned_by_value_and_keep_the_order_of_the_last_who_applied() {
    // set_test.go.
    assert_finalizers(
        vec![
            Apply("default", finalizers(&["a", "c"])),
            Update("controller", finalizers(&["a", "b", "c", "d"])),
            Apply("default", finalizers(&["a", "aprime", "c", "cprime"])),
        ],
        &["a", "b", "aprime", "c", "d", "cprime"],
        &[
            r#"default Apply: .metadata.finalizers[="a"] .metadata.finalizers[="aprime"] .metadata.finalizers[="c"] .metadata.finalizers[="cprime"]"#,
            r#"controller Update: .metadata.finalizers[="b"] .metadata.finalizers[="d"]"#,
        ],
    );
    assert_finalizers(
        vec![
            Apply("default", finalizers(&["a", "b", "c", "d"])),
            Update("controller", finalizers(&["a", "d", "c", "b"])),
            Apply("default", finalizers(&["a", "b", "c", "d"])),
        ],
        &["a", "b", "c", "d"],
        &[
            r#"default Apply: .metadata.finalizers[="a"] .metadata.finalizers[="b"] .metadata.finalizers[="c"] .metadata.finalizers[="d"]"#,
        ],
    );
    assert_finalizers(
        vec![Apply("default", finalizers(&["a", "b", "c", "d"])), Apply("default", finalizers(&["a", "c", "e"]))],
        &["a", "c", "e"],
        &[r#"default Apply: .metadata.finalizers[="a"] .metadata.finalizers[="c"] .metadata.finalizers[="e"]"#],
    );
}

#[test]
fn what_is_twice_in_a_set_is_owned_as_one() {
    // duplicates_test.go: sets/….
    assert_finalizers(
        vec![Update("updater-one", finalizers(&["1", "3"])), Update("updater-two", finalizers(&["1", "1", "3"]))],
        &["1", "1", "3"],
        &[
            r#"updater-one Update: .metadata.finalizers .metadata.finalizers[="3"]"#,
            r#"updater-two Update: .metadata.finalizers[="1"]"#,
        ],
    );
    assert_finalizers(
        vec![
            Update("updater", finalizers(&["1", "1", "3", "4"])),
            Conflict(
                "applier",
                finalizers(&["1"]),
                r#"Apply failed with 1 conflict: conflict with "updater" using v1: .metadata.finalizers[="1"]"#,
            ),
            Force("applier", finalizers(&["1"])),
        ],
        &["1", "3", "4"],
        &[
            r#"applier Apply: .metadata.finalizers[="1"]"#,
            r#"updater Update: .metadata.finalizers .metadata.finalizers[="3"] .metadata.finalizers[="4"]"#,
        ],
    );
    assert_finalizers(
        vec![Update("updater", finalizers(&["1", "1", "3"])), Apply("applier", finalizers(&["5"]))],
        &["1", "1", "3", "5"],
        &[
            r#"applier Apply: .metadata.finalizers[="5"]"#,
            r#"updater Update: .metadata.finalizers .metadata.finalizers[="1"] .metadata.finalizers[="3"]"#,
        ],
    );
}

#[test]
fn what_is_twice_in_a_list_with_keys_is_owned_as_one() {
    // duplicates_test.go: list/….
    let twice =
        || containers(json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"name": "b", "image": "3"}]));
    assert_containers(
        vec![Update("updater", twice()), Force("applier", containers(json!([{"name": "b", "image": "4"}])))],
        json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"name": "b", "image": "4"}]),
        &[
            r#"applier Apply: .spec.containers[name="b"] .spec.containers[name="b"].image .spec.containers[name="b"].name"#,
            r#"updater Update: .spec.containers[name="a"] .spec.containers[name="b"] .spec.containers[name="b"].name"#,
        ],
    );
    let once = || containers(json!([{"name": "a", "image": "3"}]));
    assert_containers(
        vec![
            Update("updater", twice()),
            Conflict(
                "applier",
                once(),
                r#"Apply failed with 1 conflict: conflict with "updater" using v1: .spec.containers[name="a"]"#,
            ),
            Force("applier", once()),
        ],
        json!([{"name": "a", "image": "3"}, {"name": "b", "image": "3"}]),
        &[
            r#"applier Apply: .spec.containers[name="a"] .spec.containers[name="a"].image .spec.containers[name="a"].name"#,
            r#"updater Update: .spec.containers[name="b"] .spec.containers[name="b"].image .spec.containers[name="b"].name"#,
        ],
    );
    assert_containers(
        vec![
            Apply("applier", containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "3"}]))),
            Update("updater", twice()),
            Apply("applier", containers(json!([{"name": "b", "image": "3"}]))),
        ],
        json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"name": "b", "image": "3"}]),
        &[
            r#"applier Apply: .spec.containers[name="b"] .spec.containers[name="b"].image .spec.containers[name="b"].name"#,
            r#"updater Update: .spec.containers[name="a"]"#,
        ],
    );
}

#[test]
fn items_go_with_their_last_applier() {
    // multiple_appliers_test.go: remove_one_keep_one, remove_one_keep_one_with_dangling_subitem, remove_one_with_managed_subitem_keep_one.
    let (a, b, c) = (json!({"name": "a"}), json!({"name": "b"}), json!({"name": "c"}));
    assert_containers(
        vec![
            Apply("apply-one", containers(json!([a, b, c]))),
            Apply("apply-two", containers(json!([c, {"name": "d"}]))),
            Apply("apply-one", containers(json!([a]))),
        ],
        json!([a, c, {"name": "d"}]),
        &[
            r#"apply-one Apply: .spec.containers[name="a"] .spec.containers[name="a"].name"#,
            r#"apply-two Apply: .spec.containers[name="c"] .spec.containers[name="d"] .spec.containers[name="c"].name .spec.containers[name="d"].name"#,
        ],
    );
    let env =
        |names: &[&str]| json!({"name": "b", "env": names.iter().map(|name| json!({"name": name})).collect::<Value>()});
    assert_containers(
        vec![
            Apply("apply-one", containers(json!([a, env(&["c"])]))),
            Apply("apply-two", containers(json!([env(&["d"])]))),
            Update("controller", containers(json!([a, env(&["c", "d", "e"])]))),
            Apply("apply-one", containers(json!([a]))),
        ],
        json!([a, env(&["d", "e"])]),
        &[
            r#"apply-one Apply: .spec.containers[name="a"] .spec.containers[name="a"].name"#,
            r#"apply-two Apply: .spec.containers[name="b"] .spec.containers[name="b"].name .spec.containers[name="b"].env[name="d"] .spec.containers[name="b"].env[name="d"].name"#,
            r#"controller Update: .spec.containers[name="b"].env[name="e"] .spec.containers[name="b"].env[name="e"].name"#,
        ],
    );
    // An item that nobody else applies goes even though an update owns something in it.
    assert_containers(
        vec![
            Apply("apply-one", containers(json!([a, env(&["c"])]))),
            Update("controller", containers(json!([a, env(&["c", "d"])]))),
            Apply("apply-one", containers(json!([a]))),
        ],
        json!([a]),
        &[r#"apply-one Apply: .spec.containers[name="a"] .spec.containers[name="a"].name"#],
    );
}

#[test]
fn structs_stay_for_what_others_have_in_them() {
    // nested_test.go: struct_apply_remove_all, struct_apply_update_remove_all, struct_apply_update_dict_dangling, struct_apply_update_took_over.
    let security = |fields: Value| json!({"spec": {"securityContext": fields}});
    for last in [json!({}), security(json!({})), security(Value::Null)] {
        let (object, _) =
            play("Pod", vec![Apply("default", security(json!({"runAsUser": 1}))), Apply("default", last.clone())]);
        assert_eq!(object["spec"]["securityContext"], Value::Null, "{last}");
    }
    for last in [json!({}), security(json!({})), security(Value::Null)] {
        let (object, _) = play(
            "Pod",
            vec![
                Apply("default", security(json!({"runAsUser": 1}))),
                Update("controller", security(json!({"runAsUser": 1, "fsGroup": 2}))),
                Apply("default", last.clone()),
            ],
        );
        assert_eq!(object["spec"]["securityContext"], json!({"fsGroup": 2}), "{last}");
    }
    let (object, _) = play(
        "Pod",
        vec![
            Apply("default", security(json!({"runAsUser": 1}))),
            Update("controller", security(json!({"runAsUser": 3, "fsGroup": 2}))),
            Apply("default", security(Value::Null)),
        ],
    );
    assert_eq!(object["spec"]["securityContext"], json!({"runAsUser": 3, "fsGroup": 2}));
}

#[test]
fn atomic_values_change_hands_as_a_whole() {
    let selector =
        |fields: Value| json!({"spec": {"nodeSelector": fields, "containers": [{"name": "c", "args": ["a"]}]}});
    let (object, owners) = play(
        "Pod",
        vec![
            Apply("one", selector(json!({"a": "1"}))),
            Conflict(
                "two",
                json!({"spec": {"nodeSelector": {"b": "1"}, "containers": [{"name": "c", "args": ["a", "b"]}]}}),
                "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.nodeSelector\n- .spec.containers[name=\"c\"].args",
            ),
            Force("two", selector(json!({"b": "1"}))),
        ],
    );
    assert_eq!(object["spec"]["nodeSelector"], json!({"b": "1"}));
    let container = r#".spec.containers[name="c"] .spec.containers[name="c"].args .spec.containers[name="c"].name"#;
    assert_eq!(owners, [format!("one Apply: {container}"), format!("two Apply: .spec.nodeSelector {container}")]);
    // `RawExtension` as well.
    let (_, owners) = play(
        "ControllerRevision",
        vec![Apply("one", json!({"data": {"spec": {"a": 1}}})), Force("two", json!({"data": {"spec": {"b": 1}}}))],
    );
    assert_eq!(owners, ["two Apply: .data"]);
}

#[test]
fn keys_that_are_left_out_count_as_their_defaults() {
    // default_keys_test.go.
    let ports = |ports: Value| containers(json!([{"name": "c", "ports": ports}]));
    let (object, _) = play(
        "Pod",
        vec![
            Apply("one", ports(json!([{"containerPort": 80}]))),
            Apply("two", ports(json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}]))),
            Apply("three", ports(json!([{"containerPort": 80, "protocol": "UDP"}]))),
            Apply("one", ports(json!([]))),
        ],
    );
    assert_eq!(
        object["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}, {"containerPort": 80, "protocol": "UDP"}])
    );
}

#[test]
fn reset_fields_are_neither_owned_nor_taken() {
    // ignore_test.go.
    let main = Context { reset: &[&["status"]], ..context("Pod", "main") };
    let status = Context {
        manager: Manager { name: "kubelet", subresource: "status" },
        reset: &[&["spec"], &["metadata", "labels"]],
        ..context("Pod", "")
    };
    let pod = |labels: &str, node: &str, phase: &str| {
        object(
            &main,
            json!({"metadata": {"labels": {"a": labels}}, "spec": {"nodeName": node}, "status": {"phase": phase}}),
        )
    };
    let mut live = pod("1", "n", "Pending");
    update(&main, None, &mut live);
    assert_eq!(owners(&live), ["main Update: .metadata.labels .metadata.labels.a .spec.nodeName"]);
    let mut next = pod("2", "m", "Running");
    update(&status, Some(&live), &mut next);
    let both =
        ["kubelet/status Update: .status.phase", "main Update: .metadata.labels .metadata.labels.a .spec.nodeName"];
    assert_eq!(owners(&next), both);
    let applier = Context { manager: Manager { name: "a", subresource: "" }, ..main };
    let error = apply(&applier, Some(&next), &pod("3", "m", "Failed"), false).expect_err("labels are taken");
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "main" using v1: .metadata.labels.a"#);
    let forced = apply(&applier, Some(&next), &pod("3", "m", "Failed"), true).expect("force");
    assert_eq!(owners(&forced)[0], "a Apply: .metadata.labels.a .spec.nodeName");
}

#[test]
fn an_update_that_changes_nothing_changes_no_owner() {
    let context = context("ConfigMap", "one");
    let mut live = object(&context, data(json!({"a": "1"})));
    update(&context, None, &mut live);
    let later =
        Context { now: at("2027-01-01T00:00:00Z"), manager: Manager { name: "two", subresource: "" }, ..context };
    let mut same = live.clone();
    update(&later, Some(&live), &mut same);
    assert_eq!(same, live);
    // Nor if the writer left the list out.
    let mut without = object(&context, data(json!({"a": "1"})));
    update(&later, Some(&live), &mut without);
    assert_eq!(without, live);
}

#[test]
fn the_one_who_updates_again_has_one_entry_with_the_latest_time() {
    // managedfieldsupdater_test.go.
    let context = context("ConfigMap", "one");
    let mut live = object(&context, data(json!({"a": "1", "b": "1"})));
    update(&context, None, &mut live);
    let later = Context { now: at("2026-11-15T13:30:00.5Z"), ..context };
    let mut next = object(&context, data(json!({"a": "2", "c": "1"})));
    update(&later, Some(&live), &mut next);
    assert_eq!(owners(&next), ["one Update: .data .data.a .data.c"]);
    assert_eq!(next["metadata"]["managedFields"][0]["time"], "2026-11-15T13:30:00Z");
}

#[test]
fn the_writer_may_send_the_list_or_empty_it() {
    let context = context("ConfigMap", "one");
    let live = {
        let mut live = object(&context, json!({"metadata": {"uid": "u"}, "data": {"a": "1"}}));
        update(&context, None, &mut live);
        live
    };
    let entry = json!({
        "manager": "other", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}
    });
    let sent = |list: Value| {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = list;
        update(&context, Some(&live), &mut new);
        owners(&new)
    };
    assert_eq!(sent(json!([entry])), ["other Apply: .data.a"]);
    // Nothing well-formed: what was there stays.
    let kept = ["one Update: .data .data.a"];
    assert_eq!(sent(Value::Null), kept);
    for (field, value) in [
        ("operation", json!("RANDOM")),
        ("fieldsType", json!("")),
        ("apiVersion", json!("")),
        ("fieldsV1", json!({"a": 1})),
    ] {
        let mut broken = entry.clone();
        broken[field] = value;
        assert_eq!(sent(json!([entry, broken])), kept, "{field}");
    }
    // Emptied: nobody owns anything, until somebody applies.
    for list in [json!([]), json!([{}])] {
        assert!(sent(list).is_empty());
    }
    let mut unmanaged = live.clone();
    set_managed_fields(&mut unmanaged, Vec::new());
    let mut next = unmanaged.clone();
    next["data"]["b"] = "1".into();
    update(&context, Some(&unmanaged), &mut next);
    assert!(owners(&next).is_empty());
    let applied = apply(&context, Some(&next), &object(&context, data(json!({"b": "1"}))), false).expect("applies");
    assert_eq!(owners(&applied), ["one Apply: .data.b", "before-first-apply Update: .data .data.a .data.b"]);
}

#[test]
fn a_subresource_does_not_set_the_list() {
    let context = context("Pod", "one");
    let mut live = object(&context, json!({"spec": {"nodeName": "n"}}));
    update(&context, None, &mut live);
    let mut next = live.clone();
    next["metadata"]["managedFields"] = json!([]);
    update(&Context { manager: Manager { name: "k", subresource: "status" }, ..context }, Some(&live), &mut next);
    assert_eq!(next, live);
}

#[test]
fn of_more_than_ten_updaters_the_oldest_are_merged() {
    // capmanagers_test.go.
    let mut live: Option<Value> = None;
    let mut fields = serde_json::Map::new();
    for index in 0..12 {
        let name = format!("m{index:02}");
        let now = at(&format!("2026-11-15T12:00:{index:02}Z"));
        let context = Context { now, ..context("ConfigMap", &name) };
        fields.insert(format!("k{index:02}"), "v".into());
        let mut next = object(&context, data(Value::Object(fields.clone())));
        update(&context, live.as_ref(), &mut next);
        live = Some(next);
    }
    let live = live.expect("twelve updates");
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], "ancient-changes Update: .data .data.k00 .data.k01 .data.k02");
    assert_eq!(live["metadata"]["managedFields"][0]["time"], "2026-11-15T12:00:02Z");
    assert_eq!(owners[9], "m11 Update: .data.k11");
}

#[test]
fn a_version_that_is_not_served_is_forgotten() {
    // obsolete_versions_test.go.
    let context = context("Deployment", "one");
    let entry = |version: &str| {
        json!({
            "manager": version, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}
        })
    };
    let mut live = object(&context, json!({"spec": {"replicas": 1}}));
    live["metadata"]["managedFields"] = json!([entry("apps/v1"), entry("extensions/v1beta1")]);
    let mut next = live.clone();
    next["spec"]["paused"] = true.into();
    update(&context, Some(&live), &mut next);
    assert_eq!(owners(&next), ["apps/v1 Update: .spec.replicas", "one Update: .spec.paused"]);
}

#[test]
fn what_became_atomic_is_owned_as_a_whole() {
    // schema_change_test.go.
    let context = context("Pod", "two");
    let mut live = object(&context, json!({"spec": {"nodeSelector": {"a": "1"}}}));
    live["metadata"]["managedFields"] = json!([{
        "manager": "one", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:nodeSelector": {".": {}, "f:a": {}}}}
    }]);
    let applied =
        apply(&context, Some(&live), &object(&context, json!({"spec": {"hostname": "h"}})), false).expect("applies");
    assert_eq!(owners(&applied), ["one Apply: .spec.nodeSelector", "two Apply: .spec.hostname"]);
}

#[test]
fn kubectl_moves_from_client_side_to_server_side_apply() {
    // lastappliedmanager_test.go and lastappliedupdater_test.go.
    let client = context("ConfigMap", "kubectl-client-side-apply");
    let last = r#"{"apiVersion":"v1","data":{"a":"1","b":"1"},"kind":"ConfigMap","metadata":{"name":"x"}}"#;
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut live =
        object(&client, json!({"metadata": {"annotations": {annotation: last}}, "data": {"a": "1", "b": "1"}}));
    update(&client, None, &mut live);
    let wanted = object(&client, data(json!({"a": "<2>", "b": "1"})));
    // Under its own name kubectl may change what it applied before, and keeps the annotation true.
    let kubectl = context("ConfigMap", "kubectl");
    let moved = apply(&kubectl, Some(&live), &wanted, false).expect("its own fields");
    assert_eq!(
        moved["metadata"]["annotations"][annotation],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c2\\u003e\",\"b\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n"
    );
    assert_eq!(owners(&moved)[0], "kubectl Apply: .data.a .data.b");
    // Under another name, or with what somebody else changed since, it may not.
    let conflict = r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.a"#;
    let other = context("ConfigMap", "other");
    assert_eq!(apply(&other, Some(&live), &wanted, false).expect_err("a conflict").to_string(), conflict);
    let mut edited = live.clone();
    edited["data"]["a"] = "3".into();
    update(&context("ConfigMap", "edit"), Some(&live), &mut edited);
    assert_eq!(
        apply(&kubectl, Some(&edited), &wanted, false).expect_err("a conflict").to_string(),
        r#"Apply failed with 1 conflict: conflict with "edit" using v1: .data.a"#
    );
}

#[test]
fn times_alone_are_no_change() {
    let context = context("ConfigMap", "one");
    let applied = object(&context, json!({"data": {}}));
    let mut live = apply(&context, None, &object(&context, data(json!({"a": "1"}))), false).expect("applies");
    live["metadata"]["uid"] = "u".into();
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["time"] = "2027-01-01T00:00:00Z".into();
    keep_times(&live, &mut new);
    assert_eq!(new, live);
    // With a change beside them they stay.
    new["metadata"]["managedFields"][0]["time"] = "2027-01-01T00:00:00Z".into();
    new["data"] = applied["data"].clone();
    let changed = new.clone();
    keep_times(&live, &mut new);
    assert_eq!(new, changed);
}
