//! Whether a pod is resized in place, waits, or is evicted instead.

use jiff::Timestamp;
use pillion_api::vpa::{RecommendedPodResources, UpdateMode};

use super::group::Group;
use super::reason::{EvictReason, SkipReason};
use super::settings::UpdaterSettings;
use crate::pod::{PodView, ResizeState};

/// What to do with a pod that should be resized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InPlace {
    Resize,
    Evict(EvictReason),
    Skip(SkipReason),
}

/// Decides over one pod. `infeasible` is the recommendation that its node could not do.
pub(super) fn decide(
    pod: &PodView,
    group: &Group,
    mode: &UpdateMode,
    recommendation: &RecommendedPodResources,
    infeasible: Option<&RecommendedPodResources>,
    settings: &UpdaterSettings,
    now: Timestamp,
) -> InPlace {
    // What is pending serves nobody.
    let is_disruptable = pod.is_pending || group.is_disruptable();
    if *mode == UpdateMode::InPlace {
        if infeasible.is_some_and(|before| !is_lower_somewhere(recommendation, before)) {
            return InPlace::Skip(SkipReason::InfeasibleBefore);
        }
        match pod.resize {
            // A lower recommendation may fit; the kubelet does not try the old one again.
            ResizeState::None | ResizeState::Infeasible => {}
            _ => return InPlace::Skip(SkipReason::Resizing),
        }
    } else if pod.resize != ResizeState::None {
        return match stuck(pod, settings, now) {
            Some(reason) if is_disruptable => InPlace::Evict(reason),
            _ => InPlace::Skip(SkipReason::Resizing),
        };
    }
    let restarts_nothing = pod.containers.iter().all(|container| !container.restarts_on_resize);
    if (settings.in_place_skips_budget && restarts_nothing) || is_disruptable {
        InPlace::Resize
    } else {
        InPlace::Skip(SkipReason::Budget)
    }
}

/// Why a resize will not come to an end, or took too long. The time counts from the condition of the pod, so that neither a
/// restart of the updater nor an earlier pod of the same name matters.
pub(super) fn stuck(pod: &PodView, settings: &UpdaterSettings, now: Timestamp) -> Option<EvictReason> {
    let lasted = pod.resize_since.map(|since| now.duration_since(since));
    match pod.resize {
        ResizeState::None => None,
        ResizeState::Infeasible => Some(EvictReason::Infeasible),
        ResizeState::Error | ResizeState::Unknown => Some(EvictReason::ResizeFailed),
        ResizeState::Deferred => {
            lasted.filter(|lasted| *lasted > settings.deferred_timeout).map(|_| EvictReason::DeferredTooLong)
        }
        ResizeState::InProgress => {
            lasted.filter(|lasted| *lasted > settings.in_progress_timeout).map(|_| EvictReason::InProgressTooLong)
        }
    }
}

