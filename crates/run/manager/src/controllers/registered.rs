//! What each replica knows of the registration, whichever replica has written it: whether API servers send pods to the webhooks, and whether they
//! have the places of new pods confirmed.
//!
//! A place that is not confirmed is withdrawn after seconds. This is safe only if every API server asks for a confirmation, so a place counts as
//! unconfirmed only if the webhook has been registered for a while when it is granted. It is withdrawn only if the registration is still the same.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::Api;
use pillion_informer::{Backoff, Outcome, Reconciler};

use crate::registration::touched::touched;
use crate::registration::{self, NAME};
use crate::state::Inner;

const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
/// A configuration that could not be read is read again after this time.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(5), is_strict: false };

/// Follows the registration until dropped.
pub(crate) async fn follow(inner: &Inner) {
    let client = &inner.config.client;
    let mutating = touched::<MutatingWebhookConfiguration>(Api::all(client.clone()), NAME);
    let validating = touched::<ValidatingWebhookConfiguration>(Api::all(client.clone()), NAME);
    let reconciler = Reconciler::new("registration-reader").quiet().backoff(BACKOFF);
    let reconciler = reconciler.on(mutating.map(|()| MUTATING)).on(validating.map(|()| VALIDATING));
    reconciler.run(|configuration| read(inner, configuration)).await;
}

async fn read(inner: &Inner, configuration: &str) -> Outcome {
    let config = &inner.config;
    let read = if configuration == MUTATING {
        registration::pods_are_sent_here(config).await.map(|is_registered| {
            inner.registered.send_replace(is_registered);
        })
    } else {
        let confirming = registration::confirming(config).await;
        confirming.inspect_err(|_| inner.registration.saw(None)).map(|confirming| inner.registration.saw(confirming))
    };
    read.map_or_else(|error| Outcome::failed(&error), |()| Outcome::Done(None))
}
