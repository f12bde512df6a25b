//! The scenarios, by what they are about.

pub mod agents;
pub mod configuration;
pub mod containers;
pub mod custom_resources;
pub mod daemon_sets;
pub mod deletion;
pub mod deployments;
pub mod disruptions;
pub mod environment;
pub mod init_containers;
pub mod injection;
pub mod installation;
pub mod interruptions;
pub mod job_failures;
pub mod jobs;
mod managed;
pub mod marked_sidecars;
pub mod namespaces;
pub mod native_sidecars;
pub mod probes;
pub mod rightsizing;
pub mod rollouts;
pub mod scheduling;
pub mod service_accounts;
pub mod sidecar_lives;
pub mod sidecar_rollouts;
pub mod stateful_sets;
pub mod terminal_phase;
pub mod termination;
pub mod updates;
pub mod usage;
pub mod volumes;
pub mod webhooks;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use pillion_cluster::image::SHELL;
use serde_json::{Value, json};

use crate::{Namespace, wait};

/// A container that runs a line of shell.
pub(crate) fn shell(name: &str, line: &str) -> Value {
    json!({"name": name, "image": SHELL, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", line]})
}

/// A native sidecar that runs a line of shell.
pub(crate) fn sidecar(name: &str, line: &str) -> Value {
    with(shell(name, line), json!({"restartPolicy": "Always"}))
}

/// The same object with more fields.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// A pod called `app`.
pub(crate) fn app(spec: Value) -> Value {
    json!({"metadata": {"name": "app"}, "spec": with(json!({"terminationGracePeriodSeconds": 5}), spec)})
}

/// A line of shell that runs until it gets SIGTERM, and then ends at once.
pub(crate) const UNTIL_TERM: &str = "trap 'exit 0' TERM; sleep 3600 & wait $!";

/// A line of shell that runs until it is killed.
pub(crate) const IGNORES_TERM: &str = "trap '' TERM; while :; do sleep 1; done";

/// A line of shell that holds 50 MB, and then runs until it gets SIGTERM.
pub(crate) fn hungry() -> String {
    format!("fill=$(head -c 50000000 /dev/zero | tr '\\0' x)\n{UNTIL_TERM}")
}

/// The hook of a container that runs a line of shell before the container is stopped.
pub(crate) fn pre_stop(line: &str) -> Value {
    json!({"lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", line]}}}})
}

/// Long enough to be seen running: a kubelet looks once a second.
pub(crate) const A_WHILE: &str = "sleep 3";

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The status of a container or init container.
pub(crate) fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten()).find(|status| status.name == container)
}

pub(crate) fn is_running(pod: &Pod, container: &str) -> bool {
    status_of(pod, container).and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn waiting_reason<'a>(pod: &'a Pod, container: &str) -> Option<&'a str> {
    status_of(pod, container)?.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

pub(crate) fn restarts(pod: &Pod, container: &str) -> Option<i32> {
    status_of(pod, container).map(|status| status.restart_count)
}

/// Waits until a Job has a condition that is true.
pub(crate) async fn job_is(namespace: &Namespace, name: &str, condition: &str) -> anyhow::Result<Job> {
    let has = |job: &Job| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|found| found.type_ == condition && found.status == "True")
    };
    wait::for_object(namespace.api::<Job>(), name, condition, has).await
}
