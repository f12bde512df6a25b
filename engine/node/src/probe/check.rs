//! Probes of a pod's spec, as the probe crate takes them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe as Spec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_probe::{Action, Exec, HttpGet, Outcome, Probe};

use crate::environment::expand;
use crate::runtime::{ContainerId, ExecError, Runtime};

/// Probes a container.
pub(crate) async fn check<R: Runtime>(
    runtime: &R,
    id: &ContainerId,
    container: &Container,
    spec: &Spec,
    pod_ip: &str,
) -> Outcome {
    // There is nothing to reach in a simulated container.
    if R::SIMULATED && spec.exec.is_none() {
        return Outcome::Success;
    }
    match action(container, spec, pod_ip) {
        Ok(action) => {
            let timeout = Duration::from_secs(spec.timeout_seconds.unwrap_or(1).max(1).unsigned_abs().into());
            pillion_probe::check(&Probe { action, timeout }, &Commands { runtime, id }).await
        }
        Err(error) => Outcome::Error(error),
    }
}

/// What a spec asks, with ports and hosts resolved.
fn action(container: &Container, spec: &Spec, pod_ip: &str) -> Result<Action, String> {
    if let Some(exec) = &spec.exec {
        let command = exec.command.as_deref().unwrap_or_default();
        return Ok(Action::Exec { command: static_command(command, container) });
    }
    if let Some(get) = &spec.http_get {
        return http_get(get, container, pod_ip, "probe").map(Action::Http);
    }
    if let Some(socket) = &spec.tcp_socket {
        let host = socket.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip);
        return Ok(Action::Tcp { host: host.to_owned(), port: port(&socket.port, container)? });
    }
    if let Some(grpc) = &spec.grpc {
        return Ok(Action::Grpc {
            host: pod_ip.to_owned(),
            port: u16::try_from(grpc.port).unwrap_or_default(),
            service: grpc.service.clone().unwrap_or_default(),
        });
    }
    Err(format!("missing probe handler for {}", container.name))
}

/// Commands of a container.
struct Commands<'a, R> {
    runtime: &'a R,
    id: &'a ContainerId,
}

impl<R: Runtime> Exec for Commands<'_, R> {
    async fn exec(
        &self,
        command: &[String],
        timeout: Duration,
    ) -> Result<pillion_probe::ExecOutput, pillion_probe::ExecError> {
        match self.runtime.exec(self.id, command, Some(timeout)).await {
            Ok(output) => Ok(pillion_probe::ExecOutput { code: output.code, output: output.output }),
            Err(error @ ExecError::TimedOut { .. }) => Err(pillion_probe::ExecError::TimedOut(error.to_string())),
            Err(ExecError::Failed(error)) => Err(pillion_probe::ExecError::Failed(error)),
        }
    }
}

/// Variables with a plain value are expanded in the command of a probe, others are not.
fn static_command(command: &[String], container: &Container) -> Vec<String> {
    let value = |name: &str| {
        let variable = container.env.iter().flatten().find(|variable| variable.name == name)?;
        variable.value.as_deref().filter(|_| variable.value_from.is_none())
    };
    command.iter().map(|word| expand(word, value)).collect()
}

/// A port by its number or by the name that the container gave it.
fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name));
            match named {
                Some(port) => port.container_port,
                None => name.parse().map_err(|_| format!("port {name} not found"))?,
            }
        }
    };
    u16::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| format!("invalid port number: {number}"))
}

/// The request of a probe or a hook.
pub(crate) fn http_get(
    get: &HTTPGetAction,
    container: &Container,
    pod_ip: &str,
    purpose: &str,
) -> Result<HttpGet, String> {
    let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip);
    let path = get.path.as_deref().unwrap_or_default();
    let headers = get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    Ok(HttpGet {
        https: get.scheme.as_deref() == Some("HTTPS"),
        host: host.to_owned(),
        port: port(&get.port, container)?,
        path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        headers: headers.collect(),
        user_agent: format!("kube-{purpose}/1.35"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> Result<Action, String> {
        let container = json!({
            "name": "main",
            "ports": [{"name": "web", "containerPort": 8080}],
            "env": [{"name": "FILE", "value": "/ready"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        });
        action(&serde_json::from_value(container).unwrap(), &serde_json::from_value(spec).unwrap(), "10.0.0.2")
    }

    #[test]
    fn hosts_ports_and_variables_are_resolved() {
        let (host, own) = ("10.0.0.2".to_owned(), "127.0.0.1".to_owned());
        let command = |words: &[&str]| Action::Exec { command: words.iter().map(|word| (*word).to_owned()).collect() };
        let http = |https, port, path: &str, headers| {
            let (host, path, user_agent) = (host.clone(), path.to_owned(), "kube-probe/1.35".to_owned());
            Action::Http(HttpGet { https, host, port, path, headers, user_agent })
        };
        let header = vec![("X-A".to_owned(), "b".to_owned())];
        let table = [
            (json!({"exec": {"command": ["cat", "$(FILE)", "$(NODE)"]}}), Ok(command(&["cat", "/ready", "$(NODE)"]))),
            (json!({"httpGet": {"port": "web"}}), Ok(http(false, 8080, "/", vec![]))),
            (
                json!({"httpGet": {"port": 1, "path": "a?b", "scheme": "HTTPS", "httpHeaders": [{"name": "X-A", "value": "b"}]}}),
                Ok(http(true, 1, "/a?b", header)),
            ),
            (json!({"tcpSocket": {"port": "81"}}), Ok(Action::Tcp { host: host.clone(), port: 81 })),
            (json!({"tcpSocket": {"port": 82, "host": own}}), Ok(Action::Tcp { host: own, port: 82 })),
            (json!({"tcpSocket": {"port": "nowhere"}}), Err("port nowhere not found".to_owned())),
            (json!({"tcpSocket": {"port": 0}}), Err("invalid port number: 0".to_owned())),
            (
                json!({"grpc": {"port": 83, "service": "s"}}),
                Ok(Action::Grpc { host: host.clone(), port: 83, service: "s".to_owned() }),
            ),
            (json!({}), Err("missing probe handler for main".to_owned())),
        ];
        for (spec, expected) in table {
            assert_eq!(of(spec.clone()), expected, "{spec}");
        }
    }
}
