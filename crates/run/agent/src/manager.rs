//! The manager of plugins, as the proposal's table has it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pillion_assist::{
    Config, Desired, Endpoint, Key, Kind, Plugin as PluginConfig, PluginProcess, RestartPolicy, Security, State,
    Storage, condition,
};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::api::{self, Api, ReadError};
use crate::external::External;
use crate::hot_update::{HotUpdate, Updater};
use crate::http_probe::{self, HttpProbe};
use crate::log;
use crate::plugin::{Host, Plugin, PluginStatus};
use crate::pod::Pod;
use crate::pod_probe::{self, PodProbe};
use crate::prober::{CurrentSecrets, Prober, Secrets};
use crate::publisher::Publisher;
use crate::supervise::{Running, STARTING};

/// Makes plugins that were built in by somebody else, by name.
pub type Registry = BTreeMap<String, fn() -> Box<dyn Plugin>>;

/// How soon a Secret that is missing is looked for again, and how often all are.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const SLOWEST_LOOK: Duration = Duration::from_mins(1);

/// What the agent works with.
#[derive(Clone)]
pub struct World {
    /// The pod that it runs in.
    pub pod: Arc<Pod>,
    /// The API server.
    pub api: Arc<dyn Api>,
    /// What makes probes.
    pub prober: Arc<dyn Prober>,
    /// Where results are handed in.
    pub publisher: Publisher,
    /// Plugins that were built in by somebody else.
    pub registry: Arc<Registry>,
    /// Where executables of plugins are looked for by name.
    pub plugin_dir: PathBuf,
    /// The directory of the downward API volume with the pod's annotations.
    pub pod_info: Option<PathBuf>,
}

/// The manager of plugins.
pub struct Manager {
    world: World,
    inner: Mutex<Inner>,
    secrets: CurrentSecrets,
    /// A configuration was loaded: its Secrets may be others.
    loaded: Notify,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
    /// One update at a time: one that a caller has asked for goes on when its plugin is replaced, and the new plugin waits for it.
    updating: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Inner {
    config: Option<Config>,
    plugins: Vec<Entry>,
    /// Why the newest configuration is not in use.
    rejected: Option<String>,
    /// Why the local endpoint cannot be reached.
    unreachable: Option<String>,
    updater: Option<Arc<Updater>>,
}

struct Entry {
    config: PluginConfig,
    running: Result<Running, String>,
}

/// What `/status` answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The agent's version.
    pub version: String,
    /// The plugins in boot order.
    pub plugins: Vec<PluginStatus>,
    /// What is wrong, ignored or dangerous in the configuration, and what could not be written.
    pub problems: Vec<String>,
}

