//! Runs one plugin: starts it again as the restart policy says, and keeps its failures from the others.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    settled: watch::Receiver<bool>,
    task: tokio::task::JoinHandle<()>,
}

/// Others wait no longer for a plugin to get ready.
const BOOT: Duration = Duration::from_secs(30);
/// The health of a plugin that has yet to start.
pub(crate) const STARTING: &str = "Starting";

#[derive(Clone, Debug)]
struct State {
    running: bool,
    health: &'static str,
    message: String,
    restarts: u32,
}

impl Running {
    /// Starts a plugin that was set up, once those before it are ready or have failed. `changed` is called when its health changes.
    pub(crate) fn start(
        plugin: Arc<dyn Plugin>,
        policy: RestartPolicy,
        before: Vec<watch::Receiver<bool>>,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> Running {
        let starting = State { running: false, health: STARTING, message: String::new(), restarts: 0 };
        let (state, stop) = (Arc::new(Mutex::new(starting)), watch::Sender::new(false));
        let (settle, settled) = watch::channel(false);
        let set = {
            let state = Arc::clone(&state);
            move |next: State| {
                *state.lock().unwrap_or_else(PoisonError::into_inner) = next;
                changed();
            }
        };
        let (plugin_of_task, mut stopping) = (Arc::clone(&plugin), stop.subscribe());
        let task = tokio::spawn(async move {
            tokio::select! {
                () = all(before) => {}
                _ = stopping.changed() => return,
            }
            run(plugin_of_task, policy, set, stopping, settle).await;
        });
        Running { plugin, state, stop, settled, task }
    }

    /// Becomes true when the plugin is ready, or has failed, or has taken too long.
    pub(crate) fn settled(&self) -> watch::Receiver<bool> {
        self.settled.clone()
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

/// Returns when all are true, or gone.
async fn all(before: Vec<watch::Receiver<bool>>) {
    for mut settled in before {
        let _ = settled.wait_for(|settled| *settled).await;
    }
}

/// Reports when a plugin is ready, and never returns.
async fn settle(plugin: &dyn Plugin, settled: &watch::Sender<bool>) -> Infallible {
    if !*settled.borrow() && tokio::time::timeout(BOOT, plugin.ready()).await.is_err() {
        log::line(format_args!("plugin {}: is not ready after {} s, and others start", plugin.name(), BOOT.as_secs()));
    }
    settled.send_replace(true);
    std::future::pending().await
}

async fn run(
    plugin: Arc<dyn Plugin>,
    policy: RestartPolicy,
    set: impl Fn(State),
    mut stop: watch::Receiver<bool>,
    settled: watch::Sender<bool>,
) {
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
            never = settle(&*plugin, &settled) => match never {},
            _ = stop.changed() => {
                task.abort();
                let _ = task.await;
                return;
            }
        };
        settled.send_replace(true);
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
