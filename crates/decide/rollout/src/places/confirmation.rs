//! Places that the API server confirms: whether a request with a place was refused is known seconds after it, and not minutes.
//!
//! The API server calls the mutating webhook, validates the pod, and then calls the validating webhook, which confirms the place. A place that is
//! not confirmed soon belongs to a request that was refused. It is withdrawn, and a confirmation that comes after that is denied, so that the
//! place is never used twice.
//!
//! A place is withdrawn only while the webhook is registered as it was when the place was granted. If a user removes the webhook while a request
//! with a withdrawn place is in progress, there can be one pod too many: the API server no longer asks about that request.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Grant, Granted, Limit, Origin, Places};
use crate::view::PodView;

/// How many withdrawn places are remembered. Further ones expire like places that are not confirmed.
const MOST_WITHDRAWN: usize = 1000;

/// What created a pod: its controller, as `shop/StatefulSet/web`, or for a pod without one its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Creator(String);

impl Creator {
    pub fn of(pod: &PodView) -> Creator {
        Creator(match &pod.owner {
            Some(owner) => format!("{}/{}/{}", pod.namespace, owner.kind, owner.name),
            None => pod.namespace.to_string(),
        })
    }
}

/// Who asks for a place that the API server confirms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applicant {
    /// What created the pod.
    pub creator: Creator,
    /// The version of the registration by which the API server confirms the place.
    pub registration: u64,
}

/// The answer to a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The pod may be created.
    Confirmed,
    /// The place was withdrawn, and another pod may have it: the pod must be refused.
    Withdrawn,
    /// No such place was granted within [`Places::LIFETIME`]. A copy of an older pod has such an id.
    Unknown,
}

/// What awaits confirmation, and what was withdrawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Unconfirmed {
    /// The version of the registration by which the API server confirms them.
    registration: u64,
    /// The ids, of places and of pods without a place.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    ids: BTreeSet<String>,
    /// The places that were withdrawn. A request with one of them may still be under way.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    withdrawn: BTreeMap<String, Granted>,
    /// When a place was last confirmed after it had been withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<Timestamp>,
}

impl Unconfirmed {
    pub(super) fn is_default(&self) -> bool {
        *self == Unconfirmed::default()
    }

    /// What remains when another revision is pinned. The places of the one before expire.
    pub(super) fn repinned(&self) -> Unconfirmed {
        Unconfirmed { ids: BTreeSet::new(), ..self.clone() }
    }

    /// Forgets an id.
    pub(super) fn remove(&mut self, id: &str) {
        self.ids.remove(id);
    }

    /// Keeps the ids that are on their way, and forgets withdrawn places whose pods came after all.
    pub(super) fn retain(&mut self, is_on_its_way: impl Fn(&str) -> bool, is_seen: impl Fn(&str) -> bool) {
        self.ids.retain(|id| is_on_its_way(id));
        self.withdrawn.retain(|id, _| !is_seen(id));
    }
}

impl Places {
    /// How long the API server may take from the grant to the confirmation. Other webhooks are called in between.
    pub const CONFIRMATION: SignedDuration = SignedDuration::from_secs(5);
    /// For how long no place is withdrawn after one was confirmed too late: requests take longer than [`Places::CONFIRMATION`] then, and the pods of
    /// withdrawn places would be refused again and again.
    const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

    /// Whether `creator` must wait for the confirmation of the places that it has before it gets another one.
    ///
    /// A quarter of the places, or one if places were withdrawn from it, is given on trust. As soon as one of its places is confirmed, the creator may
    /// have as many as there are. So requests that are all refused leave most places to others.
    pub fn must_wait(&self, creator: &Creator, limit: &Limit) -> bool {
        let Unconfirmed { ids, withdrawn, .. } = &self.unconfirmed;
        let is_its = |granted: &Granted| granted.creator.as_ref() == Some(creator);
        let mut unconfirmed = 0;
        for (id, _) in self.granted.iter().filter(|(_, granted)| is_its(granted)) {
            if !ids.contains(id) {
                return false;
            }
            unconfirmed += 1;
        }
        let was_refused = withdrawn.values().any(is_its);
        let most = if was_refused { 1 } else { self.bound(limit, 0).div_ceil(4).max(1) };
        unconfirmed >= most
    }

