//! The pods that are bound to the node, as the API server has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use pillion_gates::Gate;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;

use crate::marked::{MarkedPod, Watched};
use crate::news::News;
use crate::runtime::Runtime;
use crate::state::Inner;

/// Reports all that becomes of the node's pods, for ever.
pub(crate) async fn keep<R: Runtime>(inner: Arc<Inner<R>>, news: UnboundedSender<News>) {
    if inner.config.gates.is_enabled(Gate::SidecarField) {
        keep_pods::<R, MarkedPod>(inner, news).await;
    } else {
        keep_pods::<R, Pod>(inner, news).await;
    }
}

async fn keep_pods<R: Runtime, P: Watched + DeserializeOwned>(inner: Arc<Inner<R>>, news: UnboundedSender<News>) {
    let pods: Api<P> = Api::all(inner.config.client.clone());
    let own = watcher::Config::default().fields(&format!("spec.nodeName={}", inner.config.name));
    let mut events = watcher(pods, own).default_backoff().boxed();
    let mut listed = BTreeSet::new();
    loop {
        let reported = match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => {
                listed.clear();
                continue;
            }
            Ok(Some(watcher::Event::InitApply(pod))) => {
                listed.extend(pod.uid());
                changed(pod)
            }
            Ok(Some(watcher::Event::InitDone)) => News::Listed(std::mem::take(&mut listed)),
            Ok(Some(watcher::Event::Apply(pod))) => changed(pod),
            Ok(Some(watcher::Event::Delete(pod))) => News::Gone(pod.uid().unwrap_or_default()),
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the watch of pods is begun again");
                continue;
            }
        };
        // The worker is gone when the node is.
        if news.send(reported).is_err() {
            return;
        }
    }
}

fn changed(pod: impl Watched) -> News {
    let (pod, marked) = pod.into_parts();
    News::Pod(slim(pod), marked)
}

/// Without what a node never looks at.
pub(crate) fn slim(mut pod: Pod) -> Box<Pod> {
    pod.metadata.managed_fields = None;
    if let Some(spec) = &mut pod.spec {
        (spec.affinity, spec.tolerations, spec.topology_spread_constraints) = (None, None, None);
    }
    Box::new(pod)
}
