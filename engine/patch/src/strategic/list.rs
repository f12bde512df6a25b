//! How lists merge, and in what order their elements then are.
//!
//! The order is that of the patch for what the patch names, that of the object for the rest; the two are woven together so that as much as
//! possible of the object's order stays.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{
    DIRECTIVE, Object, SET_ORDER, StrategicError, bad_type, directive_field, internal, list_field, merge_objects,
    remove_directives, unknown_directive,
};
use crate::print::{go_list, go_type, go_value};
use crate::schema::{PatchStrategy, Schema};

/// Merges the elements of a list.
pub(super) fn merge(
    schema: Schema<'_>,
    strategy: &PatchStrategy,
    original: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>, StrategicError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let of_objects = are_objects(&original, &patch)?;
    let Some(key) = strategy.merge_key.as_deref().filter(|_| of_objects) else {
        if of_objects {
            return internal(format!("cannot merge lists without merge key for {}", super::reflect_kind(schema)));
        }
        let mut seen = HashSet::new();
        let merged = original.iter().chain(&patch).filter(|value| seen.insert(value.to_string())).cloned().collect();
        return arrange(merged, &patch, &original, strategy.merge_key.as_deref());
    };
    let (original, patch) = obey_directives(original, patch, key)?;
    let (order, patch_order) = (keys_only(&original, key), keys_only(&patch, key));
    let merged = merge_elements(schema, original, patch, key)?;
    arrange(merged, &patch_order, &order, Some(key))
}

/// Takes values out of a list of scalars.
pub(super) fn delete(list: &mut Vec<Value>, values: Vec<Value>) -> Result<(), StrategicError> {
    if !list.is_empty() || !values.is_empty() {
        are_objects(list, &values)?;
    }
    let values: HashSet<String> = values.iter().map(Value::to_string).collect();
    list.retain(|value| !values.contains(&value.to_string()));
    Ok(())
}

/// Obeys `$setElementOrder/…`, together with the lists that they are about, and takes both from the patch.
pub(super) fn set_element_orders(
    schema: Schema<'_>,
    original: &mut Object,
    patch: &mut Object,
) -> Result<(), StrategicError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.shift_remove(&directive).unwrap_or_default();
        let order = list_of(order)?;
        let field = directive_field(&directive, SET_ORDER).ok_or(StrategicError::SetElementOrder)?;
        let old = original.get(field).cloned().map(list_of).transpose()?;
        let new = patch.get(field).cloned().map(list_of).transpose()?;
        let (schema, strategy) = list_field(schema, field)?;
        let key = strategy.merge_key.as_deref();
        if let Some(new) = &new {
            check_order(new, &order, key)?;
        }
        if old.is_none() && new.is_none() {
            continue;
        }
        are_objects(old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default())?;
        let server_order = server_order(old.as_deref(), new.as_deref(), key.filter(|_| strategy.merge));
        let merged = match (old, new) {
            (old, None) => old.unwrap_or_default(),
            (None, Some(new)) => new.into_iter().filter_map(remove_directives).collect(),
            (Some(old), Some(new)) if strategy.merge => merge(schema, strategy, old, new)?,
            (Some(_), Some(new)) => new,
        };
        original.insert(field.to_owned(), Value::Array(arrange(merged, &order, &server_order, key)?));
        patch.shift_remove(field);
    }
    Ok(())
}

fn list_of(value: Value) -> Result<Vec<Value>, StrategicError> {
    match value {
        Value::Array(items) => Ok(items),
        other => bad_type(&Value::Array(Vec::new()), &other),
    }
}

/// The order that elements of the object's list are taken to have had. Upstream merges in place before it looks, so elements that the patch
/// adds are in it as far as it deletes others.
fn server_order(old: Option<&[Value]>, new: Option<&[Value]>, key: Option<&str>) -> Vec<Value> {
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    let (Some(key), false) = (key, new.iter().any(|element| element[DIRECTIVE] == "replace")) else {
        return old.to_vec();
    };
    let (deleted, plain): (Vec<&Value>, Vec<&Value>) = new.iter().partition(|element| element[DIRECTIVE] == "delete");
    let deleted: HashSet<String> = deleted.into_iter().map(|element| name(element, Some(key))).collect();
    let kept: Vec<&Value> = old.iter().filter(|element| !deleted.contains(&name(element, Some(key)))).collect();
    let mut seen: HashSet<String> = kept.iter().map(|element| name(element, Some(key))).collect();
    let added = plain.into_iter().filter(|element| seen.insert(name(element, Some(key))));
    kept.into_iter().chain(added).take(old.len()).cloned().collect()
}

