//! What the functions do, and what they cost.

mod arithmetic;
mod convert;
mod format_string;
mod kubernetes;
mod lists;
mod network;
mod strings;
mod time;

use pillion_regexp::Regexp;

use super::fault::Fault;
use super::index;
use super::shown::shown;
use super::types::Type;
use super::value::{Map, Value};

pub(crate) use kubernetes::{AUTHORIZER, RESOURCE_CHECK};

/// A call: its arguments, with what it is called on first.
pub(super) struct Call<'a> {
    pub(super) function: &'static str,
    pub(super) args: Vec<Value<'a>>,
    /// The pattern, where it was compiled before.
    pub(super) regex: Option<&'a Regexp>,
    /// The type of what it gives.
    pub(super) result: &'a Type,
}

/// What a function does.
pub(super) type Run = for<'a> fn(Call<'a>) -> Result<Value<'a>, Fault>;

type Outcome<'a> = Result<Value<'a>, Fault>;

/// What the function of that name does. Those that do not evaluate all their arguments are the interpreter's.
pub(super) fn implementation(name: &str) -> Option<Run> {
    core(name)
        .or_else(|| arithmetic::implementation(name))
        .or_else(|| convert::implementation(name))
        .or_else(|| strings::implementation(name))
        .or_else(|| lists::implementation(name))
        .or_else(|| time::implementation(name))
        .or_else(|| network::implementation(name))
        .or_else(|| kubernetes::implementation(name))
}

