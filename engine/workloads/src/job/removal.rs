//! Which active pods go when a Job has too many: those that have come least far.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::tracked::{index, name, valid_index};
use crate::job_view::JobView;
use crate::pod::PodView;

/// At least `excess` pods; with indexes also those whose index another pod has, or the Job has not.
pub(super) fn victims(job: &JobView, mut active: Vec<&PodView>, excess: usize) -> Vec<String> {
    active.sort_by(|a, b| progress(a, b));
    let mut victims: Vec<&PodView> = Vec::new();
    if job.is_indexed() {
        // The last of an index has come furthest, and stays.
        let mut left: Vec<&PodView> = Vec::new();
        active.sort_by_key(|pod| index(pod));
        for (position, pod) in active.iter().enumerate() {
            let next = active.get(position + 1).and_then(|next| index(next));
            let stays = valid_index(job, pod).is_some_and(|index| next != Some(index));
            if stays { left.push(pod) } else { victims.push(pod) }
        }
        left.sort_by(|a, b| progress(a, b));
        active = left;
    }
    let more = excess.saturating_sub(victims.len());
    victims.into_iter().chain(active.into_iter().take(more)).map(name).collect()
}

/// The order in which controllers give active pods up: `Less` goes first.
fn progress(a: &PodView, b: &PodView) -> Ordering {
    a.progress()
        .cmp(&b.progress())
        // The shorter it has been ready, the less is lost.
        .then_with(|| latest_first(a.ready_since(), b.ready_since()))
        .then_with(|| b.restarts().cmp(&a.restarts()))
        .then_with(|| latest_first(a.created(), b.created()))
}

/// A time that is not known comes before all.
fn latest_first(a: Option<Timestamp>, b: Option<Timestamp>) -> Ordering {
    a.is_some().cmp(&b.is_some()).then_with(|| b.cmp(&a))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, more: serde_json::Value) -> PodView {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        for (path, value) in more.as_object().unwrap() {
            let (section, field) = path.split_once('.').unwrap();
            pod[section][field] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn indexed(name: &str, index: &str, phase: &str) -> PodView {
        let annotations = json!({"batch.kubernetes.io/job-completion-index": index});
        pod(name, json!({"metadata.annotations": annotations, "status.phase": phase}))
    }

    #[test]
    fn pods_that_have_come_least_far_go_first() {
        let ready = |at: &str| json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]);
        let pods = [
            pod("long-ready", json!({"status.conditions": ready("2026-01-01T00:00:01Z")})),
            pod("just-ready", json!({"status.conditions": ready("2026-01-01T00:00:02Z")})),
            pod("restarted", json!({"status.containerStatuses": [{"name": "a", "restartCount": 2}]})),
            pod("old", json!({"metadata.creationTimestamp": "2026-01-01T00:00:01Z"})),
            pod("young", json!({"metadata.creationTimestamp": "2026-01-01T00:00:02Z"})),
            pod("pending", json!({"status.phase": "Pending"})),
            pod("unassigned", json!({"spec.nodeName": ""})),
        ];
        let order = victims(&JobView::default(), pods.iter().collect(), 7);
        assert_eq!(order, ["unassigned", "pending", "restarted", "young", "old", "just-ready", "long-ready"]);
    }

    #[test]
    fn of_pods_with_one_index_only_the_furthest_stays() {
        let mut job = JobView::default();
        job.spec.completion_mode = Some("Indexed".to_owned());
        job.spec.completions = Some(3);
        let pods = [
            indexed("a", "0", "Pending"),
            indexed("b", "0", "Running"),
            indexed("c", "1", "Running"),
            indexed("d", "3", "Running"),
            pod("e", json!({})),
        ];
        let mut gone = victims(&job, pods.iter().collect(), 0);
        gone.sort();
        assert_eq!(gone, ["a", "d", "e"]);
    }
}
