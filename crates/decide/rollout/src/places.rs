//! The places of a partition: with `policy: Quota` exactly as many new pods get the pinned revision as the partition keeps.
//!
//! ```text
//!  webhooks:   grant(id) ──▶ granted ──┬── the pod is seen ──▶ counted among the pods that have the revision
//!                                      ├── given back: the webhook refused the pod after all
//!                                      └── the pod was not seen for longer than any request takes: expired
//!  controller: observe(pods) ──▶ how many pods have the revision, and which places were seen, in one write
//! ```
//!
//! The value is one object for each set, changed by compare and swap. Its size is that of what is on its way, and does not grow with the
//! number of pods. Pods that have the revision and were never granted a place (they are older, or `updateStrategy.selector` leaves them
//! out) are counted as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_api::sidecarset::SidecarSet;
use serde::{Deserialize, Serialize};

use crate::amount::partition;
use crate::view::PodView;

/// How many pods may have the pinned revision when one more pod is admitted beside the `matched` ones: the partition, and none where
/// there is no partition or running pods are not updated. A number is exact, however late `matched` is.
pub fn quota(set: &SidecarSet, matched: usize) -> usize {
    let strategy = &set.spec.update_strategy;
    match &strategy.partition {
        _ if !strategy.updates_running_pods() => 0,
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or_default(),
        percentage => partition(percentage.as_ref(), matched + 1),
    }
}

/// The places of a set's partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Places {
    /// The pinned revision.
    revision: String,
    /// How many pods have it; unknown until the controller has counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pods: Option<usize>,
    /// The resource version up to which they were counted.
    #[serde(default)]
    version: u64,
    /// Places whose pods have not been seen, and when they were granted.
    #[serde(default)]
    granted: BTreeMap<String, Timestamp>,
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
    /// How many pods have the pinned revision.
    pods: usize,
    /// The places that pods have, whatever their revision.
    places: BTreeSet<&'p str>,
    /// The resource version that the cache has reached.
    version: u64,
    /// The moment as of which the cache is known to be complete: not later than that of the last event or bookmark.
    as_of: Timestamp,
}

impl<'p> Observed<'p> {
    /// Counts pods. One that has ended or is being deleted is no longer matched, so that its successor can have its place.
    pub fn new(
        set: &str,
        revision: &str,
        pods: impl IntoIterator<Item = &'p PodView>,
        version: u64,
        as_of: Timestamp,
    ) -> Observed<'p> {
        let mut observed = Observed { pods: 0, places: BTreeSet::new(), version, as_of };
        for pod in pods {
            let Some(injected) = pod.injected(set) else { continue };
            observed.places.extend(pod.quota_place.as_deref());
            let has_revision = injected.revision.as_deref() == Some(revision);
            observed.pods += usize::from(has_revision && pod.is_active());
        }
        observed
    }
}

impl Places {
    /// How long a place may be on its way: longer than the API server lets a request take, which is a minute.
    pub const LIFETIME: SignedDuration = SignedDuration::from_secs(120);

    /// The places of a revision. None is granted until the controller has counted the pods.
    pub fn new(revision: &str) -> Places {
        Places { revision: revision.to_owned(), pods: None, version: 0, granted: BTreeMap::new() }
    }

    /// Reads the stored text.
    ///
    /// # Errors
    /// It is not a record of places.
    pub fn parse(text: &str) -> Result<Places, PlacesError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The revision that the places are of. When the set pins another, they start anew.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// How many places are taken; unknown until the controller has counted the pods.
    pub fn taken(&self) -> Option<usize> {
        Some(self.pods? + self.granted.len())
    }

    /// Whether a place was granted whose pod has not been seen.
    pub fn is_granted(&self, id: &str) -> bool {
        self.granted.contains_key(id)
    }

    /// What [`Places::grant`] would answer: for a dry run, whose pod never comes.
    pub fn peek(&self, id: &str, limit: usize) -> Grant {
        let is_free = self.taken().is_some_and(|taken| taken < limit);
        if is_free || self.is_granted(id) { Grant::Place } else { Grant::Full }
    }

