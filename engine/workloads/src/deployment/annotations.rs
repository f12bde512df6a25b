//! What a Deployment writes on each ReplicaSet: which revision it is, and for how many replicas it was sized.

use std::collections::BTreeMap;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// What a ReplicaSet does not take over from its Deployment.
const OWN: [&str; 6] = [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO];

/// So long may the history get, in bytes.
const LONGEST_HISTORY: usize = 2000;

pub(super) type Annotations = BTreeMap<String, String>;

/// The revision, 0 if there is none; nothing if it is not a number.
pub(super) fn revision(annotations: &Annotations) -> Option<i64> {
    annotations.get(REVISION).map_or(Some(0), |revision| revision.parse().ok())
}

/// The number of replicas that the Deployment wanted when the set was last scaled.
pub(super) fn desired_replicas(annotations: &Annotations) -> Option<i32> {
    count(annotations, DESIRED_REPLICAS)
}

/// The number of replicas that the Deployment could have had, surge included.
pub(super) fn max_replicas(annotations: &Annotations) -> Option<i32> {
    count(annotations, MAX_REPLICAS)
}

fn count(annotations: &Annotations, key: &str) -> Option<i32> {
    annotations.get(key)?.parse().ok().filter(|count| *count >= 0)
}

pub(super) fn set_replicas(annotations: &mut Annotations, desired: i32, max: i32) {
    annotations.insert(DESIRED_REPLICAS.to_owned(), desired.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), max.to_string());
}

/// Brings the annotations of the newest ReplicaSet up to those of its Deployment and to a revision above all others.
pub(super) fn inherit(set: &mut Annotations, deployment: &Annotations, revision: i64) {
    for (key, value) in deployment.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
        set.insert(key.clone(), value.clone());
    }
    let old = set.get(REVISION).cloned();
    let old_number = match old.as_deref() {
        None | Some("") => 0,
        Some(old) => match old.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return,
        },
    };
    if old_number >= revision {
        return;
    }
    set.insert(REVISION.to_owned(), revision.to_string());
    // It was the newest before: this is a rollback, and its former revisions are remembered.
    if let Some(old) = old {
        remember(set, &old);
    }
}

fn remember(set: &mut Annotations, old: &str) {
    let history = set.get(REVISION_HISTORY).cloned().unwrap_or_default();
    let mut revisions: Vec<&str> = history.split(',').filter(|revision| !revision.is_empty()).collect();
    revisions.push(old);
    let length = |revisions: &[&str]| revisions.iter().map(|revision| revision.len() + 1).sum::<usize>();
    while revisions.len() > 1 && length(&revisions) > LONGEST_HISTORY + 1 {
        revisions.remove(0);
    }
    set.insert(REVISION_HISTORY.to_owned(), revisions.join(","));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(pairs: [(&str, &str); N]) -> Annotations {
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_new_set_takes_over_what_is_not_the_deployments_own() {
        let mut set = Annotations::new();
        inherit(&mut set, &of([("kubernetes.io/change-cause", "why"), (REVISION, "7"), (LAST_APPLIED, "{}")]), 3);
        assert_eq!(set, of([("kubernetes.io/change-cause", "why"), (REVISION, "3")]));
    }

    #[test]
    fn a_set_that_is_rolled_back_to_remembers_its_revisions() {
        let mut set = of([(REVISION, "1")]);
        inherit(&mut set, &Annotations::new(), 3);
        assert_eq!(set, of([(REVISION, "3"), (REVISION_HISTORY, "1")]));
        inherit(&mut set, &Annotations::new(), 5);
        assert_eq!(set, of([(REVISION, "5"), (REVISION_HISTORY, "1,3")]));
        inherit(&mut set, &Annotations::new(), 4);
        assert_eq!(set[REVISION], "5", "a revision never goes down");
    }

    #[test]
    fn a_revision_that_is_not_a_number_is_left_alone() {
        let mut set = of([(REVISION, "first")]);
        inherit(&mut set, &Annotations::new(), 3);
        assert_eq!((set[REVISION].as_str(), revision(&set)), ("first", None));
    }

    #[test]
    fn a_long_history_forgets_its_beginning() {
        let mut set = of([(REVISION, "1000"), (REVISION_HISTORY, &"999,".repeat(500)[..1999])]);
        inherit(&mut set, &Annotations::new(), 1001);
        let history = &set[REVISION_HISTORY];
        assert!(history.len() <= LONGEST_HISTORY && history.ends_with(",999,1000"), "{history}");
    }
}
