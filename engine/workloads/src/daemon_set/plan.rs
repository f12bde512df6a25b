//! What a DaemonSet does next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::node::{Eligibility, Place};
use super::status::by_node;
use super::template::{self, REVISION};
use crate::kinds::DaemonSet;
use crate::pod::PodView;
use crate::scaled::scaled;

/// A pod that fails at once is not replaced faster than this.
const BETWEEN_REPLACEMENTS: SignedDuration = SignedDuration::from_secs(1);

/// The next steps.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Names of nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<PodView>>,
    /// Pods that have ended and make room, and whether they failed.
    pub(super) ended: Vec<(Arc<PodView>, bool)>,
    /// When to look again, if nothing happens.
    pub(super) check_again: Option<Duration>,
}

/// The next steps of a set with its pods. `hash` is that of the newest template.
pub(super) fn plan(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<PodView>], hash: &str, now: Timestamp) -> Plan {
    let eligibility = Eligibility::of(set);
    let places: BTreeMap<String, Place> = nodes.iter().map(|node| (node.name_any(), eligibility.place(node))).collect();
    let by_node = by_node(pods);
    let desired = i32::try_from(places.values().filter(|place| **place == Place::Run).count()).unwrap_or(i32::MAX);
    let bounds = Bounds::of(set, desired);
    let view = View { set, hash, now, bounds };
    let mut plan = Plan::default();
    for (node, place) in &places {
        let pods = by_node.get(node).map(Vec::as_slice).unwrap_or_default();
        view.manage(&mut plan, node, *place, pods);
    }
    // Pods that are meant for nodes that are gone can never run.
    let lost = by_node.iter().filter(|(node, _)| !places.contains_key(*node)).flat_map(|(_, pods)| pods);
    plan.delete.extend(lost.filter(|pod| pod.spec.node_name.is_none()).map(|pod| Arc::clone(pod)));
    // An update waits until nothing else is under way.
    let quiet = plan.create.is_empty() && plan.delete.is_empty() && plan.ended.is_empty();
    if quiet && set.spec.update_strategy.type_.as_deref() != Some("OnDelete") {
        if view.bounds.surge > 0 {
            view.roll_with_surge(&mut plan, &places, &by_node, desired);
        } else {
            view.roll(&mut plan, &places, &by_node);
        }
    }
    plan
}

/// How many nodes may have two pods, and how many none, during an update.
#[derive(Clone, Copy)]
struct Bounds {
    surge: i32,
    unavailable: i32,
    /// Whether a node may have two pods at all.
    allows_surge: bool,
}

impl Bounds {
    fn of(set: &DaemonSet, desired: i32) -> Bounds {
        let strategy = &set.spec.update_strategy;
        let rolling = strategy.rolling_update.as_ref().filter(|_| strategy.type_.as_deref() != Some("OnDelete"));
        let max_surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let surge = scaled(max_surge, desired, true);
        let unavailable = scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), desired, true);
        let nothing = desired > 0 && surge == 0 && unavailable == 0;
        let allows_surge = scaled(max_surge, 1, true) > 0;
        Bounds { surge, unavailable: if nothing { 1 } else { unavailable }, allows_surge }
    }
}

struct View<'a> {
    set: &'a DaemonSet,
    hash: &'a str,
    now: Timestamp,
    bounds: Bounds,
}

type ByNode<'a> = BTreeMap<String, Vec<&'a Arc<PodView>>>;

/// A new pod and an old one.
type Pair<'a> = (Option<&'a Arc<PodView>>, Option<&'a Arc<PodView>>);