    /// Asks for a place that is withdrawn if it is not confirmed. [`Places::must_wait`] says whether the applicant may ask.
    pub fn grant_unconfirmed(
        &mut self,
        id: &str,
        origin: Option<&Origin>,
        applicant: &Applicant,
        limit: &Limit,
        now: Timestamp,
    ) -> Grant {
        let is_new = !self.granted.contains_key(id) && !self.passed.contains_key(id);
        let grant = self.grant(id, origin, limit, now);
        if is_new {
            self.await_confirmation(id, applicant);
        }
        grant
    }

    /// Lets a pod pass without a place, although one may be free. For a percentage it counts.
    pub fn pass(&mut self, id: &str, applicant: Option<&Applicant>, limit: &Limit, now: Timestamp) {
        if matches!(limit, Limit::Percentage(_)) && !self.passed.contains_key(id) {
            self.passed.insert(id.to_owned(), now);
            if let Some(applicant) = applicant {
                self.await_confirmation(id, applicant);
            }
        }
    }

    fn await_confirmation(&mut self, id: &str, applicant: &Applicant) {
        // What awaits confirmation by another registration may not be confirmed any more: it expires.
        if self.unconfirmed.registration != applicant.registration {
            self.unconfirmed.ids.clear();
            self.unconfirmed.registration = applicant.registration;
        }
        if let Some(granted) = self.granted.get_mut(id) {
            granted.creator = Some(applicant.creator.clone());
        } else if !self.passed.contains_key(id) {
            return;
        }
        self.unconfirmed.ids.insert(id.to_owned());
    }

    /// Answers the API server, which is about to create the pod with `revision`. Confirming twice is confirming once: it may call again.
    pub fn confirm(&mut self, id: &str, revision: &str, limit: &Limit, now: Timestamp) -> Confirmation {
        self.unconfirmed.ids.remove(id);
        let is_before = self.before.values().any(|granted| granted.contains_key(id));
        if is_before || self.granted.contains_key(id) || self.passed.contains_key(id) {
            return Confirmation::Confirmed;
        }
        let Some(withdrawn) = self.unconfirmed.withdrawn.get(id).cloned() else { return Confirmation::Unknown };
        self.unconfirmed.late = Some(now);
        let is_free = self.revision == revision
            && self.is_counted(limit)
            && self.peek(id, withdrawn.origin.as_ref(), limit) == Grant::Place;
        if !is_free {
            return Confirmation::Withdrawn;
        }
        self.unconfirmed.withdrawn.remove(id);
        self.granted.insert(id.to_owned(), withdrawn);
        Confirmation::Confirmed
    }

