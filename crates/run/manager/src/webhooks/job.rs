//! A Job or CronJob is refused if its template marks sidecars in a way for which each of its pods would be refused. The Job would wait for them for ever,
//! and only its events would say so.

use pillion_gates::Gates;
use pillion_lifecycle::marks;

use crate::webhooks::review::{Answer, Request};

/// Checks the marks of a template.
pub(crate) fn validate(request: &Request, gates: Gates) -> Answer {
    let places = ["/spec/template", "/spec/jobTemplate/spec/template"];
    let found = places.into_iter().find_map(|place| Some((place, request.object.pointer(place)?)));
    let Some((place, template)) = found else { return Answer::default() };
    match marks::refusal_of_template(template, gates) {
        // What is stored already may be changed in other ways.
        Some(refusal) if request.old_object.pointer(place) != Some(template) => {
            let path = place.trim_start_matches('/').replace('/', ".");
            Answer::forbidden(format!("{path}.{refusal}"))
        }
        _ => Answer::default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn template(marked: &str) -> Value {
        json!({
            "metadata": {"annotations": {"pillion.dev/sidecars": marked}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}, {"name": "side"}]},
        })
    }

    fn message(operation: &str, object: &Value, old_object: &Value) -> Option<String> {
        let on = Gates::default().with(&"SidecarField=true".parse().unwrap());
        let (object, old_object) = (object.clone(), old_object.clone());
        let request = Request { operation: operation.to_owned(), object, old_object, ..Request::default() };
        validate(&request, on).refusal.map(|refusal| refusal["message"].as_str().unwrap().to_owned())
    }

    #[test]
    fn a_job_whose_pods_would_be_refused_for_their_marks_is_refused() {
        let job = |marked: &str| json!({"spec": {"template": template(marked)}});
        let cron_job = json!({"spec": {"jobTemplate": {"spec": {"template": template("main,side")}}}});
        let refused = message("CREATE", &job("main,side"), &Value::Null).unwrap();
        assert!(
            refused.starts_with("spec.template.spec.containers: every container is marked as a sidecar"),
            "{refused}"
        );
        let refused = message("CREATE", &cron_job, &Value::Null).unwrap();
        assert!(refused.starts_with("spec.jobTemplate.spec.template.spec.containers: "), "{refused}");
        assert_eq!(message("CREATE", &job("side"), &Value::Null), None);
        assert_eq!(message("CREATE", &job("side,of-a-sidecarset"), &Value::Null), None);
        assert_eq!(message("UPDATE", &job("main,side"), &job("main,side")), None, "the template is as it was");
        assert!(message("UPDATE", &job("main,side"), &job("side")).is_some());
    }
}
