//! Runs one plugin: starts it again as the restart policy says, and keeps its failures from the others.

use std::sync::{Arc, Mutex, PoisonError};

use pillion_assist::{RestartPolicy, restart, was_healthy};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::log;
use crate::plugin::{Plugin, PluginStatus};

/// A plugin that runs.
pub(crate) struct Running {
    plugin: Arc<dyn Plugin>,
    state: Arc<Mutex<State>>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Debug, Default)]
struct State {
    running: bool,
    health: &'static str,
    message: String,
    restarts: u32,
}

impl Running {
    /// Starts a plugin that was set up. `changed` is called when its health changes.
    pub(crate) fn start(
        plugin: Arc<dyn Plugin>,
        policy: RestartPolicy,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> Running {
        let (state, stop) = (Arc::new(Mutex::new(State::default())), watch::Sender::new(false));
        let set = {
            let state = Arc::clone(&state);
            move |next: State| {
                *state.lock().unwrap_or_else(PoisonError::into_inner) = next;
                changed();
            }
        };
        let task = tokio::spawn(run(Arc::clone(&plugin), policy, set, stop.subscribe()));
        Running { plugin, state, stop, task }
    }

    pub(crate) fn status(&self) -> PluginStatus {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = self.plugin.status();
        PluginStatus {
            name: self.plugin.name().to_owned(),
            version: self.plugin.version(),
            config_type: self.plugin.config_type().to_owned(),
            running: state.running,
            health: state.health.to_owned(),
            message: if state.running || state.message.is_empty() { own } else { state.message },
            restarts: state.restarts,
        }
    }

    /// Asks the plugin to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        // It may need time to end; what is left of it then is dropped.
        self.plugin.stop().await;
        self.stop.send_replace(true);
        let _ = self.task.await;
    }
}

async fn run(plugin: Arc<dyn Plugin>, policy: RestartPolicy, set: impl Fn(State), mut stop: watch::Receiver<bool>) {
    let mut restarts = 0;
    let mut total = 0;
    loop {
        set(State { running: true, health: "Running", message: String::new(), restarts: total });
        let began = Instant::now();
        // A task of its own: a panic ends this plugin and nothing else.
        let mut task = tokio::spawn({
            let plugin = Arc::clone(&plugin);
            async move { plugin.start().await }
        });
        let ended = tokio::select! {
            ended = &mut task => ended,
            _ = stop.changed() => {
                task.abort();
                let _ = task.await;
                return;
            }
        };
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(error) => Err(format!("it panicked: {error}")),
        };
        let failed = outcome.is_err();
        let message = outcome.err().unwrap_or_default();
        let ran = began.elapsed();
        if was_healthy(ran) {
            restarts = 0;
        }
        let Some(wait) = restart(policy, failed, ran, restarts) else {
            log::line(format_args!("plugin {}: ended: {message}", plugin.name()));
            set(State { running: false, health: if failed { "Failed" } else { "Ended" }, message, restarts: total });
            return;
        };
        log::line(format_args!("plugin {}: ended, starts again in {} s: {message}", plugin.name(), wait.as_secs()));
        set(State { running: false, health: "Waiting", message, restarts: total });
        restarts += 1;
        total += 1;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = stop.changed() => return,
        }
    }
}
