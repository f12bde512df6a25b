//! What differs between two JSON values, field by field.

use std::fmt;

use pillion_quantity::Quantity;
use serde::Serialize;
use serde_json::Value;

/// The fields by which Kubernetes tells the items of a list apart, in the order in which they are tried.
const KEYS: [&str; 4] = ["name", "mountPath", "devicePath", "containerPort"];

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Where it is: `resources.limits.cpu`, `env[MODE].value`.
    pub path: String,
    /// What is there now; absent if there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Value>,
    /// What would be there; absent if there would be nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.now, &self.then) {
            (Some(now), Some(then)) => write!(f, "{}: {} -> {}", self.path, shown(now), shown(then)),
            (None, Some(then)) => write!(f, "{}: + {}", self.path, shown(then)),
            (Some(now), None) => write!(f, "{}: - {}", self.path, shown(now)),
            (None, None) => write!(f, "{}", self.path),
        }
    }
}

/// A text as it is, everything else as JSON on one line; neither longer than a line of a terminal.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned).replace('\n', " ");
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The fields that differ, in the order of `now`, then those that only `then` has. What is absent is the same as null and as empty; quantities
/// of `resources` are compared by their value.
///
/// ```
/// use serde_json::json;
/// let now = json!({"image": "envoy:1.30", "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A", "value": "1"}]});
/// let then = json!({"image": "envoy:1.31", "resources": {"limits": {"cpu": "1000m"}}, "env": [{"name": "B", "value": "1"}], "ports": []});
/// let found = pillion_preview::differences(&now, &then);
/// let found: Vec<String> = found.iter().map(ToString::to_string).collect();
/// assert_eq!(found, ["image: envoy:1.30 -> envoy:1.31", "env[A].value: - 1", "env[B].value: + 1"]);
/// ```
pub fn differences(now: &Value, then: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(now), Some(then), &mut found);
    found
}

fn compare(path: &str, now: Option<&Value>, then: Option<&Value>, found: &mut Vec<Difference>) {
    let (now, then) = (now.filter(|value| !is_empty(value)), then.filter(|value| !is_empty(value)));
    if now == then || is_same_quantity(path, now, then) {
        return;
    }
    let objects = |value: Option<&Value>| value.is_none_or(Value::is_object);
    let lists = |value: Option<&Value>| value.is_none_or(Value::is_array);
    if objects(now) && objects(then) {
        let field = |of: Option<&'_ Value>, key: &str| of.and_then(|object| object.get(key)).cloned();
        for key in keys(now).chain(keys(then).filter(|key| now.is_none_or(|now| now.get(*key).is_none()))) {
            let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            compare(&path, field(now, key).as_ref(), field(then, key).as_ref(), found);
        }
        return;
    }
    if lists(now)
        && lists(then)
        && let Some(key) = KEYS.into_iter().find(|key| is_keyed(now, key) && is_keyed(then, key))
    {
        let item =
            |of: Option<&Value>, name: &Value| items(of).find(|item| item.get(key) == Some(name)).map(without(key));
        let names = |of| items(of).filter_map(|item| item.get(key));
        let only_then = names(then).filter(|name| item(now, name).is_none());
        for name in names(now).chain(only_then) {
            let path = format!("{path}[{}]", shown(name));
            let (now, then) = (item(now, name), item(then, name));
            let before = found.len();
            compare(&path, now.as_ref(), then.as_ref(), found);
            // An item that has nothing but its key.
            if found.len() == before && now.is_some() != then.is_some() {
                found.push(Difference { path, now: now.map(|_| name.clone()), then: then.map(|_| name.clone()) });
            }
        }
        return;
    }
    found.push(Difference { path: path.to_owned(), now: now.cloned(), then: then.cloned() });
}

fn keys(object: Option<&Value>) -> impl Iterator<Item = &str> {
    object.and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key.as_str())
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Whether every item of a list has this key, and no two have the same.
fn is_keyed(list: Option<&Value>, key: &str) -> bool {
    let keys: Vec<Option<&Value>> = items(list).map(|item| item.get(key)).collect();
    keys.iter().enumerate().all(|(i, key)| key.is_some() && keys.iter().take(i).all(|other| other != key))
}

fn without(key: &str) -> impl Fn(&Value) -> Value + '_ {
    move |item| {
        let mut item = item.clone();
        if let Some(object) = item.as_object_mut() {
            object.shift_remove(key);
        }
        item
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(object) => object.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn is_same_quantity(path: &str, now: Option<&Value>, then: Option<&Value>) -> bool {
    let quantity = |value: Option<&Value>| serde_json::from_value::<Quantity>(value?.clone()).ok();
    let is_resource = path.split('.').any(|part| part == "limits" || part == "requests");
    is_resource && quantity(now).is_some_and(|now| quantity(then) == Some(now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(now: Value, then: Value) -> Vec<String> {
        differences(&now, &then).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_absent_null_or_empty_is_the_same() {
        assert!(texts(json!({"a": null, "b": {}, "c": [], "d": {"e": null}}), json!({})).is_empty());
        assert_eq!(texts(json!({}), json!({"a": false})), ["a: + false"]);
        assert!(texts(json!({"emptyDir": {}}), json!({"emptyDir": {}})).is_empty());
    }

    #[test]
    fn items_are_compared_by_their_key_whatever_their_order() {
        let list = |names: &[&str]| json!({"env": names.iter().map(|name| json!({"name": name, "value": name})).collect::<Vec<_>>()});
        assert!(texts(list(&["a", "b"]), list(&["b", "a"])).is_empty());
        let mounts =
            |path: &str| json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": path}]});
        assert_eq!(texts(mounts("/b"), mounts("/c")), ["volumeMounts[/b].name: - v", "volumeMounts[/c].name: + v"]);
        assert_eq!(texts(json!({"imagePullSecrets": [{"name": "a"}]}), json!({})), ["imagePullSecrets[a]: - a"]);
        assert_eq!(texts(json!({"args": ["a", "b"]}), json!({"args": ["b"]})), [r#"args: ["a","b"] -> ["b"]"#]);
    }

    #[test]
    fn quantities_are_compared_by_value_and_other_texts_are_not() {
        let limits = |cpu: Value| json!({"resources": {"limits": {"cpu": cpu}}});
        assert!(texts(limits(json!("1")), limits(json!("1000m"))).is_empty());
        assert!(texts(limits(json!(1)), limits(json!("1"))).is_empty());
        assert_eq!(texts(limits(json!("1")), limits(json!("2"))), ["resources.limits.cpu: 1 -> 2"]);
        assert_eq!(texts(json!({"value": "1"}), json!({"value": "1000m"})), ["value: 1 -> 1000m"]);
    }

    #[test]
    fn a_long_text_is_cut_for_people_and_whole_for_programs() {
        let [found] = &differences(&json!({}), &json!({"a": "ä".repeat(100)}))[..] else { panic!() };
        assert_eq!(found.to_string().chars().count(), "a: + ".len() + 60);
        assert_eq!(found.then.as_ref().unwrap().as_str().unwrap().chars().count(), 100);
    }
}
