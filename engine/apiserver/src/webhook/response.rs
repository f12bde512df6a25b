//! What a webhook is asked, and how its answer reads.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Failure, Match, Webhook};
use crate::attributes::{Attributes, request};
use crate::status::Refusal;

/// What a webhook said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) patch: Option<Vec<u8>>,
    pub(super) warnings: Vec<String>,
    /// A kind of patch that nobody knows.
    pub(super) unsupported_patch: Option<String>,
    /// The Status that comes with a no.
    pub(super) result: Value,
}

/// The question.
pub(super) async fn review(
    attributes: &Attributes<'_>,
    webhook: &Webhook,
    matched: &Match,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Value, Failure> {
    let versions = webhook.spec["admissionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let Some(version) = versions.into_iter().find(|version| matches!(*version, "v1" | "v1beta1")) else {
        return Err(Failure::Call(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned(),
        ));
    };
    let mut request = request::describe(attributes, matched.endpoint());
    for (key, object) in [("object", object), ("oldObject", old)] {
        let shown = match object {
            Some(object) => matched.to_version(attributes, object).await.map_err(Failure::Rejected)?,
            None => Value::Null,
        };
        request.insert(key.to_owned(), shown);
    }
    Ok(json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request}))
}

/// Reads the answer to a review, as strictly as its version wants.
pub(super) fn read(review: &Value, reply: &Value, mutating: bool) -> Result<Answer, String> {
    let response = &reply["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let strict = review["apiVersion"] == "admission.k8s.io/v1";
    let patch = Some(bytes(&response["patch"])?).filter(|patch| !patch.is_empty());
    if strict {
        check(review, reply, patch.is_some(), mutating)?;
    }
    let warnings = response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok(Answer {
        allowed: response["allowed"].as_bool().unwrap_or(false),
        patch: patch.filter(|_| mutating),
        warnings: warnings.collect(),
        unsupported_patch: response["patchType"]
            .as_str()
            .filter(|kind| mutating && *kind != "JSONPatch")
            .map(str::to_owned),
        result: response["status"].clone(),
    })
}

/// Bytes as Go reads them: base64, or an array of numbers, which is how kube-rs writes them.
fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    match value {
        Value::String(text) => STANDARD.decode(text).map_err(|error| error.to_string()),
        Value::Array(numbers) => {
            let byte = |number: &Value| number.as_u64().and_then(|number| u8::try_from(number).ok());
            let bytes: Option<Vec<u8>> = numbers.iter().map(byte).collect();
            bytes.ok_or_else(|| {
                "json: cannot unmarshal into Go struct field AdmissionResponse.response.patch of type uint8".to_owned()
            })
        }
        _ => Ok(Vec::new()),
    }
}

fn check(review: &Value, reply: &Value, has_patch: bool, mutating: bool) -> Result<(), String> {
    let response = &reply["response"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (expected, got) = (text(&review["request"]["uid"]), text(&response["uid"]));
    if expected != got {
        return Err(format!("expected response.uid={expected:?}, got {got:?}"));
    }
    if reply["apiVersion"] != "admission.k8s.io/v1" || reply["kind"] != "AdmissionReview" {
        let (version, kind) = (text(&reply["apiVersion"]), text(&reply["kind"]));
        let (group, version) =
            version.split_once('/').map_or(("", version.as_str()), |(group, version)| (group, version));
        let got = format!("{group}/{version}, Kind={kind}");
        return Err(format!("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}"));
    }
    let patch_type = response.get("patchType").filter(|kind| !kind.is_null());
    match (mutating, has_patch, patch_type) {
        (true, true, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, false, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (true, _, Some(kind)) if kind == "" => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
        (false, true, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        _ => Ok(()),
    }
}

/// The refusal of a webhook that said no.
pub(super) fn denied(name: &str, result: &Value) -> Box<Refusal> {
    let text = |key: &str| result[key].as_str().unwrap_or_default();
    let why = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    let code = result["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
    let message = format!("admission webhook {name:?} denied the request{why}");
    Refusal::new(code, text("reason"), message, result.get("details").cloned().unwrap_or_default())
}
