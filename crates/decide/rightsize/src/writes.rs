//! What is worth a write to the API server.

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{
    Condition, ConditionType, RecommendedContainerResources, ResourceList, VerticalPodAutoscalerStatus,
};
use pillion_quantity::Quantity;

use crate::usage::ContainerUsage;

/// History that is younger than this changes quickly.
const FIRST_DAY: SignedDuration = SignedDuration::from_hours(24);
/// Checkpoints of young history.
const YOUNG: SignedDuration = SignedDuration::from_mins(1);
/// Checkpoints of old history: a restart loses this much at most.
const OLD: SignedDuration = SignedDuration::from_mins(10);
/// Bounds that have moved by less than a tenth.
const BOUNDS: SignedDuration = SignedDuration::from_mins(10);
/// A pass may begin a little early.
const SLACK: SignedDuration = SignedDuration::from_secs(5);

/// What a checkpoint that was written has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// When it was written.
    pub at: Timestamp,
    pub samples: i64,
    /// The last sample or OOM kill in it.
    pub last_change: Option<Timestamp>,
}

impl Stored {
    /// What a checkpoint that is written now has in it.
    pub fn of(usage: &ContainerUsage, now: Timestamp) -> Stored {
        let aggregate = usage.aggregate();
        Stored { at: now, samples: aggregate.samples(), last_change: aggregate.last_change() }
    }
}

/// Whether a checkpoint is to be written: only if something was sampled since the last one, each minute in the first day of a
/// container, then every ten minutes, and at once if it is `urgent` (after an OOM kill, and before the recommender ends).
pub fn is_checkpoint_due(usage: &ContainerUsage, stored: Option<&Stored>, urgent: bool, now: Timestamp) -> bool {
    let current = Stored::of(usage, now);
    let is_empty = current.samples == 0 && usage.aggregate().is_empty(pillion_expr::Resource::Memory);
    let Some(stored) = stored else { return !is_empty };
    if current.samples == stored.samples && current.last_change == stored.last_change {
        return false;
    }
    let is_young = usage.aggregate().first_sample().is_none_or(|first| now.duration_since(first) < FIRST_DAY);
    let pause = if is_young { YOUNG } else { OLD };
    urgent || now.duration_since(stored.at) >= pause - SLACK
}

/// Whether history is still being loaded, as another recommender says in the conditions: a checkpoint would lose what is missing.
pub fn is_fetching_history(conditions: &[Condition]) -> bool {
    conditions.iter().any(|it| it.condition_type == ConditionType::FetchingHistory && it.status == "True")
}

/// Puts what is to be stored into the order of writing: what was never stored first, then what was stored longest ago. If time runs
/// out, the rest is first the next time.
pub fn oldest_first<T>(due: &mut [T], stored: impl Fn(&T) -> Option<Timestamp>) {
    due.sort_by_key(stored);
}

/// Whether a status differs enough to be written, this long after it was written last.
///
/// Bounds move a little with every sample. They are written together with everything else, when one of them has moved by a tenth, and
/// otherwise every ten minutes.
pub fn is_status_due(
    before: &VerticalPodAutoscalerStatus,
    after: &VerticalPodAutoscalerStatus,
    since_write: SignedDuration,
) -> bool {
    if before.conditions != after.conditions || before.observed_generation != after.observed_generation {
        return true;
    }
    let (old, new) = match (&before.recommendation, &after.recommendation) {
        (None, None) => return false,
        (Some(old), Some(new)) => (&old.container_recommendations, &new.container_recommendations),
        _ => return true,
    };
    old.len() != new.len()
        || old.iter().zip(new).any(|(old, new)| has_changed(old, new))
        || (since_write >= BOUNDS - SLACK && old != new)
}

/// Whether anything but the bounds has changed, or a bound has moved far.
fn has_changed(old: &RecommendedContainerResources, new: &RecommendedContainerResources) -> bool {
    let bounds = [(&old.lower_bound, &new.lower_bound), (&old.upper_bound, &new.upper_bound)];
    old.container_name != new.container_name
        || old.target != new.target
        || old.uncapped_target != new.uncapped_target
        || bounds.into_iter().any(|(old, new)| match (old, new) {
            (None, None) => false,
            (Some(old), Some(new)) => has_list_moved(old, new),
            _ => true,
        })
}

fn has_list_moved(old: &ResourceList, new: &ResourceList) -> bool {
    let has_moved = |(old, new): ((&str, Quantity), (&str, Quantity))| old.0 != new.0 || has_bound_moved(old.1, new.1);
    old.iter().count() != new.iter().count() || old.iter().zip(new.iter()).any(has_moved)
}

