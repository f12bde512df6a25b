//! The size of each ReplicaSet of a Deployment: rolling, recreating, and scaling in proportion.

use k8s_openapi::api::apps::v1::DeploymentStrategy;

use super::annotations;
use super::set::Set;
use crate::kinds::Deployment;
use crate::scaled::scaled;

/// How many more, and how many fewer, pods than wanted there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) surge: i32,
    pub(super) unavailable: i32,
}

impl Bounds {
    pub(super) fn of(deployment: &Deployment) -> Bounds {
        let replicas = wanted(deployment);
        if !is_rolling(&deployment.spec.strategy) {
            return Bounds { surge: 0, unavailable: 0 };
        }
        let rolling = deployment.spec.strategy.rolling_update.as_ref();
        let surge = scaled(rolling.and_then(|rolling| rolling.max_surge.as_ref()), replicas, true);
        let mut unavailable = scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), replicas, false);
        if surge == 0 && unavailable == 0 {
            // Rounding has made it so; something must be allowed, and a surge might not be possible.
            unavailable = 1;
        }
        Bounds { surge, unavailable: unavailable.min(replicas) }
    }
}

pub(super) fn is_rolling(strategy: &DeploymentStrategy) -> bool {
    strategy.type_.as_deref() != Some("Recreate")
}

/// How many replicas are wanted.
pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// The size of the new set among all: as large as the surge allows, and no larger than wanted.
pub(super) fn new_size(deployment: &Deployment, new: i32, all: i32) -> i32 {
    let wanted = wanted(deployment);
    if !is_rolling(&deployment.spec.strategy) {
        return wanted;
    }
    let room = (wanted + Bounds::of(deployment).surge - all).max(0);
    new + room.min(wanted - new)
}

/// Lets the old sets shrink as far as availability allows: first what is broken in them, then what the new set makes up for.
pub(super) fn shrink_old(deployment: &Deployment, new: &Set, old: &mut [Set]) {
    let min_available = wanted(deployment) - Bounds::of(deployment).unavailable;
    let all = old.iter().map(|set| set.replicas).sum::<i32>() + new.replicas;
    let new_unavailable = new.replicas - new.available();
    let spare = all - min_available - new_unavailable;
    if spare <= 0 {
        return;
    }
    old.sort_by(|one, other| one.age().cmp(&other.age()));
    shrink(old, spare, |set| set.replicas - set.available());
    let available = old.iter().filter(|set| set.is_active()).map(Set::available).sum::<i32>() + new.available();
    shrink(old, available - min_available, |set| set.replicas);
}

/// Takes up to `total` replicas from the sets, from each no more than it can give.
fn shrink(sets: &mut [Set], total: i32, can_give: impl Fn(&Set) -> i32) {
    let mut left = total;
    for set in sets.iter_mut().filter(|set| set.is_active()) {
        let given = can_give(set).min(left).max(0);
        set.replicas -= given;
        left -= given;
    }
}

/// Scales a Deployment outside of a rollout step: if its size was changed, or while it is paused.
pub(super) fn scale(deployment: &Deployment, new: Option<&mut Set>, old: &mut [Set], actual: i32) {
    let wanted = wanted(deployment);
    old.sort_by(|one, other| other.age().cmp(&one.age()));
    let has_new = new.is_some();
    let saturated = new.as_ref().is_some_and(|new| {
        new.replicas == wanted
            && annotations::desired_replicas(&new.annotations) == Some(wanted)
            && new.available() == wanted
    });
    let mut sets: Vec<&mut Set> = old.iter_mut().chain(new).collect();
    let active = sets.iter().filter(|set| set.is_active()).count();
    if active <= 1 {
        // The only active one, or the newest.
        let newest = if has_new { sets.len().checked_sub(1) } else { (!sets.is_empty()).then_some(0) };
        let only = sets.iter().position(|set| set.is_active()).or(newest);
        if let Some(only) = only {
            resize(sets[only], wanted, deployment);
        }
    } else if saturated {
        sets.pop();
        sets.into_iter().filter(|set| set.is_active()).for_each(|set| resize(set, 0, deployment));
    } else if is_rolling(&deployment.spec.strategy) {
        sets.retain(|set| set.is_active());
        in_proportion(deployment, &mut sets, actual);
    }
}

