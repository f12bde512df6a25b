//! Whether a place that is granted now will be confirmed: what this replica knows of the webhook that confirms places.

use std::sync::Mutex;
use std::time::Duration;

use pillion_inject::Namespace;
use tokio::time::Instant;

use crate::lock::lock;
use crate::registration::Confirming;

/// API servers learn of a registration by a watch of their own. After this time they all know it.
const MARGIN: Duration = Duration::from_secs(30);

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
        let known = lock(&self.known);
        let known = known.as_ref().filter(|known| known.since.elapsed() >= MARGIN)?;
        let Confirming { version, namespaces } = &known.confirming;
        namespaces.matches(|key| namespace.label(key)).then_some(*version)
    }

    /// Takes over what was read of the registration; `None` if places are not confirmed.
    pub(crate) fn saw(&self, confirming: Option<Confirming>) {
        let mut known = lock(&self.known);
        let version = |confirming: Option<&Confirming>| confirming.map(|it| it.version);
        if version(confirming.as_ref()) != version(known.as_ref().map(|known| &known.confirming)) {
            *known = confirming.map(|confirming| Known { confirming, since: Instant::now() });
        }
    }
}
