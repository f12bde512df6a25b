//! Many who change the same object.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::json;
use tokio::task::JoinSet;

use crate::Namespace;

const TASKS: u32 = 20;
const INCREMENTS: u32 = 50;

/// Each reads, adds one and writes what it read, and does it again when somebody else was faster: no increment is lost.
pub async fn concurrent_increments_all_count(namespace: &Namespace) -> anyhow::Result<()> {
    namespace.create::<ConfigMap>(json!({"metadata": {"name": "counter"}, "data": {"count": "0"}})).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let namespace = namespace.clone();
        tasks.spawn(async move {
            let mut conflicts = 0;
            for _ in 0..INCREMENTS {
                while !increment(&namespace).await? {
                    conflicts += 1;
                }
            }
            anyhow::Ok(conflicts)
        });
    }
    let mut conflicts = 0;
    while let Some(task) = tasks.join_next().await {
        conflicts += task??;
    }
    let count = count(&namespace.api::<ConfigMap>().get("counter").await?)?;
    ensure!(count == TASKS * INCREMENTS, "{count} increments are left after {conflicts} conflicts");
    ensure!(conflicts > 0, "nobody was in anybody's way, so this showed nothing");
    Ok(())
}

/// Adds one; false if somebody else wrote between.
async fn increment(namespace: &Namespace) -> anyhow::Result<bool> {
    let counters = namespace.api::<ConfigMap>();
    let mut counter = counters.get("counter").await?;
    let next = count(&counter)? + 1;
    counter.data.get_or_insert_default().insert("count".to_owned(), next.to_string());
    match counters.replace("counter", &PostParams::default(), &counter).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn count(counter: &ConfigMap) -> anyhow::Result<u32> {
    let count = counter.data.as_ref().and_then(|data| data.get("count")).context("the counter has no count")?;
    Ok(count.parse()?)
}
