//! The scheduler: puts pods on nodes that have room for them. Made for one node or a few.

pub(crate) mod node_affinity;
mod plan;
mod requests;
mod state;
pub(crate) mod taints;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use pillion_events::Recorder;
use pillion_informer::Change;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::plan::{Decision, Demand};
use self::state::{State, is_pending, key};
use crate::context::Context;
use crate::error::Error;
use crate::pod::PodView;
use crate::write;

/// Pods that wait are tried again at most so often.
const BETWEEN_RETRIES: Duration = Duration::from_secs(1);

/// Puts pods on nodes until dropped.
pub(crate) async fn run(context: Context) {
    let mut nodes = std::pin::pin!(context.nodes.changes());
    let mut pods = std::pin::pin!(context.pods.changes());
    let mut scheduler = Scheduler {
        recorder: context.recorder("default-scheduler"),
        context: context.clone(),
        state: State::default(),
        retried: Instant::now(),
        retry_at: None,
    };
    let mut tasks = FuturesUnordered::new();
    loop {
        let retry_at = scheduler.retry_at.unwrap_or(scheduler.retried);
        let new = tokio::select! {
            biased;
            // Nodes first: a pod that comes with its node must not be reported as unschedulable.
            Some(change) = nodes.next() => {
                scheduler.node_changed(change);
                Vec::new()
            }
            Some(failed) = tasks.next(), if !tasks.is_empty() => {
                scheduler.done(failed);
                Vec::new()
            }
            Some(change) = pods.next() => scheduler.pod_changed(&change).into_iter().collect(),
            () = tokio::time::sleep_until(retry_at), if scheduler.retry_at.is_some() => scheduler.retry(),
            else => return,
        };
        tasks.extend(new.into_iter().map(|task| perform(scheduler.context.clone(), scheduler.recorder.clone(), task)));
    }
}

struct Scheduler {
    context: Context,
    recorder: Recorder,
    state: State,
    retried: Instant,
    retry_at: Option<Instant>,
}

/// What is to be written for a pod.
struct Task {
    pod: Arc<PodView>,
    decision: Decision,
}

impl Scheduler {
    fn node_changed(&mut self, change: Change<Node>) {
        self.state.node_changed(change.old.as_deref(), change.new);
        self.retry_soon();
    }

    fn pod_changed(&mut self, change: &Change<PodView>) -> Option<Task> {
        if self.state.pod_changed(change.old.as_deref(), change.new.as_deref()) {
            self.retry_soon();
        }
        let pod = change.new.as_ref().filter(|pod| is_pending(pod))?;
        // Writing why it waits changes the pod too.
        let same = |old: &Arc<PodView>| {
            let (old_metadata, metadata) = (&old.metadata, &pod.metadata);
            is_pending(old) && old_metadata.uid == metadata.uid && old_metadata.generation == metadata.generation
        };
        if change.old.as_ref().is_some_and(same) {
            return None;
        }
        Some(self.decide(Arc::clone(pod)))
    }

    fn decide(&mut self, pod: Arc<PodView>) -> Task {
        let demand = Demand::of(&pod);
        let decision = self.state.decide(&demand);
        match &decision {
            Decision::Bind(node) => {
                self.state.forget(&key(&pod));
                self.state.place(&pod, &demand, node);
            }
            Decision::Wait(_) => self.state.wait(&pod),
        }
        Task { pod, decision }
    }

    /// Tries pods that wait: of each shape as many as fit.
    fn retry(&mut self) -> Vec<Task> {
        self.retried = Instant::now();
        self.retry_at = None;
        let mut tasks = Vec::new();
        for shape in self.state.shapes() {
            while let Some(waiting) = self.state.first(&shape) {
                let Some(pod) = self.context.pods.get(&waiting.0, &waiting.1).filter(|pod| is_pending(pod)) else {
                    self.state.forget(&waiting);
                    continue;
                };
                let task = self.decide(pod);
                let fits = matches!(task.decision, Decision::Bind(_));
                tasks.push(task);
                if !fits {
                    break;
                }
            }
        }
        tasks
    }

    fn retry_soon(&mut self) {
        if self.state.is_waiting() && self.retry_at.is_none() {
            self.retry_at = Some((self.retried + BETWEEN_RETRIES).max(Instant::now()));
        }
    }

    /// A pod that could not be bound waits for the next try.
    fn done(&mut self, failed: Option<Arc<PodView>>) {
        let Some(pod) = failed else { return };
        self.state.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        let (namespace, name) = key(&pod);
        if self
            .context
            .pods
            .get(&namespace, &name)
            .is_some_and(|now| now.metadata.uid == pod.metadata.uid && is_pending(&now))
        {
            self.state.wait(&pod);
        }
        self.retry_soon();
    }
}

/// Writes the decision. Answers the pod if it could not be bound.
async fn perform(context: Context, recorder: Recorder, task: Task) -> Option<Arc<PodView>> {
    let pod = task.pod;
    let (namespace, name) = key(&pod);
    let pods: Api<PodView> = Api::namespaced(context.client.clone(), &namespace);
    let about = write::reference(pod.as_ref());
    match task.decision {
        Decision::Bind(node) => {
            let binding =
                json!({"metadata": {"name": name, "uid": pod.metadata.uid}, "target": {"kind": "Node", "name": node}});
            match pods.create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding).await {
                Ok(_) => {
                    recorder.normal(&about, "Scheduled", format!("Successfully assigned {namespace}/{name} to {node}"));
                    None
                }
                Err(error) => {
                    let error = Error::from(error);
                    tracing::debug!(namespace, name, error = error.message(), "a pod was not bound");
                    (!error.is_not_found()).then_some(pod)
                }
            }
        }
        Decision::Wait(message) => {
            recorder.warning(&about, "FailedScheduling", message.as_str());
            if let Some(patch) = condition(&pod, &message, &context) {
                // The next try will say it again.
                let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch)).await;
            }
            None
        }
    }
}

/// The condition that says why the pod waits, if it does not say so already.
fn condition(pod: &PodView, message: &str, context: &Context) -> Option<Value> {
    let known = pod.condition("PodScheduled");
    if known.is_some_and(|known| known.status == "False" && known.message.as_deref() == Some(message)) {
        return None;
    }
    let since = known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.clone());
    let since = since.unwrap_or(Time(context.clock.now()));
    Some(json!({"status": {"conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "observedGeneration": pod.metadata.generation,
        "lastProbeTime": null,
        "lastTransitionTime": since,
    }]}}))
}
