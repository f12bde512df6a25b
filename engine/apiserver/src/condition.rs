//! The match conditions of a webhook, evaluated for a write.

use pillion_structural::policy::{Match, Request};
use serde_json::Value;

use crate::attributes::{Attributes, request};
use crate::endpoint::Endpoint;

/// Whether the conditions of a webhook hold. The error says which could not be evaluated.
pub(crate) fn all_hold(
    attributes: &Attributes<'_>,
    endpoint: &Endpoint,
    webhook: &Value,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<bool, String> {
    let failure_policy = webhook["failurePolicy"].as_str().unwrap_or("Fail");
    let conditions = attributes.call.inner().conditions.compiled(&webhook["matchConditions"], failure_policy);
    let request = Request {
        object: object.unwrap_or(&Value::Null),
        old_object: old.unwrap_or(&Value::Null),
        request: &Value::Object(request::describe(attributes, endpoint)),
        namespace: &Value::Null,
        params: None,
    };
    match conditions.evaluate(&request) {
        Match::Yes => Ok(true),
        Match::No => Ok(false),
        Match::Failed(why) => Err(why),
    }
}