impl Manager {
    /// Without plugins yet.
    pub fn new(world: World) -> Arc<Manager> {
        Arc::new(Manager {
            world,
            inner: Mutex::default(),
            secrets: CurrentSecrets::default(),
            loaded: Notify::new(),
            changing: tokio::sync::Mutex::default(),
            updating: Arc::default(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent's version.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Reads a configuration and brings the plugins in line with it: what is new or changed is (re)started in boot order, what is gone is
    /// removed, and the rest goes on. A configuration that is wrong changes nothing.
    ///
    /// # Errors
    /// What is wrong with it, with line and column.
    pub async fn load_config(self: &Arc<Self>, text: &str) -> Result<(), String> {
        let _changing = self.changing.lock().await;
        let config = Config::parse(text, Some(&self.world.pod.fields)).map_err(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let message = lines.join("\n");
            self.inner().rejected = Some(message.clone());
            self.report();
            message
        })?;
        for warning in &config.warnings {
            log::line(format_args!("config.yaml:{warning}"));
        }
        self.read_secrets(&config).await;
        let before = {
            let mut inner = self.inner();
            inner.rejected = None;
            inner.config.replace(config.clone())
        };
        self.loaded.notify_one();
        let shared = |config: &Config| (config.security.clone(), config.restart_policy);
        let all = before.as_ref().is_none_or(|before| shared(before) != shared(&config));
        let gone: Vec<String> = {
            let inner = self.inner();
            let kept = |entry: &Entry| !all && entry.running.is_ok() && config.plugins.contains(&entry.config);
            let names = inner.plugins.iter().filter(|entry| !kept(entry)).map(|entry| entry.config.name.clone());
            names.filter(|name| name != pod_probe::NAME).collect()
        };
        for name in &gone {
            let after = config.plugins.iter().find(|plugin| plugin.name == *name);
            let before = self.remove(name).await;
            match (before.map(|plugin| plugin.kind), after.map(|plugin| &plugin.kind)) {
                (_, None) => self.forget(name),
                (Some(Kind::HttpProbe(before)), Some(Kind::HttpProbe(after))) => {
                    let source = |place| format!("{name}/{}", http_probe::source(place));
                    self.world.publisher.relist(source, &storages(&before), &storages(after));
                }
                // Its one result is replaced by the next.
                _ => {}
            }
        }
        for plugin in &config.plugins {
            let present = self.inner().plugins.iter().any(|entry| entry.config.name == plugin.name);
            if !present {
                self.add(plugin.clone(), config.restart_policy);
            }
        }
        self.add_pod_probe(config.restart_policy);
        let order: Vec<String> = config.plugins.iter().map(|plugin| plugin.name.clone()).collect();
        // What is in no configuration comes last.
        let place = |entry: &Entry| order.iter().position(|name| *name == entry.config.name).unwrap_or(usize::MAX);
        self.inner().plugins.sort_by_key(place);
        self.report();
        Ok(())
    }

    /// Adds a plugin that is in nobody's configuration.
    ///
    /// # Errors
    /// There is one with this name, or it cannot be set up.
    pub async fn add_plugin(
        self: &Arc<Self>,
        plugin: Box<dyn Plugin>,
        config: Value,
        storage: Storage,
    ) -> Result<(), String> {
        let _changing = self.changing.lock().await;
        let name = plugin.name().to_owned();
        if self.inner().plugins.iter().any(|entry| entry.config.name == name) {
            return Err(format!("there is a plugin {name:?} already"));
        }
        let policy = self.inner().config.as_ref().map(|config| config.restart_policy).unwrap_or_default();
        let other = pillion_assist::Other { process: None, config, storage };
        let config = PluginConfig { name, boot_order: 0, kind: Kind::Other(Box::new(other)) };
        let running = self.set_up(plugin, &config, policy)?;
        self.inner().plugins.push(Entry { config, running: Ok(running) });
        self.report();
        Ok(())
    }

    /// Removes a plugin, and what it has written on the pod.
    ///
    /// # Errors
    /// There is none with this name.
    pub async fn remove_plugin(&self, name: &str) -> Result<(), String> {
        let _changing = self.changing.lock().await;
        if self.remove(name).await.is_none() {
            return Err(format!("there is no plugin {name:?}"));
        }
        self.forget(name);
        self.report();
        Ok(())
    }

    /// How a plugin is doing.
    pub fn plugin_status(&self, name: &str) -> Option<PluginStatus> {
        self.status().plugins.into_iter().find(|plugin| plugin.name == name)
    }

    /// How all are doing.
    pub fn status(&self) -> Status {
        let inner = self.inner();
        let plugins = inner.plugins.iter().map(|entry| match &entry.running {
            Ok(running) => running.status(),
            Err(message) => PluginStatus {
                name: entry.config.name.clone(),
                health: "Failed".to_owned(),
                message: message.clone(),
                ..PluginStatus::default()
            },
        });
        let plugins = plugins.collect();
        let mut problems: Vec<String> =
            inner.rejected.iter().map(|why| format!("the newest configuration is not in use: {why}")).collect();
        problems.extend(
            inner
                .config
                .iter()
                .flat_map(|config| config.warnings.iter().map(|warning| format!("config.yaml:{warning}"))),
        );
        problems.extend(inner.unreachable.clone());
        problems.extend(self.world.publisher.problems());
        Status { version: self.version().to_owned(), plugins, problems }
    }

    /// Stops all plugins, the last one first.
    pub async fn stop(&self) {
        let _changing = self.changing.lock().await;
        loop {
            let Some(entry) = self.inner().plugins.pop() else { return };
            if let Ok(running) = entry.running {
                running.stop().await;
            }
        }
    }

    /// Stores a result on behalf of somebody.
    pub fn store_data(&self, source: &str, storage: &Storage, data: &str) {
        self.world.publisher.set(source, pillion_assist::desired(storage, &State::succeeded(data)));
    }

    /// The gauges of all plugins.
    pub fn metrics(&self) -> String {
        self.world.publisher.metrics()
    }

    /// Reports why the local endpoint cannot be reached, or that it can.
    pub(crate) fn set_unreachable(&self, problem: Option<String>) {
        let changed = {
            let mut inner = self.inner();
            let changed = inner.unreachable != problem;
            inner.unreachable = problem;
            changed
        };
        if changed {
            self.report();
        }
    }

    /// What takes updates, if the plugin is there. While the plugin is being replaced, this waits for the new one.
    pub(crate) async fn updater(&self) -> Option<Arc<Updater>> {
        let present = self.inner().updater.clone();
        if present.is_some() {
            return present;
        }
        let _changing = self.changing.lock().await;
        self.inner().updater.clone()
    }

    /// The token that a request must carry, as the Secret has it now.
    pub fn token(&self) -> Option<String> {
        self.security().1
    }

    /// The address of the pod, if the agent was told.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.world.pod.ip.parse().ok()
    }

    /// What the configuration trusts, and the token that a POST must carry.
    pub(crate) fn security(&self) -> (Security, Option<String>) {
        let inner = self.inner();
        let security = inner.config.as_ref().map(|config| config.security.clone()).unwrap_or_default();
        let token = security.token.as_ref().and_then(|key| self.secrets.get().get(key).cloned());
        (security, token)
    }

    /// Reads Secrets again for ever: soon where one is missing, and otherwise often enough for one that is rotated. The account has no right
    /// to watch them, which would be a right to list them.
    pub async fn follow_secrets(&self) {
        let mut pause = FIRST_LOOK;
        loop {
            let wanted = self.inner().config.as_ref().is_some_and(|config| !config.secrets().is_empty());
            tokio::select! {
                () = self.loaded.notified() => {
                    pause = FIRST_LOOK;
                    continue;
                }
                () = tokio::time::sleep(pause), if wanted => {}
            }
            let config = self.inner().config.clone();
            let Some(config) = config else { continue };
            let complete = self.read_secrets(&config).await;
            pause = if complete { SLOWEST_LOOK } else { (pause * 2).min(SLOWEST_LOOK) };
        }
    }

    /// Reads the Secrets of a configuration, and returns whether all were there. One that cannot be read now is what it was before.
    async fn read_secrets(&self, config: &Config) -> bool {
        let before = self.secrets.get();
        let mut secrets = Secrets::new();
        let mut complete = true;
        for key in config.secrets() {
            let path = format!("/api/v1/namespaces/{}/secrets/{}", self.world.pod.name.namespace, key.name);
            match api::get(&*self.world.api, path).await {
                Ok(secret) => {
                    let value = secret["data"][&key.key].as_str().and_then(|text| BASE64.decode(text).ok());
                    if let Some(value) = value.and_then(|value| String::from_utf8(value).ok()) {
                        secrets.insert(key.clone(), value.trim().to_owned());
                    } else {
                        complete = false;
                        log::line(format_args!("the Secret {} has no key {}", key.name, key.key));
                    }
                }
                Err(error) => {
                    complete = false;
                    log::line(format_args!("the Secret {} cannot be read: {error}", key.name));
                    // A Secret that was deleted is revoked; an API server that does not answer revokes nothing.
                    if let (ReadError::Other(_), Some(value)) = (error, before.get(key)) {
                        secrets.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        self.secrets.set(secrets);
        complete
    }

    fn add_pod_probe(self: &Arc<Self>, policy: RestartPolicy) {
        let present = self.inner().plugins.iter().any(|entry| entry.config.name == pod_probe::NAME);
        let Some(directory) = self.world.pod_info.clone().filter(|_| !present) else { return };
        let other = pillion_assist::Other { process: None, config: Value::Null, storage: Storage::default() };
        let config =
            PluginConfig { name: pod_probe::NAME.to_owned(), boot_order: 0, kind: Kind::Other(Box::new(other)) };
        let running = self.set_up(Box::new(PodProbe::new(directory)), &config, policy);
        self.inner().plugins.push(Entry { config, running });
    }

    fn add(self: &Arc<Self>, config: PluginConfig, policy: RestartPolicy) {
        let plugin: Box<dyn Plugin> = match &config.kind {
            Kind::HttpProbe(endpoints) => Box::new(HttpProbe::new(endpoints.clone())),
            Kind::HotUpdate(update) => {
                let updater = Updater::new((**update).clone(), Arc::clone(&self.updating));
                self.inner().updater = Some(Arc::clone(&updater));
                Box::new(HotUpdate::new(updater))
            }
            Kind::Other(other) => match (&other.process, self.world.registry.get(&config.name)) {
                (Some(process), _) => Box::new(External::new(&config.name, process.clone())),
                (None, Some(make)) => make(),
                (None, None) => {
                    let program = self.world.plugin_dir.join(&config.name).to_string_lossy().into_owned();
                    Box::new(External::new(&config.name, PluginProcess::Command(vec![program])))
                }
            },
        };
        let running = self.set_up(plugin, &config, policy);
        if let Err(message) = &running {
            log::line(format_args!("plugin {}: {message}", config.name));
        }
        self.inner().plugins.push(Entry { config, running });
    }

    fn set_up(
        self: &Arc<Self>,
        mut plugin: Box<dyn Plugin>,
        config: &PluginConfig,
        policy: RestartPolicy,
    ) -> Result<Running, String> {
        let (settings, storage) = match &config.kind {
            Kind::Other(other) => (other.config.clone(), other.storage.clone()),
            Kind::HotUpdate(update) => (Value::Null, update.storage.clone()),
            Kind::HttpProbe(_) => (Value::Null, Storage::default()),
        };
        let security = self.inner().config.as_ref().map(|config| config.security.clone()).unwrap_or_default();
        let host = Host {
            plugin: config.name.clone(),
            pod: Arc::clone(&self.world.pod),
            api: Arc::clone(&self.world.api),
            prober: Arc::clone(&self.world.prober),
            publisher: self.world.publisher.clone(),
            store: plugin.store().unwrap_or_else(|| Arc::new(self.world.publisher.clone())),
            storage,
            secrets: self.secrets.clone(),
            security: Arc::new(security),
        };
        plugin.init(&settings, host)?;
        let manager = Arc::downgrade(self);
        let changed = move || {
            if let Some(manager) = manager.upgrade() {
                manager.report();
            }
        };
        Ok(Running::start(Arc::from(plugin), policy, self.before(config.boot_order), changed))
    }

    /// The plugins that have to be ready before one of this order starts.
    fn before(&self, boot_order: i64) -> Vec<watch::Receiver<bool>> {
        let inner = self.inner();
        let earlier = inner.plugins.iter().filter(|entry| entry.config.boot_order < boot_order);
        earlier.filter_map(|entry| entry.running.as_ref().ok()).map(Running::settled).collect()
    }

    /// Removes a plugin, and returns what it was.
    async fn remove(&self, name: &str) -> Option<PluginConfig> {
        let entry = {
            let mut inner = self.inner();
            let at = inner.plugins.iter().position(|entry| entry.config.name == name);
            at.map(|at| inner.plugins.remove(at))
        };
        let entry = entry?;
        if matches!(entry.config.kind, Kind::HotUpdate(_)) {
            self.inner().updater = None;
        }
        if let Ok(running) = entry.running {
            running.stop().await;
        }
        Some(entry.config)
    }

    /// Takes back what a plugin has written.
    fn forget(&self, name: &str) {
        self.world.publisher.retire(&format!("{name}/"));
    }

    /// Publishes the agent's own condition.
    fn report(&self) {
        let Some(name) = self.inner().config.as_ref().and_then(|config| config.status_condition.clone()) else {
            return;
        };
        let plugins = self.status().plugins;
        let (rejected, unreachable) = {
            let inner = self.inner();
            (inner.rejected.is_some(), inner.unreachable.clone())
        };
        let down: Vec<String> = plugins
            .iter()
            .filter(|plugin| !plugin.running && plugin.health != "Ended" && plugin.health != STARTING)
            .map(|plugin| format!("{}: {}", plugin.name, plugin.health))
            .collect();
        let (status, reason, message) = if rejected {
            ("False", "ConfigurationRejected", "the newest configuration is wrong; see the agent's status".to_owned())
        } else if let Some(problem) = unreachable.filter(|_| down.is_empty()) {
            ("False", "NotListening", problem)
        } else if down.is_empty() && plugins.iter().any(|plugin| plugin.health == STARTING) {
            // How that ends is reported then.
            return;
        } else if down.is_empty() {
            let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
            ("True", "PluginsRunning", names.join(", "))
        } else {
            ("False", "PluginsFailing", down.join(", "))
        };
        let condition = condition(&name, status, reason, &message);
        let desired = Desired::one(Key::Condition(name), condition);
        self.world.publisher.set("agent", desired);
    }
}

fn storages(endpoints: &[Endpoint]) -> Vec<&Storage> {
    endpoints.iter().map(|endpoint| &endpoint.storage).collect()
}

#[cfg(test)]
mod tests {
    use pillion_assist::Trigger;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::plugin::testing::{Empty, is_pending, pod};
    use crate::prober::Network;

    #[tokio::test]
    async fn an_update_goes_on_when_its_plugin_is_replaced_and_the_new_one_waits_for_it() {
        let pod = pod();
        let manager = Manager::new(World {
            api: Arc::new(Empty),
            prober: Arc::new(Network),
            publisher: Publisher::new(pod.name.clone(), Arc::new(|| jiff::Timestamp::UNIX_EPOCH)),
            pod: Arc::new(pod),
            registry: Arc::default(),
            plugin_dir: PathBuf::new(),
            pod_info: None,
        });
        let site = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (host, folder) = (site.local_addr().unwrap(), tempfile::tempdir().unwrap());
        let config = |bytes: u32| {
            let directory = folder.path().display();
            format!(
                "allowedHosts: ['{host}']\nrequireChecksum: false\nplugins:\n- name: hot_update\n  config: {{fileDir: {directory}, loadPatchType: none, maxBytes: {bytes}}}\n"
            )
        };
        manager.load_config(&config(1000)).await.unwrap();
        let old = manager.updater().await.unwrap();
        let url = format!("http://{host}/app.conf");
        let trigger =
            Trigger::read(|name| [("version", "v1"), ("url", &url)].into_iter().find(|it| it.0 == name).map(|it| it.1));
        let update = tokio::spawn({
            let old = Arc::clone(&old);
            async move { old.update(trigger.unwrap()).await }
        });
        let (mut download, _) = site.accept().await.unwrap();

        manager.load_config(&config(2000)).await.unwrap();
        let new = manager.updater().await.unwrap();
        assert!(!Arc::ptr_eq(&old, &new), "the plugin is a new one");
        let mut recovery = Box::pin(new.recover());
        assert!(is_pending(&mut recovery).await);
        let own = folder.path().join(".pillion-agent");
        let journal: Value = serde_json::from_slice(&std::fs::read(own.join("journal.json")).unwrap()).unwrap();
        assert_eq!(journal["attempts"], 0, "nobody else has taken it up");
        let _ = download.read(&mut [0; 4096]).await.unwrap();
        download.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nnew").await.unwrap();
        update.await.unwrap().unwrap();
        recovery.await.unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("app.conf")).unwrap(), "new");
        assert_eq!(new.result(), "v1: Update success");
        assert!(is_pending(Box::pin(site.accept())).await, "it was fetched once");
    }
}
