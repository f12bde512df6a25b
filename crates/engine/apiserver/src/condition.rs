//! CEL conditions over a write, compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pillion_structural::policy::{Match, MatchConditions, Request};
use serde_json::Value;

use crate::admission::{Attributes, request};
use crate::endpoint::Endpoint;

/// More different conditions than this are compiled anew.
const KEPT: usize = 256;

/// Conditions by their text and failure policy.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<HashMap<String, Arc<MatchConditions>>>);

impl Conditions {
    fn compiled(&self, conditions: &Value, failure_policy: &str) -> Arc<MatchConditions> {
        let key = format!("{failure_policy}{conditions}");
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() > KEPT {
            kept.clear();
        }
        kept.entry(key).or_insert_with(|| Arc::new(MatchConditions::compile(conditions, failure_policy))).clone()
    }
}

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
