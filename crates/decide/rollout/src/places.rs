//! The places of a partition: with `policy: Quota` exactly as many new pods get the pinned revision as the partition keeps.
//!
//! ```text
//!  webhooks:   grant(id) ──▶ granted ──┬── the pod is seen ──▶ counted among the pods that have the revision
//!                                      ├── given back: the webhook refused the pod after all
//!                                      ├── the API server did not confirm it within seconds: withdrawn
//!                                      └── the pod was not seen for longer than any request takes: expired
//!  controller: observe(pods) ──▶ how many pods have the revision, and which places were seen, in one write
//! ```
//!
//! A number is exact by itself. For a percentage the pods that are admitted without a place are on their way as well (`passed`), so that each
//! pod is decided against all that were matched before it.
//!
//! The value is one object for each set, changed by compare and swap. Its size is that of what is on its way, and does not grow with the
//! number of pods. Pods that have the revision and were never granted a place (they are older, or `updateStrategy.selector` leaves them
//! out) are counted as well.

mod confirmation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_api::sidecarset::SidecarSet;
use serde::{Deserialize, Serialize};

use self::confirmation::Unconfirmed;
pub use self::confirmation::{Applicant, Confirmation, Creator};
use crate::amount::partition;
use crate::headcount::Headcount;
use crate::target::Target;
use crate::view::PodView;
use crate::workload::deployment;

/// Of how many ReplicaSets pods are counted apart. The pods of further ones count one by one.
const ORIGINS: usize = 1000;

/// How many pods may have the pinned revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many.
    Number(usize),
    /// This part of the pods that are matched.
    Percentage(IntOrString),
}

impl Limit {
    /// What the partition keeps: none where there is no partition or running pods are not updated.
    pub fn of(set: &SidecarSet) -> Limit {
        let strategy = &set.spec.update_strategy;
        match &strategy.partition {
            Some(percentage @ IntOrString::String(_)) if strategy.updates_running_pods() => {
                Limit::Percentage(percentage.clone())
            }
            Some(IntOrString::Int(number)) if strategy.updates_running_pods() => {
                Limit::Number(usize::try_from(*number).unwrap_or_default())
            }
            _ => Limit::Number(0),
        }
    }

    /// The same when a pod is admitted beside the `matched` ones.
    fn beside(&self, matched: usize) -> usize {
        match self {
            Limit::Number(number) => *number,
            Limit::Percentage(percentage) => partition(Some(percentage), matched + 1),
        }
    }
}

/// The ReplicaSet of a Deployment that created a pod, as `shop/web/5d9c7f6b8`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Origin(String);

impl Origin {
    /// The origin of a pod that a Deployment has created.
    pub fn of(pod: &PodView) -> Option<Origin> {
        deployment(pod).map(|(name, hash)| Origin(format!("{}/{name}/{hash}", pod.namespace)))
    }

    fn parts(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or((&self.0, ""))
    }
}

/// The places of a set's partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Places {
    /// The pinned revision.
    revision: String,
    /// How many pods have it, besides those of Deployments; unknown until the controller has counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pods: Option<usize>,
    /// How many pods of which ReplicaSet have it: successors take the places of the pods that they replace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    origins: BTreeMap<Origin, usize>,
    /// How many pods are matched; counted only for a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    matched: Option<usize>,
    /// The resource version up to which they were counted.
    #[serde(default)]
    version: u64,
    /// Places whose pods have not been seen.
    #[serde(default)]
    granted: BTreeMap<String, Granted>,
    /// Pods without a place that have not been seen, and when they were admitted; only for a percentage.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    passed: BTreeMap<String, Timestamp>,
    /// Revisions that were pinned before, and the places of each whose pods have not been seen. They count again when it is pinned again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<String, BTreeMap<String, Granted>>,
    /// What the API server has to confirm.
    #[serde(default, skip_serializing_if = "Unconfirmed::is_default")]
    unconfirmed: Unconfirmed,
}

/// A place whose pod has not been seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Granted {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    /// What created the pod, if the API server confirms the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    creator: Option<Creator>,
}

impl Granted {
    /// Whether the request that creates the pod may still be under way.
    fn may_come(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) <= Places::LIFETIME
    }
}

/// The answer to a pod that asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// It gets the pinned revision.
    Place,
    /// It gets the latest revision.
    Full,
}

