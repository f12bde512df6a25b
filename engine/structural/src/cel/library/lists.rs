//! Functions on lists and sets.

use std::cmp::Ordering;

use super::strings::{index_of, last_index_of};
use super::{Call, Fault, Outcome, Run};
use crate::cel::shown::shown;
use crate::cel::types::Type;
use crate::cel::value::{List, Value};

/// A list that an expression makes by counting is no longer than what the cost limit would stop anyway.
const MAX_RANGE: i64 = 1_000_000;

pub(super) fn implementation(name: &str) -> Option<Run> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" => |call| extreme(&call, "min", Ordering::Greater),
        "max" => |call| extreme(&call, "max", Ordering::Less),
        "indexOf" => index,
        "lastIndexOf" => last_index,
        "slice" => slice,
        "flatten" => flatten,
        "lists.range" => range,
        "reverse" => |call| on_list(&call, |items| Ok(Value::list(items.into_iter().rev().collect()))),
        "distinct" => |call| on_list(&call, |items| distinct(items).map(Value::list)),
        "sort" => |call| on_list(&call, |items| sorted(items.into_iter().map(|item| (item.clone(), item)).collect())),
        "@sortByAssociatedKeys" => sort_by,
        "first" => |call| on_list(&call, |items| Ok(Value::Optional(items.into_iter().next().map(Into::into)))),
        "last" => |call| on_list(&call, |items| Ok(Value::Optional(items.into_iter().next_back().map(Into::into)))),
        "optional.unwrap" | "unwrapOpt" => |call| on_list(&call, unwrap),
        "sets.contains" => |call| on_sets(&call, |a, b| contains_all(a, b)),
        "sets.equivalent" => |call| on_sets(&call, |a, b| Ok(contains_all(a, b)? && contains_all(b, a)?)),
        "sets.intersects" => |call| on_sets(&call, intersects),
        _ => return None,
    })
}

fn items<'a>(list: &List<'a>) -> Result<Vec<Value<'a>>, Fault> {
    list.iter().collect()
}

fn on_list<'a>(call: &Call<'a>, run: fn(Vec<Value<'a>>) -> Outcome<'a>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::List(list)] => run(items(list)?),
        _ => Err(Fault::no_such_overload()),
    }
}

fn on_sets<'a>(call: &Call<'a>, run: fn(&List<'a>, &List<'a>) -> Result<bool, Fault>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::List(a), Value::List(b)] => run(a, b).map(Value::Bool),
        _ => Err(Fault::no_such_overload()),
    }
}