fn resize(set: &mut Set, replicas: i32, deployment: &Deployment) {
    if set.replicas != replicas {
        set.replicas = replicas;
        note_size(set, deployment);
    }
}

/// Writes down for which size of the Deployment the set was sized.
pub(super) fn note_size(set: &mut Set, deployment: &Deployment) {
    let wanted = wanted(deployment);
    annotations::set_replicas(&mut set.annotations, wanted, wanted + Bounds::of(deployment).surge);
}

/// Spreads what is added or removed over the active sets by their share, so that scaling neither speeds up nor slows down a rollout.
fn in_proportion(deployment: &Deployment, sets: &mut [&mut Set], actual: i32) {
    let wanted = wanted(deployment);
    let allowed = if wanted > 0 { wanted + Bounds::of(deployment).surge } else { 0 };
    let to_add = allowed - sets.iter().map(|set| set.replicas).sum::<i32>();
    // The largest first. Of the same size, the newer one grows first and the older one shrinks first.
    sets.sort_by(|one, other| {
        let by_age = if to_add > 0 { other.age().cmp(&one.age()) } else { one.age().cmp(&other.age()) };
        other.replicas.cmp(&one.replicas).then(by_age)
    });
    let mut added = 0;
    for set in sets.iter_mut() {
        let share = if to_add == added { 0 } else { share(deployment, set, actual) };
        let share = if to_add > 0 { share.min(to_add - added) } else { share.max(to_add - added) };
        set.replicas += share;
        added += share;
    }
    if let Some(largest) = sets.first_mut() {
        largest.replicas = (largest.replicas + to_add - added).max(0);
    }
    for set in sets {
        note_size(set, deployment);
    }
}