/// Why a text is not a record of places.
#[derive(Debug, thiserror::Error)]
#[error("not a record of places: {0}; delete it, and the controller counts the pods again")]
pub struct PlacesError(#[from] serde_json::Error);

/// The pods of a set as a cache knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed<'p> {
    /// How many pods have the pinned revision, besides those of `origins`.
    pods: usize,
    origins: BTreeMap<Origin, usize>,
    /// How many pods are matched, where that matters.
    matched: Option<usize>,
    /// The ids that pods have, whatever their revision.
    ids: BTreeSet<&'p str>,
    /// The resource version that the cache has reached.
    version: u64,
    /// The moment as of which the cache is known to be complete: not later than that of the last event or bookmark.
    as_of: Timestamp,
}

impl<'p> Observed<'p> {
    /// Counts pods. One that has ended or is being deleted is no longer matched, so that its successor can have its place.
    pub fn new(
        target: &Target,
        revision: &str,
        pods: impl IntoIterator<Item = &'p PodView>,
        version: u64,
        as_of: Timestamp,
    ) -> Observed<'p> {
        let is_percentage = matches!(Limit::of(target.set()), Limit::Percentage(_));
        let matched = is_percentage.then_some(0);
        let mut observed =
            Observed { pods: 0, origins: BTreeMap::new(), matched, ids: BTreeSet::new(), version, as_of };
        for pod in pods {
            let Some(injected) = pod.injected(target.name()) else { continue };
            observed.ids.extend(pod.quota_place.as_deref());
            if !pod.is_active() {
                continue;
            }
            observed.matched = observed.matched.map(|matched| matched + usize::from(target.selects(pod)));
            if injected.revision.as_deref() == Some(revision) {
                observed.add(Origin::of(pod));
            }
        }
        observed
    }

    fn add(&mut self, origin: Option<Origin>) {
        let is_full = self.origins.len() >= ORIGINS;
        match origin.filter(|origin| !is_full || self.origins.contains_key(origin)) {
            Some(origin) => *self.origins.entry(origin).or_default() += 1,
            None => self.pods += 1,
        }
    }
}

impl Places {
    /// How long a place may be on its way: longer than the API server lets a request take, which is a minute.
    pub const LIFETIME: SignedDuration = SignedDuration::from_secs(120);

    /// The places of a revision. None is granted until the controller has counted the pods.
    pub fn new(revision: &str) -> Places {
        Places {
            revision: revision.to_owned(),
            pods: None,
            origins: BTreeMap::new(),
            matched: None,
            version: 0,
            granted: BTreeMap::new(),
            passed: BTreeMap::new(),
            before: BTreeMap::new(),
            unconfirmed: Unconfirmed::default(),
        }
    }

    /// The places of another revision, which is pinned instead. Pods may still come with the one before.
    #[must_use]
    pub fn repinned(&self, revision: &str, now: Timestamp) -> Places {
        let mut before = self.before.clone();
        before.insert(self.revision.clone(), self.granted.clone());
        keep(&mut before, |_, granted| granted.may_come(now));
        let granted = before.remove(revision).unwrap_or_default();
        Places { granted, before, unconfirmed: self.unconfirmed.repinned(), ..Places::new(revision) }
    }

    /// Returns the same places for the time when no pods are counted. Other pods come and go without a place, so none is granted until pods are
    /// counted again.
    #[must_use]
    pub fn uncounted(&self) -> Places {
        Places { pods: None, origins: BTreeMap::new(), matched: None, ..self.clone() }
    }

    /// Whether a pod may be on its way with a revision, pinned or not.
    pub fn uses(&self, revision: &str, now: Timestamp) -> bool {
        let granted = if self.revision == revision { Some(&self.granted) } else { self.before.get(revision) };
        granted.is_some_and(|granted| granted.values().any(|granted| granted.may_come(now)))
    }

    /// Reads the stored text.
    ///
    /// # Errors
    /// It is not a record of places.
    pub fn parse(text: &str) -> Result<Places, PlacesError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The revision that the places are of. When the set pins another, they are [`repinned`](Places::repinned).
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Whether the controller has counted what a limit is compared with.
    pub fn is_counted(&self, limit: &Limit) -> bool {
        self.pods.is_some() && (self.matched.is_some() || matches!(limit, Limit::Number(_)))
    }

