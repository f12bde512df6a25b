//! Whether the API server calls the webhooks, and their answers count.
//!
//! A SidecarSet that is created for a moment must come back with its hash, which only the manager writes. A dry run of a pod that it selects
//! must come back with its container: calls for pods fail open, so nothing else would show that they arrive. The SidecarSet selects a label
//! that no other pod has. A cluster may refuse the pod, by a policy say: then it cannot be tried, and the installation is fine all the same.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::core::Status;
use kube::{Client, ResourceExt as _};
use pillion_api::names;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::Error;
use crate::manifests::SERVICE;
use crate::objects::{Place, Say};
use crate::options::Options;

/// The API server learns of a new registration within moments.
const PAUSE: Duration = Duration::from_millis(500);

/// The name of the SidecarSet, of its container, and of the pod.
const NAME: &str = "pillion-install-check";

/// What came of one attempt.
enum Attempt {
    Done,
    /// It cannot be tried in this cluster.
    Impossible(String),
    Again(String),
}

/// Returns when a SidecarSet and a pod have been admitted by the manager.
pub(crate) async fn admission(
    client: &Client,
    options: &Options,
    deadline: Instant,
    timeout: Duration,
    say: Say<'_>,
) -> Result<(), Error> {
    let outcome = try_both(client, options, deadline, timeout, say).await;
    // It goes whatever has come of it; what went wrong first is what counts.
    let cleaned = clean_up(client).await;
    outcome.and(cleaned)
}

async fn try_both(
    client: &Client,
    options: &Options,
    deadline: Instant,
    timeout: Duration,
    say: Say<'_>,
) -> Result<(), Error> {
    clean_up(client).await?;
    retry(deadline, timeout, options, async || try_set(client, options).await).await?;
    say("a SidecarSet was admitted through the manager");
    match retry(deadline, timeout, options, async || try_pod(client, options).await).await? {
        None => say("a pod was admitted through the manager"),
        Some(why) => say(&format!("pods cannot be checked: {why}")),
    }
    Ok(())
}

