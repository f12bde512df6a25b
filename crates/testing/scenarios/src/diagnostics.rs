//! What is in a namespace, for the log of a scenario that failed.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, LogParams};

use crate::namespace::Namespace;

/// Prints objects, events and logs. Whatever cannot be had is left out: the failure itself is what matters.
pub(crate) async fn print(namespace: &Namespace) {
    eprintln!("---- namespace {}", namespace.name());
    let list = ListParams::default();
    for job in namespace.api::<Job>().list(&list).await.into_iter().flatten() {
        eprintln!("job {}: {}", job.name_any(), json(&job.status));
    }
    let pods: Vec<Pod> = namespace.api::<Pod>().list(&list).await.into_iter().flatten().collect();
    for pod in &pods {
        eprintln!("pod {}: {}", pod.name_any(), json(&pod.status));
    }
    let mut events: Vec<Event> = namespace.api::<Event>().list(&list).await.into_iter().flatten().collect();
    events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    for event in events {
        let object = event.involved_object;
        let (kind, name) = (object.kind.unwrap_or_default(), object.name.unwrap_or_default());
        eprintln!("event {kind}/{name}: {}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default());
    }
    print_logs(&namespace.api(), &pods, 50).await;
}

/// Prints the logs of the pods of a namespace that a scenario has installed something in.
pub(crate) async fn print_logs_of(api: &Api<Pod>) {
    let pods: Vec<Pod> = api.list(&ListParams::default()).await.into_iter().flatten().collect();
    print_logs(api, &pods, 1000).await;
}

async fn print_logs(api: &Api<Pod>, pods: &[Pod], lines: i64) {
    for pod in pods {
        let spec = pod.spec.iter();
        let containers = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        for container in containers {
            let parameters =
                LogParams { container: Some(container.name.clone()), tail_lines: Some(lines), ..LogParams::default() };
            // A container that has not started has none, and one that has written nothing is not worth a line.
            if let Ok(log) = api.logs(&pod.name_any(), &parameters).await
                && !log.is_empty()
            {
                eprintln!("log of {}/{}:\n{log}", pod.name_any(), container.name);
            }
        }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
