//! Whether the API server calls the webhooks, and their answers count.
//!
//! A SidecarSet that is created for a moment must come back with its hash, which only the manager writes. A dry run of a pod that it selects
//! must come back with its container: calls for pods fail open, so nothing else would show that they arrive. The SidecarSet selects a label
//! that no other pod has.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
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
    /// The API server does not do a dry run of pods here.
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
    retry(deadline, timeout, options, async || try_set(client, options).await, say).await?;
    say("a SidecarSet was admitted through the manager");
    retry(deadline, timeout, options, async || try_pod(client, options).await, say).await?;
    say("a pod was admitted through the manager");
    Ok(())
}

async fn retry(
    deadline: Instant,
    timeout: Duration,
    options: &Options,
    attempt: impl AsyncFn() -> Attempt,
    say: Say<'_>,
) -> Result<(), Error> {
    loop {
        match attempt().await {
            Attempt::Done => return Ok(()),
            Attempt::Impossible(why) => {
                say(&format!("pods cannot be checked: {why}"));
                return Ok(());
            }
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
        Err(error) => Attempt::Again(error.to_string()),
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
        Err(kube::Error::Api(status)) if status.code == 400 && status.message.contains("does not support dry run") => {
            Attempt::Impossible(status.message)
        }
        Err(error) => Attempt::Again(error.to_string()),
    }
}

/// Deletes the SidecarSet. An installation that was interrupted may have left it.
pub(crate) async fn clean_up(client: &Client) -> Result<(), Error> {
    place().delete(client, &|_| {}).await
}

fn place() -> Place {
    Place::new(names::V1BETA1, names::SIDECARSET_KIND, None, NAME)
}

/// A namespace whose pods the manager sees: not its own, and not `kube-system`.
fn namespace(options: &Options) -> &str {
    if options.namespace == "default" { &options.revisions_namespace } else { "default" }
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