impl View<'_> {
    fn is_available(&self, pod: &PodView) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    fn is_updated(&self, pod: &PodView) -> bool {
        template::is_updated(pod.labels(), self.set, self.hash)
    }

    /// Brings one node to one pod, or to none.
    fn manage(&self, plan: &mut Plan, node: &str, place: Place, pods: &[&Arc<PodView>]) {
        let live = || pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        match place {
            Place::Never => plan.delete.extend(live().map(|pod| Arc::clone(pod))),
            Place::Run if pods.is_empty() => plan.create.push(node.to_owned()),
            Place::Run | Place::Keep => {
                let (ended, running): (Vec<&Arc<PodView>>, Vec<&Arc<PodView>>) =
                    live().partition(|pod| pod.is_terminal());
                for pod in ended {
                    self.end(plan, pod);
                }
                if self.bounds.allows_surge {
                    self.keep_two(plan, node, place, &running);
                } else {
                    plan.delete.extend(running.iter().skip(1).map(|pod| Arc::clone(pod)));
                }
            }
        }
    }

    fn end(&self, plan: &mut Plan, pod: &Arc<PodView>) {
        let failed = pod.phase() == "Failed";
        let created = pod.created();
        let since = created.map_or(BETWEEN_REPLACEMENTS, |created| self.now.duration_since(created));
        if failed && since < BETWEEN_REPLACEMENTS {
            let wait = Duration::try_from(BETWEEN_REPLACEMENTS - since).unwrap_or_default();
            plan.check_again = Some(plan.check_again.map_or(wait, |earlier| earlier.min(wait)));
        } else {
            plan.ended.push((Arc::clone(pod), failed));
        }
    }

    /// Where a surge is allowed a node keeps one old and one new pod, until the new one can do alone.
    fn keep_two(&self, plan: &mut Plan, node: &str, place: Place, running: &[&Arc<PodView>]) {
        match running {
            [] if place == Place::Run => plan.create.push(node.to_owned()),
            [] | [_] => {}
            running => {
                let (new, old): (Vec<&Arc<PodView>>, Vec<&Arc<PodView>>) =
                    running.iter().partition(|pod| pod.labels().get(REVISION).is_some_and(|hash| hash == self.hash));
                plan.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|pod| Arc::clone(pod)));
                if let (Some(new), Some(old)) = (new.first(), old.first())
                    && (!old.is_ready() || self.is_available(new))
                {
                    plan.delete.push(Arc::clone(old));
                }
            }
        }
    }

    /// The one new and the one old pod of a node; nothing if there are more, which the next look takes care of.
    fn pair<'a>(&self, pods: &[&'a Arc<PodView>]) -> Option<Pair<'a>> {
        let live = pods.iter().copied().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let (new, old): (Vec<&Arc<PodView>>, Vec<&Arc<PodView>>) = live.partition(|pod| self.is_updated(pod));
        (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
    }

    /// Replaces old pods: those that are unavailable anyway, and others as far as is allowed.
    fn roll(&self, plan: &mut Plan, places: &BTreeMap<String, Place>, by_node: &ByNode<'_>) {
        let mut unavailable = 0;
        let mut candidates = Vec::new();
        let wanted = places.iter().filter(|(_, place)| **place == Place::Run).map(|(node, _)| node);
        let all: BTreeSet<&String> = by_node.keys().chain(wanted).collect();
        for node in all {
            let pods = by_node.get(node).map(Vec::as_slice).unwrap_or_default();
            match self.pair(pods) {
                Some((Some(new), None)) => unavailable += i32::from(!self.is_available(new)),
                Some((None, Some(old))) if !self.is_available(old) => {
                    plan.delete.push(Arc::clone(old));
                    unavailable += 1;
                }
                Some((None, Some(old))) => candidates.push(old),
                _ => unavailable += 1,
            }
        }
        let room = usize::try_from(self.bounds.unavailable - unavailable).unwrap_or(0);
        plan.delete.extend(candidates.into_iter().take(room).map(Arc::clone));
    }

    /// Puts new pods beside old ones as far as is allowed, and removes the old ones when the new ones are available.
    fn roll_with_surge(&self, plan: &mut Plan, places: &BTreeMap<String, Place>, by_node: &ByNode<'_>, desired: i32) {
        let (mut surge, mut available) = (0, 0);
        let mut candidates = Vec::new();
        let mut misplaced = Vec::new();
        for (node, pods) in by_node {
            let Some((new, old)) = self.pair(pods) else {
                surge += 1;
                continue;
            };
            available += i32::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            let should_run = places.get(node) == Some(&Place::Run);
            match (new, old) {
                (_, None) => {}
                (None, Some(old)) if !should_run => {
                    if self.is_available(old) {
                        misplaced.push(old);
                    } else {
                        plan.delete.push(Arc::clone(old));
                    }
                }
                (None, Some(old)) if !self.is_available(old) => plan.create.push(node.clone()),
                (None, Some(_)) => candidates.push(node.clone()),
                (Some(new), Some(old)) if self.is_available(new) => plan.delete.push(Arc::clone(old)),
                (Some(_), Some(_)) => surge += 1,
            }
        }
        let spare = usize::try_from(available - desired).unwrap_or(0);
        plan.delete.extend(misplaced.into_iter().take(spare).map(Arc::clone));
        let room = usize::try_from(self.bounds.surge - surge).unwrap_or(0);
        plan.create.extend(candidates.into_iter().take(room));
    }
}

