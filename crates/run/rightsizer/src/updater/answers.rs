//! What the API server answers to updates of pods.

use pillion_rightsize::PodView;

/// Whether the API server does not know the subresource. That a pod is gone, it says with the name of the pod.
pub(super) fn is_not_served(error: &kube::Error, pod: &PodView) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name != pod.name)
}

/// What the API server said.
pub(super) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

/// What the API server says of the PodDisruptionBudget that forbids an eviction.
pub(super) fn forbidden_by_budget(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let cause = causes.iter().find(|cause| cause.reason == "DisruptionBudget").filter(|_| status.code == 429)?;
    Some(cause.message.clone())
}

/// Whether the API server says that the node can never do the resize (Kubernetes 1.36 and later).
pub(super) fn is_beyond_node(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.code == 403 && causes.iter().any(|cause| cause.reason == "NodeCapacity")
}

/// Whether the same request may succeed in a moment: the API server is away or too busy, or something behind it is. A refusal stays one
/// until something changes.
pub(super) fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) if status.code == 429 => forbidden_by_budget(error).is_none(),
        kube::Error::Api(status) => matches!(status.code, 401 | 408 | 500..),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(code: u16, reason: &str, causes: &[&str]) -> kube::Error {
        let causes: Vec<serde_json::Value> = causes.iter().map(|cause| json!({"reason": cause})).collect();
        let status = json!({
            "status": "Failure", "code": code, "reason": reason, "message": "no", "details": {"causes": causes},
        });
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn only_a_refusal_for_the_capacity_of_the_node_is_beyond_it() {
        assert!(is_beyond_node(&refused(403, "Forbidden", &["NodeCapacity"])));
        assert!(is_beyond_node(&refused(403, "Forbidden", &["Other", "NodeCapacity"])));
        assert!(!is_beyond_node(&refused(403, "Forbidden", &["Other"])));
        assert!(!is_beyond_node(&refused(403, "Forbidden", &[])));
        assert!(!is_beyond_node(&refused(422, "Invalid", &["NodeCapacity"])));
        assert!(!is_beyond_node(&kube::Error::LinesCodecMaxLineLengthExceeded));
    }

    #[test]
    fn only_what_may_be_over_in_a_moment_is_passing() {
        let is_passing = |code: u16, causes: &[&str]| is_passing(&refused(code, "No", causes));
        assert!([401, 408, 429, 500, 503, 504].into_iter().all(|code| is_passing(code, &[])));
        assert!(![400, 403, 404, 409, 422].into_iter().any(|code| is_passing(code, &[])));
        assert!(!is_passing(429, &["DisruptionBudget"]));
    }
}
