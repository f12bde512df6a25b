//! From the bytes of a request to an object of the endpoint's kind.

use std::fmt::Write as _;

use pillion_patch::decode::{self, Parsed};
use pillion_patch::protobuf;
use pillion_patch::schema::Schema;
use pillion_rules::field::{Error, Path};
use serde_json::{Value, json};

use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::media::{self, Input};
use crate::query::FieldValidation;
use crate::status::{Refusal, Result};
use crate::{kinds, meta};

/// A body that was read, but not yet as an object of a kind.
struct Read<'a> {
    parsed: Parsed,
    /// The message of a protobuf body, to be read once the kind is known.
    message: Option<&'a [u8]>,
}

/// Reads a body as far as one can without knowing its kind.
fn read(input: Input, body: &[u8]) -> std::result::Result<Read<'_>, String> {
    let json = |error: &dyn std::fmt::Display| format!("couldn't get version/kind; json parse error: {error}");
    let parsed = match input {
        Input::Json => decode::parse(body).map_err(|error| json(&error))?,
        Input::Yaml => decode::parse_yaml(body).map_err(|error| error.to_string())?,
        Input::Protobuf => {
            let envelope = protobuf::decode(body).map_err(|error| error.to_string())?;
            let type_meta = json!({"apiVersion": envelope.api_version, "kind": envelope.kind});
            return Ok(Read { parsed: type_meta.into(), message: Some(envelope.raw) });
        }
    };
    Ok(Read { parsed, message: None })
}

impl Read<'_> {
    /// The body as JSON of a kind.
    fn of_kind(self, schema: Option<Schema<'_>>) -> std::result::Result<Parsed, String> {
        match (self.message, schema) {
            (Some(message), Some(schema)) => {
                protobuf::to_json(schema, message).map(Parsed::from).map_err(|error| error.to_string())
            }
            _ => Ok(self.parsed),
        }
    }
}

/// The object in the body, complete with defaults.
pub(crate) fn object(call: &Call<'_>, validation: FieldValidation) -> Result<Value> {
    let endpoint = &call.endpoint;
    let input = media::input(&call.content_type, endpoint.is_custom())?;
    let read = read(input, &call.body).map_err(|error| unrecognized(endpoint.kind(), &error, &call.body))?;
    let (api_version, kind) = type_meta(endpoint, &read.parsed.value, &call.body)?;
    let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
    let frame = |why: &dyn std::fmt::Display| {
        Refusal::bad_request(format!("{kind} in version {version:?} cannot be handled as a {}: {why}", endpoint.kind()))
    };
    if api_version != endpoint.api_version() || kind != endpoint.kind() {
        return Err(unknown_type(endpoint, &read.parsed.value, &api_version, &kind, &frame));
    }
    let parsed = read.of_kind(endpoint.schema()).map_err(|error| frame(&error))?;
    let (object, strict) = typed(endpoint, parsed, validation).map_err(|error| frame(&error))?;
    match validation {
        FieldValidation::Strict if !strict.is_empty() => {
            Err(frame(&format!("strict decoding error: {}", strict.join(", "))))
        }
        _ => {
            if validation == FieldValidation::Warn {
                call.warnings.extend(strict);
            }
            Ok(object)
        }
    }
}

