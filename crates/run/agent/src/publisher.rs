//! Sends what the ledger has left to write.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use pillion_assist::{Desired, Ledger, Look, PodName, Sent, Storage, Write};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::api::{Api, Request, Response, refusal};

/// The time of day.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Where results are handed in; copies are one and the same.
#[derive(Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

struct Shared {
    ledger: Mutex<Ledger>,
    changed: Notify,
    /// What the API server refused last, by what it changes.
    refused: Mutex<BTreeMap<String, String>>,
    clock: Clock,
}

impl Publisher {
    /// Nothing is published yet.
    pub fn new(pod: PodName, clock: Clock) -> Publisher {
        let ledger = Mutex::new(Ledger::new(pod));
        Publisher { shared: Arc::new(Shared { ledger, changed: Notify::new(), refused: Mutex::default(), clock }) }
    }

    /// Sets what a source wants written.
    pub fn set(&self, source: &str, desired: Desired) {
        if self.ledger().set(source, desired) {
            self.shared.changed.notify_one();
        }
    }

    /// Takes back what sources with this prefix have written.
    pub fn retire(&self, prefix: &str) {
        if self.ledger().retire(prefix) {
            self.shared.changed.notify_one();
        }
    }

    /// Takes back what one source has written.
    pub(crate) fn remove(&self, source: &str) {
        if self.ledger().remove(source) {
            self.shared.changed.notify_one();
        }
    }

    /// Follows a change of a list of storages, each of which is a source that `name` calls by its place.
    pub(crate) fn relist(&self, name: impl Fn(usize) -> String, before: &[&Storage], after: &[&Storage]) {
        if self.ledger().relist(name, before, after) {
            self.shared.changed.notify_one();
        }
    }

    /// The gauges, in the format of Prometheus.
    pub fn metrics(&self) -> String {
        let ledger = self.ledger();
        ledger.gauges().iter().fold(String::new(), |mut text, (name, value)| {
            let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
            text
        })
    }

    /// What cannot be written, each a sentence.
    pub fn problems(&self) -> Vec<String> {
        let refused = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut problems: Vec<String> = refused.iter().map(|(what, why)| format!("PATCH {what}: {why}")).collect();
        problems.extend(self.ledger().problems().map(|(source, problem)| format!("{source}: {problem}")));
        problems
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes for ever. One task does it, so that there is never a second write of the same change under way.
    pub async fn run(&self, api: &dyn Api) {
        loop {
            let looks = self.ledger().looks(self.now());
            for look in looks {
                self.look(api, &look).await;
            }
            let writes = self.ledger().due(self.now());
            for write in writes {
                let (sent, object) = self.send(api, &write).await;
                let (mut ledger, now) = (self.ledger(), self.now());
                ledger.sent(&write, sent, now);
                if let Some(object) = object {
                    ledger.answered(&write, &object, now);
                }
            }
            let now = self.now();
            let next = {
                let ledger = self.ledger();
                ledger.next_due(now).into_iter().chain(ledger.next_look()).min()
            };
            match next {
                None => self.shared.changed.notified().await,
                Some(at) => {
                    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.shared.changed.notified() => {}
                    }
                }
            }
        }
    }

    /// Asks how an object is now.
    async fn look(&self, api: &dyn Api, look: &Look) {
        let body = Bytes::from_static(look.body.as_bytes());
        let answer = api.send(Request { method: "PATCH", path: look.path.clone(), media: look.media, body }).await;
        let problem = match answer {
            Ok(response) if is_success(&response) => {
                let object = serde_json::from_slice(&response.body).unwrap_or_default();
                return self.ledger().looked(look, Some(&object), self.now());
            }
            Ok(Response { status: 404, .. }) => return self.ledger().looked(look, None, self.now()),
            Ok(response) => refusal(&response),
            Err(error) => error,
        };
        crate::log::line(format_args!(
            "PATCH {}: {problem}; whether anybody else has changed it is not known",
            look.path
        ));
        self.ledger().not_looked(look, self.now());
    }

    /// Sends a write. Returns how it ended, and the object as it is then if that is of use.
    async fn send(&self, api: &dyn Api, write: &Write) -> (Sent, Option<Value>) {
        let mut answer = patch(api, write).await;
        if let Ok(Response { status: 404, .. }) = &answer
            && let Some(created) = create(api, write).await
        {
            answer = created;
        }
        let mut object = None;
        let (sent, problem) = match answer {
            Ok(response) if is_success(&response) => {
                // Results of a whole namespace are long, and nothing is read from them.
                object = write.is_followed().then(|| serde_json::from_slice(&response.body).unwrap_or_default());
                (Sent::Written, None)
            }
            Ok(response) if matches!(response.status, 409 | 429 | 500..=599) => {
                (Sent::Failed, Some(refusal(&response)))
            }
            Ok(response) => (Sent::Refused, Some(refusal(&response))),
            Err(error) => (Sent::Failed, Some(error)),
        };
        let mut refused = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match problem {
            None => drop(refused.remove(&write.subject())),
            Some(problem) => {
                crate::log::line(format_args!("PATCH {}: {problem}", write.subject()));
                if sent == Sent::Refused && write.is_divisible() {
                    // Its parts are sent next, and which of them are refused is known then.
                    refused.remove(&write.subject());
                } else {
                    refused.insert(write.subject(), problem);
                }
            }
        }
        (sent, object)
    }
}

fn is_success(response: &Response) -> bool {
    (200..300).contains(&response.status)
}

async fn patch(api: &dyn Api, write: &Write) -> Result<Response, String> {
    let body = Bytes::from(write.body.to_string());
    api.send(Request { method: "PATCH", path: write.path.clone(), media: write.media, body }).await
}

/// A ConfigMap that is missing is made; other objects are not the agent's to make.
async fn create(api: &dyn Api, write: &Write) -> Option<Result<Response, String>> {
    let (list, name) = write.path.rsplit_once('/')?;
    let data: &Value = write.body.get("data").filter(|_| list.ends_with("/configmaps"))?;
    // With the label by which the manager finds results to prune.
    let metadata = json!({"name": name, "labels": {"pillion.dev/agent": "result"}});
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let body = Bytes::from(body.to_string());
    Some(api.send(Request { method: "POST", path: list.to_owned(), media: "application/json", body }).await)
}
