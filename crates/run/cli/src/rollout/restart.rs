//! Recreates the pods of a SidecarSet by evicting them, as fast as budgets allow.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use pillion_rollout::{Eviction, Restart, Target, counted, is_or_are, max_unavailable, restart};

use super::fleet::pods;
use super::found::Found;
use crate::cluster::read::Reader;
use crate::{Failure, chain};

/// Between two looks at the pods.
const PAUSE: Duration = Duration::from_secs(1);

/// A restart that has not begun.
pub(crate) struct Recreation {
    target: Target,
    before: BTreeSet<String>,
    first: Restart,
}

/// What became of one eviction.
enum Evicted {
    Yes,
    /// It is gone, another one has its name, or it was changed at this moment: the next look at the pods decides.
    Unknown,
    /// A PodDisruptionBudget does not allow it now: what the API server says.
    NotNow(String),
}

impl Recreation {
    pub(crate) async fn read(reader: &Reader, found: &Found) -> Result<Recreation, Failure> {
        let target = Target::new(found.set.clone());
        let pods = pods(reader, &found.set).await?;
        let standing = pods.iter().filter(|pod| target.standing(pod).is_some());
        let before: BTreeSet<String> = standing.map(|pod| pod.uid.to_string()).collect();
        let first = restart(&target, &pods, &before);
        if first.left == 0 {
            let name = found.set.name();
            let all = counted(before.len());
            return Err(Failure::no(format!("SidecarSet {name:?} has no pod that can be restarted: it matches {all}")));
        }
        Ok(Recreation { target, before, first })
    }

    /// What is going to happen, a line each.
    pub(crate) fn announcement(&self) -> Vec<String> {
        let strategy = &self.target.set().spec.update_strategy;
        let limit = max_unavailable(strategy.max_unavailable.as_ref(), self.before.len());
        let mut lines = vec![format!(
            "{} of SidecarSet {} will be evicted and created again by their workloads, with all their containers: no API of \
             Kubernetes restarts one container of a pod. At most {limit} will be missing at a time.",
            counted(self.first.left),
            self.target.set().name(),
        )];
        lines.extend(self.first.skipped.iter().map(|pod| format!("{}/{} stays: {}", pod.namespace, pod.name, pod.why)));
        lines
    }

    /// Whether `maxUnavailable` lets nothing happen at all.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.first.evict.is_empty() && self.first.unavailable == 0
    }

    /// Evicts with `once`, which repeats no request by itself, and returns when as many pods are ready as before.
    pub(crate) async fn run(
        self,
        reader: &Reader,
        once: &Client,
        timeout: Option<Duration>,
        say: &dyn Fn(&str),
    ) -> Result<(), Failure> {
        let mut waits = String::new();
        let mut said = BTreeSet::new();
        let work = async {
            let (mut done, all) = (0, self.first.left);
            loop {
                let pods = pods(reader, self.target.set()).await?;
                let next = restart(&self.target, &pods, &self.before);
                if next.left == 0 && next.unavailable <= self.first.unavailable {
                    return Ok(());
                }
                waits = format!("{} missing or not ready", is_or_are(next.unavailable));
                for pod in &next.evict {
                    match evict(once, pod).await? {
                        Evicted::Yes => {
                            done += 1;
                            say(&format!("evicted {}/{} ({done} of {all})", pod.namespace, pod.name));
                        }
                        Evicted::Unknown => {}
                        Evicted::NotNow(reason) => {
                            let reason = format!("{}/{}: {reason}", pod.namespace, pod.name);
                            waits.clone_from(&reason);
                            if !said.contains(&reason) {
                                say(&format!("waiting: {reason}"));
                                said.insert(reason);
                            }
                        }
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let Some(timeout) = timeout else { return work.await };
        match tokio::time::timeout(timeout, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::no(format!("the restart has not ended within {}s: {waits}", timeout.as_secs()))),
        }
    }
}

/// Evicts exactly this pod, not a later one of the same name.
async fn evict(client: &Client, pod: &Eviction) -> Result<Evicted, Failure> {
    match pillion_pods::evict(client, &pod.namespace, &pod.name, &pod.uid).await {
        Ok(()) => Ok(Evicted::Yes),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Evicted::Unknown),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(Evicted::NotNow(status.message.clone())),
        Err(error) => {
            let reason = match &error {
                kube::Error::Api(status) => status.message.clone(),
                error => chain(error),
            };
            Err(Failure::no(format!("cannot evict {}/{}: {reason}", pod.namespace, pod.name)))
        }
    }
}
