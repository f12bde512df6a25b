//! `pod_probe`: the probes of PodProbeMarkers, which Kruise writes into an annotation of the pod.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pillion_assist::{POD_PROBE, pod_probes};
use serde_json::Value;

use crate::api::BoxFuture;
use crate::files::{Changes, downward};
use crate::http_probe::HttpProbe;
use crate::plugin::{Host, Plugin};

/// The plugin: on by itself where the agent is given the pod's annotations.
pub(crate) struct PodProbe {
    /// The directory of the downward API volume.
    directory: PathBuf,
    host: Option<Host>,
    message: Mutex<String>,
}

/// Its name, which a configuration cannot use.
pub(crate) const NAME: &str = "pod_probe";

impl PodProbe {
    pub(crate) fn new(directory: PathBuf) -> PodProbe {
        PodProbe { directory, host: None, message: Mutex::default() }
    }

    fn say(&self, message: String) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }
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
            let mut annotation = read().await?;
            loop {
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
                self.say(String::new());
                let probes = annotation.as_deref().map_or(Ok(Vec::new()), |text| pod_probes(text, &host.pod.ip));
                let probes = probes.unwrap_or_else(|problem| {
                    self.say(problem);
                    Vec::new()
                });
                host.publisher.retire(&format!("{NAME}/"));
                annotation = if probes.is_empty() {
                    changed.await?
                } else {
                    let mut prober = HttpProbe::new(NAME, probes);
                    prober.init(&Value::Null, host.clone())?;
                    tokio::select! {
                        ended = prober.start() => return ended,
                        now = changed => now?,
                        never = self.report(&prober) => match never {},
                    }
                };
            }
        })
    }

    fn status(&self) -> String {
        self.message.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl PodProbe {
    /// Keeps the sentence of the status up to date, once a minute.
    async fn report(&self, prober: &HttpProbe) -> Infallible {
        loop {
            self.say(prober.status());
            tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        }
    }
}
