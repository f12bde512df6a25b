//! Elements of lists and maps.

use std::sync::Arc;

use super::fault::Fault;
use super::shown::shown;
use super::value::{Key, Map, Value, truncate};

/// `_[_]`: an element, or what went wrong.
pub(super) fn index<'a>(container: &Value<'a>, key: &Value<'a>) -> Result<Value<'a>, Fault> {
    match container {
        Value::List(list) => {
            let index = list_index(key)?;
            let found = usize::try_from(index).ok().map(|index| list.get(index)).transpose()?.flatten();
            found.ok_or_else(|| Fault::error(format!("index out of bounds: {index}")))
        }
        Value::Map(map) => lookup(map, key)?.ok_or_else(|| Fault::error(format!("no such key: {}", shown(key)))),
        Value::Optional(Some(inner)) => optional_index(inner, key),
        Value::Optional(None) => Ok(Value::Optional(None)),
        _ => Err(Fault::no_such_overload()),
    }
}

/// `_[?_]`: an element, if there is one.
pub(super) fn optional_index<'a>(container: &Value<'a>, key: &Value<'a>) -> Result<Value<'a>, Fault> {
    let found = match container {
        Value::List(list) => usize::try_from(list_index(key)?).ok().map(|index| list.get(index)).transpose()?.flatten(),
        Value::Map(map) => lookup(map, key)?,
        Value::Optional(Some(inner)) => return optional_index(inner, key),
        Value::Optional(None) => None,
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Optional(found.map(Arc::new)))
}

fn lookup<'a>(map: &Map<'a>, key: &Value<'a>) -> Result<Option<Value<'a>>, Fault> {
    key.key().map_or(Ok(None), |key: Key| map.get(&key))
}

fn list_index(key: &Value<'_>) -> Result<i64, Fault> {
    match key {
        Value::Int(int) => Ok(*int),
        Value::Uint(uint) => Ok(i64::try_from(*uint).unwrap_or(i64::MAX)),
        Value::Double(double) if double.fract() == 0.0 => Ok(truncate(*double)),
        _ => Err(Fault::error(format!("unsupported index type '{}' in list", key.type_name()))),
    }
}
