//! Operators on numbers, texts, times and lists.

use std::cmp::Ordering;

use super::{Call, Fault, Outcome, Run};
use crate::cel::time::Time;
use crate::cel::value::{Text, Value};

pub(super) fn implementation(name: &str) -> Option<Run> {
    Some(match name {
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "-_" => negate,
        "_<_" => |call| compare(&call, |order| order == Ordering::Less),
        "_<=_" => |call| compare(&call, |order| order != Ordering::Greater),
        "_>_" => |call| compare(&call, |order| order == Ordering::Greater),
        "_>=_" => |call| compare(&call, |order| order != Ordering::Less),
        _ => return None,
    })
}

fn compare<'a>(call: &Call<'a>, holds: fn(Ordering) -> bool) -> Outcome<'a> {
    match call.args.as_slice() {
        [a, b] => a.compare(b).map(|order| Value::Bool(holds(order))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn overflow(what: &str) -> Fault {
    Fault::error(format!("{what} overflow"))
}

fn int<'a>(result: Option<i64>) -> Outcome<'a> {
    result.map(Value::Int).ok_or_else(|| overflow("integer"))
}

fn uint<'a>(result: Option<u64>) -> Outcome<'a> {
    result.map(Value::Uint).ok_or_else(|| overflow("unsigned integer"))
}

fn duration<'a>(result: Option<i64>) -> Outcome<'a> {
    result.map(Value::Duration).ok_or_else(|| overflow("duration"))
}

/// A time, later by so many nanoseconds.
fn later<'a>(time: Time, nanoseconds: Option<i64>) -> Outcome<'a> {
    nanoseconds
        .and_then(|nanoseconds| time.at.checked_add(jiff::SignedDuration::from_nanos(nanoseconds)).ok())
        .map(|at| Value::Timestamp(Time { at, ..time }))
        .ok_or_else(|| overflow("timestamp"))
}

fn add(call: Call<'_>) -> Outcome<'_> {
    let mut args = call.args.into_iter();
    let (Some(a), Some(b)) = (args.next(), args.next()) else { return Err(Fault::no_such_overload()) };
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_add(b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_add(b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => Ok(Value::String(Text::Shared(format!("{}{}", &*a, &*b).into()))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes([a.as_ref(), b.as_ref()].concat().into())),
        (Value::List(a), Value::List(b)) => a.concat(&b).map(Value::List),
        (Value::Duration(a), Value::Duration(b)) => duration(a.checked_add(b)),
        (Value::Timestamp(time), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(time)) => {
            later(time, Some(by))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn subtract(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_sub(*b)),
        [Value::Timestamp(time), Value::Duration(by)] => later(*time, by.checked_neg()),
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            duration(i64::try_from(a.at.as_nanosecond() - b.at.as_nanosecond()).ok())
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn multiply(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn divide(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Fault::error("division by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn modulo(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Fault::error("modulus by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn negate(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::Int(a)] => int(a.checked_neg()),
        [Value::Double(a)] => Ok(Value::Double(-a)),
        _ => Err(Fault::no_such_overload()),
    }
}