/// Decodes against the endpoint's type and fills in defaults. The second part are the complaints of strict decoding.
pub(crate) fn typed(
    endpoint: &Endpoint,
    parsed: Parsed,
    validation: FieldValidation,
) -> std::result::Result<(Value, Vec<String>), String> {
    // Go tells an empty list from none, and so does whoever wants to start anew.
    let forgets_owners = parsed.value["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
    let (mut object, unknown): (Value, Vec<String>) = match endpoint {
        Endpoint::Builtin(_) => {
            let Some(schema) = endpoint.schema() else { return Err(format!("no schema for {}", endpoint.kind())) };
            let decoded = decode::decode(schema, parsed).map_err(|error| error.to_string())?;
            (decoded.object, decoded.strict.iter().map(ToString::to_string).collect())
        }
        Endpoint::Custom(custom) => {
            let mut strict: Vec<String> =
                parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
            let (object, unknown) = custom.decode(parsed.value)?;
            strict.extend(unknown);
            (object, strict)
        }
    };
    set_type_meta(endpoint, &mut object);
    endpoint.default(&mut object);
    if forgets_owners {
        meta::set(&mut object, "managedFields", Some(Value::Array(Vec::new())));
    }
    Ok((object, if validation == FieldValidation::Ignore { Vec::new() } else { unknown }))
}

/// Puts kind and apiVersion first, as Go writes them.
pub(crate) fn set_type_meta(endpoint: &Endpoint, object: &mut Value) {
    let Value::Object(fields) = object else { return };
    let mut old = std::mem::take(fields);
    old.shift_remove("kind");
    old.shift_remove("apiVersion");
    fields.insert("kind".to_owned(), endpoint.kind().into());
    fields.insert("apiVersion".to_owned(), endpoint.api_version().into());
    fields.extend(old);
}

/// `apiVersion` and `kind` of the body; what is left out is the endpoint's.
fn type_meta(endpoint: &Endpoint, value: &Value, body: &[u8]) -> Result<(String, String)> {
    let given = decode::type_meta(value).map_err(|error| {
        unrecognized(endpoint.kind(), &format!("couldn't get version/kind; json parse error: {error}"), body)
    })?;
    if given.api_version.matches('/').count() > 1 {
        let error = format!("unexpected GroupVersion string: {}", given.api_version);
        return Err(unrecognized(endpoint.kind(), &error, body));
    }
    if endpoint.is_custom() && given.kind.is_empty() {
        let error = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(endpoint.kind(), &error, body));
    }
    let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    Ok((or(given.api_version, &endpoint.api_version()), or(given.kind, endpoint.kind())))
}

fn unknown_type(
    endpoint: &Endpoint,
    value: &Value,
    api_version: &str,
    kind: &str,
    frame: &dyn Fn(&dyn std::fmt::Display) -> Box<Refusal>,
) -> Box<Refusal> {
    if let Endpoint::Custom(_) = endpoint {
        if api_version != endpoint.api_version() {
            return other_version(api_version, &endpoint.api_version());
        }
        let error = Error::invalid(&Path::new("kind"), kind, format!("must be {}", endpoint.kind()));
        return Refusal::invalid(endpoint.group(), kind, meta::name(value), &[error]);
    }
    if kinds::exists(api_version, kind) {
        // It is read as what it says it is, before it turns out to be of no use here.
        if let Some(schema) = kinds::schema(api_version, kind)
            && let Err(error) = decode::decode(schema, value.clone())
        {
            return frame(&error);
        }
        if kind == endpoint.kind() {
            return other_version(api_version, &endpoint.api_version());
        }
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let internal =
            if endpoint.group().is_empty() { "core" } else { endpoint.group().split('.').next().unwrap_or_default() };
        return frame(&format!(
            "converting ({version}.{kind}) to ({internal}.{}): unknown conversion",
            endpoint.kind()
        ));
    }
    frame(&no_such_kind(api_version, kind))
}

fn other_version(given: &str, expected: &str) -> Box<Refusal> {
    Refusal::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Kubernetes' words for a kind that it has not; they name a line of its own source.
pub(crate) fn no_such_kind(api_version: &str, kind: &str) -> String {
    format!("no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\"")
}

fn unrecognized(kind: &str, error: &str, body: &[u8]) -> Box<Refusal> {
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {error} ({})",
        summary(body)
    ))
}

/// The start of a body, for messages: as text where it is, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let head = body.get(..30.min(body.len())).unwrap_or_default();
    let more = if body.len() > 30 { " ..." } else { "" };
    if head.first().is_some_and(|byte| byte.is_ascii_graphic() && *byte == b'{') {
        return format!("{}{more}", String::from_utf8_lossy(head));
    }
    let hex = head.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("{hex}{more}")
}

