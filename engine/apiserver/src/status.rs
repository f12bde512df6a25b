//! Refusals, as Kubernetes' `Status` objects say them.

use axum::http::StatusCode;
use pillion_rules::field;
use serde_json::{Map, Value, json};

/// A resource without its version, as messages name it: `pods`, `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupResource {
    /// API group; empty for the core group.
    pub(crate) group: String,
    /// `pods`
    pub(crate) resource: String,
}

impl GroupResource {
    pub(crate) fn new(group: &str, resource: &str) -> GroupResource {
        GroupResource { group: group.to_owned(), resource: resource.to_owned() }
    }
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(&self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// A refusal: what a `Status` of failure carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason: `NotFound`. Empty where Kubernetes gives none.
    pub reason: String,
    /// What is wrong, for people.
    pub message: String,
    /// `details` of the Status; `Null` for none.
    pub details: Value,
    /// The body is this text and no Status object: paths that nothing serves.
    pub(crate) plain: bool,
    /// Where a list can go on although its version is gone.
    pub(crate) continue_token: Option<String>,
}

/// What a fallible step of a request gives.
pub(crate) type Result<T> = std::result::Result<T, Box<Refusal>>;

impl Refusal {
    pub(crate) fn new(code: StatusCode, reason: &str, message: impl Into<String>, details: Value) -> Box<Refusal> {
        Box::new(Refusal {
            code: code.as_u16(),
            reason: reason.to_owned(),
            message: message.into(),
            details,
            plain: false,
            continue_token: None,
        })
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Box<Refusal> {
        Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", message, Value::Null)
    }

    pub(crate) fn not_found(resource: &GroupResource, name: &str) -> Box<Refusal> {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("{resource} {name:?} not found"),
            details(name, &resource.group, &resource.resource),
        )
    }

    /// A path that nothing serves.
    pub(crate) fn page_not_found() -> Box<Refusal> {
        let mut refusal = Refusal::new(StatusCode::NOT_FOUND, "", "404 page not found\n", Value::Null);
        refusal.plain = true;
        refusal
    }

    /// A resource that there is not.
    pub(crate) fn no_such_resource() -> Box<Refusal> {
        let message = "the server could not find the requested resource";
        Refusal::new(StatusCode::NOT_FOUND, "NotFound", message, json!({}))
    }

    pub(crate) fn already_exists(resource: &GroupResource, name: &str) -> Box<Refusal> {
        Refusal::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            format!("{resource} {name:?} already exists"),
            details(name, &resource.group, &resource.resource),
        )
    }

    pub(crate) fn conflict(resource: &GroupResource, name: &str, why: &str) -> Box<Refusal> {
        Refusal::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("Operation cannot be fulfilled on {resource} {name:?}: {why}"),
            details(name, &resource.group, &resource.resource),
        )
    }

    pub(crate) fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Box<Refusal> {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {name:?} is forbidden: {why}")
        };
        Refusal::new(StatusCode::FORBIDDEN, "Forbidden", message, details(name, &resource.group, &resource.resource))
    }

    pub(crate) fn unauthorized() -> Box<Refusal> {
        Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", Value::Null)
    }

    /// The object breaks rules of its kind.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[field::Error]) -> Box<Refusal> {
        let qualified = GroupResource::new(group, kind).to_string();
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| json!({"reason": error.kind.reason(), "message": error.message(), "field": error.path.to_string()}))
            .collect();
        let mut details = details(name, group, kind);
        if let (Value::Object(details), false) = (&mut details, causes.is_empty()) {
            details.insert("causes".to_owned(), Value::Array(causes));
        }
        Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{qualified} {name:?} is invalid: {}", aggregate(errors)),
            details,
        )
    }

    /// The method has no meaning on this path.
    pub(crate) fn method_not_allowed() -> Box<Refusal> {
        Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            json!({}),
        )
    }

    pub(crate) fn expired(message: impl Into<String>) -> Box<Refusal> {
        Refusal::new(StatusCode::GONE, "Expired", message, Value::Null)
    }

    pub(crate) fn too_many_requests(message: impl Into<String>, details: Value) -> Box<Refusal> {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, details)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Box<Refusal> {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: {}", message.into()),
            Value::Null,
        )
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Box<Refusal> {
        let text = message.to_string();
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {text}"),
            json!({"causes": [{"message": text}]}),
        )
    }

    pub(crate) fn timeout(message: impl std::fmt::Display, retry_after: u32) -> Box<Refusal> {
        let details = if retry_after == 0 { json!({}) } else { json!({"retryAfterSeconds": retry_after}) };
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {message}"), details)
    }

    pub(crate) fn not_acceptable(supported: &[&str]) -> Box<Refusal> {
        Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "NotAcceptable",
            format!("only the following media types are accepted: {}", supported.join(", ")),
            Value::Null,
        )
    }

    pub(crate) fn unsupported_media_type(supported: &[&str]) -> Box<Refusal> {
        Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                supported.join(", ")
            ),
            Value::Null,
        )
    }

    pub(crate) fn with_continue(mut self: Box<Refusal>, token: String) -> Box<Refusal> {
        self.continue_token = Some(token);
        self
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".to_owned(), "Status".into());
        status.insert("apiVersion".to_owned(), "v1".into());
        let metadata = self.continue_token.as_ref().map_or_else(|| json!({}), |token| json!({"continue": token}));
        status.insert("metadata".to_owned(), metadata);
        status.insert("status".to_owned(), "Failure".into());
        if !self.message.is_empty() {
            status.insert("message".to_owned(), self.message.as_str().into());
        }
        if !self.reason.is_empty() {
            status.insert("reason".to_owned(), self.reason.as_str().into());
        }
        if !self.details.is_null() {
            status.insert("details".to_owned(), self.details.clone());
        }
        status.insert("code".to_owned(), self.code.into());
        Value::Object(status)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// `details` with the parts that are not empty, in the order of Kubernetes' own fields.
pub(crate) fn details(name: &str, group: &str, kind: &str) -> Value {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), value.into());
        }
    }
    Value::Object(details)
}

/// One error as it is, several in brackets, none twice.
pub(crate) fn aggregate(errors: &[field::Error]) -> String {
    let mut messages: Vec<String> = Vec::new();
    for error in errors {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use pillion_rules::field::{Error, Path};

    use super::*;

    #[test]
    fn an_invalid_object_is_refused_with_all_its_causes() {
        let path = Path::new("spec").child("replicas");
        let refusal = Refusal::invalid(
            "apps",
            "Deployment",
            "web",
            &[
                Error::invalid(&path, -1, "must be greater than or equal to 0"),
                Error::required(&Path::new("spec").child("selector"), ""),
            ],
        );
        assert_eq!(
            refusal.message,
            "Deployment.apps \"web\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.selector: Required value]"
        );
        assert_eq!(
            refusal.to_status()["details"],
            json!({"name": "web", "group": "apps", "kind": "Deployment", "causes": [
                {"reason": "FieldValueInvalid", "message": "Invalid value: -1: must be greater than or equal to 0", "field": "spec.replicas"},
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"},
            ]})
        );
    }

    #[test]
    fn the_same_error_twice_is_said_once() {
        let error = Error::required(&Path::new("spec"), "");
        assert_eq!(aggregate(&[error.clone(), error]), "spec: Required value");
    }
}
