//! What the events of updated pods say of containers that do not start, where the status of the pod says nothing.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::lock::lock;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};
use pillion_rollout::{PodName, PodView, Target};
use tokio::time::Instant;

/// How many pods are asked about at a time: if the first of them explain a failed rollout, the others do not matter.
const PODS: usize = 10;
/// The least time between two questions about a pod.
const AGAIN: Duration = Duration::from_secs(10);
/// How long an answer is kept.
const KEPT: Duration = Duration::from_hours(1);
/// How long nothing is asked after the API server has refused to list events.
const REFUSED: Duration = Duration::from_mins(10);

/// What is known of the pods of all sets.
#[derive(Default)]
pub(super) struct Explanations {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By SidecarSet, since each set looks at its own containers, and by UID.
    by_set: HashMap<String, HashMap<String, Asked>>,
    refused_until: Option<Instant>,
}

struct Asked {
    at: Instant,
    /// The pod with what its events say. It holds as long as the pod itself does not change.
    view: Option<PodView>,
}

impl Explanations {
    /// Those of the pods of which more is known than their status says, by UID.
    pub(super) fn of<'p>(&self, set: &str, pods: impl Iterator<Item = &'p PodView>) -> HashMap<&'p str, PodView> {
        let state = lock(&self.state);
        let Some(by_uid) = state.by_set.get(set) else { return HashMap::new() };
        let known = |pod: &'p PodView| {
            let view = by_uid.get(&*pod.uid)?.view.as_ref()?;
            (view.resource_version == pod.resource_version).then(|| (&*pod.uid, view.clone()))
        };
        pods.filter_map(known).collect()
    }

    /// Reads the events of pods. Returns whether they say something new.
    pub(super) async fn ask(
        &self,
        client: &Client,
        target: &Target,
        pods: &[PodName],
        view_of: impl Fn(&PodName) -> Option<PodView>,
    ) -> bool {
        let now = Instant::now();
        let due: Vec<&PodName> = {
            let mut state = lock(&self.state);
            if state.refused_until.is_some_and(|until| until > now) {
                return false;
            }
            state.by_set.retain(|_, by_uid| {
                by_uid.retain(|_, asked| asked.at + KEPT > now);
                !by_uid.is_empty()
            });
            if pods.is_empty() {
                return false;
            }
            let by_uid = state.by_set.entry(target.set().name().to_owned()).or_default();
            let is_due = |pod: &&PodName| by_uid.get(&pod.uid).is_none_or(|asked| asked.at + AGAIN <= now);
            let due: Vec<&PodName> = pods.iter().filter(is_due).take(PODS).collect();
            for pod in &due {
                by_uid.insert(pod.uid.clone(), Asked { at: now, view: None });
            }
            due
        };
        let mut is_news = false;
        let answers = join_all(due.iter().map(|pod| events(client, pod))).await;
        let mut state = lock(&self.state);
        for (pod, answer) in due.into_iter().zip(answers) {
            match answer {
                Ok(events) => {
                    let view = view_of(pod).and_then(|view| target.explained(&view, &events));
                    is_news |= view.is_some();
                    let by_uid = state.by_set.entry(target.set().name().to_owned()).or_default();
                    by_uid.insert(pod.uid.clone(), Asked { at: now, view });
                }
                Err(kube::Error::Api(answer)) if answer.code == 403 => {
                    tracing::info!(
                        error = answer.message,
                        "events may not be listed: why a container does not start may stay unknown"
                    );
                    state.refused_until = Some(now + REFUSED);
                }
                Err(error) => {
                    tracing::debug!(namespace = pod.namespace, name = pod.name, %error, "events are not read");
                }
            }
        }
        is_news
    }
}

async fn events(client: &Client, pod: &PodName) -> kube::Result<Vec<Event>> {
    let events: Api<Event> = Api::namespaced(client.clone(), &pod.namespace);
    let of_pod = ListParams::default().fields(&format!("involvedObject.uid={}", pod.uid));
    Ok(events.list(&of_pod).await?.items)
}
