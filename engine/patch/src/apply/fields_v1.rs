//! `FieldsV1`: the JSON form of a set of field paths.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::{Node, Set};

/// Reads a set.
pub(super) fn parse(fields: &Value) -> Result<Set<'_>, String> {
    Ok(read(fields)?.0.unwrap_or_default())
}

/// The paths below, if there are any, and whether the path that ends here is in the set: because it says so (`.`), or because nothing is below.
fn read(fields: &Value) -> Result<(Option<Set<'_>>, bool), String> {
    let object = match fields {
        Value::Object(object) => object,
        Value::Null => return Ok((None, true)),
        other => return Err(format!("expect {{ or n, but found {other}")),
    };
    let mut member = false;
    let mut nodes = Vec::with_capacity(object.len());
    for (text, below) in object {
        if text == "." {
            member = true;
        } else if let Some(element) = Element::parse(text)? {
            let (children, member) = read(below)?;
            nodes.push(Node { element, member, children: children.map(Rc::new) });
        }
    }
    // Two spellings of one step (`k:{"a":1}` and `k:{"a":1.0}`): the later says what is below.
    nodes.reverse();
    nodes.sort_by(|a, b| a.element.cmp(&b.element));
    nodes.dedup_by(|a, b| a.element == b.element);
    Ok(if nodes.is_empty() { (None, true) } else { (Some(nodes.into_iter().collect()), member) })
}

/// Writes a set.
pub(super) fn render(set: &Set<'_>) -> Value {
    write(set, false)
}

fn write(set: &Set<'_>, member: bool) -> Value {
    let mut object = Map::with_capacity(set.nodes().len() + usize::from(member));
    if member {
        object.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for node in set.nodes() {
        let below =
            node.children.as_ref().map_or_else(|| Value::Object(Map::new()), |children| write(children, node.member));
        object.insert(node.element.to_text(), below);
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> String {
        render(&parse(&serde_json::from_str(text).expect("JSON")).expect("a set")).to_string()
    }

    #[test]
    fn sets_read_and_write_the_same_text() {
        // structured-merge-diff `serialize_test.go`.
        for text in [
            "{}",
            r#"{"f:a":{},"f:b":{},"f:c":{}}"#,
            r#"{"f:a":{".":{},"f:b":{}}}"#,
            r#"{"f:a":{"k:{\"name\":\"x\"}":{".":{},"f:b":{}}},"k:{\"a\":80}":{},"k:{\"a\":443}":{},"v:1":{},"i:2":{}}"#,
        ] {
            assert_eq!(round(text), text);
        }
    }

    #[test]
    fn a_set_is_written_in_order() {
        assert_eq!(
            round(r#"{"v:1":{},"f:b":{},"i:0":{},"k:{\"n\":1}":{},"f:a":{}}"#),
            r#"{"f:a":{},"f:b":{},"k:{\"n\":1}":{},"v:1":{},"i:0":{}}"#
        );
    }

    #[test]
    fn unknown_steps_are_dropped() {
        assert_eq!(
            round(r#"{".":{},"f:a":{"x:later":{"f:b":{}}},"f:c":{".":{}},"f:d":null}"#),
            r#"{"f:a":{},"f:c":{},"f:d":{}}"#
        );
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in ["[]", "1", r#"{"f:a":1}"#, r#"{"a":{}}"#, r#"{"f":{}}"#, r#"{"v:{":{}}"#] {
            assert!(parse(&serde_json::from_str(text).expect("JSON")).is_err(), "{text}");
        }
    }
}
