//! How many pods stay on an older revision, where a pod and its successor count once.
//!
//! A Deployment that is rolled out creates successors before it deletes pods (`maxSurge`). If both counted, successors would get the latest
//! revision because the pods that they replace are still there, and in the end the partition would have melted away.

use std::collections::HashMap;
use std::hash::Hash;

/// Counts pods: of each Deployment those of the ReplicaSet that has most of them, and all others one by one.
#[derive(Debug)]
pub(crate) struct Headcount<D, R> {
    others: usize,
    by_deployment: HashMap<D, Vec<(R, usize)>>,
}

impl<D, R> Default for Headcount<D, R> {
    fn default() -> Headcount<D, R> {
        Headcount { others: 0, by_deployment: HashMap::new() }
    }
}

impl<D: Eq + Hash, R: PartialEq> Headcount<D, R> {
    /// Adds pods that belong to no Deployment.
    pub(crate) fn add_others(&mut self, pods: usize) {
        self.others += pods;
    }

    pub(crate) fn add(&mut self, deployment: D, replica_set: R, pods: usize) {
        let counts = self.by_deployment.entry(deployment).or_default();
        match counts.iter_mut().find(|(known, _)| *known == replica_set) {
            Some((_, count)) => *count += pods,
            None => counts.push((replica_set, pods)),
        }
    }

    pub(crate) fn total(&self) -> usize {
        let most = |counts: &Vec<(R, usize)>| counts.iter().map(|(_, pods)| *pods).max().unwrap_or_default();
        self.others + self.by_deployment.values().map(most).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_and_its_successor_count_once() {
        let mut count = Headcount::default();
        count.add_others(2);
        count.add("shop/web", "old", 3);
        assert_eq!(count.total(), 5);
        count.add("shop/web", "new", 1);
        count.add("shop/web", "new", 2);
        assert_eq!(count.total(), 5, "three of them are successors");
        count.add("shop/web", "new", 1);
        count.add("shop/api", "old", 1);
        assert_eq!(count.total(), 7);
    }
}
