//! How long pods took to get ready before, by workload.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::view::PodView;
use crate::workload::Workload;

/// What is assumed where nothing is known.
const ASSUMED: SignedDuration = SignedDuration::from_secs(10);
/// The kubelet and the API server store whole seconds.
const SHORTEST: SignedDuration = SignedDuration::from_secs(1);

/// How long a pod takes to get ready after an update, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The median.
    pub takes: SignedDuration,
    /// Of how many pods.
    pub pods: usize,
    /// What was measured.
    pub basis: Basis,
}

/// What an estimate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Basis {
    /// Earlier updates in place of the same set.
    Updates,
    /// How long the pods took from their creation until they were ready.
    Starts,
    /// Nothing is known.
    Assumed,
}

/// How long the pods of a set take to get ready after an update.
#[derive(Clone, Debug)]
pub struct Pace {
    by_workload: HashMap<Workload, Estimate>,
    /// Over all workloads.
    pub overall: Estimate,
}

impl Pace {
    /// Measures pods. Those of one workload are alike, and what is not known of a workload is taken from all of them.
    pub fn of<'p>(set: &str, pods: impl IntoIterator<Item = &'p PodView>) -> Pace {
        let mut samples: HashMap<Workload, Samples> = HashMap::new();
        let mut all = Samples::default();
        for pod in pods {
            let Some((basis, took)) = measured(set, pod) else { continue };
            samples.entry(Workload::of(pod)).or_default().add(basis, took);
            all.add(basis, took);
        }
        let by_workload =
            samples.into_iter().filter_map(|(workload, samples)| Some((workload, samples.estimate()?))).collect();
        let nothing = Estimate { takes: ASSUMED, pods: 0, basis: Basis::Assumed };
        Pace { by_workload, overall: all.estimate().unwrap_or(nothing) }
    }

    /// How long a pod of this workload takes.
    pub fn estimate(&self, workload: &Workload) -> Estimate {
        self.by_workload.get(workload).copied().unwrap_or(self.overall)
    }
}

#[derive(Default)]
struct Samples {
    updates: Vec<SignedDuration>,
    starts: Vec<SignedDuration>,
}

impl Samples {
    fn add(&mut self, basis: Basis, took: SignedDuration) {
        let samples = if basis == Basis::Updates { &mut self.updates } else { &mut self.starts };
        samples.push(took.max(SHORTEST));
    }

    fn estimate(mut self) -> Option<Estimate> {
        let (basis, samples) = if self.updates.is_empty() {
            (Basis::Starts, &mut self.starts)
        } else {
            (Basis::Updates, &mut self.updates)
        };
        let pods = samples.len();
        let middle = pods.checked_sub(1)? / 2;
        let (_, takes, _) = samples.select_nth_unstable(middle);
        Some(Estimate { takes: *takes, pods, basis })
    }
}

/// How long the pod took. One that became ready again later, after a restart or a failed probe, says nothing about starts.
fn measured(set: &str, pod: &PodView) -> Option<(Basis, SignedDuration)> {
    let ready = pod.ready_since.filter(|_| pod.is_running_and_ready())?;
    let between = |from: Timestamp| Some(ready.duration_since(from)).filter(|took| !took.is_negative());
    match pod.injected(set).and_then(|injected| injected.in_place.as_deref()) {
        Some(update) => Some((Basis::Updates, between(update.updated_at.filter(|_| update.was_ready)?)?)),
        None if pod.containers.iter().all(|container| container.restarts == 0) => {
            Some((Basis::Starts, between(pod.created?)?))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
    use serde_json::json;

    use super::*;
    use crate::text::Texts;
    use crate::view::InPlaceView;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn mk_view(workload: &str, ready: i64) -> PodView {
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]}));
        let mut pod = mk_injected_pod("web-0", json!({"app": "web"}), [mk_container("app")], &[&set]).into_value();
        pod["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": workload, "controller": true}]);
        let mut view = PodView::new(&Pod::new(pod).unwrap(), &mut Texts::default());
        (view.created, view.ready_since) = (Some(at(0)), Some(at(ready)));
        view
    }

    fn updated(mut view: PodView, at_second: i64) -> PodView {
        let in_place = InPlaceView {
            revision: "x".into(),
            updated_at: Some(at(at_second)),
            was_ready: true,
            before: Box::new([]),
        };
        view.injected[0].in_place = Some(Box::new(in_place));
        view
    }

    #[test]
    fn the_median_of_a_workload_counts_and_updates_count_more_than_starts() {
        let pods = [
            mk_view("web", 100),
            mk_view("web", 20),
            mk_view("web", 30),
            updated(mk_view("api", 107), 100),
            mk_view("api", 50),
        ];
        let pace = Pace::of("mesh", &pods);
        let estimate = |pod| pace.estimate(&Workload::of(pod));
        let secs = |seconds| SignedDuration::from_secs(seconds);
        assert_eq!(estimate(&pods[0]), Estimate { takes: secs(30), pods: 3, basis: Basis::Starts });
        assert_eq!(estimate(&pods[4]), Estimate { takes: secs(7), pods: 1, basis: Basis::Updates });
        assert_eq!(estimate(&mk_view("new", 5)), pace.overall, "of a workload without a pod that is ready");
        assert_eq!(pace.overall.takes, secs(7));
    }

    #[test]
    fn pods_that_became_ready_again_and_unready_ones_say_nothing() {
        let mut restarted = mk_view("web", 4000);
        restarted.containers[0].restarts = 1;
        let mut unready = mk_view("web", 4000);
        unready.is_ready = false;
        // The update came after the pod was last ready.
        let pods = [restarted, unready, updated(mk_view("web", 4000), 5000)];
        assert_eq!(Pace::of("mesh", &pods).overall.basis, Basis::Assumed);
    }
}
