//! The place of a new pod is confirmed: the API server has found the pod valid, and is about to create it.

use axum::body::Bytes;
use futures::future::join_all;
use pillion_api::record::Records;
use pillion_rollout::{Confirmation, Limit};
use serde::Deserialize;

use crate::places::Arrival;
use crate::serving::budget::Refused;
use crate::state::Inner;
use crate::webhooks::question::Question;
use crate::webhooks::review::{Answer, check_version};

/// What is read of the question: of the pod no more than two annotations.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: Option<String>,
    request: Request,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    dry_run: Option<bool>,
    object: Option<Pod>,
}

#[derive(Debug, Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    annotations: Option<Annotations>,
}

/// The annotations [`names::QUOTA_PLACE`](pillion_api::names::QUOTA_PLACE) and [`names::HASH`](pillion_api::names::HASH).
#[derive(Debug, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "pillion.dev/quota-place")]
    place: Option<String>,
    #[serde(rename = "kruise.io/sidecarset-hash")]
    records: Option<String>,
}

/// Answers for a pod that has an id of places.
pub(super) async fn confirm(inner: &Inner, question: Question) -> Result<(String, Answer), Refused> {
    let Review { request, .. } = read(question.text()).map_err(Refused::Malformed)?;
    let annotations = request.object.and_then(|pod| pod.metadata.annotations).unwrap_or_default();
    let answer = match annotations {
        // A dry run has taken no place.
        Annotations { place: Some(id), records: Some(records) } if request.dry_run != Some(true) => {
            places(inner, &id, &records).await
        }
        _ => Answer::default(),
    };
    Ok((request.uid, answer))
}

fn read(text: &Bytes) -> Result<Review, String> {
    let review: Review = serde_json::from_slice(text)
        .map_err(|error| format!("the body is not an AdmissionReview about a pod: {error}"))?;
    check_version(review.api_version.as_deref())?;
    Ok(review)
}

/// Confirms the places that the pod may have in the SidecarSets that were injected, whatever this replica knows of their pins: another one may have
/// granted them by a newer SidecarSet.
async fn places(inner: &Inner, id: &str, records: &str) -> Answer {
    let catalog = inner.views.borrow().snapshot.catalog.clone();
    // The pod is not counted by a record that cannot be read either.
    let Ok(records) = Records::parse(records) else { return Answer::default() };
    let sets = records.sets().filter_map(|name| {
        let set = catalog.get(name)?;
        let revision = records.get(name)?.controller_revision().unwrap_or_default().to_owned();
        Some((set, revision))
    });
    let confirmations = sets.map(|(set, revision)| async move {
        let arrival = Arrival { id: id.to_owned(), revision, limit: Limit::of(&set) };
        let confirmation = inner.places.confirm(&inner.config, &set, arrival).await;
        (set, confirmation)
    });
    let confirmations = join_all(confirmations).await;
    let refusal = confirmations.iter().find_map(|(set, confirmation)| match confirmation {
        Some(Confirmation::Confirmed | Confirmation::Unknown) => None,
        Some(Confirmation::Withdrawn) => Some(Answer::conflict(format!(
            "SidecarSet {:?}: the pod was admitted to a place of the partition, but the place was not confirmed in time and may be another pod's now; \
             create the pod again",
            set.name()
        ))),
        None => Some(Answer::unavailable(format!(
            "SidecarSet {:?}: the pod's place in the partition cannot be confirmed, because the ConfigMap of its places cannot be read or written; \
             create the pod again",
            set.name()
        ))),
    });
    let Some(refusal) = refusal else { return Answer::default() };
    for (set, _) in confirmations.iter().filter(|(_, it)| *it == Some(Confirmation::Confirmed)) {
        inner.places.give_back(&inner.config, set, id);
    }
    refusal
}

#[cfg(test)]
mod tests {
    use pillion_api::names;
    use serde_json::json;

    use super::*;

    #[test]
    fn two_annotations_of_the_pod_are_read() {
        let annotations = json!({names::QUOTA_PLACE: "id", names::HASH: "{}", "other": "value"});
        let object = json!({"metadata": {"name": "web", "annotations": annotations}, "spec": {"containers": 5}});
        let review = json!({"request": {"uid": "1", "dryRun": false, "object": object, "oldObject": null}});
        let read = read(&Bytes::from(review.to_string())).unwrap().request;
        let annotations = read.object.unwrap().metadata.annotations.unwrap();
        assert_eq!((annotations.place.as_deref(), annotations.records.as_deref()), (Some("id"), Some("{}")));
    }

    #[test]
    fn a_question_of_another_version_is_refused() {
        let review = json!({"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "1"}});
        assert!(read(&Bytes::from(review.to_string())).unwrap_err().contains("admissionReviewVersions"));
    }
}
