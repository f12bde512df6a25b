//! The life cycle of the manager: start, register the webhooks, serve, reconcile.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::wait::{await_condition, conditions};
use pillion_gates::Gate;
use pillion_informer::keep_running;
use pillion_lifecycle::marks::Means;

use crate::certificates::Keeper;
use crate::config::Config;
use crate::controller_name::ControllerName;
use crate::controllers::{agents, follow, lifecycle, registered, registering, repair, rightsizing, rollout};
use crate::error::Error;
use crate::kruise::wait;
use crate::leader::lead;
use crate::lock::lock;
use crate::registration;
use crate::serving::{health, serve};
use crate::sidecar_field::sidecar_field_is_served;
use crate::state::Inner;
use crate::webhooks;

/// A new definition is served within a second or two, if at all.
const LONGEST_ESTABLISHING: Duration = Duration::from_secs(30);

/// The first lists of a large cluster take seconds.
const LONGEST_FILLING: Duration = Duration::from_mins(1);

/// Webhooks, and what keeps them called. It ends with its last clone and router.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

impl Manager {
    /// A manager that has done nothing yet.
    pub fn new(config: Config) -> Manager {
        Manager { inner: Arc::new(Inner::new(config)) }
    }

    /// The webhooks: `POST /mutate-pod`, `/confirm-place`, `/mutate-sidecarset`, `/validate-sidecarset`, `/validate-job` and `/convert`. Objects can be
    /// converted from the start;
    /// the others answer when the caches are synced.
    pub fn webhooks(&self) -> Router {
        webhooks::router(Arc::clone(&self.inner))
    }

    /// `GET /healthz`, `/readyz` and `/metrics`.
    pub fn health(&self) -> Router {
        health::router(Arc::clone(&self.inner))
    }

    /// Makes sure that SidecarSets are served, and begins to watch. The webhooks must be reachable from now on.
    ///
    /// A manager that does not install the definition waits here while an OpenKruise serves SidecarSets, and says so in `/readyz` and in its log.
    ///
    /// # Errors
    /// The API server cannot be reached or refuses, or there is no definition.
    pub async fn start(&self) -> Result<(), Error> {
        let config = &self.inner.config;
        if config.installs_definition {
            registration::install_definition(config).await?;
            registration::install_other_definitions(config).await?;
            if !config.parts.contains(&ControllerName::Webhook) {
                registration::withdraw(config).await?;
            }
        } else if registration::live_definition(config).await?.is_none() {
            return Err(Error::NoDefinition { name: registration::definition_name() });
        }
        established(config).await?;
        if !config.installs_definition {
            wait::until_alone(&self.inner).await;
        }
        let (caches, views) = (self.inner.caches.clone(), self.inner.views.clone());
        let means = self.sidecar_means().await?;
        let watching = caches.run(config.client.clone(), config.revisions_namespace.clone(), means, views);
        let mut watches = lock(&self.inner.watches);
        watches.spawn(watching);
        if config.parts.contains(&ControllerName::Webhook) {
            let rightsizing = self.inner.rightsizing.clone();
            watches.spawn(keep_running("rightsizing", move || rightsizing.clone().serve()));
        }
        Ok(())
    }

    /// What there is to honour the marks of sidecars with.
    async fn sidecar_means(&self) -> Result<Means, Error> {
        let config = &self.inner.config;
        let field = config.gates.is_enabled(Gate::SidecarField)
            && sidecar_field_is_served(&config.client).await.map_err(Error::api("read the schema of pods"))?;
        Ok(Means { field, wrap_image: config.wrap_image.clone() })
    }

    /// Has the API server call the webhooks, once. [`Manager::run`] does the same first; call this to know when it is done.
    ///
    /// # Errors
    /// The API server cannot be reached or refuses, or the caches are not synced in time.
    pub async fn register(&self) -> Result<(), Error> {
        Keeper::default().renew(&self.inner).await?;
        // SidecarSets may be stored in another version than they are listed in.
        registering::register_conversion(&self.inner).await?;
        match tokio::time::timeout(LONGEST_FILLING, self.inner.filled()).await {
            Ok(()) => registering::register_admission(&self.inner).await.map(drop),
            Err(_) => Err(Error::NotFilled { seconds: LONGEST_FILLING.as_secs() }),
        }
    }

    /// Serves the webhooks with TLS, as soon as there is a certificate, until [`Manager::stop`]. They are still served for `delay` then, since API
    /// servers need a while to notice; what was asked by then has `grace` to be answered.
    ///
    /// # Errors
    /// The port or the certificate cannot be used.
    pub async fn serve(&self, listener: TcpListener, delay: Duration, grace: Duration) -> Result<(), Error> {
        self.serve_as(self.webhooks(), listener, delay, grace).await
    }