fn contains_all<'a>(list: &List<'a>, wanted: &List<'a>) -> Result<bool, Fault> {
    for item in wanted.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool, Fault> {
    for item in b.iter() {
        if a.contains(&item?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_sorted(call: Call<'_>) -> Outcome<'_> {
    let [Value::List(list)] = call.args.as_slice() else { return Err(Fault::no_such_overload()) };
    let items = items(list)?;
    for (a, b) in items.iter().zip(items.iter().skip(1)) {
        if a.compare(b)? == Ordering::Greater {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum(call: Call<'_>) -> Outcome<'_> {
    let [Value::List(list)] = call.args.as_slice() else { return Err(Fault::no_such_overload()) };
    let mut items = items(list)?.into_iter();
    let Some(mut total) = items.next() else {
        return Ok(match call.result {
            Type::Uint => Value::Uint(0),
            Type::Double => Value::Double(0.0),
            Type::Duration => Value::Duration(0),
            _ => Value::Int(0),
        });
    };
    let add = super::implementation("_+_").ok_or_else(Fault::no_such_overload)?;
    for item in items {
        total = add(Call { function: "_+_", args: vec![total, item], regex: None, result: call.result })?;
    }
    Ok(total)
}

fn extreme<'a>(call: &Call<'a>, name: &str, worse: Ordering) -> Outcome<'a> {
    let [Value::List(list)] = call.args.as_slice() else { return Err(Fault::no_such_overload()) };
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        let replace = match &best {
            None => true,
            Some(best) => best.compare(&item)? == worse,
        };
        if replace {
            best = Some(item);
        }
    }
    best.ok_or_else(|| Fault::error(format!("{name} called on empty list")))
}

fn place(found: Option<usize>) -> Value<'static> {
    Value::Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn index(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::List(list), item] => {
            for (at, found) in list.iter().enumerate() {
                if found?.equals(item)? {
                    return Ok(place(Some(at)));
                }
            }
            Ok(place(None))
        }
        [Value::String(text), Value::String(part)] => index_of(text, part, 0).map(Value::Int),
        [Value::String(text), Value::String(part), Value::Int(from)] => index_of(text, part, *from).map(Value::Int),
        _ => Err(Fault::no_such_overload()),
    }
}

fn last_index(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::List(list), item] => {
            let mut last = None;
            for (at, found) in list.iter().enumerate() {
                if found?.equals(item)? {
                    last = Some(at);
                }
            }
            Ok(place(last))
        }
        [Value::String(text), Value::String(part)] => last_index_of(text, part, None).map(Value::Int),
        [Value::String(text), Value::String(part), Value::Int(to)] => {
            last_index_of(text, part, Some(*to)).map(Value::Int)
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn slice(call: Call<'_>) -> Outcome<'_> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = call.args.as_slice() else {
        return Err(Fault::no_such_overload());
    };
    let length = list.len();
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(Fault::error(format!("cannot slice({start}, {end}), negative indexes not supported")));
    };
    if from > to {
        return Err(Fault::error(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        )));
    }
    if to > length {
        return Err(Fault::error(format!("cannot slice({start}, {end}), list is length {length}")));
    }
    let items: Result<Vec<Value<'_>>, Fault> = list.iter().skip(from).take(to - from).collect();
    items.map(Value::list)
}

fn flatten(call: Call<'_>) -> Outcome<'_> {
    let (list, levels) = match call.args.as_slice() {
        [Value::List(list)] => (list, 1),
        [Value::List(_), Value::Int(..0)] => return Err(Fault::error("level must be non-negative")),
        [Value::List(list), Value::Int(levels)] => (list, *levels),
        _ => return Err(Fault::no_such_overload()),
    };
    let mut flat = items(list)?;
    // Values nest no deeper than this, so more levels change nothing.
    for _ in 0..levels.min(128) {
        let mut next = Vec::with_capacity(flat.len());
        for item in flat {
            match item {
                Value::List(inner) => next.extend(items(&inner)?),
                other => next.push(other),
            }
        }
        flat = next;
    }
    Ok(Value::list(flat))
}

fn range(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::Int(count)] => Ok(Value::list((0..(*count).min(MAX_RANGE)).map(Value::Int).collect())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn distinct(items: Vec<Value<'_>>) -> Result<Vec<Value<'_>>, Fault> {
    let mut seen: Vec<Value<'_>> = Vec::new();
    for item in items {
        let mut known = false;
        for other in &seen {
            known |= other.equals(&item)?;
        }
        if !known {
            seen.push(item);
        }
    }
    Ok(seen)
}

/// Values in the order of their keys.
fn sorted<'a>(mut keyed: Vec<(Value<'a>, Value<'a>)>) -> Outcome<'a> {
    let mut fault = None;
    keyed.sort_by(|(a, _), (b, _)| {
        a.compare(b).unwrap_or_else(|_| {
            fault = Some(Fault::error("list elements must have the same type"));
            Ordering::Equal
        })
    });
    match fault {
        Some(fault) => Err(fault),
        None => Ok(Value::list(keyed.into_iter().map(|(_, value)| value).collect())),
    }
}

fn sort_by(call: Call<'_>) -> Outcome<'_> {
    let [Value::List(list), Value::List(keys)] = call.args.as_slice() else { return Err(Fault::no_such_overload()) };
    sorted(items(keys)?.into_iter().zip(items(list)?).collect())
}

fn unwrap(items: Vec<Value<'_>>) -> Outcome<'_> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::Optional(inner) => values.extend(inner.map(|inner| inner.as_ref().clone())),
            other => return Err(Fault::error(format!("value {} is not optional", shown(&other)))),
        }
    }
    Ok(Value::list(values))
}
