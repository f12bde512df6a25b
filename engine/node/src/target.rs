//! The container that a request is about.

use axum::http::StatusCode;
use k8s_openapi::api::core::v1::Pod;

use crate::logs;
use crate::runtime::{ContainerId, Runtime};
use crate::state::Inner;

/// The newest attempt of a container, or the one before.
pub(crate) fn find<R: Runtime>(
    inner: &Inner<R>,
    namespace: &str,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<ContainerId, (StatusCode, String)> {
    let pods = inner.pods();
    let Some((uid, record)) = pods.named(namespace, pod) else {
        return Err((StatusCode::NOT_FOUND, format!("pod \"{pod}\" does not exist")));
    };
    if crate::container::find_any(&record.pod, container).is_none() {
        return Err((StatusCode::NOT_FOUND, format!("container \"{container}\" not found in pod \"{pod}\"")));
    }
    let attempt = logs::attempt(record.facts.get(container), container, pod, previous, waiting(&record.pod, container));
    let attempt = attempt.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    Ok(ContainerId { pod_uid: uid.clone(), container: container.to_owned(), attempt })
}

/// Why a container waits, as its status says it.
fn waiting<'a>(pod: &'a Pod, container: &str) -> &'a str {
    let status = pod.status.as_ref();
    let lists = [
        status.and_then(|status| status.init_container_statuses.as_ref()),
        status.and_then(|status| status.container_statuses.as_ref()),
        status.and_then(|status| status.ephemeral_container_statuses.as_ref()),
    ];
    let found = lists.into_iter().flatten().flatten().find(|status| status.name == container);
    let waiting = found.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
    waiting.unwrap_or("ContainerCreating")
}
