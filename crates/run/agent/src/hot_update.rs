//! `hot_update`: replaces files of the app while it runs.
//!
//! ```text
//!  POST /hot-update ┐
//!  ConfigMap        ├─▶ Trigger ─▶ check ─▶ journal ─▶ fetch ▸ verify ▸ unpack ─▶ exchange ─▶ reload ─▶ probe ─▶ result
//!  dropped file     │                          │                                     ▲                    │ failed
//!  sidecar-result   ┘ (an empty directory)     └── a restart goes on from here       └──── exchange ◀─────┘
//! ```

mod directory;
mod drop_dir;
mod fetch;
mod mounted;
mod reload;
mod unpack;
mod updater;
mod zip;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pillion_assist::{Refusal, Trigger};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, watch};

pub(crate) use updater::Updater;

use crate::api::{self, BoxFuture};
use crate::files::Changes;
use crate::log;
use crate::plugin::{Host, Plugin};
use drop_dir::DropDir;
use updater::UpdateError;

/// The plugin: triggers that are not requests, and what happens at its start.
pub(crate) struct HotUpdate {
    updater: Arc<Updater>,
    /// Whether it was tried to bring the directory to what it should be.
    recovered: watch::Sender<bool>,
}

impl HotUpdate {
    pub(crate) fn new(updater: Arc<Updater>) -> HotUpdate {
        HotUpdate { updater, recovered: watch::Sender::new(false) }
    }

    /// Recovers; what cannot be fetched now is tried again ever more slowly.
    async fn recover(&self) {
        let mut pause = Duration::from_secs(30);
        loop {
            let recovered = self.updater.recover().await;
            self.recovered.send_replace(true);
            let Err(error) = recovered else { return };
            log::line(format_args!("hot_update: {error}"));
            if !matches!(error, UpdateError::Fetch(_)) {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_mins(5));
        }
    }

    /// Follows a ConfigMap.
    async fn follow(&self, host: &Host) {
        let Some(name) = &self.updater.config().config_map else { return std::future::pending().await };
        let (sender, mut changes) = mpsc::channel(1);
        let following = api::follow_config_map(&*host.api, &host.pod.name.namespace, name, sender);
        let updating = async {
            let mut wanted: Option<BTreeMap<String, String>> = None;
            let mut pause = Duration::from_secs(30);
            loop {
                let retry = tokio::time::sleep(pause);
                wanted = tokio::select! {
                    change = changes.recv() => {
                        pause = Duration::from_secs(30);
                        match change {
                            Some(change) => change,
                            None => return,
                        }
                    }
                    () = retry, if wanted.is_some() => wanted,
                };
                let Some(data) = &wanted else { continue };
                // After a restart it is not asked for again: whatever came since, by request or as a file, counts more.
                let digest = digest_of(data);
                if self.updater.is_taken(&digest) {
                    wanted = None;
                    continue;
                }
                let trigger = Trigger::read(|key| data.get(key).map(String::as_str));
                match self.try_once(trigger, name).await {
                    // What was not fetched is tried again.
                    Err(UpdateError::Fetch(_)) => pause = (pause * 2).min(Duration::from_mins(5)),
                    // What the configuration forbids now may be allowed by the next one, which starts the plugin again.
                    Err(UpdateError::Refused(_)) => wanted = None,
                    // What did not work is not tried again.
                    Ok(()) | Err(UpdateError::Place(_) | UpdateError::Reload(_)) => {
                        self.updater.take_note(&digest);
                        wanted = None;
                    }
                }
            }
        };
        tokio::join!(following, updating);
    }

    /// Takes files that are dropped into a directory.
    async fn pick_up(&self) -> Result<(), String> {
        let Some(directory) = &self.updater.config().drop_dir else { return std::future::pending().await };
        let failed = |error: std::io::Error| format!("{directory}: {error}");
        let changes = Changes::of(Path::new(directory)).map_err(failed)?;
        let mut requests = DropDir::new(directory);
        loop {
            for file in requests.files().map_err(failed)? {
                let Some(request) = requests.take(&file) else { continue };
                let result = match self.try_once(request.trigger, &request.name).await {
                    Ok(()) => "Update success".to_owned(),
                    Err(error) => error.to_string(),
                };
                requests.answer(&request.name, &result);
            }
            changes.next().await.map_err(failed)?;
        }
    }

