//! The few requests that the agent sends to the API server.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A future that can be kept in a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `PATCH` or `POST`.
    pub method: &'static str,
    /// With its query.
    pub path: String,
    /// The media type of the body.
    pub media: &'static str,
    /// The body; empty for a GET.
    pub body: Bytes,
}

/// What the API server answered.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    pub body: Bytes,
}

/// An API server, wherever it is: in the cluster, or in a test's own process.
pub trait Api: Send + Sync + 'static {
    /// Sends a request. The error is a connection that failed.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, String>>;

    /// The lines of a watch, until it ends.
    fn watch(&self, path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>>;
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It does not exist.
    NotFound,
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::NotFound => f.write_str("it does not exist"),
            ReadError::Other(message) => f.write_str(message),
        }
    }
}

/// Reads an object.
pub(crate) async fn get(api: &dyn Api, path: String) -> Result<Value, ReadError> {
    let request = Request { method: "GET", path, media: "", body: Bytes::new() };
    let response = api.send(request).await.map_err(ReadError::Other)?;
    match response.status {
        200 => serde_json::from_slice(&response.body).map_err(|error| ReadError::Other(error.to_string())),
        404 => Err(ReadError::NotFound),
        _ => Err(ReadError::Other(refusal(&response))),
    }
}

/// What the API server says of a request that it does not take.
pub(crate) fn refusal(response: &Response) -> String {
    let status: Option<Value> = serde_json::from_slice(&response.body).ok();
    let message = status.as_ref().and_then(|status| status["message"].as_str()).unwrap_or_default();
    format!("{}: {message}", response.status)
}

/// `data` of a ConfigMap.
pub(crate) fn data(object: &Value) -> BTreeMap<String, String> {
    let entries = object["data"].as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Between two looks at a ConfigMap that cannot be read or watched.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Sends the data of a ConfigMap now and whenever it changes, `None` while it does not exist; until the receiver is dropped.
pub(crate) async fn follow_config_map(
    api: &dyn Api,
    namespace: &str,
    name: &str,
    changes: mpsc::Sender<Option<BTreeMap<String, String>>>,
) {
    let list = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut pause = FIRST_PAUSE;
    let mut last: Option<Option<BTreeMap<String, String>>> = None;
    loop {
        let (found, version) = match get(api, format!("{list}/{name}")).await {
            Ok(object) => {
                let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                (Ok(Some(data(&object))), version)
            }
            Err(ReadError::NotFound) => (Ok(None), String::new()),
            Err(ReadError::Other(error)) => (Err(error), String::new()),
        };
        match found {
            Err(error) => {
                crate::log::line(format_args!("the ConfigMap {namespace}/{name} cannot be read: {error}"));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            Ok(data) => {
                if last.as_ref() != Some(&data) {
                    last = Some(data.clone());
                    if changes.send(data).await.is_err() {
                        return;
                    }
                }
            }
        }
        // Named by a field, so that a Role with its resourceName allows it.
        let query =
            format!("watch=true&timeoutSeconds=290&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
        let began = Instant::now();
        let line = match api.watch(format!("{list}?{query}")).await {
            // Whatever happens to it, it is read again: a watch is only an alarm clock. One that says nothing for too long is dead.
            Ok(mut lines) => tokio::time::timeout(Duration::from_mins(6), lines.recv()).await.ok().flatten(),
            Err(error) => {
                crate::log::line(format_args!("the ConfigMap {namespace}/{name} cannot be watched: {error}"));
                None
            }
        };
        if changes.is_closed() {
            return;
        }
        if line.is_some_and(|line| line["type"] != "ERROR") {
            pause = FIRST_PAUSE;
            continue;
        }
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        // Without a watch it is still followed, only more slowly.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers every GET with the same object, and every watch with one error, or none at all.
    struct NoWatch {
        reads: Mutex<u32>,
        error: bool,
    }

    impl Api for NoWatch {
        fn send(&self, _request: Request) -> BoxFuture<'_, Result<Response, String>> {
            *self.reads.lock().unwrap() += 1;
            Box::pin(async { Ok(Response { status: 200, body: r#"{"data": {"a": "b"}}"#.into() }) })
        }

        fn watch(&self, _path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>> {
            Box::pin(async move {
                if !self.error {
                    return Err("403 Forbidden".to_owned());
                }
                let (sender, lines) = mpsc::channel(1);
                let _ = sender.send(serde_json::json!({"type": "ERROR", "object": {"code": 410}})).await;
                Ok(lines)
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_config_map_that_cannot_be_watched_is_read_ever_more_slowly() {
        for error in [false, true] {
            let api = NoWatch { reads: Mutex::default(), error };
            let (sender, mut changes) = mpsc::channel(1);
            let following = follow_config_map(&api, "default", "update", sender);
            assert!(tokio::time::timeout(Duration::from_hours(1), following).await.is_err());
            let reads = *api.reads.lock().unwrap();
            assert!((50..70).contains(&reads), "{reads} reads in an hour, error {error}");
            assert_eq!(changes.recv().await.unwrap().unwrap()["a"], "b");
            assert!(changes.recv().await.is_none(), "and nothing has changed");
        }
    }
}
