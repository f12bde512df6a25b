//! Whether API servers have the places of new pods confirmed.
//!
//! A place that nobody confirms is withdrawn after seconds. This is safe only if every API server asks for a confirmation, so a place counts as
//! unconfirmed only if the webhook has been registered for a while when it is granted. It is withdrawn only if the registration is still the same.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::core::PartialObjectMeta;
use pillion_inject::Namespace;
use tokio::time::Instant;

use crate::registration::{self, Confirming, NAME};
use crate::state::Inner;
use crate::touched::touched;

/// API servers learn of a registration by a watch of their own. After this time they all know it.
const MARGIN: Duration = Duration::from_secs(30);
/// What failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);

/// What this replica knows of the registration.
#[derive(Default)]
pub(crate) struct Registration {
    known: Mutex<Option<Known>>,
}

struct Known {
    confirming: Confirming,
    /// When this replica saw this version first.
    since: Instant,
}

impl Registration {
    /// The version of the registration by which every API server has the places of the pods in `namespace` confirmed.
    pub(crate) fn of(&self, namespace: &Namespace) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|known| known.since.elapsed() >= MARGIN)?;
        let Confirming { version, namespaces } = &known.confirming;
        namespaces.matches(|key| namespace.label(key)).then_some(*version)
    }

    fn saw(&self, confirming: Option<Confirming>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let version = |confirming: Option<&Confirming>| confirming.map(|it| it.version);
        if version(confirming.as_ref()) != version(known.as_ref().map(|known| &known.confirming)) {
            *known = confirming.map(|confirming| Known { confirming, since: Instant::now() });
        }
    }
}

/// Follows the registration until dropped.
pub(crate) async fn run(inner: &Inner) {
    let api: Api<PartialObjectMeta<ValidatingWebhookConfiguration>> = Api::all(inner.config.client.clone());
    let mut changes = Box::pin(touched(api, NAME));
    while changes.next().await.is_some() {
        loop {
            match registration::confirming(&inner.config).await {
                Ok(confirming) => {
                    inner.registration.saw(confirming);
                    break;
                }
                Err(error) => {
                    tracing::debug!(%error, cause = error.cause(), "the registration cannot be read; trying again");
                    inner.registration.saw(None);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
    // The watch never ends by itself.
    std::future::pending::<()>().await;
}
