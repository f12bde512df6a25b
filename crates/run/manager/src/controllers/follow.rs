//! Sidecars with a `resourcesPolicy` follow an app that was resized in place, by any client.
//!
//! ```text
//!  pods whose own containers were resized ─▶ admission::follow (the policies of their SidecarSets) ─▶ one patch of pods/resize, one event
//! ```

use std::sync::Mutex;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use pillion_admission::follow;
use pillion_api::pod::Pod;
use pillion_events::Recorder;
use pillion_gates::Gate;
use pillion_informer::{Backoff, NamespacedName, Outcome};
use pillion_inject::has_policy;
use pillion_rightsize::PodView;
use pillion_rightsize::update::{RateLimit, changes_qos_class};
use pillion_rightsizer::{pod_reference, resize};

use crate::lock::lock;
use crate::state::Inner;

/// How many pods are looked at the same time.
const AT_ONCE: usize = 4;
/// A pod whose sidecars could not be resized.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_mins(5), is_strict: false };

/// Runs until dropped; without the gate there is nothing to do.
pub(crate) async fn run(inner: &Inner) {
    if !inner.config.gates.is_enabled(Gate::SidecarFollowsApp) {
        return std::future::pending().await;
    }
    let (config, cluster) = (&inner.config, &inner.rightsizing.cluster);
    let _pods = cluster.pods_synced().await;
    inner.filled().await;
    let rate = config.rightsizing.rate;
    let limit = Mutex::new(RateLimit::new(rate.resizes, rate.burst, (config.now)()));
    let follow = Follow { inner, recorder: config.recorder(), limit };
    let resized = cluster.resized_pods().map(|(namespace, name)| NamespacedName::new(namespace, name));
    let reconciler = config.reconciler("follow").on(resized).concurrency(AT_ONCE).backoff(BACKOFF);
    reconciler.run(|pod| follow.reconcile(pod)).await;
}

struct Follow<'a> {
    inner: &'a Inner,
    recorder: Recorder,
    limit: Mutex<RateLimit>,
}

impl Follow<'_> {
    async fn reconcile(&self, name: NamespacedName) -> Outcome {
        match self.look(&name).await {
            Ok(()) => Outcome::Done(None),
            // It is gone, or has changed meanwhile: the watch says so.
            Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => Outcome::Done(None),
            Err(error) => Outcome::failed(&error),
        }
    }

    /// Resizes the sidecars of a pod, if they have another size than their policies give them.
    async fn look(&self, NamespacedName { namespace, name }: &NamespacedName) -> kube::Result<()> {
        let Follow { inner, recorder, limit } = self;
        let catalog = inner.views.borrow().snapshot.catalog.clone();
        let Some(known) = inner.rightsizing.cluster.pod(namespace, name) else { return Ok(()) };
        if !known.view.injected.iter().any(|(set, _)| has_policy(&catalog, set)) {
            return Ok(());
        }
        let config = &inner.config;
        let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(config.client.clone(), namespace, &pods);
        let Some(object) = api.get_opt(name).await? else { return Ok(()) };
        let value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
        let Ok(pod) = Pod::new(value) else { return Ok(()) };
        let view = PodView::new(&pod);
        // The pod has what is set for it as a whole; so does admission leave it.
        if view.has_pod_resources {
            return Ok(());
        }
        let sized = inner.rightsizing.sized(&view);
        let targets = match follow(&pod, &catalog, |container| sized.iter().any(|it| it == container)) {
            Ok(targets) => targets,
            Err(denied) => {
                recorder.warning(&pod_reference(&view), "SidecarCannotFollow", denied.to_string());
                return Ok(());
            }
        };
        if targets.is_empty() {
            return Ok(());
        }
        if changes_qos_class(&view, &targets) {
            let text = "its sidecars cannot follow the app in place: the QoS class of the pod would change";
            recorder.warning(&pod_reference(&view), "SidecarCannotFollow", text);
            return Ok(());
        }
        let acquire = || lock(limit).acquire((config.now)());
        while let Err(pause) = acquire() {
            tokio::time::sleep(Duration::try_from(pause).unwrap_or_default()).await;
        }
        resize(&config.client, &view, &targets).await?;
        let names: Vec<&str> = targets.iter().map(|target| target.container.as_str()).collect();
        let text = format!("resized {} by its resourcesPolicy, since the app was resized", names.join(", "));
        recorder.normal(&pod_reference(&view), "SidecarFollowsApp", text);
        Ok(())
    }
}
