//! Custom resources: what their definition says, and what it leaves open. The answers are those of Kubernetes 1.35.

use super::*;
use crate::schema::Schemas;

fn things() -> Schemas {
    Schemas::from_openapi(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "empty": {"type": "object"},
        "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "kind"],
            "items": {"type": "object", "properties": {
                "id": {"type": "integer"}, "kind": {"type": "string", "default": "d"}, "v": {"type": "integer"}
            }}
        },
        "nums": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "integer"}}},
        "port": {"x-kubernetes-int-or-string": true}
    }}}}))
}

fn context<'a>(things: &'a Schemas, manager: &'a str) -> Context<'a> {
    Context { schema: things.root(), api_version: "example.com/v1", kind: "Thing", ..super::context("Pod", manager) }
}

fn applied(things: &Schemas, live: Option<&Value>, manager: &str, spec: Value, force: bool) -> Result<Value, String> {
    let context = context(things, manager);
    apply(&context, live, &object(&context, json!({ "spec": spec })), force).map_err(|error| error.to_string())
}

#[test]
fn what_is_left_open_is_merged_by_key_and_lists_in_it_are_replaced() {
    let things = things();
    let live =
        applied(&things, None, "m1", json!({"free": {"a": {"b": 1, "c": [1]}, "l": [1]}}), false).expect("applies");
    assert_eq!(owners(&live), ["m1 Apply: .spec.free.a .spec.free.l .spec.free.a.b .spec.free.a.c"]);
    assert_eq!(
        applied(&things, Some(&live), "m2", json!({"free": {"a": {"b": 2}}}), false),
        Err(r#"Apply failed with 1 conflict: conflict with "m1": .spec.free.a.b"#.to_owned())
    );
    let forced = applied(&things, Some(&live), "m2", json!({"free": {"a": 5}}), true).expect("force");
    assert_eq!(forced["spec"], json!({"free": {"a": 5, "l": [1]}}));
    assert_eq!(owners(&forced), ["m1 Apply: .spec.free.l", "m2 Apply: .spec.free.a"]);
    let open = json!({"empty": {"any": {"thing": 1}}, "port": "x"});
    assert_eq!(applied(&things, None, "m1", open.clone(), false).expect("applies")["spec"], open);
}

#[test]
fn numbers_are_keys_and_values() {
    let things = things();
    let spec = json!({"items": [{"id": 10_000_000, "v": 1}, {"id": 2}], "nums": [1, 2.5]});
    let live = applied(&things, None, "m3", spec, false).expect("applies");
    assert_eq!(
        live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].to_string(),
        r#"{"f:items":{"k:{\"id\":2,\"kind\":\"d\"}":{".":{},"f:id":{}},"k:{\"id\":10000000,\"kind\":\"d\"}":{".":{},"f:id":{},"f:v":{}}},"f:nums":{"v:1":{},"v:2.5":{}}}"#
    );
    assert_eq!(
        applied(&things, Some(&live), "m4", json!({"items": [{"id": 10_000_000, "v": 2}]}), false),
        Err(r#"Apply failed with 1 conflict: conflict with "m3": .spec.items[id=1e+07,kind="d"].v"#.to_owned())
    );
    let same = applied(&things, Some(&live), "m4", json!({"nums": [1.0]}), false).expect("the same number");
    assert_eq!(same["spec"], live["spec"]);
}

#[test]
fn refusals_name_the_resource() {
    let things = things();
    for (spec, message) in [
        (json!({"foo": 1}), ".spec.foo: field not declared in schema"),
        (json!({"free": 5}), ".spec.free: expected map, got &{5}"),
        (
            json!({"items": [{"id": 10_000_000, "v": 1}, {"id": 10_000_000, "kind": "d"}]}),
            r#".spec.items: duplicate entries for key [id=10000000,kind="d"]"#,
        ),
    ] {
        let message = format!("failed to create typed patch object (/x; example.com/v1, Kind=Thing): {message}");
        assert_eq!(applied(&things, None, "m1", spec, false), Err(message));
    }
}

#[test]
fn entries_of_other_versions_stay() {
    let things = things();
    let context = context(&things, "m2");
    let old = Context { api_version: "example.com/v1beta1", ..context };
    let mut live = object(&old, json!({"spec": {"whole": {"x": 1}, "port": 1}}));
    update(&old, None, &mut live);
    let mut next = object(&context, json!({"spec": {"whole": {"x": 2}, "port": 1}}));
    update(&context, Some(&live), &mut next);
    assert_eq!(owners(&next), ["m2 Update: .spec.whole", "m2 Update: .spec .spec.port"]);
    assert_eq!(next["metadata"]["managedFields"][1]["apiVersion"], "example.com/v1beta1");
}

#[test]
fn an_empty_list_of_owners_means_nothing_and_an_empty_owner_resets() {
    let things = things();
    let context = context(&things, "m1");
    let mut live = object(&context, json!({"metadata": {"uid": "u"}, "spec": {"port": 1}}));
    update(&context, None, &mut live);
    for (list, kept) in [(json!([]), 1), (json!([{}]), 0)] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = list;
        update(&context, Some(&live), &mut new);
        assert_eq!(owners(&new).len(), kept);
    }
}
