//! `http_probe`: probes endpoints, and stores what they answer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pillion_assist::{Endpoint, State, Streak};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::BoxFuture;
use crate::plugin::{Host, Plugin};

/// The plugin; also what makes the probes of a PodProbeMarker.
pub(crate) struct HttpProbe {
    name: &'static str,
    endpoints: Vec<Endpoint>,
    host: Option<Host>,
    states: std::sync::Arc<Mutex<Vec<Option<State>>>>,
}

impl HttpProbe {
    pub(crate) fn new(name: &'static str, endpoints: Vec<Endpoint>) -> HttpProbe {
        let states = std::sync::Arc::new(Mutex::new(vec![None; endpoints.len()]));
        HttpProbe { name, endpoints, host: None, states }
    }
}

impl Plugin for HttpProbe {
    fn name(&self) -> &str {
        self.name
    }

    fn init(&mut self, _config: &Value, host: Host) -> Result<(), String> {
        self.host = Some(host);
        Ok(())
    }

    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let Some(host) = &self.host else { return Err("it was not set up".to_owned()) };
            let mut probes = JoinSet::new();
            for (index, endpoint) in self.endpoints.iter().enumerate() {
                let (endpoint, host, states) = (endpoint.clone(), host.clone(), std::sync::Arc::clone(&self.states));
                let counts = move |state: &State| {
                    let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(slot) = states.get_mut(index) {
                        *slot = Some(state.clone());
                    }
                };
                probes.spawn(async move { probe(&endpoint, index, &host, counts).await });
            }
            match probes.join_next().await {
                // Without endpoints there is nothing to do, and nothing wrong.
                None => std::future::pending().await,
                Some(ended) => Err(format!("a probe ended: {ended:?}")),
            }
        })
    }

    fn status(&self) -> String {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = self.endpoints.iter().zip(states.iter()).map(|(endpoint, state)| match state {
            None => format!("{}: not probed yet", endpoint.name),
            Some(State::Succeeded(text)) => format!("{}: {text}", endpoint.name),
            Some(State::Failed(reason)) => format!("{}: failed: {reason}", endpoint.name),
            Some(State::Unknown(reason)) => format!("{}: unknown: {reason}", endpoint.name),
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    fn config_type(&self) -> &'static str {
        "{startDelaySeconds, probeIntervalSeconds, endpoints[]}"
    }
}

/// Looks by the interval, from the first look on; a look that takes longer than the interval is followed by the next at once.
async fn probe(endpoint: &Endpoint, index: usize, host: &Host, counts: impl Fn(&State)) {
    let mut streak = Streak::default();
    let mut due = Instant::now() + endpoint.start_delay;
    let source = format!("{index:04}");
    loop {
        tokio::time::sleep_until(due).await;
        let state = host.prober.look(&endpoint.ask, &host.secrets(), endpoint.timeout).await;
        if let Some(state) = streak.add(state, endpoint) {
            counts(&state);
            host.store_as(&source, &endpoint.storage, &state);
        }
        due = (due + endpoint.interval.max(Duration::from_secs(1))).max(Instant::now());
    }
}
