//! The manager itself: starts, is asked, is registered, is served, goes on.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use tokio::sync::watch;

use crate::cluster::View;
use crate::config::Config;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::pending::Pending;
use crate::state::Inner;
use crate::watches::Watches;
use crate::{registration, secret, serve, webhook};

/// A new definition is served within a second or two, if at all.
const LONGEST_ESTABLISHING: Duration = Duration::from_secs(30);

/// The first lists of a large cluster take seconds.
const LONGEST_FILLING: Duration = Duration::from_mins(1);

/// What failed is tried again after so long.
const RETRY: Duration = Duration::from_secs(5);

/// Webhooks, and what keeps them called. It ends with its last clone and router.
#[derive(Clone)]
pub struct Manager {
    pub(crate) inner: Arc<Inner>,
}

impl Manager {
    /// Installs the definition of SidecarSet, begins to watch, and returns when everything there is has been seen.
    ///
    /// # Errors
    /// The API server cannot be reached or refuses, or is too slow.
    pub async fn start(config: Config) -> Result<Manager, Error> {
        registration::install(&config).await?;
        established(&config).await?;
        let views = watch::Sender::new(Arc::new(View::default()));
        let watches = Watches::start(config.client.clone(), &config.revisions_namespace, views.clone());
        let mut filled = views.subscribe();
        match tokio::time::timeout(LONGEST_FILLING, filled.wait_for(|view| view.is_filled)).await {
            Ok(Ok(_)) => {}
            _ => return Err(Error::NotFilled { seconds: LONGEST_FILLING.as_secs() }),
        }
        let inner = Inner {
            config,
            views,
            pending: Pending::default(),
            metrics: Metrics::default(),
            served: watch::Sender::new(None),
            watches,
        };
        Ok(Manager { inner: Arc::new(inner) })
    }

    /// The webhooks: `POST /mutate-pod`, `/mutate-sidecarset`, `/validate-sidecarset` and `/convert`; and `GET /healthz`, `/readyz` and
    /// `/metrics`.
    pub fn webhooks(&self) -> Router {
        webhook::router(Arc::clone(&self.inner))
    }

    /// Makes certificates if there are none, and has the API server call the webhooks from now on. They must be reachable by then.
    ///
    /// # Errors
    /// The API server cannot be reached or refuses.
    pub async fn register(&self) -> Result<(), Error> {
        self.reconcile().await.map(drop)
    }

    /// Serves the webhooks with TLS, as soon as there is a certificate, until the future is dropped.
    ///
    /// # Errors
    /// The port or the certificate cannot be used.
    pub async fn serve(&self, listener: std::net::TcpListener) -> Result<(), Error> {
        let served = self.inner.served.subscribe();
        serve::serve(listener, self.webhooks(), served, &self.inner.config.namespace).await
    }

    /// Goes on: renews certificates in time, and registers again when somebody changes what was registered. It never ends.
    pub async fn run(&self) {
        let mut changes = self.changes().ready_chunks(64);
        loop {
            let pause = match self.reconcile().await {
                Ok(again) => {
                    let left = again.duration_since((self.inner.config.now)());
                    Duration::try_from(left).unwrap_or_default().max(Duration::from_secs(1))
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "the webhooks are not registered as they should be; trying again");
                    RETRY
                }
            };
            // Either way it is time to look again.
            let _ = tokio::time::timeout(pause, changes.next()).await;
        }
    }

    /// Brings the registration to where it should be. Returns when to look again.
    async fn reconcile(&self) -> Result<Timestamp, Error> {
        let (kept, again) = registration::reconcile(&self.inner.config).await?;
        self.inner.served.send_if_modified(|served| {
            let is_new = served.as_deref() != Some(&kept.current);
            if is_new {
                *served = Some(Arc::new(kept.current));
            }
            is_new
        });
        Ok(again)
    }

    /// One item whenever one of the objects that were registered changes.
    fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let client = || self.inner.config.client.clone();
        let mutating: Api<PartialObjectMeta<MutatingWebhookConfiguration>> = Api::all(client());
        let validating: Api<PartialObjectMeta<ValidatingWebhookConfiguration>> = Api::all(client());
        let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client());
        let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(client(), &self.inner.config.namespace);
        stream::select_all([
            touched(mutating, registration::NAME).boxed(),
            touched(validating, registration::NAME).boxed(),
            touched(definitions, &registration::definition_name()).boxed(),
            touched(secrets, secret::NAME).boxed(),
        ])
    }
}

/// One item whenever the object of this name changes or goes.
fn touched<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> impl Stream<Item = ()> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
    pillion_informer::watch(api, named).filter_map(async |event| match event {
        watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone => Some(()),
        watcher::Event::Init | watcher::Event::InitApply(_) => None,
    })
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