/// Tries until it is done, or gives why it is impossible.
async fn retry(
    deadline: Instant,
    timeout: Duration,
    options: &Options,
    attempt: impl AsyncFn() -> Attempt,
) -> Result<Option<String>, Error> {
    loop {
        match attempt().await {
            Attempt::Done => return Ok(None),
            Attempt::Impossible(why) => return Ok(Some(why)),
            Attempt::Again(why) if Instant::now() >= deadline => {
                let service = format!("{}/{SERVICE}", options.namespace);
                return Err(Error::NotAdmitted { seconds: timeout.as_secs(), why, service });
            }
            Attempt::Again(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn try_set(client: &Client, options: &Options) -> Attempt {
    let set = match serde_json::from_value(sidecar_set(options)) {
        Ok(set) => set,
        Err(error) => return Attempt::Again(error.to_string()),
    };
    match place().api(client).create(&PostParams::default(), &set).await {
        Ok(created) if created.annotations().contains_key(names::HASH) => Attempt::Done,
        Ok(_) => match clean_up(client).await {
            Ok(()) => Attempt::Again("a SidecarSet was stored without the manager's defaults".to_owned()),
            Err(error) => Attempt::Again(error.to_string()),
        },
        Err(error) => Attempt::Again(reason(error)),
    }
}

async fn try_pod(client: &Client, options: &Options) -> Attempt {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace(options));
    let pod = match serde_json::from_value(pod(options)) {
        Ok(pod) => pod,
        Err(error) => return Attempt::Again(error.to_string()),
    };
    match pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &pod).await {
        Ok(admitted) => {
            let mut containers = admitted.spec.iter().flat_map(|spec| &spec.containers);
            if containers.any(|container| container.name == NAME) {
                Attempt::Done
            } else {
                Attempt::Again("a pod was admitted without the sidecar that it should have".to_owned())
            }
        }
        Err(kube::Error::Api(status)) if is_refused_by_others(&status) => Attempt::Impossible(status.message),
        Err(error) => Attempt::Again(reason(error)),
    }
}

/// Whether the pod does not get through for a reason that has nothing to do with the manager: another webhook that does not support dry runs or
/// denies it, a policy, a quota, or the rights of whoever installs.
fn is_refused_by_others(status: &Status) -> bool {
    let says = |text: &str| status.message.contains(text);
    let sentences = ["does not support dry run", "denied the request", "denied request"];
    // Other answers of 422 are about what the manager has made of the pod.
    let is_refusal = status.code == 403 || sentences.into_iter().any(says);
    // Our own webhooks name themselves; the account of a namespace that was just created is there in a moment.
    is_refusal && !says(".pillion.dev\"") && !says("error looking up service account")
}

/// What the API server says, and nothing around it.
fn reason(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        error => error.to_string(),
    }
}

/// Deletes the SidecarSet. An installation that was interrupted may have left it.
pub(crate) async fn clean_up(client: &Client) -> Result<(), Error> {
    place().delete(client, &|_| {}).await
}

fn place() -> Place {
    Place::new(names::V1BETA1, names::SIDECARSET_KIND, None, NAME)
}

/// A namespace that exists and whose pods the manager sees: not its own, and not `kube-system`.
pub(crate) fn namespace(options: &Options) -> &str {
    let is_seen = |name: &&str| *name != options.namespace && *name != "kube-system";
    ["default", options.revisions_namespace.as_str()].into_iter().find(is_seen).unwrap_or("kube-public")
}

fn sidecar_set(options: &Options) -> Value {
    json!({
        "apiVersion": names::V1BETA1,
        "kind": names::SIDECARSET_KIND,
        "metadata": {"name": NAME},
        "spec": {
            "namespaceSelector": {"matchLabels": {names::NAMESPACE_NAME: namespace(options)}},
            "selector": {"matchLabels": {names::INSTALL_CHECK: "true"}},
            "containers": [container(NAME, options)],
        },
    })
}

fn pod(options: &Options) -> Value {
    json!({
        "metadata": {"name": NAME, "labels": {names::INSTALL_CHECK: "true"}},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container("app", options)],
        },
    })
}

/// Never run; what the strictest policies ask for, and an image that the cluster is known to admit.
fn container(name: &str, options: &Options) -> Value {
    json!({
        "name": name,
        "image": options.image,
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_is_tried_in_a_namespace_that_the_manager_sees() {
        let rows = [
            ("pillion-system", "kruise-system", "default"),
            ("kube-system", "kruise-system", "default"),
            ("default", "kruise-system", "kruise-system"),
            ("default", "default", "kube-public"),
            ("default", "kube-system", "kube-public"),
        ];
        for (home, revisions, expected) in rows {
            let options =
                Options { namespace: home.to_owned(), revisions_namespace: revisions.to_owned(), ..Options::default() };
            assert_eq!(namespace(&options), expected, "{home} {revisions}");
        }
    }

    #[test]
    fn a_refusal_by_somebody_else_is_told_from_one_by_the_manager() {
        let rows = [
            (400, "admission webhook \"a.example.com\" does not support dry run", true),
            (400, "admission webhook \"validate.kyverno.svc-fail\" denied the request: no pods in default", true),
            (403, "admission webhook \"validation.gatekeeper.sh\" denied the request: no pods in default", true),
            (422, "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a' denied request: no", true),
            (403, "pods is forbidden: User \"a\" cannot create resource \"pods\" in API group \"\"", true),
            (403, "admission webhook \"pods.pillion.dev\" denied the request: a SidecarSet is wrong", false),
            (403, "pods \"a\" is forbidden: error looking up service account a/default: not found", false),
            (500, "Internal error occurred: failed calling webhook \"a.example.com\"", false),
            (404, "namespaces \"a\" not found", false),
        ];
        for (code, message, expected) in rows {
            assert_eq!(is_refused_by_others(&Status::failure(message, "").with_code(code)), expected, "{message}");
        }
    }
}
