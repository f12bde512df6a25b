//! A node as a whole: what runs, and what ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::pods::Pods;
use crate::runtime::{Exit, Runtime};
use crate::usage::Samples;
use crate::{kubelet, lease, refresh, registration, shutdown, usage, watch as pod_watch, worker};

/// A node: it registers itself, and takes the pods that are bound to it through their lives.
pub struct Node<R> {
    inner: Arc<Inner<R>>,
}

pub(crate) struct Inner<R> {
    pub(crate) config: Config,
    pub(crate) runtime: R,
    pub(crate) samples: Samples,
    pods: Mutex<Pods>,
    /// The ends of containers: read by whoever runs the node, or shuts it down.
    pub(crate) exits: tokio::sync::Mutex<mpsc::UnboundedReceiver<Exit>>,
    /// Set when the node is to leave all as it is.
    pub(crate) closing: watch::Sender<bool>,
}

impl<R: Runtime> Inner<R> {
    pub(crate) fn pods(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Runtime> Node<R> {
    /// A node that runs its containers by `runtime`. Nothing happens before [`Node::run`].
    pub fn new(config: Config, runtime: R) -> Node<R> {
        let (sender, exits) = mpsc::unbounded_channel();
        runtime.report_exits(sender);
        let inner = Inner {
            config,
            runtime,
            samples: Samples::default(),
            pods: Mutex::default(),
            exits: tokio::sync::Mutex::new(exits),
            closing: watch::Sender::new(false),
        };
        Node { inner: Arc::new(inner) }
    }

    /// Registers the node and takes care of its pods, until [`Node::shutdown`] or until this is dropped.
    pub async fn run(&self) {
        let inner = &self.inner;
        let mut closing = inner.closing.subscribe();
        let version = inner.runtime.version();
        let work = async {
            let uid = registration::register(&inner.config, &version).await;
            let (news, received) = mpsc::unbounded_channel();
            let mut parts = JoinSet::new();
            let of = || Arc::clone(inner);
            let (one, two) = (of(), of());
            parts.spawn(async move { lease::keep(&one.config, &uid).await });
            parts.spawn(async move { registration::keep(&two.config, &version).await });
            parts.spawn(pod_watch::keep(of(), news.clone()));
            if !R::SIMULATED {
                parts.spawn(refresh::keep(of()));
                parts.spawn(usage::keep(of()));
            }
            worker::run(of(), news, received).await;
        };
        tokio::select! {
            () = work => {}
            // The sender lives as long as this node.
            _ = closing.wait_for(|closing| *closing) => {}
        }
    }

    /// What the API server asks a kubelet for: logs, `/pods`, `/metrics/resource`, `/healthz`.
    pub fn kubelet(&self) -> Router {
        kubelet::router(Arc::clone(&self.inner))
    }

    /// `metrics.k8s.io/v1beta1`: what this node and its pods use.
    pub fn metrics(&self) -> Router {
        usage::router(Arc::clone(&self.inner))
    }

    /// Ends every pod, and [`Node::run`] with them, as if they were deleted: hooks, the app, then its native sidecars; with KILL after the pod's
    /// grace period or `within`. The API server is told nothing, so that a node that comes after with the same data runs the pods again.
    pub async fn shutdown(&self, within: Duration) {
        self.inner.closing.send_replace(true);
        shutdown::stop_all(&self.inner, within).await;
    }
}