fn core(name: &str) -> Option<Run> {
    Some(match name {
        "!_" => |call| match call.args.as_slice() {
            [Value::Bool(bool)] => Ok(Value::Bool(!bool)),
            _ => Err(Fault::no_such_overload()),
        },
        "_==_" => |call| match call.args.as_slice() {
            [a, b] => a.equals(b).map(Value::Bool),
            _ => Err(Fault::no_such_overload()),
        },
        "_!=_" => |call| match call.args.as_slice() {
            [a, b] => a.equals(b).map(|same| Value::Bool(!same)),
            _ => Err(Fault::no_such_overload()),
        },
        "_[_]" => |call| match call.args.as_slice() {
            [container, key] => index::index(container, key),
            _ => Err(Fault::no_such_overload()),
        },
        "_[?_]" => |call| match call.args.as_slice() {
            [container, key] => index::optional_index(container, key),
            _ => Err(Fault::no_such_overload()),
        },
        "@in" => |call| match call.args.as_slice() {
            [item, Value::List(list)] => list.contains(item).map(Value::Bool),
            [key, Value::Map(map)] => {
                let found = key.key().map(|key| map.get(&key)).transpose()?.flatten();
                Ok(Value::Bool(found.is_some()))
            }
            _ => Err(Fault::no_such_overload()),
        },
        "size" => |call| match call.args.as_slice() {
            [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
                Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
            }
            _ => Err(Fault::no_such_overload()),
        },
        "type" => |call| match call.args.as_slice() {
            [value] => Ok(Value::Type(value.type_name())),
            _ => Err(Fault::no_such_overload()),
        },
        "dyn" => |mut call| call.args.pop().ok_or_else(Fault::no_such_overload),
        "cel.@mapInsert" => map_insert,
        "optional.of" => |mut call| call.args.pop().map(Value::some).ok_or_else(Fault::no_such_overload),
        "optional.ofNonZeroValue" => |mut call| match call.args.pop() {
            Some(value) if value.is_zero() => Ok(Value::Optional(None)),
            Some(value) => Ok(Value::some(value)),
            None => Err(Fault::no_such_overload()),
        },
        "optional.none" => |_| Ok(Value::Optional(None)),
        "hasValue" => |call| match call.args.as_slice() {
            [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
            _ => Err(Fault::no_such_overload()),
        },
        "value" => |call| match call.args.as_slice() {
            [Value::Optional(Some(inner))] => Ok(inner.as_ref().clone()),
            [Value::Optional(None)] => Err(Fault::error("optional.none() dereference")),
            _ => Err(Fault::no_such_overload()),
        },
        // The interpreter evaluates their second argument only if it is needed.
        "or" | "orValue" => |_| Err(Fault::no_such_overload()),
        _ => return None,
    })
}

fn map_insert(call: Call<'_>) -> Outcome<'_> {
    let mut args = call.args.into_iter();
    let (Some(Value::Map(target)), Some(second), third) = (args.next(), args.next(), args.next()) else {
        return Err(Fault::no_such_overload());
    };
    let inserted = match (second, third) {
        (key, Some(value)) => vec![(key, value)],
        (Value::Map(entries), None) => entries.entries()?,
        _ => return Err(Fault::no_such_overload()),
    };
    let Map::Owned(mut map) = target else { return Err(Fault::no_such_overload()) };
    let into = std::sync::Arc::make_mut(&mut map);
    for (key, value) in inserted {
        let place = key.key().ok_or_else(|| Fault::error("unsupported key type"))?;
        if into.contains_key(&place) {
            return Err(Fault::error(format!("insert failed: key {} already exists", shown(&key))));
        }
        into.insert(place, (key, value));
    }
    Ok(Value::Map(Map::Owned(map)))
}

/// The name of a type that an expression names.
pub(super) fn type_name(name: &str) -> &'static str {
    [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "net.IP",
        "net.CIDR",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
    ]
    .into_iter()
    .find(|known| *known == name)
    .unwrap_or("type")
}

/// Going over text costs a tenth of its characters.
fn traversal(size: u64) -> u64 {
    size.div_ceil(10)
}

/// What a call costs, as far as its arguments tell.
pub(super) fn cost_before(function: &str, args: &[Value<'_>]) -> u64 {
    let size = |index: usize| args.get(index).map_or(0, Value::size);
    match function {
        "check" => 350_000,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, traversal_of),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity"
        | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith" | "strings.quote" | "format" => {
            traversal(size(0))
        }
        "ip" => match args.first() {
            Some(Value::Cidr(_)) => 1,
            _ => traversal(size(0)),
        },
        "replace" | "split" | "ip.isCanonical" => traversal(size(0).saturating_mul(2)),
        "find" | "findAll" | "matches" => traversal(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4)),
        "containsIP" | "containsCIDR" => {
            let text = if matches!(args.get(1), Some(Value::String(_))) { traversal(size(1)) } else { 0 };
            traversal(size(0) * 2) + text + if function == "containsCIDR" { traversal(size(0)) + 1 } else { 0 }
        }
        "validate" => match args.first() {
            Some(Value::Format(format)) => {
                traversal(size(1).saturating_add(1)).saturating_mul(format.pattern_size().div_ceil(4))
            }
            _ => 1,
        },
        "bytes" | "string" => match args.first() {
            Some(Value::String(_)) if function == "bytes" => traversal(size(0)),
            Some(Value::Bytes(_)) if function == "string" => traversal(size(0)),
            _ => 1,
        },
        "@in" => match args.get(1) {
            Some(Value::List(list)) => u64::try_from(list.len()).unwrap_or(u64::MAX),
            _ => 1,
        },
        "_==_" | "_!=_" => match args.first() {
            Some(
                Value::Quantity(_)
                | Value::Ip(_)
                | Value::Cidr(_)
                | Value::Format(_)
                | Value::Url(_)
                | Value::Semver(_),
            ) => 1,
            _ => traversal(size(0).min(size(1))),
        },
        "_<_" | "_<=_" | "_>_" | "_>=_" => match args.first() {
            Some(Value::String(_) | Value::Bytes(_)) => traversal(size(0).min(size(1))),
            _ => 1,
        },
        "_+_" => match args.first() {
            Some(Value::String(_) | Value::Bytes(_)) => traversal(size(0).saturating_add(size(1))),
            _ => 1,
        },
        "contains" => traversal(size(0)).saturating_mul(traversal(size(1))),
        // For these the result decides.
        "join" | "_[?_]" => 0,
        // A call and a list, and its elements.
        "lists.range" => match args.first() {
            Some(Value::Int(count)) => u64::try_from(*count).unwrap_or_default().saturating_add(11),
            _ => 11,
        },
        "slice" | "reverse" => 11,
        "flatten" => match args.get(1) {
            Some(Value::Int(levels)) => {
                u64::try_from(*levels).unwrap_or_default().saturating_mul(size(0)).saturating_add(11)
            }
            _ => size(0).saturating_add(11),
        },
        "distinct" | "sort" => args.first().map_or(11, self_compare),
        "@sortByAssociatedKeys" => args.get(1).map_or(11, self_compare),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        _ => 1,
    }
}

/// What a call costs by the size of its result.
pub(super) fn cost_after(function: &str, result: &Value<'_>) -> u64 {
    match (function, result) {
        ("slice" | "reverse", Value::List(list)) => u64::try_from(list.len()).unwrap_or(u64::MAX),
        ("join", _) => traversal(result.size().saturating_mul(2)),
        // What is not there was not looked at.
        ("_[?_]", Value::Optional(found)) => u64::from(found.is_some()),
        _ => 0,
    }
}

/// Comparing every element of a list with every other.
fn self_compare(list: &Value<'_>) -> u64 {
    let pairs = list.size().saturating_mul(list.size());
    let first = if let Value::List(list) = list { list.get(0).ok().flatten() } else { None };
    let text = if matches!(first, Some(Value::String(_) | Value::Bytes(_))) { pairs / 10 } else { 0 };
    pairs.saturating_mul(2).saturating_add(text).saturating_add(11)
}

/// The cost of going over all of a value.
fn traversal_of(value: &Value<'_>) -> u64 {
    match value {
        Value::String(_) | Value::Bytes(_) => value.size() / 10,
        Value::List(list) => list.iter().filter_map(Result::ok).map(|item| traversal_of(&item)).sum(),
        Value::Map(map) => {
            map.entries().into_iter().flatten().map(|(key, value)| traversal_of(&key) + traversal_of(&value)).sum()
        }
        _ => 1,
    }
}
