//! How long a Job waits before it replaces failed pods: 10 s, doubled with each failure in a row, at most 10 minutes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::pod::{ContainerStatus, PodView};

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(10);

/// The failures of a Job since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    last_failure: Option<Timestamp>,
}

impl Backoff {
    /// The record after these pods have finished too.
    pub(super) fn with(self, succeeded: &[&PodView], failed: &[&PodView]) -> Backoff {
        let Some(last_success) = succeeded.iter().map(|pod| finished_at(pod)).max() else {
            let last_failure = failed.iter().map(|pod| finished_at(pod)).max();
            return Backoff {
                failures: self.failures.saturating_add(u32::try_from(failed.len()).unwrap_or(u32::MAX)),
                last_failure: last_failure.or(self.last_failure),
            };
        };
        let later = failed.iter().map(|pod| finished_at(pod)).filter(|at| *at > last_success);
        later.fold(Backoff::default(), |record, at| Backoff {
            failures: record.failures.saturating_add(1),
            last_failure: record.last_failure.max(Some(at)),
        })
    }

    /// How long no pod is to be made. Zero when there is no need to wait.
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        let Some(last_failure) = self.last_failure else { return Duration::ZERO };
        remaining(self.failures, last_failure, now)
    }
}

/// How long to wait after so many failures in a row.
pub(super) fn remaining(failures: u32, last_failure: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let wait = FIRST.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX)).min(LONGEST);
    let elapsed = now.duration_since(last_failure);
    let rest = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX) - elapsed;
    rest.try_into().unwrap_or(Duration::ZERO)
}

/// When a pod finished: when its last container did, or as near as can be known.
pub(super) fn finished_at(pod: &PodView) -> Timestamp {
    containers_finished_at(pod)
        .or_else(|| {
            let ready = pod.condition("Ready").filter(|ready| ready.status == "False")?;
            ready.last_transition_time.as_ref().map(|at| at.0)
        })
        .or_else(|| {
            let deleted = pod.metadata.deletion_timestamp.as_ref()?.0;
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
            deleted.checked_sub(SignedDuration::from_secs(grace)).ok()
        })
        .or_else(|| pod.created())
        .unwrap_or_default()
}

/// When the last of the containers and native sidecars ended, if all have.
fn containers_finished_at(pod: &PodView) -> Option<Timestamp> {
    let ended = |status: &ContainerStatus| Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0);
    let is_sidecar = |name: &str| {
        let mut init = pod.spec.init_containers.iter();
        init.any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(|status| is_sidecar(&status.name));
    let all: Option<Vec<Timestamp>> = pod.status.container_statuses.iter().chain(sidecars).map(ended).collect();
    all?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn finished(second: i64) -> PodView {
        let end = at(second).to_string();
        let status =
            json!({"containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 1, "finishedAt": end}}}]});
        serde_json::from_value(json!({"status": status})).unwrap()
    }

    #[test]
    fn the_wait_doubles_up_to_ten_minutes() {
        for (failures, seconds) in [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (40, 600)] {
            assert_eq!(remaining(failures, at(0), at(0)), Duration::from_secs(seconds), "{failures}");
        }
        assert_eq!(remaining(1, at(0), at(4)), Duration::from_secs(6));
        assert_eq!(remaining(1, at(0), at(11)), Duration::ZERO);
    }

    #[test]
    fn a_success_forgets_the_failures_before_it() {
        let (early, middle, late) = (finished(1), finished(2), finished(3));
        let twice = Backoff::default().with(&[], &[&early, &middle]);
        assert_eq!(twice.remaining(at(2)), Duration::from_secs(20));
        assert_eq!(twice.with(&[&late], &[]), Backoff::default());
        assert_eq!(twice.with(&[&middle], &[&early, &late]).remaining(at(3)), Duration::from_secs(10));
        assert_eq!(twice.with(&[], &[]), twice);
    }

    #[test]
    fn a_pod_finishes_when_its_native_sidecars_have() {
        let ended = |second: i64| json!({"terminated": {"exitCode": 0, "finishedAt": at(second).to_string()}});
        let mut pod = json!({
            "metadata": {"creationTimestamp": at(0).to_string()},
            "spec": {"initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]},
            "status": {
                "initContainerStatuses": [{"name": "setup", "state": ended(90)}, {"name": "proxy", "state": ended(7)}],
                "containerStatuses": [{"name": "a", "state": ended(5)}],
            },
        });
        let view = |pod: &serde_json::Value| serde_json::from_value::<PodView>(pod.clone()).unwrap();
        assert_eq!(finished_at(&view(&pod)), at(7));
        pod["status"]["initContainerStatuses"][1]["state"] = json!({"running": {}});
        assert_eq!(finished_at(&view(&pod)), at(0));
        pod["metadata"]["deletionTimestamp"] = json!(at(40).to_string());
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(finished_at(&view(&pod)), at(10));
        pod["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(12).to_string()}]);
        assert_eq!(finished_at(&view(&pod)), at(12));
    }
}
