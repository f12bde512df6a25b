//! The scenarios, by what they are about.

pub mod custom_resources;
pub mod jobs;
pub mod native_sidecars;
pub mod service_accounts;
pub mod terminal_phase;
pub mod updates;
pub mod usage;
pub mod webhooks;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use pillion_cluster::image::SHELL;
use serde_json::{Value, json};

/// A container that runs a line of shell.
pub(crate) fn shell(name: &str, line: &str) -> Value {
    json!({"name": name, "image": SHELL, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", line]})
}

/// A line of shell that goes on until it is told to end.
pub(crate) const UNTIL_TERM: &str = "trap 'exit 0' TERM; while :; do sleep 1; done";

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