/// Whether the elements are objects; all of them must be of one type.
fn are_objects(one: &[Value], two: &[Value]) -> Result<bool, StrategicError> {
    let mut elements = one.iter().chain(two);
    let Some(first) = elements.next() else { return internal("no elements in any of the given slices") };
    if first.is_array() {
        return Err(StrategicError::ListOfLists);
    }
    if elements.any(|element| go_type(element) != go_type(first)) {
        return internal(format!("list element types are not identical: [{} {}]", go_list(one), go_list(two)));
    }
    Ok(first.is_object())
}

/// `$patch: delete` and `$patch: replace` of elements. What is left of both lists.
fn obey_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let (special, plain): (Vec<Value>, Vec<Value>) =
        patch.into_iter().partition(|element| element.get(DIRECTIVE).is_some());
    let mut replace = false;
    let mut deleted = HashSet::new();
    for element in &special {
        match element.get(DIRECTIVE).and_then(Value::as_str) {
            Some("delete") => drop(deleted.insert(key_of(element, key)?.to_string())),
            Some("replace") => replace = true,
            Some("merge") => return internal("merging lists cannot yet be specified in the patch"),
            _ => return unknown_directive(&element[DIRECTIVE], element.as_object().unwrap_or(&Object::new())),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    original.retain(|element| element.get(key).is_none_or(|value| !deleted.contains(&value.to_string())));
    Ok((original, plain))
}

fn merge_elements(
    schema: Schema<'_>,
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<Vec<Value>, StrategicError> {
    let mut places = places(&original, Some(key));
    for element in patch {
        let name = key_of(&element, key)?.to_string();
        if let Some(old) = places.get(&name).and_then(|place| original.get_mut(*place)) {
            if let (Value::Object(before), Value::Object(element)) = (old.take(), element) {
                *old = Value::Object(merge_objects(schema, before, element)?);
            }
        } else {
            places.insert(name, original.len());
            original.push(element);
        }
    }
    Ok(original)
}

/// The elements with nothing but their keys.
fn keys_only(list: &[Value], key: &str) -> Vec<Value> {
    list.iter().map(|element| element.get(key).map_or_else(|| element.clone(), |value| json!({ key: value }))).collect()
}

fn key_of<'a>(element: &'a Value, key: &str) -> Result<&'a Value, StrategicError> {
    let Value::Object(object) = element else { return bad_type(&Value::Object(Object::new()), element) };
    match object.get(key) {
        Some(value) => Ok(value),
        None => internal(format!("map: {} does not contain declared merge key: {key}", go_value(element))),
    }
}

/// The first place of each element.
fn places(list: &[Value], key: Option<&str>) -> HashMap<String, usize> {
    let mut places = HashMap::with_capacity(list.len());
    for (place, element) in list.iter().enumerate() {
        places.entry(name(element, key)).or_insert(place);
    }
    places
}

/// What makes an element the same as another.
fn name(element: &Value, key: Option<&str>) -> String {
    key.map_or(element, |key| element.get(key).unwrap_or(&Value::Null)).to_string()
}

/// The order of the patch's list must be that of `$setElementOrder`, which must name all of its elements.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), StrategicError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut left = patch.iter().filter(|element| key.is_none() || element[DIRECTIVE] != "delete").peekable();
    let same = |one: &Value, two: &Value| match key {
        None => Ok(one == two),
        Some(key) => Ok(key_of(one, key)? == key_of(two, key)?),
    };
    for element in order {
        // Other directives only count as elements at the end, as upstream has it.
        while left.next_if(|next| next.get(DIRECTIVE).is_some()).is_some() {}
        let Some(next) = left.peek() else { return Ok(()) };
        if same(next, element)? {
            left.next();
        }
    }
    if left.peek().is_none() {
        return Ok(());
    }
    let (patch, order) = (go_list(patch), go_list(order));
    internal(format!("The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"))
}

/// Puts what `patch_order` names in its order, the rest in the order of `server_order`, and weaves them.
fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, StrategicError> {
    if let Some(key) = key {
        for element in merged.iter().chain(patch_order).chain(server_order) {
            key_of(element, key)?;
        }
    }
    let (in_patch, on_server) = (places(patch_order, key), places(server_order, key));
    let (patch, server): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| in_patch.contains_key(&name(element, key)));
    let mut patch = sorted(patch, &in_patch, key).into_iter().peekable();
    let mut server = sorted(server, &on_server, key).into_iter().peekable();
    let mut all = Vec::with_capacity(patch.len() + server.len());
    let place = |element: &Value| on_server.get(&name(element, key));
    while let (Some(left), Some(right)) = (server.peek(), patch.peek()) {
        let before = matches!((place(left), place(right)), (Some(left), Some(right)) if left < right);
        all.extend(if before { server.next() } else { patch.next() });
    }
    all.extend(server);
    all.extend(patch);
    Ok(all)
}

/// In the order of `places`; what has no place comes first.
fn sorted(mut list: Vec<Value>, places: &HashMap<String, usize>, key: Option<&str>) -> Vec<Value> {
    list.sort_by_cached_key(|element| places.get(&name(element, key)).copied());
    list
}
