//! `http_probe`: probes endpoints, and stores what they answer.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillion_assist::{Endpoint, State, Streak};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::BoxFuture;
use crate::plugin::{Host, Plugin};

/// The plugin.
pub(crate) struct HttpProbe {
    endpoints: Vec<Endpoint>,
    host: Option<Host>,
    states: Arc<Mutex<Vec<Option<State>>>>,
}

impl HttpProbe {
    pub(crate) fn new(endpoints: Vec<Endpoint>) -> HttpProbe {
        let states = Arc::new(Mutex::new(vec![None; endpoints.len()]));
        HttpProbe { endpoints, host: None, states }
    }
}

impl Plugin for HttpProbe {
    fn name(&self) -> &'static str {
        "http_probe"
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
                let (endpoint, host, states) = (endpoint.clone(), host.clone(), Arc::clone(&self.states));
                let counts = move |state: &State| {
                    let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(slot) = states.get_mut(index) {
                        *slot = Some(state.clone());
                    }
                };
                let due = Instant::now() + endpoint.start_delay;
                probes.spawn(async move { probe(&endpoint, &source(index), due, &host, counts).await });
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
        let shown = self.endpoints.iter().zip(states.iter()).map(|(endpoint, state)| shown(endpoint, state.as_ref()));
        shown.collect::<Vec<_>>().join("; ")
    }

    fn config_type(&self) -> &'static str {
        "{startDelaySeconds, probeIntervalSeconds, endpoints[]}"
    }
}

/// What the results of an endpoint are stored as, by its place in the configuration: of two that set the same, the first counts.
pub(crate) fn source(index: usize) -> String {
    format!("{index:04}")
}

/// An endpoint and its state, for the status.
pub(crate) fn shown(endpoint: &Endpoint, state: Option<&State>) -> String {
    let name = &endpoint.name;
    match state {
        None => format!("{name}: not probed yet"),
        Some(State::Succeeded(text)) => format!("{name}: {text}"),
        Some(State::Failed(reason)) => format!("{name}: failed: {reason}"),
        Some(State::Unknown(reason)) => format!("{name}: unknown: {reason}"),
    }
}

/// Looks by the interval, from the first look on; a look that takes longer than the interval is followed by the next at once.
pub(crate) async fn probe(
    endpoint: &Endpoint,
    source: &str,
    mut due: Instant,
    host: &Host,
    counts: impl Fn(&State),
) -> Infallible {
    let mut streak = Streak::default();
    loop {
        tokio::time::sleep_until(due).await;
        let state = host.prober.look(&endpoint.ask, &host.secrets(), endpoint.timeout).await;
        if let Some(state) = streak.add(state, endpoint) {
            counts(&state);
            host.store_as(source, &endpoint.storage, &state);
        }
        due = (due + endpoint.interval.max(Duration::from_secs(1))).max(Instant::now());
    }
}
