//! Stops evictions that change nothing: somebody undoes what admission does, or admission does not see the pods.

use jiff::{SignedDuration, Timestamp};

use crate::pod::{Amounts, PodView};

/// After this time one more eviction is tried.
const RELEASE: SignedDuration = SignedDuration::from_hours(1);

/// The brake of one autoscaler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Brake {
    /// Evicted pods whose successors are awaited.
    awaited: Option<Evicted>,
    stopped_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct Evicted {
    at: Timestamp,
    containers: Vec<(String, Amounts)>,
}

impl Brake {
    /// A pod was evicted.
    pub fn evicted(&mut self, pod: &PodView, now: Timestamp) {
        if self.awaited.is_none() {
            self.awaited = Some(Evicted { at: now, containers: requests(pod) });
        }
    }

    /// Whether evictions were stopped when the pods were last looked at.
    pub fn is_on(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// Looks at the pods of the autoscaler. Returns whether evictions are stopped: the first pod that started after an eviction requests
    /// the same as the evicted one.
    pub fn look(&mut self, pods: &[PodView], now: Timestamp) -> bool {
        if let Some(evicted) = &self.awaited {
            let successors = pods.iter().filter(|pod| pod.start_time.is_some_and(|start| start > evicted.at));
            if let Some(successor) = successors.min_by_key(|pod| pod.start_time) {
                let is_same = requests(successor) == evicted.containers;
                self.stopped_at = is_same.then_some(self.stopped_at.unwrap_or(now));
                self.awaited = None;
            }
        }
        if self.stopped_at.is_some_and(|stopped| now.duration_since(stopped) >= RELEASE) {
            self.stopped_at = None;
        }
        self.stopped_at.is_some()
    }
}

fn requests(pod: &PodView) -> Vec<(String, Amounts)> {
    pod.containers.iter().map(|container| (container.name.clone(), container.requests)).collect()
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::json;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
    }

    fn pod(cpu: &str, started: i64) -> PodView {
        let container = json!({"name": "app", "resources": {"requests": {"cpu": cpu}}});
        let pod = json!({"spec": {"containers": [container]}, "status": {"startTime": at(started).to_string()}});
        PodView::new(&Pod::new(pod).unwrap())
    }

    #[test]
    fn a_successor_that_requests_the_same_stops_evictions_for_a_while() {
        let mut brake = Brake::default();
        brake.evicted(&pod("1", 0), at(10));
        assert!(!brake.look(&[pod("1", 0)], at(11)), "the others are as old as it was");
        assert!(brake.look(&[pod("1", 0), pod("1", 11)], at(12)));
        assert!(brake.look(&[pod("1", 11)], at(60)));
        assert!(!brake.look(&[pod("1", 11)], at(72)), "one more is tried");
        brake.evicted(&pod("1", 11), at(72));
        assert!(brake.look(&[pod("1", 73)], at(74)));
    }

    #[test]
    fn a_successor_that_requests_something_else_releases_the_brake() {
        let mut brake = Brake::default();
        brake.evicted(&pod("1", 0), at(10));
        assert!(!brake.look(&[pod("2", 11)], at(12)));
        assert_eq!(brake, Brake::default());
    }
}
