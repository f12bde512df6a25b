//! What holds for every object and every expression.

use pillion_rules::field::Path;
use pillion_structural::Structural;
use pillion_structural::crd::{self, Context};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "A"},
        "b": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 1}, "c": {"type": "string", "nullable": true}}},
        "c": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "array", "items": {"type": "string"}}}}},
        "d": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer", "default": 2}}}},
        "e": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}},
        "f": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"a": {"type": "string"}}},
        "g": {"x-kubernetes-int-or-string": true},
    }})
}

/// JSON with few keys, so that they meet the schema's.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-h]", inner), 0..5).prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-h]", value()), 0..7).prop_map(|entries| Value::Object(Map::from_iter(entries)))
}

proptest! {
    #[test]
    fn what_is_pruned_stays_pruned(mut object in object()) {
        let schema = Structural::compile(&schema()).unwrap();
        schema.prune(&mut object);
        let once = object.clone();
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn what_is_complete_stays_as_it_is(mut object in object()) {
        let schema = Structural::compile(&schema()).unwrap();
        schema.apply_defaults(&mut object);
        let once = object.clone();
        schema.apply_defaults(&mut object);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn an_update_that_changes_nothing_known_is_never_refused(object in object()) {
        let schema = Structural::compile(&schema()).unwrap();
        let mut object = object;
        schema.prune(&mut object);
        // Metadata of embedded objects is checked again each time, as in the API server.
        object.as_object_mut().unwrap().remove("f");
        object.as_object_mut().unwrap().remove("e");
        prop_assert_eq!(schema.validate(&object, Some(&object)), Vec::new());
    }

    #[test]
    fn no_expression_is_too_strange(rule in "[a-c0-9.()\\[\\]{}'\"\\\\?:!&|=<>+*/% \n-]{0,40}|(self|[.]all|[(]x,|[)]|[.]map|[+]|'a'|[?]|:|1){1,12}") {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "properties": {"a": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": rule, "message": "m"}],
        }}});
        crd::validate_schema(&schema, &Path::new("spec"), Context::default());
        let structural = Structural::compile(&schema).unwrap();
        structural.validate(&json!({"spec": {"a": "x"}}), None);
    }
}
