//! Which missed pods are evicted next.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use pillion_api::sidecarset::{RepairPolicy, SidecarSet};
use pillion_rollout::{PodView, Text};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// A pod that a PodDisruptionBudget protects is tried again after this time.
const BLOCKED: SignedDuration = SignedDuration::from_secs(10);
/// By how much an eviction may be late so that the next one is not late, too.
const LATE: SignedDuration = SignedDuration::from_secs(2);
/// How many pods are evicted in a minute if the set does not say.
const MAX_PER_MINUTE: i32 = 10;

/// Whether a pod may be evicted: nothing replaces a bare pod, and a Job counts an evicted pod as a failure and does its work again.
pub fn is_evictable(pod: &PodView) -> bool {
    pod.owner.as_ref().is_some_and(|owner| replaces(&owner.kind))
}

fn replaces(kind: &str) -> bool {
    kind != "Job"
}

/// A missed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub namespace: Text,
    pub name: Text,
    /// Its UID: a pod of the same name that comes later is another one.
    pub uid: Text,
    /// Its controller's kind and name; `None` for a bare pod, which no controller replaces.
    pub owner: Option<(Text, Text)>,
}

impl Candidate {
    /// What matters of a pod.
    pub fn new(pod: &PodView) -> Candidate {
        Candidate {
            namespace: pod.namespace.clone(),
            name: (*pod.name).into(),
            uid: (*pod.uid).into(),
            owner: pod.owner.as_ref().map(|owner| (owner.kind.clone(), owner.name.clone())),
        }
    }

    /// The controller that replaces it if it is evicted.
    fn controller(&self) -> Option<Controller> {
        let (kind, name) = self.owner.clone().filter(|(kind, _)| replaces(kind))?;
        Some((self.namespace.clone(), kind, name))
    }
}

/// Namespace, kind and name.
type Controller = (Text, Text, Text);

/// What to do next about the missed pods of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// The pod to evict now, by its place in what was given.
    pub evict: Option<usize>,
    /// When to look again, if nothing changes before.
    pub again: Option<Timestamp>,
    /// How many pods are not evicted because evicting their predecessors had no effect.
    pub in_vain: usize,
}

/// The evictions of one set so far.
#[derive(Debug, Default)]
pub struct Evictions {
    /// When the next pod may be evicted, and the time between two evictions.
    due: Option<Timestamp>,
    gap: SignedDuration,
    /// The missed pods that a controller had when the first of them was evicted, by UID. What comes in their place and is missed again shows
    /// that evicting has no effect. Forgotten as soon as the controller has a new pod with the sidecars.
    evicted: HashMap<Controller, HashSet<Text>>,
    /// Missed pods that were tried, by UID, and when to try them again.
    tried: HashMap<Text, Timestamp>,
    /// The hash of the set when its pods were evicted. After a change of the set, evicting is worth another attempt.
    hash: String,
}

impl Evictions {
    /// Decides which of the missed pods of a set to evict now. Ask again after each attempt: there is an even pause between two evictions,
    /// and none after an attempt that failed.
    pub fn next(&mut self, set: &SidecarSet, missed: &[Candidate], now: Timestamp) -> Next {
        let repair = set.spec.injection_strategy.repair.as_ref();
        if repair.and_then(|repair| repair.policy.as_ref()) != Some(&RepairPolicy::Evict) {
            return Next::default();
        }
        if self.hash != set.current_hash() {
            self.hash = set.current_hash().into_owned();
            self.evicted.clear();
        }
        if !self.tried.is_empty() {
            let missed: HashSet<&Text> = missed.iter().map(|pod| &pod.uid).collect();
            self.tried.retain(|uid, _| missed.contains(uid));
        }
        let mut next = Next::default();
        // Those that were never tried come first, then those whose last attempt is longest ago: protected pods do not stop others.
        let mut first: Option<(Timestamp, usize)> = None;
        for (i, pod) in missed.iter().enumerate() {
            let Some(controller) = pod.controller() else { continue };
            if self.is_in_vain(&controller, pod) {
                next.in_vain += 1;
                continue;
            }
            let at = self.tried.get(&pod.uid).copied().unwrap_or(Timestamp::MIN);
            if first.is_none_or(|(earliest, _)| at < earliest) {
                first = Some((at, i));
            }
        }
        let limit =
            repair.and_then(|repair| repair.max_per_minute).filter(|limit| *limit > 0).unwrap_or(MAX_PER_MINUTE);
        self.gap = MINUTE / limit;
        if let Some((at, i)) = first {
            let at = at.max(self.due.unwrap_or(Timestamp::MIN));
            if at <= now {
                next.evict = Some(i);
            } else {
                next.again = Some(at);
            }
        }
        next
    }