    async fn try_once(&self, trigger: Result<Trigger, Refusal>, from: &str) -> Result<(), UpdateError> {
        let updated = match trigger {
            Ok(trigger) => self.updater.update(trigger).await.map(drop),
            Err(refusal) => Err(UpdateError::Refused(refusal.message().to_owned())),
        };
        if let Err(error) = &updated {
            log::line(format_args!("hot_update: {from}: {error}"));
        }
        updated
    }
}

/// What stands for the contents of a ConfigMap.
fn digest_of(data: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (key, value) in data {
        hash.update(format!("{}:{key}={}:{value}\n", key.len(), value.len()));
    }
    directory::hex(&hash.finalize())
}

impl Plugin for HotUpdate {
    fn name(&self) -> &'static str {
        "hot_update"
    }

    fn init(&mut self, _config: &Value, host: Host) -> Result<(), String> {
        self.updater.set_host(host);
        Ok(())
    }

    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let host = self.updater.host()?;
            self.updater.check_directory()?;
            // Beside the others: what cannot be fetched must not keep away a request that can. An update takes up the journal by itself.
            let recovering = async {
                self.recover().await;
                std::future::pending::<Infallible>().await
            };
            tokio::select! {
                never = recovering => match never {},
                () = self.follow(&host) => Err("the ConfigMap is not followed any more".to_owned()),
                ended = self.pick_up() => ended,
            }
        })
    }

    /// The pod has the files that its workload runs, as far as they can be had.
    fn ready(&self) -> BoxFuture<'_, ()> {
        let mut recovered = self.recovered.subscribe();
        Box::pin(async move {
            let _ = recovered.wait_for(|recovered| *recovered).await;
        })
    }

    fn status(&self) -> String {
        self.updater.result()
    }

    fn config_type(&self) -> &'static str {
        "{fileDir, loadPatchType, signal, request, command, verify, storageConfig}"
    }
}

#[cfg(test)]
mod tests {
    use pillion_assist::{Config, Kind};

    use super::*;
    use crate::api::{Api, Request, Response};
    use crate::plugin::testing::{Empty, host, is_pending};

    /// An API server that cannot be reached.
    struct Unreachable;

    impl Api for Unreachable {
        fn send(&self, _request: Request) -> BoxFuture<'_, Result<Response, String>> {
            Box::pin(async { Err("connection refused".to_owned()) })
        }

        fn watch(&self, _path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>> {
            Box::pin(async { Err("connection refused".to_owned()) })
        }
    }

    #[tokio::test]
    async fn it_is_ready_once_it_has_tried_to_recover() {
        for host in [host("hot_update", Empty), host("hot_update", Unreachable)] {
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().display();
            let text = format!(
                "allowedHosts: [example.com]\nplugins:\n- name: hot_update\n  config: {{fileDir: {directory}, loadPatchType: none}}\n"
            );
            let config = Config::parse(&text, None).unwrap();
            let Kind::HotUpdate(config) = &config.plugins[0].kind else { panic!("{text}") };
            let busy = Arc::<tokio::sync::Mutex<()>>::default();
            let mut plugin = HotUpdate::new(Updater::new((**config).clone(), Arc::clone(&busy)));
            plugin.init(&Value::Null, host).unwrap();
            let update = busy.lock().await;
            let (mut running, mut ready) = (plugin.start(), plugin.ready());
            assert!(is_pending(&mut running).await && is_pending(&mut ready).await, "an update is under way");
            drop(update);
            tokio::select! {
                ended = &mut running => panic!("{ended:?}"),
                () = &mut ready => {}
            }
        }
    }
}
