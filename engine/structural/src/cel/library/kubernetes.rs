//! Quantities, versions, URLs, named formats, and authorization.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_quantity::{Format as QuantityFormat, Quantity};

use super::{Call, Fault, Outcome, Run};
use crate::cel::named_format::{FORMATS, NamedFormat};
use crate::cel::semver::Semver;
use crate::cel::value::{Map, Value};
use crate::go_url::Url;

const NANOSECONDS: i128 = 1_000_000_000;

pub(super) fn implementation(name: &str) -> Option<Run> {
    quantity(name).or_else(|| semver(name)).or_else(|| url(name)).or_else(|| authorization(name)).or_else(|| {
        Some(match name {
            "format.named" => |call| {
                on_text(&call, |text| Ok(Value::Optional(NamedFormat::named(text).map(Value::Format).map(Arc::new))))
            },
            name if FORMATS.iter().any(|(function, _)| *function == name) => |call| {
                let format = call.function.strip_prefix("format.").and_then(NamedFormat::named);
                format.map(Value::Format).ok_or_else(Fault::no_such_overload)
            },
            "validate" => |call| match call.args.as_slice() {
                [Value::Format(format), Value::String(text)] => {
                    let complaints = format.complaints(text);
                    let shown = complaints.into_iter().map(Value::text).collect::<Vec<_>>();
                    Ok(if shown.is_empty() { Value::Optional(None) } else { Value::some(Value::list(shown)) })
                }
                _ => Err(Fault::no_such_overload()),
            },
            _ => return None,
        })
    })
}

fn on_text<'a>(call: &Call<'a>, run: fn(&str) -> Outcome<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::String(text)] => run(text),
        _ => Err(Fault::no_such_overload()),
    }
}

/// An order of two quantities or two versions.
fn ordered<'a>(call: &Call<'a>, run: fn(Ordering) -> Value<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(run(a.cmp(b))),
        [Value::Semver(a), Value::Semver(b)] => Ok(run(a.compare(b))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn quantity(name: &str) -> Option<Run> {
    Some(match name {
        "quantity" => |call| {
            on_text(&call, |text| match text.parse() {
                Ok(quantity) => Ok(Value::Quantity(Arc::new(quantity))),
                Err(_) => Err(Fault::error(NO_QUANTITY)),
            })
        },
        "isQuantity" => |call| on_text(&call, |text| Ok(Value::Bool(text.parse::<Quantity>().is_ok()))),
        "sign" => |call| {
            on_quantity(&call, |quantity| Ok(Value::Int(quantity.nanos().signum().try_into().unwrap_or_default())))
        },
        "isGreaterThan" => |call| ordered(&call, |order| Value::Bool(order == Ordering::Greater)),
        "isLessThan" => |call| ordered(&call, |order| Value::Bool(order == Ordering::Less)),
        "compareTo" => |call| ordered(&call, |order| Value::Int(order as i64)),
        #[allow(clippy::cast_precision_loss, reason = "approximate, as its name says")]
        "asApproximateFloat" => |call| on_quantity(&call, |quantity| Ok(Value::Double(quantity.nanos() as f64 / 1e9))),
        "asInteger" => |call| {
            on_quantity(&call, |quantity| {
                whole(quantity).map(Value::Int).ok_or_else(|| Fault::error("cannot convert value to integer"))
            })
        },
        "isInteger" => |call| on_quantity(&call, |quantity| Ok(Value::Bool(whole(quantity).is_some()))),
        "add" => |call| combined(&call, 1),
        "sub" => |call| combined(&call, -1),
        _ => return None,
    })
}

const NO_QUANTITY: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

fn on_quantity<'a>(call: &Call<'a>, run: fn(&Quantity) -> Outcome<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::Quantity(quantity)] => run(quantity),
        _ => Err(Fault::no_such_overload()),
    }
}

fn whole(quantity: &Quantity) -> Option<i64> {
    let nanos = quantity.nanos();
    (nanos % NANOSECONDS == 0).then(|| i64::try_from(nanos / NANOSECONDS).ok()).flatten()
}

