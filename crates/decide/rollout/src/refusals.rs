//! Pods that the API server refuses to update.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::target::Target;

/// When a refused pod is tried again, at first and at last: what refuses it is a policy or a missing right, which changes rarely.
const FIRST_RETRY: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(30);

/// The pods of a set that could not be updated, because the API server will refuse the same request again.
///
/// They are tried again ever more rarely, and at once when the set gets another revision. Meanwhile the rollout goes on with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    by_uid: HashMap<Box<str>, Refusal>,
}

/// One pod that could not be updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The hash of the set that the pod was to get.
    hash: String,
    /// What the API server answered.
    pub(crate) message: String,
    times: u32,
    pub(crate) retry_at: Timestamp,
}

impl Refusals {
    /// A pod was refused. Returns whether that is news.
    pub fn add(&mut self, target: &Target, uid: &str, message: &str, now: Timestamp) -> bool {
        let before = self.by_uid.get(uid).filter(|refusal| refusal.hash == target.hash);
        let times = before.map_or(0, |refusal| refusal.times.saturating_add(1));
        let is_news = before.is_none_or(|refusal| refusal.message != message);
        let wait = (0..times.min(10)).fold(FIRST_RETRY, |wait, _| (wait * 2).min(LONGEST_RETRY));
        let retry_at = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        let refusal = Refusal { hash: target.hash.clone(), message: message.to_owned(), times, retry_at };
        self.by_uid.insert(uid.into(), refusal);
        is_news
    }

    /// A pod was updated, or is gone.
    pub fn remove(&mut self, uid: &str) {
        self.by_uid.remove(uid);
    }

    /// Whether no pod was refused.
    pub fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }

    /// Forgets pods that do not exist any more.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.by_uid.retain(|uid, _| exists(uid));
    }

    pub(crate) fn get(&self, target: &Target, uid: &str) -> Option<&Refusal> {
        self.by_uid.get(uid).filter(|refusal| refusal.hash == target.hash)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillion_testkit::mk_set;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refused_pod_is_tried_ever_more_rarely_and_with_another_revision_at_once() {
        let target = |image: &str| {
            let container = json!({"name": "proxy", "image": image});
            Target::new(Arc::new(mk_set("mesh", json!({"app": "web"}), json!({"containers": [container]}))))
        };
        let (first, second) = (target("envoy:1"), target("envoy:2"));
        let (mut refusals, now) = (Refusals::default(), Timestamp::UNIX_EPOCH);
        let mut waits = Vec::new();
        for _ in 0..7 {
            refusals.add(&first, "a", "no", now);
            waits.push(refusals.get(&first, "a").unwrap().retry_at.as_second() / 60);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert!(!refusals.add(&first, "a", "no", now), "nothing new");
        assert!(refusals.get(&second, "a").is_none());
        assert!(refusals.add(&second, "a", "no", now));
        refusals.retain(|uid| uid != "a");
        assert!(refusals.is_empty());
    }
}
