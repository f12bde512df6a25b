//! How single values are written in cells.

use jiff::Timestamp;
use serde_json::Value;

use super::duration::human;

/// A text field; empty when it is not there, as in Go.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text field, or what is written when it is empty or not there.
pub(super) fn text_or<'a>(value: &'a Value, absent: &'a str) -> &'a str {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or(absent)
}

/// A text field, or what is written when it is not there at all.
pub(super) fn pointer_or<'a>(value: &'a Value, absent: &'a str) -> &'a str {
    value.as_str().unwrap_or(absent)
}

/// A whole number; 0 when it is not there, as in Go.
pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// The elements of a list; none when it is not there.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How many elements or keys.
pub(super) fn count(value: &Value) -> i64 {
    let length = value.as_object().map_or_else(|| items(value).len(), serde_json::Map::len);
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// An `IntOrString`.
pub(super) fn int_or_string(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A quantity; `0` when it is not there.
pub(super) fn quantity(value: &Value) -> &str {
    pointer_or(value, "0")
}

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// How long ago a time was.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match text(time).parse::<Timestamp>() {
        Ok(time) => human(now.duration_since(time)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// How long ago the object was created.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

/// The status of the first condition of a type.
pub(super) fn condition<'a>(conditions: &'a Value, kind: &str) -> Option<&'a str> {
    items(conditions).iter().find(|condition| condition["type"] == kind).map(|condition| text(&condition["status"]))
}

/// One field of each element, with a separator between.
pub(super) fn join(list: &Value, field: &str, separator: &str) -> String {
    items(list).iter().map(|item| text(&item[field])).collect::<Vec<_>>().join(separator)
}

/// Texts, with a comma between.
pub(super) fn join_texts(list: &Value) -> String {
    items(list).iter().map(text).collect::<Vec<_>>().join(",")
}

/// Labels, sorted: `a=b,c=d`.
pub(super) fn labels(labels: &Value) -> String {
    let mut pairs: Vec<String> =
        labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect();
    pairs.sort();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A label selector as kubectl's `--selector` takes it; `None` when it is malformed.
pub(super) fn selector(selector: &Value) -> Option<String> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms: Vec<(&str, String)> =
        labels.map(|(key, value)| (key.as_str(), format!("{key}={}", text(value)))).collect();
    for expression in items(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let mut values: Vec<&str> = items(&expression["values"]).iter().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        terms.push(match text(&expression["operator"]) {
            "In" => (key, format!("{key} in ({values})")),
            "NotIn" => (key, format!("{key} notin ({values})")),
            "Exists" => (key, key.to_owned()),
            "DoesNotExist" => (key, format!("!{key}")),
            _ => return None,
        });
    }
    terms.sort_by(|a, b| a.0.cmp(b.0));
    Some(terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(","))
}

/// A label selector, with words for one that is empty or malformed.
pub(super) fn selector_cell(value: &Value) -> Value {
    match selector(value) {
        Some(terms) if terms.is_empty() => "<none>".into(),
        Some(terms) => terms.into(),
        None => "<error>".into(),
    }
}

/// Names and images of the containers of a pod template.
pub(super) fn containers(template: &Value) -> [Value; 2] {
    let containers = &template["spec"]["containers"];
    [join(containers, "name", ",").into(), join(containers, "image", ",").into()]
}

/// The cells, with more at the end.
pub(super) fn with(mut cells: Vec<Value>, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    cells.extend(more);
    cells
}
