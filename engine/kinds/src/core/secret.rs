//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_rules::field::{Error, IMMUTABLE, Path};
use pillion_rules::format::{check, config_key};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::value::{entries, fill_text, has, is_empty, object_mut, remove, set, text};
use serde_json::Value;

use super::config_map::{SIZE_LIMIT, decoded_length, validate_frozen};
use crate::rules::{Rules, STORED};

pub(crate) const RULES: Rules = Rules { default, validate, prepare_update, validate_update, selectable, ..STORED };

fn default(secret: &mut Value) {
    fill_text(secret, "type", "Opaque");
    encode_text(secret);
}

/// What is given as text is kept as data, over data of the same name.
fn encode_text(secret: &mut Value) {
    let texts: Vec<(String, String)> = entries(secret, "stringData")
        .map(|(key, value)| (key.clone(), STANDARD.encode(value.as_str().unwrap_or_default())))
        .collect();
    remove(secret, "stringData");
    for (key, value) in texts {
        set(object_mut(secret, "data"), &key, value);
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    fill_text(new, "type", text(old, "type"));
}

fn validate(secret: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&secret["metadata"], &Path::new("metadata"), true, subdomain_name);
    let (data, path) = (&secret["data"], Path::new("data"));
    let mut size = 0_usize;
    for (key, value) in entries(secret, "data") {
        check(config_key(key), key, &path.key(key), &mut errors);
        size = size.saturating_add(decoded_length(value));
    }
    if size > SIZE_LIMIT {
        errors.push(Error::too_long(&path, SIZE_LIMIT));
    }
    let mut require = |key: &str| errors.push(Error::required(&path.key(key), ""));
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if is_empty(&secret["metadata"]["annotations"], name) {
                errors.push(Error::required(&Path::new("metadata").child("annotations").key(name), ""));
            }
        }
        "kubernetes.io/dockercfg" => validate_json(data, ".dockercfg", &path, &mut errors),
        "kubernetes.io/dockerconfigjson" => validate_json(data, ".dockerconfigjson", &path, &mut errors),
        "kubernetes.io/basic-auth" if !has(data, "username") && !has(data, "password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if is_empty(data, "ssh-privatekey") => require("ssh-privatekey"),
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| !has(data, key)) {
                require(key);
            }
        }
        _ => {}
    }
    errors
}

/// Refuses what should be a JSON object and is none.
fn validate_json(data: &Value, key: &str, path: &Path, errors: &mut Vec<Error>) {
    let path = path.key(key);
    let Some(encoded) = data[key].as_str() else { return errors.push(Error::required(&path, "")) };
    if let Some(complaint) = json_complaint(&STANDARD.decode(encoded).unwrap_or_default()) {
        errors.push(Error::invalid(&path, "<secret contents redacted>", complaint));
    }
}

/// What Go's JSON decoder says of a text that is not an object.
fn json_complaint(bytes: &[u8]) -> Option<String> {
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let kind = match value {
            Value::Object(_) | Value::Null => return None,
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
        };
        return Some(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"));
    }
    let start = bytes.iter().find(|b| !b.is_ascii_whitespace());
    Some(match start {
        Some(first) if !b"{[\"tfn-0123456789".contains(first) => {
            format!("invalid character '{}' looking for beginning of value", char::from(*first).escape_default())
        }
        _ => "unexpected end of JSON input".to_owned(),
    })
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    if text(new, "type") != text(old, "type") {
        errors.push(Error::invalid(&Path::new("type"), text(new, "type"), IMMUTABLE));
    }
    validate_frozen(new, old, &["data"], &mut errors);
    errors.extend(validate(new));
    errors
}

fn selectable(secret: &Value, field: &str) -> Option<String> {
    (field == "type").then(|| text(secret, "type").to_owned())
}
