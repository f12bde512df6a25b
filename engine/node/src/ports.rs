//! Pods share the machine's network: who holds the port that a container wanted.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;

use crate::runtime::{ContainerId, Runtime};
use crate::state::Inner;
use crate::{container, events};

/// Records an event for a container that has failed if another pod listens on one of the ports that it declares.
pub(crate) async fn report_clash<R: Runtime>(inner: &Inner<R>, failed: &ContainerId) {
    let Some((pod, others)) = scene(inner, failed) else { return };
    let ports = container::find(&pod, &failed.container).map(ports).unwrap_or_default();
    if ports.is_empty() {
        return;
    }
    for (holder, running) in others {
        for id in running {
            let listeners = inner.runtime.listeners(&id).await;
            for taken in listeners.into_iter().filter(|address| ports.contains(&address.port())) {
                let message = message(&holder, &id.container, taken);
                inner.config.recorder.warning(&events::container(&pod, &failed.container), "PortInUse", message);
            }
        }
    }
}

/// The pod of a container, and the running containers of all others.
type Scene = (Arc<Pod>, Vec<(Arc<Pod>, Vec<ContainerId>)>);

fn scene<R: Runtime>(inner: &Inner<R>, failed: &ContainerId) -> Option<Scene> {
    let pods = inner.pods();
    let pod = Arc::clone(&pods.get(&failed.pod_uid)?.pod);
    let others = pods.iter().filter(|(uid, _)| **uid != failed.pod_uid);
    let running = others.map(|(uid, record)| (Arc::clone(&record.pod), record.running(uid).collect()));
    Some((pod, running.collect()))
}

/// The TCP ports that a container says it has.
fn ports(container: &Container) -> BTreeSet<u16> {
    let tcp = container.ports.iter().flatten().filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP");
    tcp.filter_map(|port| u16::try_from(port.container_port).ok()).collect()
}

fn message(holder: &Pod, container: &str, taken: SocketAddr) -> String {
    let holder = format!("{}/{}", holder.namespace().unwrap_or_default(), holder.name_any());
    format!(
        "Port {} is taken: container {container} of pod {holder} listens on {taken}. Pods share the network of this machine: \
         let both listen on their own address, status.podIP, or on different ports",
        taken.port()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_tcp_ports_can_clash_with_a_listener() {
        let container: Container = serde_json::from_value(json!({"name": "app", "ports": [
            {"containerPort": 80}, {"containerPort": 443, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}
        ]}))
        .unwrap();
        assert_eq!(ports(&container), BTreeSet::from([80, 443]));
    }

    #[test]
    fn the_event_names_the_other_pod_and_says_what_to_do() {
        let holder: Pod = serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web-0"}})).unwrap();
        insta::assert_snapshot!(
            message(&holder, "app", "0.0.0.0:8080".parse().unwrap()),
            @"Port 8080 is taken: container app of pod shop/web-0 listens on 0.0.0.0:8080. Pods share the network of this machine: let both listen on their own address, status.podIP, or on different ports"
        );
    }
}
