//! What is not applied, and the words for it.

use super::*;

fn refused(parts: Value) -> String {
    let context = context("Deployment", "m1");
    match apply(&context, None, &object(&context, parts), false) {
        Err(ApplyError::Invalid(message)) => message
            .strip_prefix("failed to create typed patch object (/x; apps/v1, Kind=Deployment): ")
            .unwrap_or(&message)
            .to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_the_schema_is_refused_in_kubernetes_words() {
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let containers = |list: Value| template(json!({ "containers": list }));
    for (parts, message) in [
        (json!({"spec": {"foo": 1}}), ".spec.foo: field not declared in schema"),
        (json!({"spec": {"replicas": "x"}}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            json!({"spec": {"replicas": {}}}),
            ".spec.replicas: expected numeric (int or float), got map[string]interface {}",
        ),
        (json!({"spec": {"paused": "x"}}), ".spec.paused: expected boolean, got &{x}"),
        (json!({"spec": {"paused": 5_000_000}}), ".spec.paused: expected boolean, got &{5000000}"),
        (
            json!({"spec": {"paused": {"a": [1, null, "x", 1.5, true]}}}),
            ".spec.paused: expected boolean, got &{map[a:[1 <nil> x 1.5 true]]}",
        ),
        (
            json!({"metadata": {"labels": {"a": 5}}}),
            ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            json!({"metadata": {"labels": {"a": {"b": [1, null, "x", {}]}}}}),
            r#".metadata.labels.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"b":[]interface {}{1, interface {}(nil), "x", map[string]interface {}{}}}}"#,
        ),
        (json!({"metadata": {"labels": [1]}}), ".metadata.labels: expected map, got &{[1]}"),
        (containers(json!({"a": "b"})), ".spec.template.spec.containers: expected list, got &{map[a:b]}"),
        (
            containers(json!([1])),
            ".spec.template.spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            containers(json!([null])),
            ".spec.template.spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            containers(json!([{"name": "c"}, {"name": "c"}])),
            r#".spec.template.spec.containers: duplicate entries for key [name="c"]"#,
        ),
        (
            containers(
                json!([{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]),
            ),
            r#".spec.template.spec.containers[name="c"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]"#,
        ),
        (
            containers(json!([{"name": "c", "ports": [{"protocol": "TCP", "x": 1}]}])),
            r#".spec.template.spec.containers[name="c"].ports[containerPort=0,protocol="TCP"].x: field not declared in schema"#,
        ),
        (
            json!({"metadata": {"finalizers": ["a/b", "a/b"]}}),
            r#".metadata.finalizers: duplicate entries for key [="a/b"]"#,
        ),
        (
            json!({"metadata": {"finalizers": [{}]}}),
            ".metadata.finalizers: element 0: associative list without keys has an element that's a map type",
        ),
        (
            json!({"metadata": {"finalizers": [[]]}}),
            ".metadata.finalizers: element 0: not supported: associative list with lists as elements",
        ),
        (
            json!({"metadata": {"finalizers": [null]}}),
            ".metadata.finalizers: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            containers(json!([{"name": "c", "resources": {"limits": {"cpu": [1]}}}])),
            r#".spec.template.spec.containers[name="c"].resources.limits.cpu: expected any scalar, got &{[1]}"#,
        ),
        (json!({"spec": 5}), ".spec: expected map, got &{5}"),
        (
            json!({"metadata": {"zz": 1}, "spec": {"bar": 2}}),
            "errors:\n  .metadata.zz: field not declared in schema\n  .spec.bar: field not declared in schema",
        ),
    ] {
        assert_eq!(refused(parts), message);
    }
}

#[test]
fn another_kind_version_or_a_list_of_owners_is_a_bad_request() {
    let context = context("Deployment", "m1");
    for (field, value, message) in [
        ("apiVersion", "v1", "invalid object type: /v1, Kind=Deployment"),
        ("apiVersion", "apps/v1beta1", "invalid object type: apps/v1beta1, Kind=Deployment"),
        ("apiVersion", "", "invalid object type: /, Kind=Deployment"),
        ("kind", "Pod", "invalid object type: apps/v1, Kind=Pod"),
    ] {
        let applied = object(&context, json!({ field: value }));
        assert_eq!(apply(&context, None, &applied, false), Err(ApplyError::BadRequest(message.to_owned())));
    }
    for list in [json!([]), json!([{}])] {
        let applied = object(&context, json!({"metadata": {"managedFields": list}}));
        assert_eq!(
            apply(&context, None, &applied, false),
            Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()))
        );
    }
    assert!(apply(&context, None, &object(&context, json!({"metadata": {"managedFields": null}})), false).is_ok());
}

#[test]
fn an_object_that_does_not_fit_its_schema_has_no_owners() {
    let context = context("ConfigMap", "one");
    let mut new = object(&context, json!({"data": {"a": "1"}, "unknown": 1}));
    update(&context, None, &mut new);
    assert_eq!(managed_fields(&new), &Value::Null);
}
