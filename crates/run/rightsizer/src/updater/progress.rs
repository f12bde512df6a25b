//! How long it takes until everything that a tick has named was reconciled once.

use std::collections::HashSet;

use tokio::time::Instant;

use super::key::PodsKey;

/// A pass: the groups of a tick that were not reconciled since.
#[derive(Default)]
pub(super) struct Progress {
    began: Option<Instant>,
    left: HashSet<PodsKey>,
}

impl Progress {
    /// A tick has named these. A pass that is not over goes on, without the groups that are gone.
    pub(super) fn begin(&mut self, groups: HashSet<PodsKey>, now: Instant) {
        self.left.retain(|key| groups.contains(key));
        if self.left.is_empty() {
            (self.began, self.left) = (Some(now), groups);
        }
    }

    /// A group was reconciled. Returns when the pass has begun that ends with it.
    pub(super) fn done(&mut self, key: &PodsKey) -> Option<Instant> {
        self.left.remove(key);
        if self.left.is_empty() { self.began.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use pillion_rightsize::Workload;

    use super::*;

    fn group(name: &str) -> PodsKey {
        let workload = Workload { namespace: "shop".into(), kind: "Deployment".into(), name: name.into() };
        PodsKey { workload: Arc::new(workload), namespace: "shop".into() }
    }

    #[test]
    fn a_pass_ends_with_the_last_group_even_after_the_next_tick() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        let all = || ["a", "b", "c"].map(group).into_iter().collect();
        progress.begin(all(), start);
        assert_eq!(progress.done(&group("a")), None);
        progress.begin(["a", "b"].map(group).into_iter().collect(), start + Duration::from_mins(1));
        assert_eq!(progress.done(&group("a")), None);
        assert_eq!(progress.done(&group("b")), Some(start), "the third one is gone");
        assert_eq!(progress.done(&group("b")), None);
        let later = start + Duration::from_mins(2);
        progress.begin([group("a")].into(), later);
        assert_eq!(progress.done(&group("a")), Some(later));
    }
}
