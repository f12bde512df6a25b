//! Keeps the webhooks registered when other clients change or delete the registration.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _, future, stream};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use pillion_api::sidecarset::SidecarSet;
use pillion_gates::Gate;
use pillion_informer::{Backoff, Outcome};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::controllers::enforced;
use crate::controllers::pace::Pace;
use crate::controllers::standing_by::StandingBy;
use crate::error::Error;
use crate::lock::lock;
use crate::registration::touched::touched;
use crate::registration::{self, NAME, Registered, definition_name};
use crate::state::Inner;

/// The only key: all webhooks are registered together.
const WEBHOOKS: &str = "webhooks";
/// How long the registration waits after an error.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(5), is_strict: true };

/// Runs until dropped.
pub(crate) async fn run(inner: &Inner) {
    let state = State { standing_by: StandingBy::new(&inner.config), pace: Pace::default(), wanted: None };
    let registering = Registering { inner, state: Mutex::new(state) };
    let client = &inner.config.client;
    let changes = [
        stream::once(future::ready(())).boxed(),
        touched::<MutatingWebhookConfiguration>(Api::all(client.clone()), NAME).boxed(),
        touched::<ValidatingWebhookConfiguration>(Api::all(client.clone()), NAME).boxed(),
        touched::<CustomResourceDefinition>(Api::all(client.clone()), &definition_name()).boxed(),
        changes_of(inner.bundle.subscribe()).boxed(),
        changes_of(inner.rightsizing.subscribe()).boxed(),
        changes_of(inner.waiting.subscribe()).boxed(),
        changes_of_views(inner).boxed(),
    ];
    let reconciler = inner.config.reconciler("registration").on(stream::select_all(changes).map(|()| WEBHOOKS));
    let reconciler = reconciler.backoff(BACKOFF);
    reconciler.run(|_| registering.reconcile().boxed()).await;
}

/// One item whenever a value changes.
pub(crate) fn changes_of<T: Send + Sync + 'static>(receiver: watch::Receiver<T>) -> impl Stream<Item = ()> + Send {
    stream::unfold(receiver, async |mut receiver| {
        receiver.changed().await.ok()?;
        Some(((), receiver))
    })
}

/// One item whenever the view changes in what is registered.
fn changes_of_views(inner: &Inner) -> impl Stream<Item = ()> + Send {
    let (views, view) = (inner.views.subscribe(), inner.views.borrow().clone());
    stream::unfold((views, view), async |(mut views, before)| {
        let is_news =
            views.wait_for(|view| !Arc::ptr_eq(&view.failing, &before.failing) || view.is_filled != before.is_filled);
        let view = is_news.await.ok()?.clone();
        Some(((), (views, view)))
    })
}

struct Registering<'a> {
    inner: &'a Inner,
    state: Mutex<State>,
}

struct State {
    standing_by: StandingBy,
    pace: Pace,
    /// What was to be registered the last time.
    wanted: Option<Wanted>,
}

#[derive(PartialEq)]
struct Wanted {
    bundle: Option<Arc<str>>,
    failing: Arc<[Arc<SidecarSet>]>,
    is_filled: bool,
    is_alone: bool,
}

impl Registering<'_> {
    async fn reconcile(&self) -> Outcome {
        let inner = self.inner;
        let (bundle, obstacle) = (inner.bundle.borrow().clone(), inner.waiting.borrow().clone());
        let view = inner.views.borrow().clone();
        let (failing, is_filled) = (Arc::clone(&view.failing), view.is_filled);
        let wanted = Wanted { bundle, failing, is_filled, is_alone: obstacle.is_none() };
        lock(&self.state).standing_by.report(obstacle.as_deref());
        let registered = register_what_is_known(inner, is_filled).await;
        inner.unregistered.send_replace(registered.as_ref().err().map(Error::with_cause));
        let mut state = lock(&self.state);
        let is_news = state.wanted.as_ref() != Some(&wanted);
        state.wanted = Some(wanted);
        match registered {
            Ok(false) => Outcome::Done(None),
            Ok(true) => {
                let pause = state.pace.wrote(is_news, Instant::now());
                tracing::info!(?pause, "the webhooks are registered");
                Outcome::Done(None).and_pause(pause)
            }
            Err(error) => Outcome::failed(&error),
        }
    }
}

/// Pods are sent to the webhooks only when there is a view to decide by. Returns whether something was written.
async fn register_what_is_known(inner: &Inner, is_filled: bool) -> Result<bool, Error> {
    let conversion = register_conversion(inner).await?;
    if !is_filled {
        return Ok(conversion);
    }
    let failing = Arc::clone(&inner.views.borrow().failing);
    let admission = register_admission(inner).await?;
    if inner.is_alone() {
        enforced::report(inner, &failing).await?;
    }
    Ok(admission || conversion)
}

/// Registers the conversion of SidecarSets, unless another program serves and converts them. Returns whether something was written.
pub(crate) async fn register_conversion(inner: &Inner) -> Result<bool, Error> {
    if !inner.is_alone() {
        return Ok(false);
    }
    let Some(bundle) = inner.bundle.borrow().clone() else { return Ok(false) };
    registration::register_conversion(&inner.config, &bundle).await
}

/// Registers the webhooks of admission. Returns whether something was written.
pub(crate) async fn register_admission(inner: &Inner) -> Result<bool, Error> {
    let Some(bundle) = inner.bundle.borrow().clone() else { return Ok(false) };
    let is_alone = inner.is_alone();
    let failing = if is_alone { Arc::clone(&inner.views.borrow().failing) } else { Arc::default() };
    let served = Registered {
        sidecar_sets: is_alone,
        autoscalers: inner.rightsizing.is_served(),
        jobs: inner.config.gates.is_enabled(Gate::SidecarField),
    };
    let wrote = registration::register_admission(&inner.config, &bundle, &failing, served).await?;
    inner.registered.send_replace(true);
    Ok(wrote)
}