    /// Asks for a place. `id` is the pod's own: asking twice, because an answer was lost, takes one place. `limit` is what the partition
    /// keeps of the pods that are matched now.
    pub fn grant(&mut self, id: &str, limit: usize, now: Timestamp) -> Grant {
        let grant = self.peek(id, limit);
        if grant == Grant::Place {
            self.granted.entry(id.to_owned()).or_insert(now);
        }
        grant
    }

    /// Gives a place back whose pod was refused by the webhook itself.
    pub fn give_back(&mut self, id: &str) {
        self.granted.remove(id);
    }

    /// Takes over what the controller has counted. A count that is older than the last one is ignored: it may lack pods that were
    /// counted before.
    pub fn observe(&mut self, observed: &Observed<'_>) {
        if observed.version < self.version {
            return;
        }
        self.version = observed.version;
        self.pods = Some(observed.pods);
        self.granted.retain(|id, granted_at| {
            let is_expired = observed.as_of.duration_since(*granted_at) > Places::LIFETIME;
            !is_expired && !observed.places.contains(id.as_str())
        });
    }

    /// Whether the same is taken, whenever it was counted.
    pub fn is_same(&self, other: &Places) -> bool {
        (&self.revision, self.pods, &self.granted) == (&other.revision, other.pods, &other.granted)
    }

    /// When the next place expires.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.granted.values().min()?.checked_add(Places::LIFETIME).ok()
    }
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

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn counted(pods: usize, places: &[&'static str], version: u64, second: i64) -> Observed<'static> {
        Observed { pods, places: places.iter().copied().collect(), version, as_of: at(second) }
    }

    #[test]
    fn no_place_is_granted_before_the_pods_are_counted_and_never_more_than_the_limit() {
        let mut places = Places::new("mesh-1");
        assert_eq!(places.grant("a", 2, at(0)), Grant::Full);
        places.observe(&counted(1, &[], 1, 0));
        assert_eq!(places.grant("a", 2, at(0)), Grant::Place);
        assert_eq!(places.grant("a", 2, at(0)), Grant::Place, "an answer that was lost");
        assert_eq!(places.grant("b", 2, at(0)), Grant::Full);
        assert_eq!(places.peek("b", 3), Grant::Place, "a dry run");
        assert_eq!(places.taken(), Some(2), "takes no place");
        places.give_back("a");
        assert_eq!(places.grant("b", 2, at(0)), Grant::Place);
    }

    #[test]
    fn the_quota_is_the_partition_of_the_pods_with_the_new_one() {
        let quota = |strategy: Value, matched| {
            let spec = json!({"containers": [mk_container("proxy")], "updateStrategy": strategy});
            quota(&mk_set("mesh", json!({"app": "web"}), spec), matched)
        };
        assert_eq!(quota(json!({"partition": 90}), 300), 90);
        assert_eq!(quota(json!({"partition": 90}), 0), 90);
        assert_eq!(quota(json!({"partition": "100%"}), 0), 1);
        assert_eq!(quota(json!({"partition": "30%"}), 9), 3);
        assert_eq!(quota(json!({}), 300), 0);
        assert_eq!(quota(json!({"partition": 90, "type": "NotUpdate"}), 300), 0);
    }

    #[test]
    fn a_place_becomes_a_pod_or_expires() {
        let mut places = Places::new("mesh-1");
        places.observe(&counted(0, &[], 1, 0));
        places.grant("seen", 9, at(0));
        places.grant("lost", 9, at(0));
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
        places.grant("a", 9, at(5));
        insta::assert_snapshot!(places, @r#"{"revision":"mesh-1","pods":3,"version":10,"granted":{"a":"1970-01-01T00:00:05Z"}}"#);
        assert_eq!(Places::parse(&places.to_string()).unwrap(), places);
        assert!(Places::parse("nonsense").unwrap_err().to_string().starts_with("not a record of places: "));
    }
}