    /// Whether something should have been confirmed by now.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        let Unconfirmed { ids, withdrawn, late, .. } = &self.unconfirmed;
        let is_patient = late.is_some_and(|late| now.duration_since(late) <= Places::PATIENCE);
        !is_patient && withdrawn.len() < MOST_WITHDRAWN && ids.iter().any(|id| self.is_late(id, now))
    }

    fn is_late(&self, id: &str, now: Timestamp) -> bool {
        let granted = self.granted.get(id).map(|granted| granted.at);
        let since = granted.or_else(|| self.passed.get(id).copied());
        since.is_some_and(|since| now.duration_since(since) > Places::CONFIRMATION)
    }

    /// Withdraws what is [overdue](Places::is_overdue), and returns how many places that are. `registration` is the version that the registration has
    /// now: if it is another one than when a place was granted, the API server may create the pod without a confirmation, and the place expires.
    pub fn withdraw(&mut self, registration: Option<u64>, now: Timestamp) -> usize {
        if registration != Some(self.unconfirmed.registration) {
            self.unconfirmed.ids.clear();
            return 0;
        }
        let overdue: Vec<String> = self.unconfirmed.ids.iter().filter(|id| self.is_late(id, now)).cloned().collect();
        let mut count = 0;
        for id in overdue {
            if self.passed.remove(&id).is_none() {
                if self.unconfirmed.withdrawn.len() >= MOST_WITHDRAWN {
                    continue;
                }
                if let Some(granted) = self.granted.remove(&id) {
                    self.unconfirmed.withdrawn.insert(id.clone(), granted);
                    count += 1;
                }
            }
            self.unconfirmed.ids.remove(&id);
        }
        count
    }

    /// Forgets withdrawn places whose requests have ended.
    pub fn forget(&mut self, now: Timestamp) {
        self.unconfirmed.withdrawn.retain(|_, granted| granted.may_come(now));
    }

    /// When the next withdrawn place can be forgotten.
    pub fn next_forgotten(&self) -> Option<Timestamp> {
        let since = self.unconfirmed.withdrawn.values().map(|granted| granted.at).min()?;
        since.checked_add(Places::LIFETIME).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::tests::{at, counted, origin};

    const REGISTRATION: u64 = 7;

    fn applicant(creator: &str) -> Applicant {
        Applicant { creator: Creator(creator.to_owned()), registration: REGISTRATION }
    }

    fn empty() -> Places {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(0, &[], 1, 0));
        places
    }

    fn ask(places: &mut Places, id: &str, limit: usize, second: i64) -> Grant {
        places.grant_unconfirmed(id, None, &applicant(id), &Limit::Number(limit), at(second))
    }

    #[test]
    fn a_place_that_is_not_confirmed_is_withdrawn_and_its_pod_is_denied() {
        let mut places = empty();
        let one = Limit::Number(1);
        assert_eq!((ask(&mut places, "refused", 1, 0), ask(&mut places, "early", 1, 4)), (Grant::Place, Grant::Full));
        assert!(!places.is_overdue(at(5)) && places.is_overdue(at(6)));
        assert_eq!(places.withdraw(Some(REGISTRATION), at(6)), 1);
        assert_eq!(ask(&mut places, "next", 1, 6), Grant::Place);
        assert_eq!(places.confirm("next", "mesh-1", &one, at(6)), Confirmation::Confirmed);
        assert_eq!(places.confirm("next", "mesh-1", &one, at(6)), Confirmation::Confirmed, "it is asked again");
        assert_eq!(places.confirm("refused", "mesh-1", &one, at(60)), Confirmation::Withdrawn);
        assert_eq!(places.confirm("of a copied pod", "mesh-1", &one, at(60)), Confirmation::Unknown);
        assert_eq!(Places::parse(&places.to_string()).unwrap(), places);
        assert_eq!(places.next_forgotten(), Some(at(120)));
        places.forget(at(121));
        assert_eq!(places.next_forgotten(), None);
    }

    #[test]
    fn a_confirmed_place_is_not_withdrawn() {
        let mut places = empty();
        ask(&mut places, "slow", 1, 0);
        places.confirm("slow", "mesh-1", &Limit::Number(1), at(3));
        assert!(!places.is_overdue(at(100)));
        assert_eq!((places.withdraw(Some(REGISTRATION), at(100)), places.taken()), (0, Some(1)));
    }

    #[test]
    fn a_withdrawn_place_that_is_still_free_is_given_back_and_the_next_ones_are_waited_for() {
        let mut places = empty();
        let one = Limit::Number(1);
        ask(&mut places, "late", 1, 0);
        places.withdraw(Some(REGISTRATION), at(6));
        assert_eq!(places.confirm("late", "mesh-1", &one, at(8)), Confirmation::Confirmed);
        assert_eq!((places.taken(), ask(&mut places, "other", 1, 8)), (Some(1), Grant::Full));
        ask(&mut places, "second", 2, 8);
        assert!(!places.is_overdue(at(608)), "requests take long in this cluster");
        assert!(places.is_overdue(at(609)));
    }

    #[test]
    fn what_was_granted_under_another_registration_expires() {
        let mut places = empty();
        ask(&mut places, "a", 1, 0);
        assert_eq!((places.withdraw(Some(REGISTRATION + 1), at(6)), places.taken()), (0, Some(1)));
        assert!(!places.is_overdue(at(60)), "no confirmation is asked for again");
        let mut places = empty();
        ask(&mut places, "a", 1, 0);
        assert_eq!((places.withdraw(None, at(6)), places.is_overdue(at(60))), (0, false));
    }

    #[test]
    fn a_creator_whose_pods_are_refused_leaves_most_places_to_others() {
        let mut places = empty();
        let forty = Limit::Number(40);
        let (bad, good) = (applicant("shop/ReplicaSet/bad"), applicant("shop/ReplicaSet/good"));
        let ask = |places: &mut Places, by: &Applicant, id: String, second| {
            (!places.must_wait(&by.creator, &forty))
                .then(|| places.grant_unconfirmed(&id, None, by, &forty, at(second)))
        };
        let taken = (0..200).filter_map(|i| ask(&mut places, &bad, format!("bad-{i}"), 0)).count();
        assert_eq!(taken, 10, "a quarter");
        for i in 0..10 {
            assert_eq!(ask(&mut places, &good, format!("good-{i}"), 0), Some(Grant::Place));
        }
        assert_eq!(ask(&mut places, &good, "good-10".to_owned(), 0), None);
        places.confirm("good-0", "mesh-1", &forty, at(0));
        for i in 10..30 {
            assert_eq!(ask(&mut places, &good, format!("good-{i}"), 0), Some(Grant::Place));
        }
        assert_eq!(ask(&mut places, &good, "good-30".to_owned(), 0), Some(Grant::Full));
        assert_eq!(places.withdraw(Some(REGISTRATION), at(4)), 0);
        for i in 0..30 {
            places.confirm(&format!("good-{i}"), "mesh-1", &forty, at(5));
        }
        assert_eq!(places.withdraw(Some(REGISTRATION), at(6)), 10);
        assert_eq!(ask(&mut places, &bad, "bad-200".to_owned(), 6), Some(Grant::Place));
        assert_eq!(ask(&mut places, &bad, "bad-201".to_owned(), 6), None, "one at a time");
    }

    #[test]
    fn pods_without_a_place_that_were_refused_do_not_count_for_a_percentage() {
        let half = Limit::Percentage(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String("50%".into()));
        let mut places = empty();
        places.observe(&crate::places::Observed { matched: Some(0), ..counted(0, &[], 2, 0) });
        for id in ["a", "b", "c", "d"] {
            places.grant_unconfirmed(id, None, &applicant(id), &half, at(0));
        }
        assert_eq!(places.withdraw(Some(REGISTRATION), at(6)), 2);
        assert_eq!((places.taken(), places.bound(&half, 0)), (Some(0), 1), "as for the first pod");
    }

    #[test]
    fn a_withdrawn_place_stays_withdrawn_when_another_revision_is_pinned_and_the_first_one_again() {
        let mut places = empty();
        let limit = Limit::Number(1);
        let by = applicant("a");
        places.grant_unconfirmed("a", Some(&origin("shop/web/1")), &by, &limit, at(0));
        places.withdraw(Some(REGISTRATION), at(6));
        let mut other = places.repinned("mesh-2", at(7));
        other.observe(&counted(0, &[], 2, 7));
        assert_eq!(other.confirm("a", "mesh-1", &limit, at(8)), Confirmation::Withdrawn, "it is of another revision");
        let mut again = other.repinned("mesh-1", at(9));
        again.observe(&counted(0, &[], 3, 9));
        ask(&mut again, "b", 1, 9);
        assert_eq!(again.confirm("a", "mesh-1", &limit, at(10)), Confirmation::Withdrawn);
    }
}