    /// A pod of these was evicted.
    pub fn evicted(&mut self, pod: &Candidate, missed: &[Candidate], now: Timestamp) {
        // Who asks a moment late catches up.
        let start = self.due.filter(|due| now.duration_since(*due) <= LATE).unwrap_or(now);
        self.due = start.checked_add(self.gap).ok();
        // It is missed until it is seen to end.
        self.blocked(pod, now);
        if let Some(controller) = pod.controller() {
            let siblings = || missed.iter().filter(|other| other.controller().as_ref() == Some(&controller));
            let uids = siblings().map(|sibling| sibling.uid.clone()).collect();
            self.evicted.entry(controller.clone()).or_insert(uids);
        }
    }

    /// A new pod has the sidecars. If pods of its controller were evicted before, that had an effect: those that are missed later, because the
    /// webhook is down once more, may be evicted again. Returns whether that is so.
    pub fn injected(&mut self, pod: &PodView) -> bool {
        !self.evicted.is_empty()
            && Candidate::new(pod).controller().is_some_and(|controller| self.evicted.remove(&controller).is_some())
    }

    /// A pod could not be evicted.
    pub fn blocked(&mut self, pod: &Candidate, now: Timestamp) {
        self.tried.insert(pod.uid.clone(), now.checked_add(BLOCKED).unwrap_or(now));
    }

