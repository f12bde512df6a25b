//! Changes pods, one step each.

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use pillion_api::pod::Pod;
use pillion_informer::{Outcome, Watched};
use pillion_rollout::{Change, PodUpdate, Step, Target};
use serde_json::json;

use super::{CONTROLLER, PAUSE, Rollout};
use crate::controllers::reference;
use crate::lock::lock;
use crate::metrics::PodWrite;

/// How many pods are written at the same time.
const AT_ONCE: usize = 16;

/// How a step of a pod ended.
enum Done {
    Written,
    /// There was nothing to write: the pod is gone, or the cache was behind.
    Nothing,
    /// The pod has changed since it was read.
    Conflict,
    /// The API server will refuse the same again.
    Refused(String),
    Failed(kube::Error),
}

impl Rollout<'_> {
    /// Makes the changes that are planned. After the first failure of the API server no further one is begun.
    pub(super) async fn change_pods(&self, target: &Target, updates: &[PodUpdate]) -> Outcome {
        let mut waiting = updates.iter();
        let mut running = FuturesUnordered::new();
        let (mut is_failing, mut is_again, mut has_progressed) = (false, false, false);
        loop {
            while running.len() < AT_ONCE && !is_failing {
                let Some(update) = waiting.next() else { break };
                running.push(self.change_pod(target, update).map(move |done| (update, done)).boxed());
            }
            let Some((update, done)) = running.next().await else { break };
            let outcome = match done {
                Done::Nothing => continue,
                Done::Written => {
                    has_progressed = true;
                    if let Some(refusals) = lock(&self.refusals).get_mut(target.set().name()) {
                        refusals.remove(&update.uid);
                    }
                    PodWrite::Written
                }
                Done::Conflict => {
                    is_again = true;
                    PodWrite::Conflict
                }
                Done::Refused(message) => {
                    self.refused(target, update, &message);
                    is_again = true;
                    PodWrite::Refused
                }
                Done::Failed(error) => {
                    tracing::warn!(pod = update.name, namespace = update.namespace, %error, "a pod could not be updated");
                    is_failing = true;
                    PodWrite::Failed
                }
            };
            self.inner.config.metrics.changed_pod(target.set().name(), outcome);
        }
        if is_failing {
            return Outcome::Failed { error: "pods could not be updated".to_owned(), has_progressed };
        }
        Outcome::Done(is_again.then_some(PAUSE))
    }

    async fn change_pod(&self, target: &Target, update: &PodUpdate) -> Done {
        let config = &self.inner.config;
        let pods = ApiResource::erase::<KubePod>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(config.client.clone(), &update.namespace, &pods);
        let mut live = match api.get_opt(&update.name).await {
            Ok(Some(live)) => live,
            Ok(None) => return Done::Nothing,
            Err(error) => return ended(error),
        };
        let pod = serde_json::to_value(&live).ok().and_then(|value| Pod::new(value).ok());
        let Some(pod) = pod else { return Done::Nothing };
        let Change { patch, condition, notes } = target.change(update, &pod, (config.now)());
        let about = reference::pod(&update.namespace, &update.name, &update.uid);
        let parameters = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        let mut done = Done::Nothing;
        let is_reset = matches!(update.step, Step::Reset { .. });
        if !patch.0.is_empty() {
            match api.patch(&update.name, &parameters, &Patch::Json::<()>(patch)).await {
                Ok(written) => live = written,
                Err(error) => {
                    let message = format!("the container that no longer works keeps its image: {error}");
                    let done = ended(error);
                    if is_reset && matches!(done, Done::Refused(_) | Done::Failed(_)) {
                        self.recorder.warning(&about, "ResetContainerFailed", message);
                    }
                    return done;
                }
            }
            if is_reset {
                let message = "the container that no longer works has the empty image";
                self.recorder.normal(&about, "ResetContainerSucceed", message);
            }
            for note in &notes {
                self.recorder.warning(&about, &note.reason.to_string(), &note.message);
            }
            self.wrote(&live);
            done = Done::Written;
        }
        if let Some(condition) = condition {
            let status = json!({
                "metadata": {"uid": update.uid, "resourceVersion": version(&live)},
                "status": {"conditions": [condition]},
            });
            match api.patch_status(&update.name, &parameters, &Patch::Strategic(status)).await {
                Ok(written) => self.wrote(&written),
                // The images are written. The next plan writes the condition.
                Err(error) => return ended(error),
            }
            done = Done::Written;
        }
        done
    }

    /// Puts what a write was answered with into the cache.
    fn wrote(&self, pod: &DynamicObject) {
        if let Some(pod) = Watched::of(pod) {
            self.pods.written(pod);
        }
    }

    /// Remembers a pod that cannot be updated, and says so once.
    fn refused(&self, target: &Target, update: &PodUpdate, message: &str) {
        let set = target.set();
        let is_news = {
            let mut refusals = lock(&self.refusals);
            let refusals = refusals.entry(set.name().to_owned()).or_default();
            refusals.add(target, &update.uid, message, (self.inner.config.now)())
        };
        if is_news {
            let about = reference::pod(&update.namespace, &update.name, &update.uid);
            let text = format!("SidecarSet {:?} cannot update the pod: {message}", set.name());
            self.recorder.warning(&about, "SidecarUpdateRefused", text);
        }
    }
}

fn version(object: &DynamicObject) -> Option<&str> {
    object.metadata.resource_version.as_deref()
}

/// What an error of the API server means for a pod.
fn ended(error: kube::Error) -> Done {
    match &error {
        kube::Error::Api(answer) => match answer.code {
            404 | 410 => Done::Nothing,
            409 => Done::Conflict,
            // What passes: credentials that are renewed, and an API server that asks for patience.
            401 | 408 | 429 => Done::Failed(error),
            400..=499 => Done::Refused(answer.message.clone()),
            _ => Done::Failed(error),
        },
        _ => Done::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_be_refused_again_is_told_from_what_passes() {
        let ended = |code: u16| {
            let answer = json!({"status": "Failure", "message": "no", "reason": "", "code": code});
            ended(kube::Error::Api(serde_json::from_value(answer).unwrap()))
        };
        for code in [400, 403, 413, 422] {
            assert!(matches!(ended(code), Done::Refused(message) if message == "no"), "{code}");
        }
        for code in [401, 408, 429, 500, 503] {
            assert!(matches!(ended(code), Done::Failed(_)), "{code}");
        }
        assert!(matches!((ended(404), ended(409)), (Done::Nothing, Done::Conflict)));
    }
}
