//! A VerticalPodAutoscaler gets its defaults, and is checked.

use pillion_api::names;
use pillion_api::vpa::{self, DecodeError, Gates, VerticalPodAutoscaler};
use serde_json::Value;

use crate::webhooks::review::{Answer, Request};

/// Writes defaults. What cannot be read is refused here, with its field: [`validate`] is called only after the schema's own, less helpful, errors.
pub(crate) fn mutate(request: &Request) -> Answer {
    let before = match decode(request) {
        Ok(before) => before,
        Err(refusal) => return refusal,
    };
    let mut after = before.clone();
    if !vpa::apply_defaults(&mut after) {
        return Answer::default();
    }
    Answer::change(&before, &after)
}

/// Checks it by upstream's rules.
pub(crate) fn validate(request: &Request, gates: Gates) -> Answer {
    let autoscaler = match decode(request) {
        Ok(autoscaler) => autoscaler,
        Err(refusal) => return refusal,
    };
    let old = (request.old_object != Value::Null).then(|| vpa::decode(request.old_object.clone()).ok()).flatten();
    let checked = vpa::validate(&autoscaler, old.as_ref(), gates);
    if checked.errors.is_empty() {
        return Answer::default().with_warnings(checked.warnings);
    }
    Answer::invalid((names::AUTOSCALING_GROUP, names::VPA_KIND), autoscaler.name(), &checked.errors)
        .with_warnings(checked.warnings)
}

/// The autoscaler of a request, or the refusal of one that cannot be read.
fn decode(request: &Request) -> Result<VerticalPodAutoscaler, Answer> {
    vpa::decode(request.object.clone()).map_err(|error| match error {
        DecodeError::Field(error) => {
            let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
            Answer::invalid((names::AUTOSCALING_GROUP, names::VPA_KIND), name, &[error])
        }
        other @ DecodeError::OtherKind { .. } => Answer::bad_request(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(spec: Value, old: Value) -> Request {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec
        });
        let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
        Request { operation: operation.to_owned(), object, old_object: old, ..Request::default() }
    }

    #[test]
    fn a_missing_update_policy_is_filled_in_and_nothing_else() {
        let target = json!({"targetRef": {"kind": "Deployment", "name": "web"}});
        let new = request(target.clone(), Value::Null);
        let mut after = new.object.clone();
        json_patch::patch(&mut after, &mutate(&new).patch).unwrap();
        assert_eq!(after["spec"]["updatePolicy"], json!({"updateMode": "Recreate"}));
        let again = Request { operation: "UPDATE".to_owned(), object: after, ..Request::default() };
        assert_eq!(mutate(&again).patch.0, []);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field_and_a_deprecated_mode_with_a_warning() {
        let of = |mode: &str| {
            let spec =
                json!({"targetRef": {"kind": "Deployment", "name": "web"}, "updatePolicy": {"updateMode": mode}});
            validate(&request(spec, Value::Null), Gates::default())
        };
        assert!(of("Recreate").is_allowed() && of("Recreate").warnings.is_empty());
        assert_eq!(of("Auto").warnings.len(), 1);
        let refusal = of("InPlace").refusal.unwrap();
        assert_eq!(refusal["details"]["causes"][0]["field"], "spec.updatePolicy.updateMode");
        let bad = request(json!({"updatePolicy": {"minReplicas": "one"}}), Value::Null);
        for answer in [mutate(&bad), validate(&bad, Gates::default())] {
            assert_eq!(answer.refusal.unwrap()["code"], 422);
        }
    }
}
