//! The agent's configuration: `config.yaml` of its ConfigMap.

mod endpoint;
mod expand;
mod extract;
mod hint;
mod hot_update;
mod reader;
mod secret;
mod security;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use pillion_yaml::{Error, Mistake, Options, Position, parse, show};
use serde_json::Value;

pub use endpoint::{Ask, Endpoint, HttpAsk, Url};
pub use expand::Fields;
pub use extract::Extract;
pub use hot_update::{HotUpdate, Reload, Verify, signal_number};
pub use secret::{Credential, SecretKey};
pub use security::Security;
pub(crate) use storage::label_value;
pub use storage::{HttpMetric, InKube, Key, Policy, Storage, Target};

use endpoint::Defaults;
use reader::{Field, Reader};

/// A configuration that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// In boot order.
    pub plugins: Vec<Plugin>,
    /// What happens when a plugin ends.
    pub restart_policy: RestartPolicy,
    /// CPU and memory of the agent's container, requests and limits alike.
    pub resources: Resources,
    /// Whether the agent starts before the app's containers.
    pub start_order: StartOrder,
    /// What the agent trusts.
    pub security: Security,
    /// The condition of the pod that reports the agent's own status; `None` for none.
    pub status_condition: Option<String>,
    /// What was ignored, and what is dangerous; with line and column.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Its name, which is unique.
    pub name: String,
    /// Plugins with lower numbers start first.
    pub boot_order: i64,
    /// What it does.
    pub kind: Kind,
}

/// What a plugin does.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `http_probe`
    HttpProbe(Vec<Endpoint>),
    /// `hot_update`
    HotUpdate(Box<HotUpdate>),
    /// A plugin of somebody else.
    Other(Box<Other>),
}

/// A plugin that is not built in.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// How it is reached; by its name unless set.
    pub process: Option<Process>,
    /// Its configuration as it was written.
    pub config: Value,
    /// Where its results go.
    pub storage: Storage,
}

/// A plugin out of process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// Started by the agent, spoken to over its standard streams.
    Command(Vec<String>),
    /// Started by somebody else, listening on a Unix socket.
    Socket(String),
}

/// What happens when a plugin ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// It is started again.
    #[default]
    Always,
    /// It is started again if it failed.
    OnFailure,
    /// It stays down.
    Never,
}

/// Whether the agent starts before the app's containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartOrder {
    /// As a native sidecar.
    #[default]
    Before,
    /// As a container after them.
    After,
}

/// Quantities of the agent's container, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu: Option<String>,
    pub memory: Option<String>,
}

/// The condition that reports the agent's own status.
pub const STATUS_CONDITION: &str = "pillion.dev/Agent";

impl Config {
    /// Returns everything in the API that results are written to, and the condition of the agent's own status.
    pub fn keys(&self) -> BTreeSet<Key> {
        let stored = self.storages().flat_map(Storage::keys);
        stored.cloned().chain(self.status_condition.clone().map(Key::Condition)).collect()
    }

    /// Reads `config.yaml`. Variables are replaced by `fields`; without fields they stay, for tools outside of a pod.
    ///
    /// # Errors
    /// All that is wrong, each with its line and column and how to fix it.
    pub fn parse(text: &str, fields: Option<&Fields>) -> Result<Config, Vec<Error>> {
        let mut documents = parse(text, Options::default()).map_err(|errors| hint::add_fixes(text, errors))?;
        if documents.len() > 1 {
            let place = documents.remove(1).position([]);
            return Err(show(text, vec![Mistake::new(place, "a configuration is one document")]));
        }
        let Some(mut document) = documents.pop() else {
            let mistake = Mistake::new(Position::new(1, 1), "the configuration is empty; it needs `plugins:`");
            return Err(show(text, vec![mistake]));
        };
        let mut mistakes = fields.map(|fields| expand::expand(&mut document, fields)).unwrap_or_default();
        let reader = Reader::new(&document, fields);
        let mut config = read(&reader.root());
        let (found, warnings) = reader.finish();
        mistakes.extend(found);
        if !mistakes.is_empty() {
            mistakes.sort_by_key(|mistake| mistake.position);
            return Err(show(text, mistakes));
        }
        config.warnings = warnings;
        config.plugins.sort_by_key(|plugin| plugin.boot_order);
        Ok(config)
    }

    /// Everywhere that results go.
    pub fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.plugins.iter().flat_map(|plugin| match &plugin.kind {
            Kind::HttpProbe(endpoints) => endpoints.iter().map(|endpoint| &endpoint.storage).collect::<Vec<_>>(),
            Kind::HotUpdate(update) => vec![&update.storage],
            Kind::Other(other) => vec![&other.storage],
        })
    }

    /// The Secrets that the agent reads.
    pub fn secrets(&self) -> Vec<&SecretKey> {
        let mut secrets: Vec<&SecretKey> = self.security.token.iter().collect();
        for plugin in &self.plugins {
            match &plugin.kind {
                Kind::HttpProbe(endpoints) => {
                    secrets.extend(endpoints.iter().flat_map(|endpoint| match &endpoint.ask {
                        Ask::Http(ask) => ask.secrets().collect(),
                        _ => Vec::new(),
                    }));
                }
                Kind::HotUpdate(update) => {
                    if let Some(Verify { ask: Ask::Http(ask), .. }) = &update.verify {
                        secrets.extend(ask.secrets());
                    }
                    secrets.extend(update.headers.iter().filter_map(|(_, value)| match value {
                        Credential::Secret(key) => Some(key),
                        Credential::Literal(_) => None,
                    }));
                }
                Kind::Other(_) => {}
            }
        }
        secrets.sort();
        secrets.dedup();
        secrets
    }
}

