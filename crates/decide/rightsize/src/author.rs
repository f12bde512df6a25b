//! Which program has written a recommendation, by the `managedFields` of its autoscaler.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use pillion_api::vpa::VerticalPodAutoscaler;

/// Where the recommendations of containers are in the fields of a manager.
const RECOMMENDATIONS: &str = "/f:status/f:recommendation/f:containerRecommendations";

/// Leaves of `managedFields` only what [`is_recommended_by`] asks for: the names of the managers that own recommendations of containers.
pub fn keep_recommenders(metadata: &mut ObjectMeta) {
    let entries = metadata.managed_fields.take().unwrap_or_default();
    let recommends = |entry: &ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|FieldsV1(fields)| fields.pointer(RECOMMENDATIONS).is_some())
    };
    let owners = entries.into_iter().filter(recommends);
    let owners: Vec<ManagedFieldsEntry> =
        owners.map(|entry| ManagedFieldsEntry { manager: entry.manager, ..Default::default() }).collect();
    metadata.managed_fields = (!owners.is_empty()).then_some(owners);
}

/// Whether one field manager, and no other, has written what is recommended. For autoscalers whose metadata went through
/// [`keep_recommenders`].
pub fn is_recommended_by(autoscaler: &VerticalPodAutoscaler, manager: &str) -> bool {
    let owners = autoscaler.metadata.managed_fields.as_deref().unwrap_or_default();
    !owners.is_empty() && owners.iter().all(|entry| entry.manager.as_deref() == Some(manager))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_recommendation_is_of_the_manager_that_alone_owns_it() {
        let all = json!({"f:status": {"f:recommendation": {".": {}, "f:containerRecommendations": {}}}});
        // What is left to a recommender after another program has replaced its list.
        let outer = json!({"f:status": {"f:conditions": {}, "f:recommendation": {".": {}}}});
        let spec = json!({"f:spec": {"f:targetRef": {}}});
        let is_ours = |entries: &[(&str, &Value)]| {
            let entries: Vec<Value> = entries
                .iter()
                .map(|(manager, fields)| json!({"manager": manager, "operation": "Update", "fieldsV1": fields}))
                .collect();
            let mut autoscaler = pillion_api::vpa::decode(json!({
                "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
                "metadata": {"name": "web", "managedFields": entries}
            }))
            .unwrap();
            keep_recommenders(&mut autoscaler.metadata);
            is_recommended_by(&autoscaler, "ours")
        };
        assert!(is_ours(&[("kubectl", &spec), ("ours", &all)]));
        assert!(!is_ours(&[("ours", &outer), ("kubectl", &all)]));
        assert!(!is_ours(&[("ours", &all), ("kubectl", &all)]));
        assert!(!is_ours(&[("ours", &spec)]));
        assert!(!is_ours(&[]));
    }
}
