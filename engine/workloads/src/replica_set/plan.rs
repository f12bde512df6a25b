//! What a ReplicaSet does next, and what it says of itself.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::victims;
use crate::kinds::ReplicaSet;
use crate::pod::PodView;
use crate::pod_control::BURST;

const REPLICA_FAILURE: &str = "ReplicaFailure";

#[derive(Debug)]
pub(super) enum Plan {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<PodView>>),
}

impl Plan {
    /// What the status says if it does not work out.
    pub(super) fn failure_reason(&self) -> &'static str {
        match self {
            Plan::Nothing => "",
            Plan::Create(_) => "FailedCreate",
            Plan::Delete(_) => "FailedDelete",
        }
    }
}

/// The next step, with the active pods of the set. `related` are pods of its whole Deployment; they are asked for only if one has to go.
pub(super) fn plan(
    set: &ReplicaSet,
    active: &[Arc<PodView>],
    now: Timestamp,
    related: impl FnOnce() -> Vec<Arc<PodView>>,
) -> Plan {
    if set.metadata.deletion_timestamp.is_some() {
        return Plan::Nothing;
    }
    let wanted = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0);
    match active.len().cmp(&wanted) {
        Ordering::Less => Plan::Create((wanted - active.len()).min(BURST)),
        Ordering::Equal => Plan::Nothing,
        Ordering::Greater => {
            let count = (active.len() - wanted).min(BURST);
            Plan::Delete(victims::choose(active, count, &related(), now))
        }
    }
}

/// The status, of all pods that the set owns and selects. A `failure` is a reason and a message.
pub(super) fn status(
    set: &ReplicaSet,
    pods: &[Arc<PodView>],
    failure: Option<(&str, String)>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let active = || pods.iter().filter(|pod| pod.is_active());
    let template_labels = &set.spec.template["metadata"]["labels"];
    let ready = count(active().filter(|pod| pod.is_ready()));
    let available = count(active().filter(|pod| pod.is_available(set.spec.min_ready_seconds, now)));
    let fully_labeled = count(active().filter(|pod| has_labels(pod, template_labels)));
    ReplicaSetStatus {
        replicas: count(active()),
        // What Go leaves out when it is zero is not there when it is read back.
        fully_labeled_replicas: Some(fully_labeled).filter(|count| *count != 0),
        ready_replicas: Some(ready).filter(|count| *count != 0),
        available_replicas: Some(available).filter(|count| *count != 0),
        terminating_replicas: Some(count(pods.iter().filter(|pod| pod.is_terminating()))),
        observed_generation: set.metadata.generation,
        conditions: conditions(&set.status, failure, now),
    }
}

/// A failure is reported once and stays as it was reported until it is over.
fn conditions(
    status: &ReplicaSetStatus,
    failure: Option<(&str, String)>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = status.conditions.clone().unwrap_or_default();
    match failure {
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        Some(_) if conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE) => {}
        Some((reason, message)) => conditions.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        }),
    }
    (!conditions.is_empty()).then_some(conditions)
}

fn has_labels(pod: &PodView, wanted: &serde_json::Value) -> bool {
    let labels = pod.metadata.labels.as_ref();
    let has = |key: &str, value: &serde_json::Value| {
        labels.and_then(|labels| labels.get(key)).is_some_and(|has| value.as_str() == Some(has))
    };
    wanted.as_object().is_none_or(|wanted| wanted.iter().all(|(key, value)| has(key, value)))
}

fn count(pods: impl Iterator) -> i32 {
    i32::try_from(pods.count()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn set(spec: Value) -> ReplicaSet {
        let mut set = json!({
            "metadata": {"name": "web", "generation": 2},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}},
            },
        });
        for (field, value) in spec.as_object().unwrap() {
            set["spec"][field] = value.clone();
        }
        serde_json::from_value(set).unwrap()
    }

    fn pod(phase: &str, ready_for: Option<i64>) -> Arc<PodView> {
        let since = NOW - jiff::SignedDuration::from_secs(ready_for.unwrap_or(0));
        let ready = if ready_for.is_some() { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": "a", "labels": {"app": "web", "tier": "front"}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since.to_string()}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn terminating() -> Arc<PodView> {
        let mut pod = PodView::clone(&pod("Running", Some(0)));
        pod.metadata.deletion_timestamp = Some(Time(NOW));
        Arc::new(pod)
    }

    #[test]
    fn the_difference_is_created_or_deleted_in_bursts() {
        let pods = |count| vec![pod("Running", Some(1)); count];
        for (wanted, has, expected) in [(2, 0, 2), (2, 2, 0), (2, 3, -1), (0, 2, -2), (2000, 10, 500), (0, 2000, -500)]
        {
            let plan = plan(&set(json!({"replicas": wanted})), &pods(has), NOW, Vec::new);
            let change: i64 = match plan {
                Plan::Nothing => 0,
                Plan::Create(count) => i64::try_from(count).unwrap(),
                Plan::Delete(victims) => -i64::try_from(victims.len()).unwrap(),
            };
            assert_eq!(change, expected, "{has} of {wanted}");
        }
    }

    #[test]
    fn a_set_that_goes_creates_nothing() {
        let mut set = set(json!({}));
        set.metadata.deletion_timestamp = Some(Time(NOW));
        assert!(matches!(plan(&set, &[], NOW, Vec::new), Plan::Nothing));
    }

    #[test]
    fn the_status_counts_what_is_active_and_what_is_going() {
        let mut relabelled = PodView::clone(&pod("Running", Some(100)));
        relabelled.metadata.labels.as_mut().unwrap().remove("tier");
        let pods = [
            pod("Pending", None),
            pod("Running", Some(5)),
            pod("Running", Some(10)),
            terminating(),
            pod("Failed", None),
            Arc::new(relabelled),
        ];
        let status = status(&set(json!({"minReadySeconds": 10})), &pods, None, NOW);
        insta::assert_json_snapshot!(status, @r#"
        {
          "availableReplicas": 2,
          "fullyLabeledReplicas": 3,
          "observedGeneration": 2,
          "readyReplicas": 3,
          "replicas": 4,
          "terminatingReplicas": 1
        }
        "#);
    }

    #[test]
    fn a_failure_is_reported_once_and_forgotten_when_it_is_over() {
        let mut set = set(json!({}));
        let failure = || Some(("FailedCreate", "pods \"a\" is forbidden".to_owned()));
        set.status = status(&set, &[], failure(), NOW);
        insta::assert_json_snapshot!(set.status.conditions, @r#"
        [
          {
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "message": "pods \"a\" is forbidden",
            "reason": "FailedCreate",
            "status": "True",
            "type": "ReplicaFailure"
          }
        ]
        "#);
        let later = NOW + jiff::SignedDuration::from_secs(60);
        assert_eq!(status(&set, &[], failure(), later), set.status);
        assert_eq!(status(&set, &[], None, later).conditions, None);
    }
}