    /// How many places are taken; unknown until the controller has counted the pods.
    pub fn taken(&self) -> Option<usize> {
        self.taken_with(&[])
    }

    /// The same with more pods of these origins.
    fn taken_with(&self, more: &[Option<&Origin>]) -> Option<usize> {
        let mut count = Headcount::default();
        count.add_others(self.pods?);
        let counted = self.origins.iter().map(|(origin, pods)| (Some(origin), *pods));
        let granted = self.granted.values().map(|granted| (granted.origin.as_ref(), 1));
        for (origin, pods) in counted.chain(granted).chain(more.iter().map(|origin| (*origin, 1))) {
            match origin.map(Origin::parts) {
                Some((deployment, replica_set)) => count.add(deployment, replica_set, pods),
                None => count.add_others(pods),
            }
        }
        Some(count.total())
    }

    /// Whether a place was granted whose pod has not been seen.
    pub fn is_granted(&self, id: &str) -> bool {
        self.granted.contains_key(id)
    }

    /// What [`Places::grant`] would answer: for a dry run, whose pod never comes.
    pub fn peek(&self, id: &str, origin: Option<&Origin>, limit: &Limit) -> Grant {
        if self.is_granted(id) {
            return Grant::Place;
        }
        let limit = self.bound(limit, usize::from(self.passed.contains_key(id)));
        let is_free = self.taken_with(&[origin]).is_some_and(|taken| taken <= limit);
        if is_free { Grant::Place } else { Grant::Full }
    }

    /// How many pods may have the revision, when one more is admitted. `passed` of the pods on their way are that one.
    fn bound(&self, limit: &Limit, passed: usize) -> usize {
        let on_their_way = self.granted.len() + self.passed.len() - passed;
        limit.beside(self.matched.unwrap_or_default() + on_their_way)
    }

    /// Asks for a place. `id` is the pod's own: asking twice, because an answer was lost, takes one place.
    pub fn grant(&mut self, id: &str, origin: Option<&Origin>, limit: &Limit, now: Timestamp) -> Grant {
        let grant = self.peek(id, origin, limit);
        match grant {
            Grant::Place => {
                self.passed.remove(id);
                self.granted.entry(id.to_owned()).or_insert_with(|| Granted {
                    at: now,
                    origin: origin.cloned(),
                    creator: None,
                });
            }
            Grant::Full => {
                if matches!(limit, Limit::Percentage(_)) {
                    self.passed.entry(id.to_owned()).or_insert(now);
                }
            }
        }
        grant
    }

    /// Gives a place back whose pod was refused by the webhook itself.
    pub fn give_back(&mut self, id: &str) {
        self.granted.remove(id);
        self.passed.remove(id);
        self.unconfirmed.remove(id);
    }

    /// Takes over what the controller has counted. A count that is older than the last one is ignored: it may lack pods that were
    /// counted before.
    pub fn observe(&mut self, observed: &Observed<'_>) {
        if observed.version < self.version {
            return;
        }
        self.version = observed.version;
        self.pods = Some(observed.pods);
        self.origins.clone_from(&observed.origins);
        self.matched = observed.matched;
        let is_on_its_way = |id: &str, since: Timestamp| {
            let is_expired = observed.as_of.duration_since(since) > Places::LIFETIME;
            !is_expired && !observed.ids.contains(id)
        };
        self.granted.retain(|id, granted| is_on_its_way(id, granted.at));
        keep(&mut self.before, |id, granted| is_on_its_way(id, granted.at));
        self.passed.retain(|id, since| observed.matched.is_some() && is_on_its_way(id, *since));
        let (granted, passed) = (&self.granted, &self.passed);
        let is_known = |id: &str| granted.contains_key(id) || passed.contains_key(id);
        self.unconfirmed.retain(is_known, |id| observed.ids.contains(id));
    }

    /// Whether the same is taken, whenever it was counted.
    pub fn is_same(&self, other: &Places) -> bool {
        *self == Places { version: self.version, ..other.clone() }
    }

    /// When the next place expires.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let granted = self.granted.values().chain(self.before.values().flat_map(BTreeMap::values));
        let since = granted.map(|granted| granted.at).chain(self.passed.values().copied()).min()?;
        since.checked_add(Places::LIFETIME).ok()
    }
}