fn combined<'a>(call: &Call<'a>, sign: i128) -> Outcome<'a> {
    let (a, b) = match call.args.as_slice() {
        [Value::Quantity(a), Value::Quantity(b)] => (a, b.nanos()),
        [Value::Quantity(a), Value::Int(b)] => (a, i128::from(*b) * NANOSECONDS),
        _ => return Err(Fault::no_such_overload()),
    };
    let format = if a.nanos() == 0 { QuantityFormat::DecimalSi } else { a.format() };
    Ok(Value::Quantity(Arc::new(Quantity::from_nanos(a.nanos().saturating_add(sign * b), format))))
}

fn semver(name: &str) -> Option<Run> {
    fn parse(call: &Call<'_>) -> Result<Result<Semver, String>, Fault> {
        match call.args.as_slice() {
            [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Semver::parse(text)),
            [Value::String(text), Value::Bool(true)] => Ok(Semver::parse_lenient(text)),
            _ => Err(Fault::no_such_overload()),
        }
    }
    fn part<'a>(call: &Call<'a>, index: usize) -> Outcome<'a> {
        match call.args.as_slice() {
            [Value::Semver(version)] => {
                let number = version.numbers.get(index).copied().unwrap_or_default();
                Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)))
            }
            _ => Err(Fault::no_such_overload()),
        }
    }
    Some(match name {
        "semver" => |call| parse(&call)?.map(|version| Value::Semver(Arc::new(version))).map_err(Fault::error),
        "isSemver" => |call| Ok(Value::Bool(parse(&call)?.is_ok())),
        "major" => |call| part(&call, 0),
        "minor" => |call| part(&call, 1),
        "patch" => |call| part(&call, 2),
        _ => return None,
    })
}

fn url(name: &str) -> Option<Run> {
    fn part<'a>(call: &Call<'a>, of: fn(&Url) -> Value<'static>) -> Outcome<'a> {
        match call.args.as_slice() {
            [Value::Url(url)] => Ok(of(url)),
            _ => Err(Fault::no_such_overload()),
        }
    }
    Some(match name {
        "url" => |call| {
            on_text(&call, |text| match Url::parse(text) {
                Ok(url) => Ok(Value::Url(Arc::new(url))),
                Err(reason) => Err(Fault::error(format!("URL parse error during conversion from string: {reason}"))),
            })
        },
        "isURL" => |call| on_text(&call, |text| Ok(Value::Bool(Url::parse_request_uri(text).is_ok()))),
        "getScheme" => |call| part(&call, |url| Value::text(&url.scheme)),
        "getHost" => |call| part(&call, |url| Value::text(&url.host)),
        "getHostname" => |call| part(&call, |url| Value::text(url.hostname())),
        "getPort" => |call| part(&call, |url| Value::text(url.port())),
        "getEscapedPath" => |call| part(&call, |url| Value::text(&url.escaped_path)),
        "getQuery" => |call| {
            part(&call, |url| {
                let entries = url.query_values().into_iter().filter_map(|(key, values)| {
                    let key = Value::text(key);
                    let values = Value::list(values.into_iter().map(Value::text).collect());
                    Some((key.key()?, (key, values)))
                });
                Value::Map(Map::Owned(Arc::new(entries.collect::<BTreeMap<_, _>>())))
            })
        },
        _ => return None,
    })
}

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";

/// Whoever asks is allowed: the embedded API server stores RBAC and does not enforce it.
fn authorization(name: &str) -> Option<Run> {
    Some(match name {
        "path" => |_| Ok(Value::Authorization("kubernetes.authorization.PathCheck")),
        "group" => |_| Ok(Value::Authorization("kubernetes.authorization.GroupCheck")),
        "serviceAccount" => |_| Ok(Value::Authorization(AUTHORIZER)),
        "resource" | "subresource" | "namespace" | "name" | "fieldSelector" | "labelSelector" => {
            |_| Ok(Value::Authorization(RESOURCE_CHECK))
        }
        "check" => |_| Ok(Value::Authorization("kubernetes.authorization.Decision")),
        "allowed" => |_| Ok(Value::Bool(true)),
        "errored" => |_| Ok(Value::Bool(false)),
        "reason" | "error" => |_| Ok(Value::text("")),
        _ => return None,
    })
}