    /// Whether the pod came after another one of its controller was evicted, and has no sidecars all the same.
    fn is_in_vain(&self, controller: &Controller, pod: &Candidate) -> bool {
        self.evicted.get(controller).is_some_and(|uids| !uids.contains(&pod.uid))
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use pillion_rollout::Texts;
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;

    fn set(policy: &str, max_per_minute: i32) -> SidecarSet {
        let repair = json!({"policy": policy, "maxPerMinute": max_per_minute});
        let spec = json!({"containers": [mk_container("proxy")], "injectionStrategy": {"repair": repair}});
        mk_set("mesh", json!({"app": "web"}), spec)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn pod(name: &str) -> Candidate {
        Candidate {
            namespace: "default".into(),
            name: name.into(),
            uid: name.into(),
            owner: Some(("ReplicaSet".into(), "web".into())),
        }
    }

    /// A pod of a ReplicaSet.
    fn view(name: &str, owner: &str) -> PodView {
        let owner = json!({"kind": "ReplicaSet", "name": owner, "uid": "1", "controller": true});
        let metadata = json!({"name": name, "namespace": "default", "ownerReferences": [owner]});
        let pod = Pod::new(json!({"metadata": metadata, "spec": {"containers": [{"name": "app"}]}})).unwrap();
        PodView::new(&pod, &mut Texts::default())
    }

    /// Evicts what is to be evicted.
    fn step(evictions: &mut Evictions, set: &SidecarSet, missed: &[Candidate], now: i64) -> Next {
        let next = evictions.next(set, missed, at(now));
        if let Some(i) = next.evict {
            evictions.evicted(&missed[i], missed, at(now));
        }
        next
    }

    #[test]
    fn pods_are_evicted_evenly_at_the_given_rate() {
        let (set, missed) = (set("Evict", 2), [pod("a"), pod("b"), pod("c")]);
        let mut evictions = Evictions::default();
        assert_eq!(step(&mut evictions, &set, &missed, 100).evict, Some(0));
        let next = step(&mut evictions, &set, &missed[1..], 100);
        assert_eq!((next.evict, next.again), (None, Some(at(130))));
        assert_eq!(step(&mut evictions, &set, &missed[1..], 129).evict, None);
        assert_eq!(step(&mut evictions, &set, &missed[1..], 130).evict, Some(0));
        assert_eq!(step(&mut evictions, &set, &missed[2..], 130).again, Some(at(160)));
    }

    #[test]
    fn a_rate_that_was_stored_below_zero_counts_as_the_default() {
        let (set, missed, mut evictions) = (set("Evict", -1), [pod("a"), pod("b")], Evictions::default());
        assert_eq!(step(&mut evictions, &set, &missed, 100).evict, Some(0));
        assert_eq!(step(&mut evictions, &set, &missed[1..], 100).again, Some(at(106)));
    }

    #[test]
    fn a_high_rate_is_kept_by_one_who_asks_every_second() {
        let missed: Vec<Candidate> = (0..100).map(|i| pod(&i.to_string())).collect();
        let (set, mut evictions, mut evicted) = (set("Evict", 300), Evictions::default(), 0);
        for second in 0..10 {
            while step(&mut evictions, &set, &missed[evicted..], second).evict.is_some() {
                evicted += 1;
            }
        }
        assert_eq!(evicted, 46, "five a second, after the first one");
    }

    #[test]
    fn without_the_policy_nothing_is_evicted_and_bare_pods_and_those_of_jobs_never() {
        let (mut bare, mut of_job) = (pod("bare"), pod("of-job"));
        bare.owner = None;
        of_job.owner = Some(("Job".into(), "migrate".into()));
        let missed = [bare, of_job, pod("a")];
        assert_eq!(Evictions::default().next(&set("Report", 2), &missed, at(100)), Next::default());
        assert_eq!(Evictions::default().next(&set("Evict", 2), &missed, at(100)).evict, Some(2));
        assert_eq!(Evictions::default().next(&set("Evict", 2), &missed[..2], at(100)), Next::default());
    }

    #[test]
    fn a_pod_that_came_in_the_place_of_an_evicted_one_is_left_alone_until_the_set_changes() {
        let mut evictions = Evictions::default();
        let old = set("Evict", 1);
        assert_eq!(step(&mut evictions, &old, &[pod("a"), pod("c")], 100).evict, Some(0));
        let next = step(&mut evictions, &old, &[pod("b"), pod("c")], 200);
        assert_eq!((next.evict, next.in_vain), (Some(1), 1), "one that was there before is evicted");
        let mut new = old.clone();
        // The webhook writes the hash anew.
        new.metadata.annotations = None;
        new.spec.containers[0].container.insert("image".to_owned(), json!("proxy:2"));
        assert_eq!(step(&mut evictions, &new, &[pod("b")], 300).evict, Some(0));
    }

    #[test]
    fn evicting_that_had_an_effect_is_repeated_after_the_next_outage() {
        let (set, mut evictions) = (set("Evict", 10), Evictions::default());
        assert_eq!(step(&mut evictions, &set, &[pod("a")], 100).evict, Some(0));
        assert_eq!(step(&mut evictions, &set, &[pod("c")], 110).in_vain, 1, "nothing shows an effect yet");
        let mut of_another = view("db-0", "db");
        assert!(!evictions.injected(&of_another));
        of_another.namespace = "other".into();
        of_another.owner = view("web-0", "web").owner;
        assert!(!evictions.injected(&of_another));
        assert_eq!(step(&mut evictions, &set, &[pod("c")], 120).in_vain, 1);
        assert!(evictions.injected(&view("b", "web")));
        let next = step(&mut evictions, &set, &[pod("c")], 130);
        assert_eq!((next.evict, next.in_vain), (Some(0), 0));
        assert_eq!(step(&mut evictions, &set, &[pod("d")], 140).in_vain, 1, "not twice in a row without effect");
    }

    #[test]
    fn protected_pods_do_not_take_the_place_of_others() {
        let (set, missed) = (set("Evict", 60), [pod("a"), pod("b"), pod("c")]);
        let mut evictions = Evictions::default();
        for i in 0..2 {
            assert_eq!(evictions.next(&set, &missed, at(100)).evict, Some(i));
            evictions.blocked(&missed[i], at(100 + i64::try_from(i).unwrap()));
        }
        assert_eq!(step(&mut evictions, &set, &missed, 102).evict, Some(2));
        let next = evictions.next(&set, &missed[..2], at(103));
        assert_eq!((next.evict, next.again), (None, Some(at(110))));
        assert_eq!(evictions.next(&set, &missed[..2], at(111)).evict, Some(0));
        evictions.blocked(&missed[0], at(111));
        assert_eq!(evictions.next(&set, &missed[..2], at(200)).evict, Some(1), "the one that has waited longest");
    }
}