/// Keeps some places of each revision, and the revisions that have any.
fn keep(before: &mut BTreeMap<String, BTreeMap<String, Granted>>, is_kept: impl Fn(&str, &Granted) -> bool) {
    before.retain(|_, granted| {
        granted.retain(|id, granted| is_kept(id, granted));
        !granted.is_empty()
    });
}

/// The text to be stored.
impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    pub(super) fn counted(pods: usize, ids: &[&'static str], version: u64, second: i64) -> Observed<'static> {
        let ids = ids.iter().copied().collect();
        Observed { pods, origins: BTreeMap::new(), matched: None, ids, version, as_of: at(second) }
    }

    pub(super) fn origin(text: &str) -> Origin {
        Origin(text.to_owned())
    }

    #[test]
    fn no_place_is_granted_before_the_pods_are_counted_and_never_more_than_the_limit() {
        let mut places = Places::new("mesh-1");
        assert_eq!(places.grant("a", None, &Limit::Number(2), at(0)), Grant::Full);
        places.observe(&counted(1, &[], 1, 0));
        assert_eq!(places.grant("a", None, &Limit::Number(2), at(0)), Grant::Place);
        assert_eq!(places.grant("a", None, &Limit::Number(2), at(0)), Grant::Place, "an answer that was lost");
        assert_eq!(places.grant("b", None, &Limit::Number(2), at(0)), Grant::Full);
        assert_eq!(places.peek("b", None, &Limit::Number(3)), Grant::Place, "a dry run");
        assert_eq!(places.taken(), Some(2), "takes no place");
        places.give_back("a");
        assert_eq!(places.grant("b", None, &Limit::Number(2), at(0)), Grant::Place);
    }

    #[test]
    fn places_that_are_not_counted_are_not_granted_and_keep_what_is_on_its_way() {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(0, &[], 1, 0));
        places.grant("a", None, &Limit::Number(2), at(0));
        let mut uncounted = places.uncounted();
        assert_eq!(uncounted.grant("b", None, &Limit::Number(2), at(1)), Grant::Full);
        uncounted.observe(&counted(1, &[], 2, 1));
        assert_eq!(uncounted.taken(), Some(2));
    }

    #[test]
    fn a_revision_is_in_use_until_no_pod_can_come_with_it() {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(0, &[], 1, 0));
        assert!(!places.uses("mesh-1", at(0)), "no place was granted");
        places.grant("a", None, &Limit::Number(2), at(0));
        places.grant("b", None, &Limit::Number(2), at(50));
        let again = places.repinned("mesh-2", at(60));
        assert_eq!((again.revision(), again.taken()), ("mesh-2", None));
        let third = again.repinned("mesh-3", at(60));
        for places in [&places, &again, &third, &Places::parse(&third.to_string()).unwrap()] {
            let uses: Vec<bool> = [60, 170, 171].map(|second| places.uses("mesh-1", at(second))).to_vec();
            assert_eq!((uses, places.uses("mesh-2", at(60))), (vec![true, true, false], false), "{places}");
        }
        assert_eq!(third.repinned("mesh-4", at(171)), Places::new("mesh-4"));
        assert!(third.repinned("mesh-1", at(60)).repinned("mesh-2", at(60)).uses("mesh-1", at(170)));
    }

    #[test]
    fn a_revision_that_is_pinned_again_has_the_places_that_are_still_on_their_way() {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(0, &[], 1, 0));
        for id in ["seen", "lost", "late"] {
            places.grant(id, None, &Limit::Number(3), at(if id == "lost" { 0 } else { 50 }));
        }
        let mut other = places.repinned("mesh-2", at(60));
        other.observe(&counted(0, &["seen"], 2, 100));
        assert_eq!((other.taken(), other.next_expiry()), (Some(0), Some(at(120))));
        let mut again = other.repinned("mesh-1", at(130));
        assert_eq!(again.taken(), None, "the pods are counted first");
        again.observe(&counted(1, &["seen"], 3, 130));
        assert_eq!((again.taken(), again.is_granted("late"), again.is_granted("lost")), (Some(2), true, false));
        assert_eq!(again.next_expiry(), Some(at(170)));
    }

    #[test]
    fn the_limit_is_the_partition_of_the_pods_with_the_new_one() {
        let limit = |strategy: Value, matched| {
            let spec = json!({"containers": [mk_container("proxy")], "updateStrategy": strategy});
            Limit::of(&mk_set("mesh", json!({"app": "web"}), spec)).beside(matched)
        };
        assert_eq!(limit(json!({"partition": 90}), 300), 90);
        assert_eq!(limit(json!({"partition": 90}), 0), 90);
        assert_eq!(limit(json!({"partition": "100%"}), 0), 1);
        assert_eq!(limit(json!({"partition": "30%"}), 9), 3);
        assert_eq!(limit(json!({}), 300), 0);
        assert_eq!(limit(json!({"partition": 90, "type": "NotUpdate"}), 300), 0);
    }

    #[test]
    fn a_percentage_is_one_of_all_pods_that_were_admitted_before() {
        let thirty = Limit::Percentage(IntOrString::String("30%".to_owned()));
        let mut places = Places::new("mesh-1");
        places.observe(&counted(0, &[], 1, 0));
        assert!(!places.is_counted(&thirty) && places.is_counted(&Limit::Number(1)));
        places.observe(&Observed { matched: Some(0), ..counted(0, &[], 1, 0) });
        let mut kept = 0;
        for admitted in 1..=300_usize {
            let id = admitted.to_string();
            let grant = places.grant(&id, None, &thirty, at(0));
            assert_eq!(places.grant(&id, None, &thirty, at(0)), grant, "an answer that was lost");
            kept += usize::from(grant == Grant::Place);
            assert_eq!(kept, partition(Some(&IntOrString::String("30%".to_owned())), admitted));
        }
        // The pods that were seen are counted once.
        let ids: Vec<String> = (1..=300).map(|id| id.to_string()).collect();
        let ids = ids.iter().map(String::as_str).collect();
        places.observe(&Observed { matched: Some(300), ids, ..counted(90, &[], 2, 0) });
        assert_eq!((places.taken(), places.next_expiry()), (Some(90), None));
    }

    #[test]
    fn successors_take_the_places_of_the_pods_that_they_replace() {
        let mut places = Places::new("mesh-1");
        let (old, new, other) = (origin("shop/web/1"), origin("shop/web/2"), origin("shop/api/1"));
        let origins = BTreeMap::from([(old, 3)]);
        places.observe(&Observed { origins, ..counted(1, &[], 1, 0) });
        let four = Limit::Number(4);
        assert_eq!(places.grant("other", Some(&other), &four, at(0)), Grant::Full);
        for id in ["a", "b", "c"] {
            assert_eq!(places.grant(id, Some(&new), &four, at(0)), Grant::Place);
        }
        assert_eq!(places.grant("d", Some(&new), &four, at(0)), Grant::Full);
        places.observe(&Observed { origins: BTreeMap::from([(new, 3)]), ..counted(1, &["a", "b", "c"], 2, 0) });
        assert_eq!(places.taken(), Some(4), "the old pods are gone");
    }

    #[test]
    fn a_place_becomes_a_pod_or_expires() {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(0, &[], 1, 0));
        places.grant("seen", None, &Limit::Number(9), at(0));
        places.grant("lost", None, &Limit::Number(9), at(0));
        assert_eq!(places.next_expiry(), Some(at(120)));
        places.observe(&counted(1, &["seen"], 2, 120));
        assert_eq!((places.taken(), places.is_granted("lost")), (Some(2), true));
        places.observe(&counted(1, &["seen"], 2, 121));
        assert_eq!((places.taken(), places.is_granted("lost")), (Some(1), false));
        places.observe(&counted(0, &[], 3, 122));
        assert_eq!(places.taken(), Some(0), "the pod is gone");
    }

    #[test]
    fn a_count_that_is_older_than_the_last_one_is_ignored() {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(3, &[], 10, 0));
        places.observe(&counted(0, &[], 9, 500));
        assert_eq!(places.taken(), Some(3));
    }

    #[test]
    fn places_are_stored_as_text() {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(3, &[], 10, 0));
        places.grant("a", None, &Limit::Number(9), at(5));
        insta::assert_snapshot!(places, @r#"{"revision":"mesh-1","pods":3,"version":10,"granted":{"a":{"at":"1970-01-01T00:00:05Z"}}}"#);
        assert_eq!(Places::parse(&places.to_string()).unwrap(), places);
        assert!(Places::parse("nonsense").unwrap_err().to_string().starts_with("not a record of places: "));
    }
}
