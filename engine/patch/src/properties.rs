//! What must be true of every object of every type in the table.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::decode::{Decoded, convert, decode, parse, stored, write};
use crate::schema::{Node, Scalar, Schema, builtin};
use crate::strategic::strategic_merge;

/// Draws from a list of bytes; zeros when it is used up, which ends every list and object.
struct Draw<'a>(&'a [u8]);

impl Draw<'_> {
    fn below(&mut self, bound: u8) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first % bound
    }
}

/// Some value of a type, with nulls, unknown fields and odd forms in it.
fn value(schema: Schema<'_>, draw: &mut Draw<'_>, depth: u8) -> Value {
    match schema.node() {
        _ if depth == 0 || draw.below(40) == 39 => Value::Null,
        Node::Struct(object) => {
            let mut given = Map::new();
            for field in &object.fields {
                if draw.below(4) == 1 {
                    given.insert(field.name.clone(), value(schema.at(field.node), draw, depth - 1));
                }
            }
            if draw.below(30) == 29 {
                given.insert("unknown".to_owned(), json!(1));
            }
            Value::Object(given)
        }
        Node::Map { value: shape, .. } => {
            let keys = ["b", "a"].iter().take(usize::from(draw.below(3)));
            Value::Object(keys.map(|key| ((*key).to_owned(), value(schema.at(*shape), draw, depth - 1))).collect())
        }
        Node::List { item, .. } => {
            let count = draw.below(3);
            Value::Array((0..count).map(|_| value(schema.at(*item), draw, depth - 1)).collect())
        }
        Node::Scalar(scalar) => {
            let forms = match scalar {
                Scalar::String => json!(["", "a", "b"]),
                Scalar::Bool => json!([false, true]),
                Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::Number => json!([0, 1, -7]),
                Scalar::Bytes => json!(["", "YQ==", "YWI\n="]),
                Scalar::IntOrString => json!([0, 80, "http"]),
                Scalar::Quantity => json!(["0", "1000m", "1.5Gi", 2]),
                // Not the zero time: Go writes it as null, and reads that as none.
                Scalar::Time => json!(["2020-01-01T01:00:00.5+01:00"]),
                Scalar::MicroTime => json!(["2020-01-01T00:00:00.000001Z"]),
            };
            let forms = forms.as_array().cloned().unwrap_or_default();
            let choice = draw.below(u8::try_from(forms.len()).unwrap_or(1));
            forms.get(usize::from(choice)).cloned().unwrap_or_default()
        }
        Node::Any => Value::Null,
    }
}

fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = builtin().names().collect();
    names.sort_unstable();
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_was_read_reads_as_the_same_again(
        name in prop::sample::select(names()),
        draws in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let schema = builtin().get(name).expect("a type of the table");
        let given = value(schema, &mut Draw(&draws), 7);
        let text = given.to_string();
        let Ok(Decoded { object, .. }) = decode(schema, parse(text.as_bytes()).expect("JSON")) else {
            return Err(TestCaseError::fail(format!("{name} refuses {text}")));
        };
        let again = decode(schema, object.clone());
        prop_assert_eq!(again.map(|decoded| (decoded.object.to_string(), decoded.strict)), Ok((object.to_string(), Vec::new())));
        let converted = convert(schema, given).map(|decoded| decoded.object.to_string());
        prop_assert_eq!(converted, Ok(object.to_string()), "the converter reads the same");
        let kept = stored(schema, object);
        prop_assert_eq!(write(schema, kept.clone()).to_string(), kept.to_string());
    }

    #[test]
    fn an_object_merged_into_itself_stays_as_it_is(
        name in prop::sample::select(names()),
        draws in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let schema = builtin().get(name).expect("a type of the table");
        let object = write(schema, value(schema, &mut Draw(&draws), 7));
        // Lists that have an element twice, or without its key, do not merge.
        if let Ok(merged) = strategic_merge(schema, object.clone(), object.clone()) {
            let merged = write(schema, merged);
            if mergeable(&object) {
                prop_assert_eq!(merged.to_string(), object.to_string());
            }
        }
    }
}

/// Whether it has no list that might have two elements with the same key, and no null: in a patch that takes away.
fn mergeable(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => items.len() < 2 && items.iter().all(mergeable),
        Value::Object(object) => object.values().all(mergeable),
        _ => true,
    }
}
