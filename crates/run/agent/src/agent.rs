//! The program: the configuration in, plugins and the local endpoint running.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::api::{Api, follow_config_map};
use crate::arguments::{Arguments, Source};
use crate::files::Changes;
use crate::http;
use crate::in_cluster::InCluster;
use crate::log;
use crate::manager::{Manager, Registry, World};
use crate::pod::Pod;
use crate::prober::Network;
use crate::publisher::Publisher;
use crate::server::Endpoint;

/// Runs until SIGTERM or SIGINT. `registry` has the plugins that were built in.
///
/// # Errors
/// The agent cannot work here at all; a configuration that is wrong is not among the reasons.
pub async fn run(arguments: Arguments, registry: Registry) -> Result<(), String> {
    let pod = Arc::new(Pod::from_environment()?);
    let api: Arc<dyn Api> = Arc::new(match &arguments.api_server {
        Some(server) => InCluster::new(server, &arguments.account)?,
        None => InCluster::from_environment(&arguments.account)?,
    });
    let pod_ip = pod.ip.clone();
    let publisher = Publisher::new(pod.name.clone(), Arc::new(Timestamp::now));
    let manager = Manager::new(World {
        pod,
        api: Arc::clone(&api),
        prober: Arc::new(Network),
        publisher: publisher.clone(),
        registry: Arc::new(registry),
        plugin_dir: arguments.plugin_dir,
        pod_info: arguments.pod_info,
    });
    let stopped = async {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        Ok::<_, std::io::Error>(())
    };
    tokio::select! {
        () = publisher.run(&*api) => {}
        () = manager.follow_secrets() => {}
        ended = configure(&manager, &*api, &arguments.config, pod_ip) => return ended,
        stopped = stopped => stopped.map_err(|error| error.to_string())?,
    }
    log::line("stopping");
    manager.stop().await;
    Ok(())
}

/// Loads the configuration whenever it changes, and serves where it says.
async fn configure(manager: &Arc<Manager>, api: &dyn Api, source: &Source, pod_ip: String) -> Result<(), String> {
    let mut server = Server { manager: Arc::clone(manager), pod_ip, listening: None };
    match source {
        Source::File(file) => {
            let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let failed = |error: std::io::Error| format!("{}: {error}", parent.display());
            let changes = Changes::of(parent).map_err(failed)?;
            let mut last = None;
            loop {
                let text =
                    tokio::fs::read_to_string(file).await.map_err(|error| format!("{}: {error}", file.display()));
                if last.as_ref() != Some(&text) {
                    server.load(text.clone()).await;
                    last = Some(text);
                }
                changes.next().await.map_err(failed)?;
            }
        }
        Source::ConfigMap { namespace, name } => {
            let (sender, mut changes) = tokio::sync::mpsc::channel(1);
            let following = follow_config_map(api, namespace, name, sender);
            let loading = async {
                while let Some(data) = changes.recv().await {
                    let missing = format!("the ConfigMap {namespace}/{name} has no key config.yaml");
                    server.load(data.and_then(|mut data| data.remove("config.yaml")).ok_or(missing)).await;
                }
            };
            tokio::join!(following, loading);
            Err("the configuration is not followed any more".to_owned())
        }
    }
}

/// How soon an address that could not be had is asked for again.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

struct Server {
    manager: Arc<Manager>,
    pod_ip: String,
    listening: Option<(String, tokio::task::JoinHandle<()>)>,
}

impl Server {
    async fn load(&mut self, text: Result<String, String>) {
        let loaded = match text {
            Ok(text) => self
                .manager
                .load_config(&text)
                .await
                .map_err(|error| format!("the configuration is wrong, and the old one stays:\n{error}")),
            Err(problem) => Err(problem),
        };
        match loaded {
            Ok(()) => log::line("the configuration is in use"),
            Err(problem) => log::line(problem),
        }
        let address = self.manager.security().0.address(&self.pod_ip);
        if self.listening.as_ref().is_some_and(|(listen, _)| *listen == address) {
            return;
        }
        if let Some((_, task)) = self.listening.take() {
            task.abort();
            let _ = task.await;
        }
        let task = tokio::spawn(serve(Arc::clone(&self.manager), address.clone()));
        self.listening = Some((address, task));
    }
}

/// Serves the local endpoint. An address that another process still has is asked for again.
async fn serve(manager: Arc<Manager>, address: String) {
    let listener = loop {
        match listen(&address).await {
            Ok(listener) => break listener,
            Err(error) => {
                let problem = format!("cannot listen on {address}: {error}");
                log::line(&problem);
                manager.set_unreachable(Some(problem));
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    };
    if let Ok(address) = listener.local_addr() {
        log::line(format_args!("listening on {address}"));
    }
    manager.set_unreachable(None);
    http::serve(listener, Arc::new(Endpoint { manager })).await;
}

/// `:5000` is every address, as in Go.
async fn listen(address: &str) -> std::io::Result<TcpListener> {
    match address.strip_prefix(':') {
        None => TcpListener::bind(address).await,
        Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        },
    }
}
