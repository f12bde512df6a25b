//! Volumes that follow what they show: ConfigMaps, Secrets, the pod itself, tokens.

use std::sync::Arc;
use std::time::Duration;

use crate::pods::Sandbox;
use crate::runtime::Runtime;
use crate::state::Inner;
use crate::volumes;

/// Between looks at all volumes.
const PERIOD: Duration = Duration::from_mins(1);

/// Keeps the volumes of all pods up to date, for ever.
pub(crate) async fn keep<R: Runtime>(inner: Arc<Inner<R>>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let uids = inner.pods().uids();
        for uid in &uids {
            refresh(&inner, uid).await;
        }
    }
}

async fn refresh<R: Runtime>(inner: &Inner<R>, uid: &str) {
    let known = inner.pods().get(uid).and_then(|record| {
        let shown = record.sandbox == Sandbox::Ready && volumes::changes(&record.pod);
        Some((Arc::clone(&record.pod), Arc::clone(record.mounted.as_ref().filter(|_| shown)?)))
    });
    let Some((pod, before)) = known else { return };
    // What is gone or cannot be read now stays as it was; what the pod needs was checked when it started.
    let Ok(after) = volumes::mount(&inner.config, &pod, &before, true).await else { return };
    for volume in volumes::changed(&before, &after) {
        if let Err(error) = inner.runtime.update_volume(uid, volume.clone()).await {
            tracing::warn!(%error, volume = volume.name, "a volume was not brought up to date");
            return;
        }
    }
    if let Some(record) = inner.pods().get_mut(uid).filter(|record| record.sandbox == Sandbox::Ready) {
        record.mounted = Some(Arc::new(after));
    }
}
