//! The marks on a Job's pods: the finalizer that keeps a pod until it is counted, and its completion index.

use crate::job_view::JobView;
use crate::pod::PodView;

/// Keeps a finished pod until its Job has counted it.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Whether the pod is not counted yet.
pub(super) fn is_tracked(pod: &PodView) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// The completion index that the pod works on.
pub(super) fn index(pod: &PodView) -> Option<i32> {
    annotation(pod, INDEX)
}

/// The completion index, if the Job has it.
pub(super) fn valid_index(job: &JobView, pod: &PodView) -> Option<i32> {
    index(pod).filter(|index| *index < job.spec.completions.unwrap_or_default())
}

/// How often pods of this index had failed before this one: those that count, and those that do not.
pub(super) fn earlier_failures(pod: &PodView) -> (i32, i32) {
    (annotation(pod, FAILURE_COUNT).unwrap_or(0), annotation(pod, IGNORED_FAILURE_COUNT).unwrap_or(0))
}

fn annotation(pod: &PodView, name: &str) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(name)?.parse().ok().filter(|number| *number >= 0)
}

/// Whether the pod counts as failed: it has, or it goes before it could end well.
pub(super) fn has_failed(job: &JobView, pod: &PodView) -> bool {
    match pod.phase() {
        "Failed" => true,
        "Succeeded" => false,
        _ => !job.replaces_only_failed_pods() && pod.metadata.deletion_timestamp.is_some(),
    }
}

pub(super) fn uid(pod: &PodView) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

pub(super) fn name(pod: &PodView) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}