/// Whether any target of a container that is in both is lower than before.
fn is_lower_somewhere(recommendation: &RecommendedPodResources, before: &RecommendedPodResources) -> bool {
    recommendation.container_recommendations.iter().any(|recommended| {
        let Some(before) = before.of(&recommended.container_name) else { return false };
        recommended
            .target
            .iter()
            .any(|(resource, target)| before.target.get(resource).is_some_and(|before| target < before))
    })
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/updater/restriction/pods_inplace_restriction_test.go`.

    use jiff::SignedDuration;
    use pillion_api::pod::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T00:00:00Z".parse().unwrap()
    }

    fn recommend(cpu: &str) -> RecommendedPodResources {
        serde_json::from_value(json!({"containerRecommendations": [{"containerName": "a", "target": {"cpu": cpu}}]}))
            .unwrap()
    }

    fn pod(resize: ResizeState, minutes: i64) -> PodView {
        let pod = Pod::new(json!({"spec": {"containers": [{"name": "a"}]}})).unwrap();
        PodView { resize, resize_since: Some(now() - SignedDuration::from_mins(minutes)), ..PodView::new(&pod) }
    }

    fn group(configured: i64, running: i64) -> Group {
        Group::new(configured, running, &UpdaterSettings::default())
    }

    fn of(mode: &UpdateMode, pod: &PodView, group: &Group, infeasible: Option<&str>) -> InPlace {
        let infeasible = infeasible.map(recommend);
        decide(pod, group, mode, &recommend("2"), infeasible.as_ref(), &UpdaterSettings::default(), now())
    }

    #[test]
    fn the_budget_of_the_group_decides() {
        let mode = UpdateMode::InPlaceOrRecreate;
        let idle = pod(ResizeState::None, 0);
        assert_eq!(of(&mode, &idle, &group(3, 3), None), InPlace::Resize);
        assert_eq!(of(&mode, &idle, &group(3, 2), None), InPlace::Skip(SkipReason::Budget));
        let pending = PodView { is_pending: true, ..idle };
        assert_eq!(of(&mode, &pending, &group(3, 2), None), InPlace::Resize);
    }

    #[test]
    fn a_resize_that_takes_too_long_ends_in_an_eviction() {
        use ResizeState::{Deferred, Error, InProgress, Infeasible, Unknown};
        let mode = UpdateMode::InPlaceOrRecreate;
        for (state, minutes, decision) in [
            (Deferred, 4, InPlace::Skip(SkipReason::Resizing)),
            (Deferred, 6, InPlace::Evict(EvictReason::DeferredTooLong)),
            (InProgress, 59, InPlace::Skip(SkipReason::Resizing)),
            (InProgress, 61, InPlace::Evict(EvictReason::InProgressTooLong)),
            (Infeasible, 0, InPlace::Evict(EvictReason::Infeasible)),
            (Error, 0, InPlace::Evict(EvictReason::ResizeFailed)),
            (Unknown, 0, InPlace::Evict(EvictReason::ResizeFailed)),
        ] {
            assert_eq!(of(&mode, &pod(state, minutes), &group(3, 3), None), decision, "{state:?} {minutes}");
            let full = of(&mode, &pod(state, minutes), &group(3, 2), None);
            assert_eq!(full, InPlace::Skip(SkipReason::Resizing), "{state:?} without a budget");
        }
    }

    /// Upstream waits too, says so, and sends the patch all the same.
    #[test]
    fn in_place_mode_waits_and_never_evicts() {
        use ResizeState::{Deferred, Error, InProgress, Unknown};
        for state in [Deferred, InProgress, Error, Unknown] {
            let decision = of(&UpdateMode::InPlace, &pod(state, 600), &group(3, 3), None);
            assert_eq!(decision, InPlace::Skip(SkipReason::Resizing), "{state:?}");
        }
        assert_eq!(
            of(&UpdateMode::InPlace, &pod(ResizeState::None, 0), &group(3, 2), None),
            InPlace::Skip(SkipReason::Budget)
        );
    }

    #[test]
    fn what_was_infeasible_is_tried_again_only_when_something_is_lower() {
        let idle = pod(ResizeState::None, 0);
        let before = |cpu| of(&UpdateMode::InPlace, &idle, &group(3, 3), Some(cpu));
        assert_eq!(before("2"), InPlace::Skip(SkipReason::InfeasibleBefore));
        assert_eq!(before("1"), InPlace::Skip(SkipReason::InfeasibleBefore));
        assert_eq!(before("3"), InPlace::Resize);
        assert_eq!(of(&UpdateMode::InPlaceOrRecreate, &idle, &group(3, 3), Some("1")), InPlace::Resize);
    }

    #[test]
    fn without_a_budget_only_resizes_that_restart_nothing_are_free() {
        let settings = UpdaterSettings { in_place_skips_budget: true, ..UpdaterSettings::default() };
        let with = |policies: Value| {
            let pod = Pod::new(json!({"spec": {"containers": [{"name": "a", "resizePolicy": policies}]}})).unwrap();
            let mode = UpdateMode::InPlaceOrRecreate;
            decide(&PodView::new(&pod), &group(3, 2), &mode, &recommend("2"), None, &settings, now())
        };
        assert_eq!(with(json!([])), InPlace::Resize);
        let restart = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        assert_eq!(with(restart), InPlace::Skip(SkipReason::Budget));
    }
}