/// Whether a bound has moved by a tenth. A status may show the old one until then.
pub fn has_bound_moved(old: Quantity, new: Quantity) -> bool {
    let (old, new) = (old.nanos(), new.nanos());
    old != new && (old - new).unsigned_abs().saturating_mul(10) >= old.unsigned_abs().max(new.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use pillion_api::vpa::Gates;
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::ContainerKind;
    use crate::settings::SampleSettings;
    use crate::usage::{Usage, Workload};

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn checkpoints_are_written_each_minute_then_every_ten_and_only_after_samples() {
        let web = Workload { namespace: "shop".into(), kind: "Deployment".into(), name: "web".into() };
        let mut usage = Usage::new(SampleSettings::default(), Gates::default());
        usage.add_pod("web-0", &web, [("app", ContainerKind::Regular)], at(0));
        let app = |usage: &Usage, stored: Option<&Stored>, urgent: bool, now: i64| {
            is_checkpoint_due(usage.containers(&web).next().unwrap(), stored, urgent, at(now))
        };
        let stored = |usage: &Usage, now: i64| Stored::of(usage.containers(&web).next().unwrap(), at(now));
        assert!(!app(&usage, None, true, 0), "there is nothing to store");
        usage.add_sample("web-0", "app", 100, 1 << 20, at(1)).unwrap();
        assert!(app(&usage, None, false, 1));
        let first = stored(&usage, 1);
        assert!(!app(&usage, Some(&first), true, 2), "nothing was sampled since");
        usage.add_sample("web-0", "app", 100, 1 << 20, at(2)).unwrap();
        assert!(app(&usage, Some(&first), false, 2));

        let day = 24 * 60 + 10;
        let second = stored(&usage, day);
        usage.add_sample("web-0", "app", 100, 1 << 20, at(day + 1)).unwrap();
        assert!(!app(&usage, Some(&second), false, day + 1));
        assert!(app(&usage, Some(&second), true, day + 1));
        assert!(app(&usage, Some(&second), false, day + 10));
    }

    /// `TestIsFetchingHistory` and `TestGetVpasToCheckpointSorts` in upstream's `pkg/recommender/checkpoint/checkpoint_writer_test.go`.
    #[test]
    fn what_was_stored_longest_ago_is_next_and_nothing_is_stored_while_history_is_loaded() {
        let mut due = [("vpa-2", Some(at(2000))), ("vpa-0", None), ("vpa-1", Some(at(1000)))];
        oldest_first(&mut due, |it| it.1);
        assert_eq!(due.map(|it| it.0), ["vpa-0", "vpa-1", "vpa-2"]);

        let with = |status: &str| -> Vec<Condition> {
            serde_json::from_value(json!([{"type": "FetchingHistory", "status": status}])).unwrap()
        };
        assert!(
            !is_fetching_history(&[]) && !is_fetching_history(&with("False")) && is_fetching_history(&with("True"))
        );
    }

    #[test]
    fn a_status_is_written_when_a_target_changes_a_bound_moves_by_a_tenth_or_every_ten_minutes() {
        let status = |target: &str, upper: &str| -> VerticalPodAutoscalerStatus {
            let it: Value = json!({"recommendation": {"containerRecommendations": [
                {"containerName": "app", "target": {"cpu": target}, "upperBound": {"cpu": upper}}
            ]}});
            serde_json::from_value(it).unwrap()
        };
        let before = status("100m", "1000m");
        let is_due = |after: &VerticalPodAutoscalerStatus, minutes: i64| {
            is_status_due(&before, after, SignedDuration::from_mins(minutes))
        };
        assert!(!is_due(&before.clone(), 60), "nothing has changed");
        assert!(!is_due(&status("100m", "901m"), 9));
        assert!(is_due(&status("100m", "901m"), 10));
        assert!(is_due(&status("100m", "900m"), 1), "a bound has moved by a tenth");
        assert!(!is_due(&status("100m", "1111m"), 1));
        assert!(is_due(&status("100m", "1112m"), 1));
        assert!(is_due(&status("101m", "1000m"), 1));
        assert!(is_due(&VerticalPodAutoscalerStatus::default(), 1));
        assert!(is_due(&VerticalPodAutoscalerStatus { observed_generation: Some(2), ..before.clone() }, 1));
        assert!(has_bound_moved("0".parse().unwrap(), "1m".parse().unwrap()));
    }
}
