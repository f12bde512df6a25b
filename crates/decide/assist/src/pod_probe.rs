//! PodProbeMarker: the probes that Kruise's annotation asks of whoever plays the node.

use std::time::Duration;

use serde_json::Value;

use crate::config::{Ask, Credential, Endpoint, HttpAsk, Key, Storage, Url};

/// The annotation that Kruise, or Pillion where there is no Kruise, writes on pods.
pub const POD_PROBE: &str = "kruise.io/podprobe";

/// The probes of the annotation, each with its condition. What cannot be made from inside the pod becomes a probe whose state is Unknown, with the reason.
///
/// # Errors
/// The annotation is not a list of probes.
pub fn pod_probes(annotation: &str, pod_ip: &str) -> Result<Vec<(String, Endpoint)>, String> {
    let value: Value = serde_json::from_str(annotation).map_err(|error| format!("{POD_PROBE} is not JSON: {error}"))?;
    let Value::Array(items) = value else { return Err(format!("{POD_PROBE} is not a list")) };
    Ok(items.iter().filter_map(|item| endpoint(item, pod_ip)).collect())
}

fn endpoint(item: &Value, pod_ip: &str) -> Option<(String, Endpoint)> {
    let condition = item["podConditionType"].as_str().filter(|name| !name.is_empty())?;
    let container = item["containerName"].as_str().unwrap_or_default();
    let probe = &item["probe"];
    // At least one, as the node has it.
    let number = |name: &str, least: u64| probe[name].as_u64().unwrap_or(least).clamp(least, 86_400);
    let count = |name: &str| u32::try_from(number(name, 1)).unwrap_or(1);
    let endpoint = Endpoint {
        name: item["name"].as_str().unwrap_or(condition).to_owned(),
        ask: ask(probe, container, pod_ip).unwrap_or_else(Ask::Impossible),
        timeout: Duration::from_secs(number("timeoutSeconds", 1)),
        start_delay: Duration::from_secs(number("initialDelaySeconds", 1)),
        interval: Duration::from_secs(number("periodSeconds", 1)),
        success_threshold: count("successThreshold"),
        any_success: true,
        failure_threshold: count("failureThreshold"),
        storage: Storage::from(Key::Condition(condition.to_owned())),
    };
    Some((condition.to_owned(), endpoint))
}

fn ask(probe: &Value, container: &str, pod_ip: &str) -> Result<Ask, String> {
    let host = || {
        let ip = if pod_ip.is_empty() { "127.0.0.1" } else { pod_ip };
        ip.to_owned()
    };
    let port = |value: &Value| match &value["port"] {
        Value::Number(port) => {
            port.as_u64().and_then(|port| u16::try_from(port).ok()).ok_or_else(|| format!("{port} is not a port"))
        }
        Value::String(text) => text.parse().map_err(|_| {
            format!("the port {text:?} is a name, and the agent cannot read the container's ports: use its number")
        }),
        _ => Err("the probe has no port".to_owned()),
    };
    if let Some(get) = probe.get("httpGet").filter(|get| get.is_object()) {
        let headers = get["httpHeaders"].as_array().into_iter().flatten().filter_map(|header| {
            Some((header["name"].as_str()?.to_owned(), Credential::Literal(header["value"].as_str()?.to_owned())))
        });
        let path = get["path"].as_str().unwrap_or("/");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if path.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("the path {path:?} contains blanks or control characters"));
        }
        return Ok(Ask::Http(HttpAsk {
            url: Url { https: get["scheme"] == "HTTPS", host: host(), port: port(get)?, path },
            method: "GET".to_owned(),
            headers: headers.collect(),
            expected_status: None,
            extract: None,
        }));
    }
    if let Some(socket) = probe.get("tcpSocket").filter(|socket| socket.is_object()) {
        return Ok(Ask::Tcp { host: host(), port: port(socket)? });
    }
    if let Some(grpc) = probe.get("grpc").filter(|grpc| grpc.is_object()) {
        let service = grpc["service"].as_str().unwrap_or_default().to_owned();
        return Ok(Ask::Grpc { host: host(), port: port(grpc)?, service });
    }
    if probe.get("exec").is_some_and(Value::is_object) {
        return Err(format!(
            "a command in the container {container} cannot be run from inside the pod: containers do not share their file systems; use httpGet, tcpSocket or grpc, or leave the probe to the daemon of OpenKruise"
        ));
    }
    Err("the probe has none of httpGet, tcpSocket and grpc".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_of_kruise_becomes_probes() {
        let annotation = r#"[
            {"name": "ppm#idle", "containerName": "main", "podConditionType": "game.io/idle",
             "probe": {"httpGet": {"path": "/idle", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 3, "failureThreshold": 2}},
            {"name": "ppm#sh", "containerName": "main", "podConditionType": "game.io/sh", "probe": {"exec": {"command": ["/idle.sh"]}}},
            {"name": "ppm#named", "containerName": "main", "podConditionType": "game.io/named", "probe": {"tcpSocket": {"port": "http"}}},
            {"name": "ppm#none", "containerName": "main", "probe": {"tcpSocket": {"port": 1}}}
        ]"#;
        let probes = pod_probes(annotation, "10.0.0.7").unwrap();
        let (conditions, probes): (Vec<String>, Vec<Endpoint>) = probes.into_iter().unzip();
        assert_eq!(conditions, ["game.io/idle", "game.io/sh", "game.io/named"]);
        let names: Vec<_> = probes.iter().map(|probe| probe.name.as_str()).collect();
        assert_eq!(names, ["ppm#idle", "ppm#sh", "ppm#named"]);
        let Ask::Http(http) = &probes[0].ask else { panic!() };
        assert_eq!((http.url.to_string().as_str(), probes[0].failure_threshold), ("http://10.0.0.7:8080/idle", 2));
        assert_eq!((probes[0].interval, probes[0].start_delay), (Duration::from_secs(3), Duration::from_secs(1)));
        let Ask::Impossible(reason) = &probes[1].ask else { panic!() };
        assert!(reason.contains("container main") && reason.contains("httpGet, tcpSocket or grpc"), "{reason}");
        assert!(reason.contains("OpenKruise"), "{reason}");
        assert!(matches!(&probes[2].ask, Ask::Impossible(reason) if reason.contains("is a name")));
        assert!(pod_probes("{}", "").is_err());
        assert!(pod_probes("nope", "").is_err());
    }
}