fn read(root: &Field<'_>) -> Config {
    let known =
        [&["plugins", "restartpolicy", "resources", "sidecarstartorder", "statusCondition"], security::KNOWN].concat();
    let mut config = Config {
        plugins: Vec::new(),
        restart_policy: RestartPolicy::default(),
        resources: Resources::default(),
        start_order: StartOrder::default(),
        security: Security::default(),
        status_condition: Some(STATUS_CONDITION.to_owned()),
        warnings: Vec::new(),
    };
    if !root.mapping(&known) {
        return config;
    }
    match root.get(&["plugins"]) {
        Some(plugins) => {
            for field in plugins.items() {
                let Some(plugin) = plugin(&field) else { continue };
                if config.plugins.iter().any(|other| other.name == plugin.name) {
                    field.wrong(format!("the plugin {:?} is listed twice", plugin.name));
                }
                config.plugins.push(plugin);
            }
        }
        None => root.wrong("this needs `plugins:`, a list"),
    }
    let policies =
        [("Always", RestartPolicy::Always), ("OnFailure", RestartPolicy::OnFailure), ("Never", RestartPolicy::Never)];
    let policy = root.get(&["restartpolicy"]).and_then(|policy| policy.one_of(&policies));
    config.restart_policy = policy.unwrap_or_default();
    let orders = [("Before", StartOrder::Before), ("After", StartOrder::After)];
    config.start_order = root.get(&["sidecarstartorder"]).and_then(|order| order.one_of(&orders)).unwrap_or_default();
    if let Some(resources) = root.get(&["resources"]) {
        resources.mapping(&["cpu", "memory"]);
        config.resources.cpu = resources.get(&["cpu"]).map(|cpu| cpu.text());
        config.resources.memory = resources.get(&["memory"]).map(|memory| memory.text());
    }
    if let Some(condition) = root.get(&["statusCondition"]) {
        config.status_condition = Some(condition.text()).filter(|name| !name.is_empty());
    }
    config.security = Security::read(root);
    config
}

fn plugin(field: &Field<'_>) -> Option<Plugin> {
    if !field.mapping(&["name", "config", "bootorder", "process"]) {
        return None;
    }
    let Some(name) = field.get(&["name"]).map(|name| name.word()) else {
        field.wrong("a plugin needs a `name`");
        return None;
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.starts_with('.') || !name.chars().all(legal) {
        field.wrong(format!("{name:?} is not a name of a plugin: letters, digits, `-`, `_` and `.`"));
    }
    let config = field.get(&["config"]);
    let order = field.get(&["bootorder"]).or_else(|| config.as_ref().and_then(|config| config.get(&["bootorder"])));
    let nested = || {
        // The proposal has it inside an endpoint as well.
        let endpoints = config.as_ref().and_then(|config| config.get(&["endpoints"]))?;
        endpoints.value().as_array()?;
        endpoints.items().iter().find_map(|endpoint| endpoint.get(&["bootorder"]))
    };
    let order = order.or_else(nested);
    let boot_order = order.map_or(0, |order| i64::try_from(order.number(0, 1_000_000)).unwrap_or_default());
    let needs = |what: &str| field.wrong(format!("the plugin {name} needs a `config` with {what}"));
    let kind = match (name.as_str(), config) {
        ("http_probe", None) => {
            needs("`endpoints`");
            return None;
        }
        ("http_probe", Some(config)) => Kind::HttpProbe(endpoints(&config)),
        ("hot_update", None) => {
            needs("`loadPatchType`");
            return None;
        }
        ("hot_update", Some(config)) => Kind::HotUpdate(Box::new(HotUpdate::read(&config)?)),
        (_, config) => Kind::Other(Box::new(Other {
            process: field.get(&["process"]).and_then(|process| process_of(&process)),
            storage: config
                .as_ref()
                .and_then(|config| config.get(&["storageConfig"]))
                .map(|storage| Storage::read(&storage))
                .unwrap_or_default(),
            config: config.map_or(Value::Null, |config| config.value().clone()),
        })),
    };
    Some(Plugin { name, boot_order, kind })
}

fn endpoints(config: &Field<'_>) -> Vec<Endpoint> {
    config.mapping(&["startDelaySeconds", "probeIntervalSeconds", "endpoints", "bootorder"]);
    let defaults = Defaults {
        start_delay: endpoint::seconds(config, &["startDelaySeconds"], 0).unwrap_or(Duration::from_secs(30)),
        interval: endpoint::seconds(config, &["probeIntervalSeconds"], 1).unwrap_or(Duration::from_secs(5)),
    };
    let Some(endpoints) = config.get(&["endpoints"]) else {
        config.wrong("this needs `endpoints:`, a list");
        return Vec::new();
    };
    let items = endpoints.items();
    items.iter().enumerate().filter_map(|(index, endpoint)| Endpoint::read(endpoint, index, &defaults)).collect()
}

fn process_of(field: &Field<'_>) -> Option<Process> {
    field.mapping(&["command", "socket"]);
    match (field.get(&["command"]), field.get(&["socket"])) {
        (Some(command), None) => Some(Process::Command(command.words())),
        (None, Some(socket)) => Some(Process::Socket(socket.word())),
        _ => {
            field.wrong("a process has a `command` or a `socket`");
            None
        }
    }
}
