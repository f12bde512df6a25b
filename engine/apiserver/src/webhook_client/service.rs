//! The pod that answers for a Service: on one machine nothing else stands between them.

use std::net::{IpAddr, SocketAddr};

use pillion_store::{Key, Store};
use serde_json::Value;

/// The address and port of a ready pod behind a Service. The error is the text for the caller.
pub(super) fn endpoint(store: &Store, namespace: &str, name: &str, port: u16) -> Result<SocketAddr, String> {
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let service =
        store.get(&Key::new("services", namespace, name)).ok_or_else(|| format!("service {name:?} not found"))?;
    let service = parse(&service.bytes);
    let ports = service["spec"]["ports"].as_array();
    let is_it = |served: &&Value| served["port"].as_u64() == Some(port.into());
    let served = ports.into_iter().flatten().find(is_it);
    let served = served.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let pods = store.list("pods", Some(namespace));
    let found = pods.iter().find_map(|(_, _, pod)| behind(&service, served, &parse(&pod.bytes)));
    found.ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

/// Where a pod answers for the Service, if it does.
fn behind(service: &Value, served: &Value, pod: &Value) -> Option<SocketAddr> {
    let selector = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty())?;
    let is_selected = selector.iter().all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value));
    let conditions = pod["status"]["conditions"].as_array()?;
    let is_ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if !is_selected || !is_ready {
        return None;
    }
    let address: IpAddr = pod["status"]["podIP"].as_str()?.parse().ok()?;
    let port = match &served["targetPort"] {
        Value::String(name) => named_port(pod, name)?,
        Value::Number(number) => number.as_u64()?,
        _ => served["port"].as_u64()?,
    };
    Some(SocketAddr::new(address, u16::try_from(port).ok()?))
}

/// The port of this name, of containers and of native sidecars.
fn named_port(pod: &Value, name: &str) -> Option<u64> {
    let all = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    let sidecars = all("initContainers").filter(|container| container["restartPolicy"] == "Always");
    let ports =
        all("containers").chain(sidecars).flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports.into_iter().find(|port| port["name"] == name).and_then(|port| port["containerPort"].as_u64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ready_pod_that_is_selected_answers_at_the_target_port() {
        let service = |target: Value| json!({"spec": {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": target}]}});
        let pod = |app: &str, ready: &str| {
            json!({
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"ports": [{"name": "tls", "containerPort": 9443}]}]},
                "status": {"podIP": "127.10.0.1", "conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let table = [
            (json!(8443), pod("hook", "True"), Some("127.10.0.1:8443")),
            (json!("tls"), pod("hook", "True"), Some("127.10.0.1:9443")),
            (json!("other"), pod("hook", "True"), None),
            (Value::Null, pod("hook", "True"), Some("127.10.0.1:443")),
            (json!(8443), pod("hook", "False"), None),
            (json!(8443), pod("other", "True"), None),
        ];
        for (target, pod, expected) in table {
            let service = service(target);
            let found = behind(&service, &service["spec"]["ports"][0], &pod);
            assert_eq!(found.map(|address| address.to_string()).as_deref(), expected, "{service} {pod}");
        }
    }
}
