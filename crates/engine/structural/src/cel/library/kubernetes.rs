//! Quantities, versions, URLs, named formats, and authorization.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_kinds::{format as names, metadata};
use pillion_quantity::{Format as QuantityFormat, Quantity};

use super::{Call, Fault, Outcome, Run};
use crate::cel::value::{Map, Value};
use crate::format::Format;
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

/// A semantic version.
#[derive(Clone, Debug)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    /// Parts of the pre-release: numbers come before words.
    pre_release: Vec<Result<u64, String>>,
}

impl Semver {
    fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, pre_release) = match rest.split_once('-') {
            Some((patch, pre_release)) => (patch, Some(pre_release)),
            None => (rest, None),
        };
        let numbers = [number("Major", major)?, number("Minor", minor)?, number("Patch", patch)?];
        let fits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let mut parsed = Vec::new();
        for part in pre_release.into_iter().flat_map(|pre_release| pre_release.split('.')) {
            if !fits(part) {
                return Err(format!("Invalid character(s) found in prerelease {}", pillion_kinds::field::quoted(part)));
            }
            parsed.push(if part.bytes().all(|b| b.is_ascii_digit()) {
                Ok(number("Numeric PreRelease", part)?)
            } else {
                Err(part.to_owned())
            });
        }
        if let Some(part) = build.into_iter().flat_map(|build| build.split('.')).find(|part| !fits(part)) {
            return Err(format!(
                "Invalid character(s) found in build meta data {}",
                pillion_kinds::field::quoted(part)
            ));
        }
        Ok(Semver { numbers, pre_release: parsed })
    }

    /// As [`Semver::parse`], for versions such as `v1.2`.
    fn parse_lenient(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                let short = part.trim_start_matches('0');
                let starts_with_digit = short.starts_with(|c: char| c.is_ascii_digit());
                match part.len() {
                    0 | 1 => part.to_owned(),
                    _ if starts_with_digit => short.to_owned(),
                    _ => format!("0{short}"),
                }
            })
            .collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
        Semver::parse(&parts.join("."))
    }

    pub(crate) fn compare(&self, other: &Semver) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
                (true, true) => Ordering::Equal,
                // A version comes after its own pre-releases.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre_release.cmp(&other.pre_release),
            }
        })
    }
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    let shown = pillion_kinds::field::quoted(text);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {shown}", what.to_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {shown}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {shown}: value out of range"))
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

/// A format that an expression can check text against, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedFormat(&'static str);

/// The functions that give a format, and the size of its pattern, by which checking text against it is charged.
pub(in crate::cel) const FORMATS: [(&str, u64); 13] = [
    ("format.dns1123Label", 30),
    ("format.dns1123LabelPrefix", 30),
    ("format.dns1123Subdomain", 60),
    ("format.dns1123SubdomainPrefix", 60),
    ("format.dns1035Label", 30),
    ("format.dns1035LabelPrefix", 30),
    ("format.qualifiedName", 60),
    ("format.labelValue", 40),
    ("format.uri", 1103),
    ("format.uuid", 70),
    ("format.byte", 84),
    ("format.date", 71),
    ("format.datetime", 71),
];

impl NamedFormat {
    fn named(name: &str) -> Option<NamedFormat> {
        let mut names = FORMATS.into_iter().filter_map(|(function, _)| function.strip_prefix("format."));
        names.find(|known| *known == name).map(NamedFormat)
    }

    pub(crate) fn pattern_size(self) -> u64 {
        FORMATS
            .into_iter()
            .find(|(function, _)| function.strip_prefix("format.") == Some(self.0))
            .map_or(0, |(_, size)| size)
    }

    fn complaints(self, text: &str) -> Vec<String> {
        let openapi = |format: Format, complaint: &str| {
            if format.matches(text) { Vec::new() } else { vec![complaint.to_owned()] }
        };
        match self.0 {
            "dns1123Label" => metadata::label_name(text, false),
            "dns1123LabelPrefix" => metadata::label_name(text, true),
            "dns1123Subdomain" => metadata::subdomain_name(text, false),
            "dns1123SubdomainPrefix" => metadata::subdomain_name(text, true),
            "dns1035Label" => metadata::dns1035_name(text, false),
            "dns1035LabelPrefix" => metadata::dns1035_name(text, true),
            "qualifiedName" => names::qualified_name(text),
            "labelValue" => names::label_value(text),
            "uuid" => openapi(Format::Uuid, "does not match the UUID format"),
            "byte" => openapi(Format::Byte, "invalid base64"),
            "date" => openapi(Format::Date, "invalid date"),
            "datetime" => openapi(Format::DateTime, "invalid datetime"),
            _ => Url::parse_request_uri(text).err().into_iter().collect(),
        }
    }
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
