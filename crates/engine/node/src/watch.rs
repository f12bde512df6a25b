//! The pods that are bound to the node, as the API server has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use tokio::sync::mpsc::UnboundedSender;

use crate::news::News;
use crate::runtime::Runtime;
use crate::state::Inner;

/// Tells all that becomes of the node's pods, for ever.
pub(crate) async fn keep<R: Runtime>(inner: Arc<Inner<R>>, news: UnboundedSender<News>) {
    let pods: Api<Pod> = Api::all(inner.config.client.clone());
    let own = watcher::Config::default().fields(&format!("spec.nodeName={}", inner.config.name));
    let mut events = watcher(pods, own).default_backoff().boxed();
    let mut listed = BTreeSet::new();
    loop {
        let told = match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => {
                listed.clear();
                continue;
            }
            Ok(Some(watcher::Event::InitApply(pod))) => {
                listed.extend(pod.uid());
                News::Pod(slim(pod))
            }
            Ok(Some(watcher::Event::InitDone)) => News::Listed(std::mem::take(&mut listed)),
            Ok(Some(watcher::Event::Apply(pod))) => News::Pod(slim(pod)),
            Ok(Some(watcher::Event::Delete(pod))) => News::Gone(pod.uid().unwrap_or_default()),
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the watch of pods is begun again");
                continue;
            }
        };
        // The worker is gone when the node is.
        if news.send(told).is_err() {
            return;
        }
    }
}

/// Without what a node never looks at.
pub(crate) fn slim(mut pod: Pod) -> Box<Pod> {
    pod.metadata.managed_fields = None;
    if let Some(spec) = &mut pod.spec {
        (spec.affinity, spec.tolerations, spec.topology_spread_constraints) = (None, None, None);
    }
    Box::new(pod)
}
