use serde_json::json;

use super::*;
use crate::schema::{Schemas, builtin};

/// Inputs and outputs of apimachinery's `strategicpatch/patch_test.go`, which has these types.
const CASES: &str = include_str!("cases.jsonl");

fn merge_items() -> Schemas {
    let item = |go: &str, more: &str| {
        format!(
            r#"{{"go":"strategicpatch.{go}","fields":[
            {{"name":"name","type":"string"}},{{"name":"value","type":"string"}},{{"name":"other","type":"string"}},
            {{"name":"simpleMap","type":"{{}}string"}},
            {{"name":"mergingIntList","type":"[]int64","patch":"merge"}},
            {{"name":"mergingList","type":"[]MergeItem","patch":"merge","mergeKey":"name"}},
            {{"name":"nonMergingList","type":"[]MergeItem"}}{more}]}}"#
        )
    };
    let more = r#",{"name":"nonMergingIntList","type":"[]int64"},
        {"name":"replacingItem","type":"any","patch":"replace"},
        {"name":"retainKeysMap","type":"RetainKeysMergeItem","patch":"retainKeys"},
        {"name":"retainKeysMergingList","type":"[]MergeItem","patch":"merge,retainKeys","mergeKey":"name"}"#;
    let table = format!(
        r#"{{"MergeItem":{},"RetainKeysMergeItem":{}}}"#,
        item("MergeItem", more),
        item("RetainKeysMergeItem", "")
    );
    Schemas::from_table(&table).expect("a table")
}

#[test]
fn patches_merge_as_upstream_merges_them() {
    let schemas = merge_items();
    let schema = schemas.get("MergeItem").expect("MergeItem");
    for (line, case) in CASES.lines().enumerate() {
        let case: Value = serde_json::from_str(case).expect("JSON");
        let outcome = strategic_merge(schema, case["original"].clone(), case["patch"].clone());
        let expected = match case.get("error") {
            Some(error) => Err(error.as_str().expect("a message").to_owned()),
            None => Ok(case["result"].clone()),
        };
        assert_eq!(outcome.map_err(|error| error.to_string()), expected, "line {}: {case}", line + 1);
    }
}

#[test]
fn a_patch_of_a_pod_merges_by_the_keys_of_its_lists() {
    let schema = builtin().get("io.k8s.api.core.v1.Pod").expect("Pod");
    let pod = json!({"spec": {"containers": [{"name": "a", "args": ["x"], "env": [{"name": "E", "value": "1"}]}, {"name": "b"}],
        "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "t"}]}});
    let patch = json!({"spec": {
        "containers": [{"name": "a", "args": ["y"], "env": [{"name": "F", "value": "2"}]}],
        "volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}],
        "tolerations": []}});
    let expected = json!({"spec": {
        "containers": [{"name": "a", "args": ["y"], "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]}, {"name": "b"}],
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "tolerations": []}});
    assert_eq!(strategic_merge(schema, pod, patch), Ok(expected));
}
