//! In which order pods are updated.

use std::cmp::{Ordering, Reverse};

use crate::target::Target;
use crate::view::{Phase, PodView};

/// A pod that can be updated, with what decides its turn.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'p> {
    pub(crate) pod: &'p PodView,
    /// Whether updating it makes one more pod unavailable.
    pub(crate) is_available: bool,
    /// Whether an earlier update has made it unavailable. Until it has left that revision, no other pod may be updated in its stead: it goes
    /// before all others, whatever their priority.
    pub(crate) is_busy: bool,
    turn: Turn,
    /// For each key of the scatter strategy the value of the pod's label.
    pub(crate) scatter: Vec<Option<&'p str>>,
}

/// The lower goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    priority: (i64, Reverse<i64>),
    is_assigned: bool,
    phase: Phase,
    is_ready: bool,
    /// The pod that is ready for the shortest time.
    ready_since: Reverse<Option<i64>>,
    restarts: Reverse<(u32, u32)>,
    created: Reverse<Option<i64>>,
}

impl<'p> Candidate<'p> {
    pub(crate) fn new(
        target: &Target,
        pod: &'p PodView,
        (is_available, is_busy): (bool, bool),
        scatter: Vec<Option<&'p str>>,
    ) -> Candidate<'p> {
        // The most recent time goes first, and a missing one before all others.
        let recent = |time: Option<jiff::Timestamp>| Reverse(Some(time.map_or(i64::MAX, jiff::Timestamp::as_second)));
        let restarts = |is_native| {
            let containers = pod.containers.iter().filter(|container| container.is_native == is_native);
            containers.map(|container| container.restarts).max().unwrap_or_default()
        };
        let turn = Turn {
            priority: priority(target, pod),
            is_assigned: pod.is_assigned,
            phase: pod.phase,
            is_ready: pod.is_ready,
            ready_since: if pod.is_ready { recent(pod.ready_since) } else { Reverse(None) },
            restarts: Reverse((restarts(false), restarts(true))),
            created: recent(pod.created),
        };
        Candidate { pod, is_available, is_busy, turn, scatter }
    }

    /// Whose turn is first. Pods that are alike in everything take turns by name, so that the order is the same every time.
    pub(crate) fn compare(&self, other: &Candidate<'_>) -> Ordering {
        let name = |candidate: &Candidate<'p>| (&*candidate.pod.namespace, &*candidate.pod.name);
        let turn = |candidate: &Candidate<'_>| (!candidate.is_busy, candidate.turn);
        turn(self).cmp(&turn(other)).then_with(|| name(self).cmp(&(&*other.pod.namespace, &*other.pod.name)))
    }
}

/// By weight, or by the first of the ordered labels that the pod has and the number at the end of its value. A pod without any of the
/// labels goes first, as in Kruise.
fn priority(target: &Target, pod: &PodView) -> (i64, Reverse<i64>) {
    if !target.weights.is_empty() {
        let matching = target.weights.iter().filter(|(_, selector)| selector.matches(|key| pod.label(key)));
        return (0, Reverse(matching.map(|(weight, _)| weight).sum()));
    }
    let Some(strategy) = &target.set.spec.update_strategy.priority_strategy else { return (0, Reverse(0)) };
    if !strategy.weight_priority.is_empty() {
        return (0, Reverse(0));
    }
    let labels = strategy.order_priority.iter().map(|term| pod.label(&term.ordered_key));
    let first = (0..).zip(labels).find_map(|(level, value)| Some((level, value?)));
    first.map_or((-1, Reverse(0)), |(level, value)| (level, Reverse(number_at_end(value))))
}

fn number_at_end(value: &str) -> i64 {
    let digits = value.bytes().rev().take_while(u8::is_ascii_digit).count();
    value.get(value.len() - digits..).and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_from_the_end_of_a_label() {
        assert_eq!(number_at_end("batch-12"), 12);
        assert_eq!(number_at_end("007"), 7);
        assert_eq!(number_at_end("none"), 0);
        assert_eq!(number_at_end("99999999999999999999"), 0, "too large to be a number");
    }
}
