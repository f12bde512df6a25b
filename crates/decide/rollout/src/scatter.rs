//! Spreads pods with the same label over a rollout, so that one group is not updated all at once.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexSet;
use pillion_api::sidecarset::ScatterTerm;

use crate::order::Candidate;
use crate::view::PodView;

/// With more values than these, pods are spread by their place within their group instead: one step for each value would take as many
/// passes over the pods as there are values.
const MAX_TERMS: usize = 16;

/// The scatter strategy of a set, with the labels of all its pods.
#[derive(Debug)]
pub(crate) struct Scatter<'p> {
    keys: Vec<String>,
    /// A key, and the value; `None` is every value that a pod has.
    terms: Vec<(usize, Option<String>)>,
    /// For each key how many pods have each value.
    counts: Vec<BTreeMap<&'p str, usize>>,
    pods: usize,
}

/// One label that is spread: a key and its value.
type Term<'t> = (usize, &'t str);

impl<'p> Scatter<'p> {
    pub(crate) fn new(strategy: &[ScatterTerm]) -> Scatter<'p> {
        let mut keys: Vec<String> = Vec::new();
        let mut terms = Vec::new();
        for term in strategy {
            let key = keys.iter().position(|key| *key == term.key).unwrap_or_else(|| {
                keys.push(term.key.clone());
                keys.len() - 1
            });
            terms.push((key, (term.value != "*").then(|| term.value.clone())));
        }
        let counts = vec![BTreeMap::new(); keys.len()];
        Scatter { keys, terms, counts, pods: 0 }
    }

    /// Counts a pod, and returns its labels for [`Candidate::new`].
    pub(crate) fn observe(&mut self, pod: &'p PodView) -> Vec<Option<&'p str>> {
        self.pods += 1;
        let values: Vec<Option<&'p str>> = self.keys.iter().map(|key| pod.label(key)).collect();
        for (counts, value) in self.counts.iter_mut().zip(&values) {
            if let Some(value) = value {
                *counts.entry(value).or_default() += 1;
            }
        }
        values
    }

    /// Whether anything is spread.
    pub(crate) fn is_used(&self) -> bool {
        !self.terms.is_empty()
    }

    /// Spreads pods that are in order.
    pub(crate) fn spread(&self, candidates: &mut Vec<Candidate<'p>>) {
        if self.terms.is_empty() || candidates.len() <= 1 {
            return;
        }
        let terms = self.terms(candidates);
        if terms.len() > MAX_TERMS {
            return spread_groups(candidates);
        }
        for term in terms {
            self.spread_term(term, candidates);
        }
    }

    /// The labels to spread: the one with the most candidates first. Kruise takes the values of `*` in the order of the pods, which is any
    /// order; here they are sorted.
    fn terms(&self, candidates: &[Candidate<'p>]) -> Vec<Term<'_>> {
        let mut terms: IndexSet<Term<'_>> = IndexSet::new();
        for (key, value) in &self.terms {
            match (value, self.counts.get(*key)) {
                (Some(value), _) => terms.extend([(*key, value.as_str())]),
                (None, Some(counts)) => terms.extend(counts.keys().map(|value| (*key, *value))),
                (None, None) => {}
            }
        }
        let mut terms: Vec<Term<'_>> = terms.into_iter().collect();
        if terms.len() == 1 {
            return terms;
        }
        let mut matching: HashMap<Term<'_>, usize> = HashMap::new();
        for candidate in candidates {
            for (key, value) in candidate.scatter.iter().enumerate() {
                if let Some(value) = value {
                    *matching.entry((key, value)).or_default() += 1;
                }
            }
        }
        let matching = |term: &Term<'_>| matching.get(term).copied().unwrap_or_default();
        terms.retain(|term| matching(term) > 0);
        terms.sort_by_key(|term| std::cmp::Reverse(matching(term)));
        terms
    }

    /// A missing label counts as an empty one.
    fn total(&self, (key, value): Term<'_>) -> usize {
        let Some(counts) = self.counts.get(key) else { return 0 };
        let without = if value.is_empty() { self.pods - counts.values().sum::<usize>() } else { 0 };
        counts.get(value).copied().unwrap_or_default() + without
    }

    /// Kruise's steps: groups of pods with and without the label take turns, and the last pod with it is updated last of all.
    fn spread_term(&self, term: Term<'_>, candidates: &mut Vec<Candidate<'p>>) {
        let has_label =
            |candidate: &Candidate<'p>| candidate.scatter.get(term.0).copied().flatten().unwrap_or_default() == term.1;
        let matched = candidates.iter().filter(|candidate| has_label(candidate)).count();
        if matched <= 1 || candidates.len() - matched <= 1 {
            return;
        }
        let total = self.total(term);
        let (mut with, without): (Vec<_>, Vec<_>) = candidates.drain(..).partition(has_label);
        let last = with.pop();
        let groups = Groups::by_density((total - 1, self.pods - total), (with.len(), without.len()));
        let (mut with, mut without) = (with.into_iter(), without.into_iter());
        candidates.extend(without.by_ref().take(groups.first_without));
        for _ in 0..groups.count {
            candidates.extend(with.by_ref().take(groups.with));
            candidates.extend(without.by_ref().take(groups.without));
        }
        candidates.extend(with);
        candidates.extend(without);
        candidates.extend(last);
    }
}

/// How many pods with and without a label are updated in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Groups {
    count: usize,
    with: usize,
    without: usize,
    /// Pods without the label that come before all groups.
    first_without: usize,
}

impl Groups {
    /// Neither number is 0.
    fn new((with, without): (usize, usize)) -> Groups {
        let count = with.min(without).max(1);
        let rounded = |pods: usize| (2 * pods + count) / (2 * count);
        Groups { count, with: rounded(with), without: rounded(without), first_without: 0 }
    }

    /// From all pods (`total`) and from those to be updated: pods with the label must not come in larger groups than there are overall.
    fn by_density(total: (usize, usize), update: (usize, usize)) -> Groups {
        if total.1 * update.0 >= update.1 * total.0 {
            return Groups::new(update);
        }
        let groups = Groups::new(total);
        let count = (update.0 / groups.with.max(1)).min(update.1 / groups.without.max(1));
        Groups { count, first_without: update.1 - count * groups.without, ..groups }
    }
}

/// Spreads every group evenly over the whole: the k-th of m pods goes to (k + ½) / m of the way.
fn spread_groups<'p>(candidates: &mut Vec<Candidate<'p>>) {
    let mut groups: HashMap<Vec<Option<&'p str>>, (u64, u64)> = HashMap::new();
    for candidate in candidates.iter() {
        groups.entry(candidate.scatter.clone()).or_default().0 += 1;
    }
    let place = |candidate: Candidate<'p>| {
        let (size, seen) = groups.entry(candidate.scatter.clone()).or_default();
        *seen += 1;
        (((2 * *seen - 1) << 32) / (2 * *size).max(1), candidate)
    };
    let mut placed: Vec<(u64, Candidate<'p>)> = candidates.drain(..).map(place).collect();
    placed.sort_by_key(|(place, _)| *place);
    candidates.extend(placed.into_iter().map(|(_, candidate)| candidate));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_kruise() {
        assert_eq!(Groups::new((2, 5)), Groups { count: 2, with: 1, without: 3, first_without: 0 });
        assert_eq!(Groups::new((5, 2)), Groups { count: 2, with: 3, without: 1, first_without: 0 });
        assert_eq!(Groups::by_density((9, 10), (1, 8)), Groups { count: 1, with: 1, without: 1, first_without: 7 });
        assert_eq!(Groups::by_density((2, 10), (2, 4)), Groups { count: 2, with: 1, without: 2, first_without: 0 });
    }
}