/// The document in the body where it is of another kind than the endpoint: a Scale, an Eviction, a token request.
pub(crate) fn document(
    call: &Call<'_>,
    kind: &str,
    api_version: &str,
    schema: &str,
    validation: FieldValidation,
) -> Result<Value> {
    let input = media::input(&call.content_type, false)?;
    let read = read(input, &call.body).map_err(|error| unrecognized(kind, &error, &call.body))?;
    let given = |key: &str| read.parsed.value[key].as_str().unwrap_or_default().to_owned();
    let (given_version, given_kind) = (given("apiVersion"), given("kind"));
    let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    let (given_version, given_kind) = (or(given_version, api_version), or(given_kind, kind));
    let version = given_version.rsplit('/').next().unwrap_or_default();
    let frame = |why: &dyn std::fmt::Display| {
        Refusal::bad_request(format!("{given_kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    // Clients that were built for older clusters still evict so.
    let accepted = given_version == api_version || (kind, given_version.as_str()) == ("Eviction", "policy/v1beta1");
    if !accepted || given_kind != kind {
        if !kinds::exists(&given_version, &given_kind) {
            return Err(frame(&no_such_kind(&given_version, &given_kind)));
        }
        if given_kind == kind {
            return Err(other_version(&given_version, api_version));
        }
        let group =
            api_version.split_once('/').map_or("core", |(group, _)| group.split('.').next().unwrap_or_default());
        return Err(frame(&format!("converting ({version}.{given_kind}) to ({group}.{kind}): unknown conversion")));
    }
    let Some(schema) = pillion_patch::schema::builtin().get(schema) else { return Err(Refusal::internal("no schema")) };
    let parsed = read.of_kind(Some(schema)).map_err(|error| frame(&error))?;
    let decoded = decode::decode(schema, parsed).map_err(|error| frame(&error))?;
    let strict: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
    match validation {
        FieldValidation::Strict if !strict.is_empty() => {
            return Err(frame(&format!("strict decoding error: {}", strict.join(", "))));
        }
        FieldValidation::Warn => call.warnings.extend(strict),
        _ => {}
    }
    let mut object = decoded.object;
    object["kind"] = kind.into();
    object["apiVersion"] = api_version.into();
    Ok(object)
}

/// Why an object that a patch made is of another kind than the endpoint's; `None` when it is not.
pub(crate) fn foreign(endpoint: &Endpoint, object: &Value) -> Option<String> {
    let given = decode::type_meta(object).map_err(|error| error.to_string());
    let given = match given {
        Ok(given) => given,
        Err(why) => return Some(why),
    };
    let own = |given: &str, own: &str| given.is_empty() || given == own;
    if endpoint.is_custom() || (own(&given.api_version, &endpoint.api_version()) && own(&given.kind, endpoint.kind())) {
        return None;
    }
    if let Some(schema) = kinds::schema(&given.api_version, &given.kind) {
        let error = decode::decode(schema, object.clone()).err().map(|error| error.to_string());
        return error.or_else(|| {
            Some(format!("unable to decode {}/{} into {}", given.api_version, given.kind, endpoint.kind()))
        });
    }
    Some(no_such_kind(&given.api_version, &given.kind))
}

/// Options in a body, whose mistakes are reported without a prefix.
pub(crate) fn options(call: &Call<'_>, schema: Option<Schema<'_>>) -> Result<Parsed> {
    let input = media::input(&call.content_type, false)?;
    let read = read(input, &call.body).map_err(Refusal::bad_request)?;
    let type_meta = read.parsed.value.clone();
    let mut parsed = read.of_kind(schema).map_err(Refusal::bad_request)?;
    if input == Input::Protobuf {
        parsed.value["kind"] = type_meta["kind"].clone();
        parsed.value["apiVersion"] = type_meta["apiVersion"].clone();
    }
    Ok(parsed)
}
