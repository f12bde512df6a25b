//! What a plugin is, and what it gets from the agent.

use std::sync::Arc;

use pillion_assist::{Desired, Security, State, Storage, desired};
use serde::Serialize;
use serde_json::Value;

use crate::api::{Api, BoxFuture};
use crate::pod::Pod;
use crate::prober::{CurrentSecrets, Prober, Secrets};
use crate::publisher::Publisher;

/// A plugin, as the proposal's table has it.
///
/// ```
/// use pillion_agent::{BoxFuture, Host, Plugin};
/// use pillion_assist::State;
/// use serde_json::Value;
///
/// struct Constant(Option<Host>);
///
/// impl Plugin for Constant {
///     fn name(&self) -> &str { "constant" }
///     fn init(&mut self, _config: &Value, host: Host) -> Result<(), String> { self.0 = Some(host); Ok(()) }
///     fn start(&self) -> BoxFuture<'_, Result<(), String>> {
///         Box::pin(async move {
///             if let Some(host) = &self.0 { host.store("result", &State::succeeded("42")); }
///             Ok(())
///         })
///     }
/// }
/// assert_eq!(Constant(None).version(), "v0.0.1");
/// ```
pub trait Plugin: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// Gets its configuration ready; called once, before it is started.
    ///
    /// # Errors
    /// The configuration is wrong.
    fn init(&mut self, config: &Value, host: Host) -> Result<(), String>;

    /// Runs until it ends by itself. To stop it, the agent drops the future after [`Plugin::stop`].
    fn start(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Returns when the plugin has done what others may wait for: those with a higher `bootOrder` start then, or when it has failed, or after half a
    /// minute. Unless it says otherwise a plugin is ready when it is started.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Called before the plugin is removed.
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn version(&self) -> String {
        "v0.0.1".to_owned()
    }

    /// A sentence on how it is doing; empty if there is nothing to say.
    fn status(&self) -> String {
        String::new()
    }

    /// What its configuration is made of, for people.
    fn config_type(&self) -> &'static str {
        "object"
    }

    /// Where its results go, if not to where `storageConfig` says; asked before [`Plugin::init`].
    fn store(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

/// Where a plugin's results go, unless it brings its own.
pub trait Store: Send + Sync {
    /// Stores a result.
    fn store(&self, source: &str, storage: &Storage, state: &State);
}

impl Store for Publisher {
    fn store(&self, source: &str, storage: &Storage, state: &State) {
        self.set(source, desired(storage, state));
    }
}

/// What a plugin gets from the agent.
#[derive(Clone)]
pub struct Host {
    pub(crate) plugin: String,
    pub(crate) pod: Arc<Pod>,
    pub(crate) api: Arc<dyn Api>,
    pub(crate) prober: Arc<dyn Prober>,
    pub(crate) publisher: Publisher,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: Storage,
    pub(crate) secrets: CurrentSecrets,
    pub(crate) security: Arc<Security>,
}

impl Host {
    /// Stores a result where the plugin's `storageConfig` says; only changes are written.
    pub fn store(&self, source: &str, state: &State) {
        self.store.store(&format!("{}/{source}", self.plugin), &self.storage, state);
    }

    /// The same with another storage.
    pub(crate) fn store_as(&self, source: &str, storage: &Storage, state: &State) {
        self.store.store(&format!("{}/{source}", self.plugin), storage, state);
    }

    /// Publishes what a storage cannot say.
    pub(crate) fn publish(&self, source: &str, desired: Desired) {
        self.publisher.set(&format!("{}/{source}", self.plugin), desired);
    }

    /// The values of Secrets as they were read last.
    pub(crate) fn secrets(&self) -> Arc<Secrets> {
        self.secrets.get()
    }

    /// The pod that the agent runs in.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }
}

/// How a plugin is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    pub name: String,
    pub version: String,
    /// What its configuration is made of.
    pub config_type: String,
    /// Whether it runs.
    pub running: bool,
    /// `Starting` until the plugins before it are ready, `Running`, `Waiting` before a restart, `Ended` or `Failed`.
    pub health: String,
    /// What it says of itself, or why it is not running.
    pub message: String,
    /// How often it was restarted.
    pub restarts: u32,
}

#[cfg(test)]
pub(crate) mod testing {
    //! What plugins get in tests.

    use std::task::Poll;

    use pillion_assist::Fields;
    use tokio::sync::mpsc;

    use super::*;
    use crate::api::{Request, Response};
    use crate::prober::Network;

    /// An API server that has nothing.
    pub(crate) struct Empty;

    impl Api for Empty {
        fn send(&self, _request: Request) -> BoxFuture<'_, Result<Response, String>> {
            Box::pin(async { Ok(Response { status: 404, body: "{}".into() }) })
        }

        fn watch(&self, _path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>> {
            Box::pin(async { Err("there are no watches here".to_owned()) })
        }
    }

    /// The pod of tests.
    pub(crate) fn pod() -> Pod {
        let fields = Fields::from([("POD_NAME".into(), "web-0".into()), ("POD_NAMESPACE".into(), "default".into())]);
        Pod::from_fields(fields).unwrap()
    }

    /// What a plugin gets of an agent that runs nothing else.
    pub(crate) fn host(plugin: &str, api: impl Api) -> Host {
        let publisher = Publisher::new(pod().name, Arc::new(|| jiff::Timestamp::UNIX_EPOCH));
        Host {
            plugin: plugin.to_owned(),
            pod: Arc::new(pod()),
            api: Arc::new(api),
            prober: Arc::new(Network),
            store: Arc::new(publisher.clone()),
            publisher,
            storage: Storage::default(),
            secrets: CurrentSecrets::default(),
            security: Arc::new(Security::default()),
        }
    }

    /// Whether a future has to wait, after one look.
    pub(crate) async fn is_pending(mut future: impl Future + Unpin) -> bool {
        std::future::poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut future).poll(context).is_pending())).await
    }
}
