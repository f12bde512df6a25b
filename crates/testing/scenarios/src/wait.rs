//! Waiting for conditions.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::api::Api;
use kube::runtime::wait::await_condition;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longer than anything takes on a small machine that builds at the same time.
const PATIENCE: Duration = Duration::from_mins(3);

/// Waits until an object is as `condition` wants it, and gives it.
pub(crate) async fn for_object<K>(
    api: Api<K>,
    name: &str,
    what: &str,
    condition: impl Fn(&K) -> bool,
) -> anyhow::Result<K>
where
    K: kube::Resource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    let holds = |object: Option<&K>| object.is_some_and(&condition);
    match tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, holds)).await {
        Ok(Ok(Some(object))) => Ok(object),
        Ok(Ok(None)) => bail!("{name} went away before it was {what}"),
        Ok(Err(error)) => Err(error).with_context(|| format!("waiting until {name} is {what}")),
        Err(_) => {
            let last = api.get_opt(name).await?.map(|object| serde_json::to_string_pretty(&object)).transpose()?;
            bail!("{name} was not {what} in time; it is {}", last.as_deref().unwrap_or("not there"));
        }
    }
}

/// Asks until the answer is `Some`; for what cannot be watched.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let asking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        loop {
            tick.tick().await;
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| bail!("{what} did not happen in time"))
}
