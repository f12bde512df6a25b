//! Says of each SidecarSet with `failurePolicy: Fail` whether it has an entry of its own, without which its pods would start all the same.

use std::sync::Arc;

use pillion_api::names::FAILURE_POLICY_ENFORCED;
use pillion_api::sidecarset::SidecarSet;
use serde_json::Map;

use crate::caches::cluster::is_failing;
use crate::controllers::condition::{condition, known, write};
use crate::error::Error;
use crate::registration::MOST_FAILING;
use crate::state::Inner;

/// Who writes it.
const CONTROLLER: &str = "pillion-webhook";

/// Writes the conditions that are not as they should be.
pub(crate) async fn report(inner: &Inner, failing: &[Arc<SidecarSet>]) -> Result<(), Error> {
    let now = (inner.config.now)();
    let mut place = 0;
    for set in failing {
        let wanted = is_failing(set).then(|| {
            place += 1;
            let is_enforced = place <= MOST_FAILING;
            let said = if is_enforced {
                ("Registered", "pods are refused while the webhook cannot be called".to_owned())
            } else {
                let message = format!(
                    "{MOST_FAILING} older SidecarSets have failurePolicy Fail, which is as many as there may be; pods of this one \
                     start without its sidecars while the webhook cannot be called"
                );
                ("TooMany", message)
            };
            condition(set, FAILURE_POLICY_ENFORCED, is_enforced, said, now)
        });
        let has = known(set, FAILURE_POLICY_ENFORCED);
        if has.map(|has| &has.status) != wanted.as_ref().map(|wanted| &wanted.status) {
            write(&inner.config, set.name(), CONTROLLER, Map::new(), wanted.as_slice()).await?;
        }
    }
    Ok(())
}
