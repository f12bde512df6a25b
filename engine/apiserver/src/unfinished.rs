//! Finishes what an earlier run of the server had begun. Some requests take several writes, and a program that is killed between two of
//! them leaves only the first on the disk; no later request would do the rest.

use pillion_partial::{Partial, Shallow};
use pillion_store::{Key, Write, WriteError};
use serde_json::Value;

use crate::custom::DEFINITIONS;
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::{definition, meta, storage, stored};

/// Does the rest of every write that needs one. Nobody else writes yet.
pub(crate) async fn finish(inner: &Inner) -> Result<()> {
    definitions(inner).await?;
    pods(inner).await
}

/// Definitions whose names were not accepted yet, or whose objects were not all deleted.
async fn definitions(inner: &Inner) -> Result<()> {
    let mut unfinished = Vec::new();
    for (_, name, stored) in inner.store.list(DEFINITIONS, None).iter() {
        let definition = stored::parse(stored)?;
        let is_deleting = meta::is_deleting(&definition);
        if is_deleting || !definition::is_settled(&definition) {
            unfinished.push((stored.resource_version, name.to_string(), is_deleting));
        }
    }
    // Of two that want the same name, the older one gets it.
    unfinished.sort_unstable();
    for (_, name, is_deleting) in unfinished {
        if is_deleting {
            definition::clean_up(inner, &name).await?;
        } else {
            definition::settle(inner, &name).await?;
        }
    }
    Ok(())
}

/// Pods that were marked with a grace period of 0 and would have been removed right after.
async fn pods(inner: &Inner) -> Result<()> {
    for (namespace, name, stored) in inner.store.list("pods", None).iter() {
        let pod: Value = Partial(Shallow(2)).parse(&stored.bytes).map_err(Refusal::internal)?;
        let metadata = &pod["metadata"];
        let is_over = meta::is_deleting(&pod) && metadata["deletionGracePeriodSeconds"] == 0;
        if !is_over || metadata.get("finalizers").is_some() {
            continue;
        }
        let key = Key::new("pods", namespace.clone(), name.clone());
        match inner.store.write(Write::Delete { key, expected: stored.resource_version }).await {
            Ok(_) | Err(WriteError::NotFound | WriteError::Conflict { .. }) => {}
            Err(error) => return Err(storage::not_written(&error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
