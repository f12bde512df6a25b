//! Random patches.

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::{Kind, whole};
use crate::conversation::Step;

/// A step that patches the object of a kind in one of the four ways.
pub(super) fn step(draw: &mut Draw, kind: &Kind) -> Step {
    let ways: &[&str] = if kind.has_strategic_merge {
        &["merge", "strategic", "json-patch", "apply"]
    } else {
        &["merge", "json-patch", "apply"]
    };
    let way = *draw.one_of(ways);
    let mut body = kind.shape.value(draw);
    let mut query = String::new();
    match way {
        "merge" => nulls(draw, &mut body),
        "strategic" => directives(draw, &mut body),
        "json-patch" => body = operations(draw, &body),
        _ => {
            let target = whole(kind);
            for key in ["apiVersion", "kind"] {
                body[key] = target[key].clone();
            }
            body["metadata"]["name"] = target["metadata"]["name"].clone();
            let (manager, force) = (draw.one_of(&["alice", "bob"]), draw.chance(40));
            query = format!("?fieldManager={manager}&force={force}");
        }
    }
    Step {
        name: format!("{way} a {}", kind.name),
        request: Some(format!("PATCH {}/one{query}", kind.path)),
        content: Some(way.to_owned()),
        body: Some(body),
        ..Step::default()
    }
}

/// Some values of a merge patch become null.
fn nulls(draw: &mut Draw, value: &mut Value) {
    for below in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if draw.chance(10) {
            *below = Value::Null;
        } else {
            nulls(draw, below);
        }
    }
}

/// Some values of a strategic merge patch become null, and some objects and items get a directive.
fn directives(draw: &mut Draw, value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, below) in object.iter_mut() {
                if draw.chance(6) && key != "name" && key != "containerPort" {
                    *below = Value::Null;
                } else {
                    directives(draw, below);
                }
            }
            let names: Vec<Value> = object
                .get("containers")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(|item| json!({"name": item["name"]}))
                .collect();
            if !names.is_empty() && draw.chance(30) {
                object.insert("$setElementOrder/containers".to_owned(), names.into_iter().rev().collect());
            }
            let finalizers: Vec<&str> = strings(object.get("finalizers"));
            // One that is not added at the same time: a server does the two in any order.
            let other = ["example.com/a", "example.com/b"].into_iter().find(|word| !finalizers.contains(word));
            if let Some(other) = other.filter(|_| !finalizers.is_empty() && draw.chance(40)) {
                object.insert("$deleteFromPrimitiveList/finalizers".to_owned(), json!([other]));
            }
            if object.contains_key("type") && draw.chance(40) {
                let keys: Vec<Value> = object.keys().map(|key| key.as_str().into()).collect();
                object.insert("$retainKeys".to_owned(), keys.into());
            } else if draw.chance(4) {
                object.insert("$patch".to_owned(), (*draw.one_of(&["replace", "delete", "merge"])).into());
            }
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                directives(draw, item);
            }
            if items.first().is_some_and(|item| item.get("name").is_some()) && draw.chance(8) {
                items.insert(0, json!({"$patch": "replace"}));
            }
        }
        _ => {}
    }
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Operations on the places of a value.
fn operations(draw: &mut Draw, value: &Value) -> Value {
    let mut places = Vec::new();
    pointers("", value, &mut places);
    if places.is_empty() {
        return json!([]);
    }
    let mut operation = || {
        let (path, value) = draw.one_of(&places).clone();
        match *draw.one_of(&["add", "add", "replace", "replace", "remove", "test", "copy", "move"]) {
            "remove" => json!({"op": "remove", "path": path}),
            op @ ("copy" | "move") => {
                // To a place beside it: elsewhere it would often be wrong in many ways, which a server tells in any order.
                let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
                let beside: Vec<_> = places.iter().filter(|place| parent(&place.0) == parent(&path)).collect();
                json!({"op": op, "from": path, "path": draw.one_of(&beside).0})
            }
            op => json!({"op": op, "path": path, "value": value}),
        }
    };
    let count = 1 + places.len().min(3) / 2;
    (0..count).map(|_| operation()).collect()
}

fn pointers(at: &str, value: &Value, places: &mut Vec<(String, Value)>) {
    let mut place = |token: &str, below: &Value| {
        let path = format!("{at}/{}", token.replace('~', "~0").replace('/', "~1"));
        pointers(&path, below, places);
        places.push((path, below.clone()));
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, below)| place(key, below)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, below)| place(&index.to_string(), below)),
        _ => {}
    }
}

/// Changes one place of an object to something that is most often wrong there.
pub(super) fn spoil(draw: &mut Draw, object: &mut Value) {
    let mut places = Vec::new();
    pointers("", object, &mut places);
    // The type of the object is another matter.
    places.retain(|(path, _)| !["/apiVersion", "/kind"].contains(&path.as_str()));
    let (path, _) = draw.one_of(&places).clone();
    let values =
        [json!(null), json!(""), json!("Not Good"), json!(-1), json!(7), json!(true), json!([]), json!({}), json!("x")];
    match draw.below(4) {
        0 => {
            let (parent, key) = path.rsplit_once('/').unwrap_or_default();
            if let Some(object) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
                object.shift_remove(key);
            }
        }
        1 => {
            if let Some(object) = object.pointer_mut(&path).and_then(Value::as_object_mut) {
                object.insert("unheard".to_owned(), draw.one_of(&values).clone());
            }
        }
        _ => {
            if let Some(place) = object.pointer_mut(&path) {
                *place = draw.one_of(&values).clone();
            }
        }
    }
}
