//! What the API server asks a webhook, and how it is answered: `admission.k8s.io/v1` `AdmissionReview`. Other versions are refused, since whoever
//! asks in one of them expects an answer in it.

mod new_pod;

use std::collections::BTreeMap;

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use pillion_api::field;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use new_pod::LeftOut;

const VERSION: &str = "admission.k8s.io/v1";

/// A question.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Review {
    api_version: Option<String>,
    request: Option<Request>,
}

/// A write that is about to happen.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    pub(crate) uid: String,
    pub(crate) namespace: Option<String>,
    pub(crate) operation: String,
    pub(crate) sub_resource: Option<String>,
    pub(crate) dry_run: Option<bool>,
    /// The object as it is to be; `null` when it is to go.
    pub(crate) object: Value,
    /// The object as it is; `null` when it is new.
    pub(crate) old_object: Value,
    /// What was left out of the object when it was read.
    #[serde(skip)]
    pub(crate) left_out: Option<LeftOut>,
}

impl Request {
    pub(crate) fn read(body: &Bytes) -> Result<Request, String> {
        let review: Review =
            serde_json::from_slice(body).map_err(|error| format!("the body is not an AdmissionReview: {error}"))?;
        check_version(review.api_version.as_deref())?;
        review.request.ok_or_else(|| "the AdmissionReview has no request".to_owned())
    }

    /// Whether an object itself is written, and not a part such as its status.
    pub(crate) fn is(&self, operation: &str) -> bool {
        self.operation == operation && self.sub_resource.as_deref().unwrap_or_default().is_empty()
    }

    /// Whether an object itself is created or updated.
    pub(crate) fn is_write(&self) -> bool {
        self.is("CREATE") || self.is("UPDATE")
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }
}

/// Refuses questions of another version, which have to be answered in it.
pub(crate) fn check_version(version: Option<&str>) -> Result<(), String> {
    match version.filter(|version| *version != VERSION) {
        None => Ok(()),
        Some(version) => Err(format!(
            "AdmissionReviews of {version:?} are not supported; register the webhook with admissionReviewVersions [\"v1\"]"
        )),
    }
}

/// An answer. The default lets the write through as it is.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// What to change; may be empty.
    pub(crate) patch: Patch,
    /// What whoever writes should know.
    pub(crate) warnings: Vec<String>,
    /// What the audit log should know.
    pub(crate) audit_annotations: BTreeMap<String, String>,
    /// The Status of a refusal.
    pub(crate) refusal: Option<Value>,
}

/// As long as the text of most patches: growing to it would copy it several times.
const USUAL_PATCH: usize = 8 * 1024;

impl Answer {
    /// Changes an object by the difference between two of its versions.
    pub(crate) fn change(before: &impl Serialize, after: &impl Serialize) -> Answer {
        match (serde_json::to_value(before), serde_json::to_value(after)) {
            (Ok(before), Ok(after)) => Answer { patch: json_patch::diff(&before, &after), ..Answer::default() },
            (Err(error), _) | (_, Err(error)) => Answer::bad_request(error.to_string()),
        }
    }

    /// No, for a reason that is not about a field.
    pub(crate) fn forbidden(message: impl Into<String>) -> Answer {
        Answer::refused(403, "Forbidden", message.into(), Value::Null)
    }

    /// No, because something has changed meanwhile.
    pub(crate) fn conflict(message: impl Into<String>) -> Answer {
        Answer::refused(409, "Conflict", message.into(), Value::Null)
    }

