//! The last words of the containers that made a Job fail.

use std::io;

use futures::AsyncReadExt as _;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Api, ListParams, LogParams};
use kube::{Client, ResourceExt as _};

use super::view::{Key, short};
use crate::terminal::clean;

/// So many lines of each container are shown.
const LINES: i64 = 10;

/// The end of the log of each failed container of a Job's pods, each under a heading.
pub(crate) async fn last_words(client: &Client, (namespace, name): &Key) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
    let mut lines = Vec::new();
    // What cannot be read is left out: that the Job failed is reported in any case.
    for pod in pods.list(&of_job).await.map(|list| list.items).unwrap_or_default() {
        let pod_name = short(&(namespace.clone(), pod.name_any()));
        for (container, code) in failed(&pod) {
            lines.push(format!("--- pod {pod_name}, container {container}, exit {code}"));
            let end = LogParams { container: Some(container), tail_lines: Some(LINES), ..LogParams::default() };
            lines.extend(text(&read(&pods, &pod.name_any(), &end).await.unwrap_or_default()));
        }
    }
    lines
}

/// A log as its bytes: containers write what they like.
async fn read(pods: &Api<Pod>, name: &str, params: &LogParams) -> io::Result<Vec<u8>> {
    let mut log = Vec::new();
    pods.log_stream(name, params).await.map_err(io::Error::other)?.read_to_end(&mut log).await?;
    Ok(log)
}

/// The lines of a log, whatever is in it.
fn text(log: &[u8]) -> Vec<String> {
    clean(&String::from_utf8_lossy(log)).lines().map(str::to_owned).collect()
}

/// Names and exit codes of the containers that failed. A native sidecar does not decide about its pod.
fn failed(pod: &Pod) -> Vec<(String, i32)> {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let status = pod.status.as_ref();
    let statuses = status.into_iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    let code = |status: &ContainerStatus| Some(status.state.as_ref()?.terminated.as_ref()?.exit_code);
    statuses
        .filter(|status| !sidecars.contains(&status.name.as_str()))
        .filter_map(|status| Some((status.name.clone(), code(status)?)))
        .filter(|(_, code)| *code != 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_text_is_shown_as_far_as_it_is() {
        assert_eq!(text(b"no paper\xff left\r\n\x1b[31mred"), ["no paper\u{fffd} left^M", "^[[31mred"]);
    }

    #[test]
    fn only_containers_that_decide_about_the_pod_and_failed_are_told() {
        let ended = |name: &str, code: i32| {
            json!({"name": name, "state": {"terminated": {"exitCode": code}}, "image": "",
            "imageID": "", "ready": false, "restartCount": 0})
        };
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
                "containers": [{"name": "main"}]},
            "status": {"initContainerStatuses": [ended("setup", 0), ended("proxy", 143)],
                "containerStatuses": [ended("main", 3)]}
        }))
        .unwrap();
        assert_eq!(failed(&pod), [("main".to_owned(), 3)]);
    }
}