/// By how much a set has to grow, or to shrink, to keep its share.
fn share(deployment: &Deployment, set: &Set, actual: i32) -> i32 {
    let wanted = wanted(deployment);
    if wanted == 0 {
        return -set.replicas;
    }
    let before = annotations::max_replicas(&set.annotations).filter(|max| *max != 0).unwrap_or(actual);
    if before == 0 {
        return 0;
    }
    let now = i64::from(wanted + Bounds::of(deployment).surge);
    let before = i64::from(before);
    // To the nearest, halves up.
    let size = (2 * i64::from(set.replicas) * now + before).div_euclid(2 * before);
    i32::try_from(size).unwrap_or(i32::MAX) - set.replicas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ReplicaSet;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn deployment(replicas: i32, surge: Value, unavailable: Value) -> Deployment {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let spec = json!({"replicas": replicas, "strategy": strategy});
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
    }

    /// A set of an age: version 1 is the oldest.
    fn set(version: i64, replicas: i32, available: i32) -> Set {
        let created = jiff::Timestamp::from_second(version).unwrap().to_string();
        let object: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"name": format!("web-v{version}"), "creationTimestamp": created},
            "spec": {"replicas": replicas},
            "status": {"replicas": replicas, "availableReplicas": available},
        }))
        .unwrap();
        Set::of(&Arc::new(object))
    }

    #[test]
    fn bounds_are_never_both_zero() {
        for (surge, unavailable, replicas, expected) in [
            (json!("0%"), json!("0%"), 1, (0, 1)),
            (json!("39%"), json!("39%"), 10, (4, 3)),
            (Value::Null, json!("39%"), 10, (0, 3)),
            (json!("39%"), Value::Null, 10, (4, 0)),
            (Value::Null, Value::Null, 10, (0, 1)),
            (json!(3), json!(20), 10, (3, 10)),
        ] {
            let Bounds { surge, unavailable } = Bounds::of(&deployment(replicas, surge, unavailable));
            assert_eq!((surge, unavailable), expected);
        }
    }

    #[test]
    fn the_new_set_grows_as_far_as_the_surge_allows() {
        for (surge, old, new, expected) in [(0, 10, 0, 0), (2, 10, 0, 2), (2, 5, 0, 7), (2, 10, 2, 2)] {
            let size = new_size(&deployment(10, surge.into(), 0.into()), new, old + new);
            assert_eq!(size, expected, "surge {surge}, old {old}, new {new}");
        }
    }

    #[test]
    fn old_sets_shrink_as_far_as_availability_allows() {
        for (unavailable, (old, old_available), (new, new_available), expected) in [
            (0, (10, 10), (0, 0), 9),
            (2, (10, 10), (0, 0), 8),
            (2, (10, 8), (0, 0), 8),
            (2, (10, 9), (0, 0), 8),
            (2, (8, 8), (2, 0), 8),
        ] {
            let deployment = deployment(10, 0.into(), unavailable.into());
            let mut sets = [set(1, old, old_available)];
            shrink_old(&deployment, &set(2, new, new_available), &mut sets);
            assert_eq!(sets[0].replicas, expected, "{old_available} of {old} old, {new_available} of {new} new");
        }
    }

    #[test]
    fn broken_pods_of_old_sets_go_first() {
        let mut sets = [set(1, 5, 5), set(2, 5, 2)];
        shrink_old(&deployment(8, 2.into(), 0.into()), &set(3, 2, 2), &mut sets);
        // Four can be spared: the three broken ones, and of the available ones one, from the oldest set.
        assert_eq!(sets.map(|set| set.replicas), [4, 2]);
    }

    /// Scales from one size to another; the sizes of the sets are those of versions 1, 2, …, and the last may be the new one.
    fn scaled_sizes(from: (i32, i32), to: (i32, i32), has_new: bool, sizes: &[i32]) -> Vec<i32> {
        let before = deployment(from.0, from.1.into(), Value::Null);
        let mut sets: Vec<Set> = (1..).zip(sizes).map(|(version, size)| set(version, *size, *size)).collect();
        for set in &mut sets {
            note_size(set, &before);
        }
        let mut new = if has_new { sets.pop() } else { None };
        scale(&deployment(to.0, to.1.into(), Value::Null), new.as_mut(), &mut sets, from.0);
        let mut sets: Vec<Set> = sets.into_iter().chain(new).collect();
        sets.sort_by(|one, other| one.age().cmp(&other.age()));
        sets.iter().map(|set| set.replicas).collect()
    }

    #[test]
    fn scaling_keeps_the_shares_of_all_sets() {
        for (what, from, to, has_new, sizes, expected) in [
            ("only one", 10, 12, true, vec![10], vec![12]),
            ("only one, down", 10, 5, true, vec![10], vec![5]),
            ("5 to 10", 5, 10, true, vec![3, 2], vec![6, 4]),
            ("5 to 3", 5, 3, true, vec![3, 2], vec![2, 1]),
            ("9 to 4", 9, 4, true, vec![1, 8], vec![0, 4]),
            ("7 to 10", 7, 10, true, vec![2, 3, 2], vec![3, 4, 3]),
            ("13 to 8", 13, 8, true, vec![3, 8, 2], vec![2, 5, 1]),
            ("leftover up", 3, 4, true, vec![1, 1, 1], vec![1, 1, 2]),
            ("leftover down", 3, 2, true, vec![1, 1, 1], vec![0, 1, 1]),
            ("no new one", 4, 5, false, vec![2, 2], vec![2, 3]),
            ("to zero", 6, 0, true, vec![1, 2, 3], vec![0, 0, 0]),
            ("from zero", 6, 6, true, vec![0, 0, 0], vec![0, 0, 6]),
            ("size and template", 10, 14, false, vec![3, 7], vec![4, 10]),
        ] {
            assert_eq!(scaled_sizes((from, 0), (to, 0), has_new, &sizes), expected, "{what}");
        }
        assert_eq!(scaled_sizes((10, 2), (20, 2), true, &[6, 6]), [11, 11], "with a surge");
        assert_eq!(scaled_sizes((10, 3), (50, 6), true, &[8, 5]), [34, 22], "another surge");
    }

    #[test]
    fn a_new_set_that_is_complete_ends_the_old_ones() {
        let deployment = deployment(2, 1.into(), 1.into());
        for (available, expected) in [(2, 0), (0, 1)] {
            let (mut new, mut old) = (set(2, 2, available), vec![set(1, 1, 1)]);
            note_size(&mut new, &deployment);
            note_size(&mut old[0], &deployment);
            scale(&deployment, Some(&mut new), &mut old, 3);
            assert_eq!((new.replicas, old[0].replicas), (2, expected));
        }
    }
}