    /// No, because the answer cannot be known now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Answer {
        Answer::refused(503, "ServiceUnavailable", message.into(), Value::Null)
    }

    /// No: what came cannot be read.
    pub(crate) fn bad_request(message: impl Into<String>) -> Answer {
        Answer::refused(400, "BadRequest", message.into(), Value::Null)
    }

    /// No, for everything that is wrong with the object: the words and the form of the API server's own refusal.
    pub(crate) fn invalid((group, kind): (&str, &str), name: &str, errors: &[field::Error]) -> Answer {
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| json!({"reason": error.kind.reason(), "message": error.message(), "field": error.path.to_string()}))
            .collect();
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut listed: Vec<String> = Vec::new();
        for error in errors.iter().map(ToString::to_string) {
            if !listed.contains(&error) {
                listed.push(error);
            }
        }
        let listed = if let [one] = listed.as_slice() { one.clone() } else { format!("[{}]", listed.join(", ")) };
        let details = json!({"name": name, "group": group, "kind": kind, "causes": causes});
        Answer::refused(422, "Invalid", format!("{qualified} {name:?} is invalid: {listed}"), details)
    }

    fn refused(code: u16, reason: &str, message: String, details: Value) -> Answer {
        let mut status = json!({"status": "Failure", "code": code, "reason": reason, "message": message});
        if !details.is_null() {
            status["details"] = details;
        }
        Answer { refusal: Some(status), ..Answer::default() }
    }

    /// The same answer with warnings.
    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Answer {
        Answer { warnings, ..self }
    }

    pub(crate) fn is_allowed(&self) -> bool {
        self.refusal.is_none()
    }

    /// The `AdmissionReview` that carries the answer, as JSON.
    pub(crate) fn into_review(self, uid: &str) -> Result<Vec<u8>, serde_json::Error> {
        let mut patch = Vec::new();
        if self.is_allowed() && !self.patch.0.is_empty() {
            patch.reserve(USUAL_PATCH);
            serde_json::to_writer(&mut patch, &self.patch)?;
        }
        let response = Response {
            uid,
            allowed: self.is_allowed(),
            status: self.refusal.as_ref(),
            audit_annotations: &self.audit_annotations,
            warnings: &self.warnings,
        };
        let response = serde_json::to_string(&response)?;
        let mut review = String::with_capacity(response.len() + patch.len().div_ceil(3) * 4 + 128);
        review.push_str(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":"#);
        review.push_str(&response);
        if !patch.is_empty() {
            // It is most of the text, and base64 has nothing to escape: it is written where it belongs.
            review.pop();
            review.push_str(r#","patchType":"JSONPatch","patch":""#);
            STANDARD.encode_string(&patch, &mut review);
            review.push_str(r#""}"#);
        }
        review.push('}');
        Ok(review.into_bytes())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[cfg(test)]
mod tests {
    use pillion_api::field::{Error, Path};

    use super::*;

    fn review(answer: Answer, uid: &str) -> Value {
        serde_json::from_slice(&answer.into_review(uid).unwrap()).unwrap()
    }

    #[test]
    fn a_refusal_has_the_form_of_the_api_servers_own() {
        let path = Path::new("spec").child("selector");
        let errors = [Error::required(&path, "no selector"), Error::forbidden(&path, "no")];
        let answer = Answer::invalid(("apps.kruise.io", "SidecarSet"), "mesh", &errors);
        insta::assert_json_snapshot!(review(answer, "42")["response"], @r#"
        {
          "uid": "42",
          "allowed": false,
          "status": {
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "SidecarSet.apps.kruise.io \"mesh\" is invalid: [spec.selector: Required value: no selector, spec.selector: Forbidden: no]",
            "details": {
              "name": "mesh",
              "group": "apps.kruise.io",
              "kind": "SidecarSet",
              "causes": [
                {
                  "reason": "FieldValueRequired",
                  "message": "Required value: no selector",
                  "field": "spec.selector"
                },
                {
                  "reason": "FieldValueForbidden",
                  "message": "Forbidden: no",
                  "field": "spec.selector"
                }
              ]
            }
          }
        }
        "#);
    }

    #[test]
    fn a_patch_goes_as_base64_and_only_if_there_is_one() {
        let plain = review(Answer::default(), "1");
        assert_eq!(plain["response"], json!({"uid": "1", "allowed": true}));
        let patch: Patch = serde_json::from_value(json!([{"op": "remove", "path": "/a"}])).unwrap();
        let answer = Answer { patch, ..Answer::default() }.with_warnings(vec!["look out".to_owned()]);
        let review = review(answer, "1");
        let text = STANDARD.decode(review["response"]["patch"].as_str().unwrap()).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), r#"[{"op":"remove","path":"/a"}]"#);
        assert_eq!(review["response"]["patchType"], "JSONPatch");
        assert_eq!(review["response"]["warnings"], json!(["look out"]));
    }

    #[test]
    fn only_objects_themselves_are_decided_about_and_only_when_they_are_written() {
        let of = |operation: &str, sub_resource: Option<&str>| {
            let (operation, sub_resource) = (operation.to_owned(), sub_resource.map(str::to_owned));
            Request { operation, sub_resource, ..Request::default() }.is_write()
        };
        assert!(of("CREATE", None) && of("UPDATE", Some("")));
        assert!(!of("UPDATE", Some("status")) && !of("DELETE", None));
    }

    #[test]
    fn a_body_that_is_no_review_is_said_to_be_none() {
        for body in [&b"{}"[..], b"[]", b"{\"request\": {\"uid\": 5}}", b"{\"request\": null}", b"\xff", b""] {
            assert!(Request::read(&Bytes::from_static(body)).is_err(), "{body:?}");
        }
        let older = Bytes::from_static(
            br#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "a"}}"#,
        );
        let expected = r#"AdmissionReviews of "admission.k8s.io/v1beta1" are not supported; register the webhook with admissionReviewVersions ["v1"]"#;
        assert_eq!(Request::read(&older).unwrap_err(), expected);
        assert_eq!(Request::read_new_pod(&older, &std::sync::Arc::default()).unwrap_err(), expected);
        let nulls = br#"{"request": {"uid": "a", "operation": "CREATE", "dryRun": null, "namespace": null, "subResource": null}}"#;
        let request = Request::read(&Bytes::from_static(nulls)).unwrap();
        assert!(request.is("CREATE") && !request.is_dry_run());
    }
}
