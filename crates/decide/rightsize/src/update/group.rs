//! How many pods of one controller may be disrupted at once.

use std::collections::BTreeMap;

use pillion_api::vpa::{Gates, VerticalPodAutoscaler};

use super::reason::SkipReason;
use super::settings::UpdaterSettings;
use crate::pod::{Owner, PodView};

/// How many replicas the controllers of the pods want: `spec.replicas`, or `status.numberReady` of a DaemonSet. A Job wants as
/// many as it has, and needs no entry.
pub type Replicas = BTreeMap<Owner, i64>;

/// How many pods of each controller were evicted.
pub type Disrupted = BTreeMap<Owner, i64>;

/// The pods of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    configured: i64,
    tolerance: i64,
    running: i64,
    /// Pods evicted or resized in this pass.
    disrupted: i64,
    /// The group has too few pods: they may be resized, and not evicted.
    pub(super) is_below_minimum: bool,
}

impl Group {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "numbers of pods; truncation is meant"
    )]
    pub(super) fn new(configured: i64, running: i64, settings: &UpdaterSettings) -> Group {
        let tolerance = (configured as f64 * settings.eviction_tolerance) as i64;
        Group { configured, tolerance, running, disrupted: 0, is_below_minimum: false }
    }

    /// Whether one more pod may be disrupted.
    pub(super) fn is_disruptable(&self) -> bool {
        let left = self.running - self.disrupted;
        // A group so small that it tolerates nothing would never be updated: one pod at a time is.
        let one_at_a_time = self.configured == self.running && self.tolerance == 0 && self.disrupted == 0;
        left > self.configured - self.tolerance || one_at_a_time
    }

    pub(super) fn disrupt(&mut self) {
        self.disrupted += 1;
    }

    /// The disruption did not come about.
    pub(super) fn give_back(&mut self) {
        self.disrupted -= 1;
    }
}

/// The groups of the pods of an autoscaler, and why some pods are in none.
pub(super) struct Groups {
    groups: BTreeMap<Owner, Result<Group, SkipReason>>,
}

impl Groups {
    pub(super) fn new(
        pods: &[PodView],
        autoscaler: &VerticalPodAutoscaler,
        replicas: &Replicas,
        settings: &UpdaterSettings,
        gates: Gates,
    ) -> Groups {
        let mut members: BTreeMap<Owner, Vec<&PodView>> = BTreeMap::new();
        for pod in pods {
            if let Some(owner) = &pod.owner {
                members.entry(owner.clone()).or_default().push(pod);
            }
        }
        let group = |(owner, pods): (Owner, Vec<&PodView>)| {
            let group = group(&owner, &pods, autoscaler, replicas, settings, gates);
            (owner, group)
        };
        Groups { groups: members.into_iter().map(group).collect() }
    }

    pub(super) fn of(&self, pod: &PodView) -> Result<Group, SkipReason> {
        let owner = pod.owner.as_ref().ok_or(SkipReason::NoController)?;
        self.groups.get(owner).cloned().unwrap_or(Err(SkipReason::NoController))
    }

    /// So many pods of each controller were disrupted in this pass already.
    pub(super) fn disrupted(&mut self, disrupted: &Disrupted) {
        for (owner, count) in disrupted {
            if let Some(Ok(group)) = self.groups.get_mut(owner) {
                group.disrupted += count;
            }
        }
    }

    pub(super) fn change(&mut self, pod: &PodView, change: fn(&mut Group)) {
        if let Some(Ok(group)) = pod.owner.as_ref().and_then(|owner| self.groups.get_mut(owner)) {
            change(group);
        }
    }
}

fn group(
    owner: &Owner,
    pods: &[&PodView],
    autoscaler: &VerticalPodAutoscaler,
    replicas: &Replicas,
    settings: &UpdaterSettings,
    gates: Gates,
) -> Result<Group, SkipReason> {
    let count = |pods: usize| i64::try_from(pods).unwrap_or(i64::MAX);
    let live = count(pods.len());
    let running = live - count(pods.iter().filter(|pod| pod.is_pending).count());
    let configured = match owner.kind.as_str() {
        "Job" => live,
        "ReplicaSet" | "ReplicationController" | "StatefulSet" | "DaemonSet" => {
            replicas.get(owner).copied().filter(|replicas| *replicas > 0).ok_or(SkipReason::ReplicasUnknown)?
        }
        _ => 0,
    };
    let mut group = Group::new(configured, running, settings);
    if live < settings.min_replicas(autoscaler) {
        let is_boosted = gates.cpu_startup_boost && pods.iter().any(|pod| !pod.boosted.is_empty());
        let may_resize = settings.in_place_skips_budget && autoscaler.update_mode().is_in_place();
        if !is_boosted && !may_resize {
            return Err(SkipReason::TooFewReplicas);
        }
        group.is_below_minimum = !is_boosted;
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pods_eviction_restriction_test.go`: replicas wanted, running, tolerance, how many may be evicted in one pass.
    #[test]
    fn a_pass_disrupts_as_many_as_the_tolerance_allows() {
        for (configured, running, tolerance, wanted) in [
            (3, 3, 0.5, 1),
            (4, 4, 0.5, 2),
            (4, 3, 0.5, 1),
            (5, 5, 0.5, 2),
            (5, 5, 0.8, 4),
            (5, 5, 0.1, 1),
            (3, 2, 0.1, 0),
            (1, 1, 0.5, 1),
            (0, 2, 0.5, 2),
        ] {
            let settings = UpdaterSettings { eviction_tolerance: tolerance, ..UpdaterSettings::default() };
            let mut group = Group::new(configured, running, &settings);
            let mut disrupted = 0;
            while disrupted < 10 && group.is_disruptable() {
                group.disrupt();
                disrupted += 1;
            }
            assert_eq!(disrupted, wanted, "{running} of {configured}, {tolerance}");
        }
    }

    #[test]
    fn what_did_not_come_about_is_given_back() {
        let mut group = Group::new(3, 3, &UpdaterSettings::default());
        group.disrupt();
        assert!(!group.is_disruptable());
        group.give_back();
        assert!(group.is_disruptable());
    }
}
