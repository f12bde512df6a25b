//! A node as a whole: what runs, and what ends it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::runtime::Runtime;
use crate::state::Inner;
use crate::{kubelet, lease, refresh, registration, shutdown, usage, watch, worker};

/// A node: it registers itself, and takes the pods that are bound to it through their lives.
pub struct Node<R> {
    inner: Arc<Inner<R>>,
}

impl<R: Runtime> Node<R> {
    /// A node that runs its containers by `runtime`. Nothing happens before [`Node::run`].
    pub fn new(config: Config, runtime: R) -> Node<R> {
        Node { inner: Arc::new(Inner::new(config, runtime)) }
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
            parts.spawn(watch::keep(of(), news.clone()));
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
    /// grace period or `within`. Nothing is reported to the API server, so that a node that comes after with the same data runs the pods again.
    pub async fn shutdown(&self, within: Duration) {
        self.inner.closing.send_replace(true);
        shutdown::stop_all(&self.inner, within).await;
    }
}
