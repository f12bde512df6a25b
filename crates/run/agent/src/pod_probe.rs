//! `pod_probe`: the probes of PodProbeMarkers, which Kruise writes into an annotation of the pod.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use pillion_assist::{Endpoint, POD_PROBE, State, pod_probes};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::BoxFuture;
use crate::files::{Changes, downward};
use crate::http_probe::{probe, shown};
use crate::plugin::{Host, Plugin};

/// The plugin: on by itself where the agent is given the pod's annotations.
pub(crate) struct PodProbe {
    /// The directory of the downward API volume.
    directory: PathBuf,
    host: Option<Host>,
    /// It stays when the plugin is restarted, so that conditions which are gone by then are known.
    known: Arc<Mutex<Known>>,
}

/// What the annotation says.
#[derive(Default)]
struct Known {
    /// By the condition that each reports.
    probes: BTreeMap<String, Probe>,
    problem: String,
}

struct Probe {
    endpoint: Endpoint,
    /// Since when there is a probe of this condition: one that is changed does not wait its initial delay again.
    since: Instant,
    state: Option<State>,
}

/// The tasks that make the probes, by condition. Each set has one, and ends it when it is dropped.
type Running = BTreeMap<String, JoinSet<Infallible>>;

/// Its name, which a configuration cannot use.
pub(crate) const NAME: &str = "pod_probe";

impl PodProbe {
    pub(crate) fn new(directory: PathBuf) -> PodProbe {
        PodProbe { directory, host: None, known: Arc::default() }
    }

    /// Brings the probes in line with the annotation. Those that it had before go on, and their conditions stay what they are.
    async fn follow(&self, annotation: Option<&str>, host: &Host, running: &mut Running) {
        let probes = annotation.map_or(Ok(Vec::new()), |text| pod_probes(text, &host.pod.ip));
        let (probes, problem) = match probes {
            Ok(probes) => (probes, String::new()),
            Err(problem) => (Vec::new(), problem),
        };
        let mut wanted: BTreeMap<String, Endpoint> = BTreeMap::new();
        for (condition, endpoint) in probes {
            // Of two probes with one condition the first counts.
            wanted.entry(condition).or_insert(endpoint);
        }
        let is_old = |(condition, probe): &(&String, &Probe)| wanted.get(*condition) != Some(&probe.endpoint);
        let old: Vec<String> = lock(&self.known).probes.iter().filter(is_old).map(|(name, _)| name.clone()).collect();
        for condition in old {
            // It has ended before its result is taken back, and says nothing more.
            if let Some(mut task) = running.remove(&condition) {
                task.shutdown().await;
            }
            if !wanted.contains_key(&condition) {
                lock(&self.known).probes.remove(&condition);
                host.publisher.remove(&format!("{NAME}/{condition}"));
            }
        }
        let mut known = lock(&self.known);
        known.problem = problem;
        for (condition, endpoint) in wanted {
            let new = || Probe { endpoint: endpoint.clone(), since: Instant::now(), state: None };
            let probe = known.probes.entry(condition.clone()).or_insert_with(new);
            probe.endpoint = endpoint.clone();
            let due = probe.since + endpoint.start_delay;
            running.entry(condition.clone()).or_insert_with(|| self.task(condition, endpoint, due, host.clone()));
        }
    }

    fn task(&self, condition: String, endpoint: Endpoint, due: Instant, host: Host) -> JoinSet<Infallible> {
        let known = Arc::clone(&self.known);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let counts = |state: &State| {
                if let Some(probe) = lock(&known).probes.get_mut(&condition) {
                    probe.state = Some(state.clone());
                }
            };
            probe(&endpoint, &condition, due, &host, counts).await
        });
        task
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns when a probe has ended, which none does by itself.
async fn ended(running: &mut Running) -> String {
    let ended = std::future::poll_fn(|context| {
        let mut all = running.values_mut().map(|task| task.poll_join_next(context));
        all.find_map(|ended| if let Poll::Ready(Some(ended)) = ended { Some(ended) } else { None })
            .map_or(Poll::Pending, Poll::Ready)
    });
    format!("a probe ended: {:?}", ended.await)
}

impl Plugin for PodProbe {
    fn name(&self) -> &str {
        NAME
    }

    fn init(&mut self, _config: &Value, host: Host) -> Result<(), String> {
        self.host = Some(host);
        Ok(())
    }

    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let Some(host) = &self.host else { return Err("it was not set up".to_owned()) };
            let failed = |error: std::io::Error| format!("{}: {error}", self.directory.display());
            let changes = Changes::of(&self.directory).map_err(failed)?;
            let read = async || {
                let text = tokio::fs::read_to_string(self.directory.join("annotations")).await.map_err(failed)?;
                Ok::<_, String>(downward(&text, POD_PROBE))
            };
            let mut running = Running::new();
            let mut annotation = read().await?;
            loop {
                self.follow(annotation.as_deref(), host, &mut running).await;
                // The file changes with every annotation of the pod, also with those that the agent writes itself.
                let changed = async {
                    loop {
                        changes.next().await.map_err(failed)?;
                        let now = read().await?;
                        if now != annotation {
                            return Ok::<_, String>(now);
                        }
                    }
                };
                annotation = tokio::select! {
                    now = changed => now?,
                    problem = ended(&mut running) => return Err(problem),
                };
            }
        })
    }

    fn status(&self) -> String {
        let known = lock(&self.known);
        if !known.problem.is_empty() {
            return known.problem.clone();
        }
        let shown = known.probes.values().map(|probe| shown(&probe.endpoint, probe.state.as_ref()));
        shown.collect::<Vec<_>>().join("; ")
    }
}