/// The oldest revisions that nothing is made of any more, where more are kept than wanted.
pub(super) fn forgotten(
    set: &DaemonSet,
    revisions: &[Arc<ControllerRevision>],
    current: &ControllerRevision,
    pods: &[Arc<PodView>],
) -> Vec<Arc<ControllerRevision>> {
    let live: BTreeSet<&String> = pods.iter().filter_map(|pod| pod.labels().get(REVISION)).collect();
    let old = || revisions.iter().filter(|revision| revision.metadata.name != current.metadata.name);
    let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(usize::MAX);
    let surplus = old().count().saturating_sub(limit);
    let is_live =
        |revision: &ControllerRevision| revision.labels().get(REVISION).is_some_and(|hash| live.contains(hash));
    old().filter(|revision| !is_live(revision)).take(surplus).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn set(strategy: Value, spec: Value) -> DaemonSet {
        let template = json!({"metadata": {"labels": {"app": "log"}}, "spec": spec});
        let spec = json!({"template": template, "updateStrategy": strategy});
        serde_json::from_value(json!({"metadata": {"name": "log", "uid": "1"}, "spec": spec})).unwrap()
    }

    fn rolling(unavailable: i32, surge: i32) -> Value {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
    }

    fn node(name: &str, change: Value) -> Arc<Node> {
        let mut node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {}});
        node["spec"]["taints"] = change;
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn nodes(count: usize) -> Vec<Arc<Node>> {
        (0..count).map(|number| node(&format!("n{number}"), json!([]))).collect()
    }

    fn pod(name: &str, node: &str, revision: &str, ready: bool) -> Arc<PodView> {
        let pod = json!({
            "metadata": {"name": name, "labels": {REVISION: revision}, "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn shown(plan: &Plan) -> (Vec<String>, Vec<String>) {
        let ended = plan.ended.iter().map(|(pod, _)| pod.name_any());
        (plan.create.clone(), plan.delete.iter().map(|pod| pod.name_any()).chain(ended).collect())
    }

    fn steps(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<PodView>]) -> (Vec<String>, Vec<String>) {
        shown(&plan(set, nodes, pods, "new", NOW))
    }

    fn names<const C: usize, const D: usize>(create: [&str; C], delete: [&str; D]) -> (Vec<String>, Vec<String>) {
        (create.map(ToOwned::to_owned).to_vec(), delete.map(ToOwned::to_owned).to_vec())
    }

    #[test]
    fn every_eligible_node_gets_one_pod() {
        let set = set(rolling(1, 0), json!({"nodeSelector": {"kubernetes.io/hostname": "n1"}}));
        assert_eq!(steps(&set, &nodes(3), &[]), names(["n1"], []));
        let elsewhere = [pod("a", "n0", "new", true), pod("b", "n1", "new", true)];
        assert_eq!(steps(&set, &nodes(3), &elsewhere), names([], ["a"]));
        let twice = [pod("a", "n1", "new", true), pod("b", "n1", "new", true)];
        assert_eq!(steps(&set, &nodes(3), &twice), names([], ["b"]));
    }

    #[test]
    fn taints_keep_pods_away_unless_daemons_live_with_them() {
        let set = set(rolling(1, 0), json!({}));
        let taint = |key: &str, effect: &str| vec![node("n0", json!([{"key": key, "effect": effect}]))];
        let running = [pod("a", "n0", "new", true)];
        assert_eq!(steps(&set, &taint("mine", "NoSchedule"), &[]), names([], []));
        assert_eq!(steps(&set, &taint("mine", "NoSchedule"), &running), names([], []));
        assert_eq!(steps(&set, &taint("mine", "NoExecute"), &running), names([], ["a"]));
        assert_eq!(steps(&set, &taint("mine", "PreferNoSchedule"), &[]), names(["n0"], []));
        assert_eq!(steps(&set, &taint("node.kubernetes.io/unschedulable", "NoSchedule"), &[]), names(["n0"], []));
        assert_eq!(steps(&set, &taint("node.kubernetes.io/not-ready", "NoExecute"), &[]), names(["n0"], []));
        assert_eq!(steps(&set, &taint("node.kubernetes.io/network-unavailable", "NoSchedule"), &[]), names([], []));
    }

    #[test]
    fn a_failed_pod_makes_room_and_not_at_once() {
        let set = set(rolling(1, 0), json!({}));
        let failed = |created: Timestamp| {
            let mut pod = PodView::clone(&pod("a", "n0", "new", false));
            pod.status.phase = Some("Failed".into());
            pod.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
            [Arc::new(pod)]
        };
        let plan = plan(&set, &nodes(1), &failed(NOW), "new", NOW);
        assert_eq!((shown(&plan), plan.check_again), (names([], []), Some(Duration::from_secs(1))));
        assert_eq!(steps(&set, &nodes(1), &failed(NOW - SignedDuration::from_secs(5))), names([], ["a"]));
    }

    #[test]
    fn an_update_takes_what_is_unavailable_and_then_as_many_as_allowed() {
        let old = |ready: [bool; 4]| {
            let pods = ready
                .iter()
                .enumerate()
                .map(|(number, ready)| pod(&format!("p{number}"), &format!("n{number}"), "old", *ready));
            pods.collect::<Vec<_>>()
        };
        let all = old([true; 4]);
        assert_eq!(steps(&set(rolling(1, 0), json!({})), &nodes(4), &all), names([], ["p0"]));
        assert_eq!(steps(&set(rolling(2, 0), json!({})), &nodes(4), &all), names([], ["p0", "p1"]));
        assert_eq!(
            steps(&set(rolling(1, 0), json!({})), &nodes(4), &old([true, false, true, false])),
            names([], ["p1", "p3"])
        );
        let mut under_way = all.clone();
        under_way[0] = pod("p0", "n0", "new", false);
        assert_eq!(steps(&set(rolling(1, 0), json!({})), &nodes(4), &under_way), names([], []));
        assert_eq!(steps(&set(json!({"type": "OnDelete"}), json!({})), &nodes(4), &all), names([], []));
    }

    #[test]
    fn a_surge_puts_the_new_pod_beside_the_old_one() {
        let surge = set(rolling(0, 1), json!({}));
        let old = [pod("p0", "n0", "old", true), pod("p1", "n1", "old", true)];
        assert_eq!(steps(&surge, &nodes(2), &old), names(["n0"], []));
        let both = |ready| [old[0].clone(), pod("q0", "n0", "new", ready), old[1].clone()];
        assert_eq!(steps(&surge, &nodes(2), &both(false)), names([], []));
        assert_eq!(steps(&surge, &nodes(2), &both(true)), names([], ["p0"]));
        let broken = [pod("p0", "n0", "old", false), old[1].clone()];
        assert_eq!(steps(&surge, &nodes(2), &broken), names(["n0", "n1"], []));
    }
}