    /// The same with other webhooks than its own: a front of several replicas, say, that all have the address of this one.
    ///
    /// # Errors
    /// The same.
    pub async fn serve_as(
        &self,
        webhooks: Router,
        listener: TcpListener,
        delay: Duration,
        grace: Duration,
    ) -> Result<(), Error> {
        serve::serve(listener, webhooks, &self.inner, delay, grace).await
    }

    /// Goes on until [`Manager::stop`]: renews certificates in time, runs for leadership, and does what the leader does. Leases are given
    /// back at the end.
    ///
    /// # Errors
    /// Something ended that must not end. The process should be started again.
    pub async fn run(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        // These futures are large: boxed, so that callers do not hold them on the stack.
        let certificates = Box::pin(async {
            if inner.config.parts.contains(&ControllerName::Webhook) {
                tokio::join!(Keeper::default().run(inner), registered::follow(inner));
            }
            std::future::pending::<()>().await;
        });
        let work_of = |part| self.work_of(part);
        let parts = Box::pin(lead(inner, &work_of));
        // Who installs the definition itself is the only one there.
        let others = Box::pin(async {
            if inner.config.installs_definition {
                std::future::pending::<()>().await;
            }
            wait::look_on(inner).await;
        });
        tokio::select! {
            ended = parts => ended.map_err(Error::Lease),
            () = certificates => Ok(()),
            () = others => Ok(()),
            () = inner.pods.stopped() => Err(Error::WatchEnded),
            () = inner.caches.stopped() => Err(Error::WatchEnded),
            () = inner.rightsizing.cluster.stopped() => Err(Error::WatchEnded),
        }
    }

    /// What the leader of a part does, until it is dropped.
    fn work_of(&self, part: ControllerName) -> BoxFuture<'_, ()> {
        match part {
            ControllerName::Webhook => {
                futures::future::join(registering::run(&self.inner), rightsizing::keep_lease(&self.inner))
                    .map(drop)
                    .boxed()
            }
            ControllerName::Rollout => wait::while_alone(&self.inner, || rollout::run(&self.inner).boxed()).boxed(),
            ControllerName::Repair => wait::while_alone(&self.inner, || repair::run(&self.inner).boxed()).boxed(),
            ControllerName::Lifecycle => lifecycle::run(&self.inner).boxed(),
            ControllerName::Agents => agents::run(&self.inner).boxed(),
            ControllerName::Recommender => rightsizing::recommend(&self.inner).boxed(),
            ControllerName::Updater => {
                futures::future::join(rightsizing::update(&self.inner), follow::run(&self.inner)).map(drop).boxed()
            }
        }
    }

    /// Ends what goes on. The manager is no longer ready.
    pub fn stop(&self) {
        self.inner.stopping.send_replace(true);
    }

    /// Returns when [`Manager::stop`] has been called.
    pub async fn stopped(&self) {
        self.inner.stopped().await;
    }
}

/// Returns when SidecarSets are served.
async fn established(config: &Config) -> Result<(), Error> {
    let name = registration::definition_name();
    let definitions: Api<CustomResourceDefinition> = Api::all(config.client.clone());
    let establishing = await_condition(definitions, &name, conditions::is_crd_established());
    match tokio::time::timeout(LONGEST_ESTABLISHING, establishing).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Error::NotEstablished { name, seconds: LONGEST_ESTABLISHING.as_secs() }),
    }
}

#[cfg(test)]
mod tests {
    use pillion_apiserver::ApiServer;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::config::WebhookAddress;

    /// A manager that runs, and how that ends.
    async fn running() -> (Manager, JoinHandle<Result<(), Error>>) {
        let server = ApiServer::new(pillion_apiserver::Config::in_memory());
        server.bootstrap().await.unwrap();
        let (client, clock) = (kube::Client::new(server.router(), "default"), server.clock());
        let address = WebhookAddress::Url("https://pillion.invalid".to_owned());
        let manager = Manager::new(Config::new(client, Arc::new(move || clock.now()), address));
        server.register_webhook("https://pillion.invalid", manager.webhooks());
        manager.start().await.unwrap();
        manager.register().await.unwrap();
        let running = tokio::spawn({
            let manager = manager.clone();
            async move { manager.run().await }
        });
        tokio::task::yield_now().await;
        (manager, running)
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ends_ends_the_manager() {
        let (manager, running) = running().await;
        manager.inner.watches.lock().unwrap().abort_all();
        assert!(matches!(running.await.unwrap(), Err(Error::WatchEnded)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_of_autoscalers_that_ends_ends_the_manager() {
        let (manager, running) = running().await;
        manager.inner.rightsizing.subscribe().wait_for(|served| *served).await.unwrap();
        manager.inner.rightsizing.cluster.abort_watches();
        assert!(matches!(running.await.unwrap(), Err(Error::WatchEnded)));
    }
}
