//! One look at a container: a command, a request or a connection.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe as Spec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;

use super::http::{self, Request};
use crate::environment::expand;
use crate::runtime::{ContainerId, ExecError, Runtime};

/// What a probe has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// It counts as a success, and is told.
    Warning(String),
    Failure(String),
    /// It could not be made; counts for nothing.
    Error(String),
}

/// A probe that cannot be made is tried so often.
const TRIES: u32 = 3;

/// No more of a command's or server's words is kept.
const LONGEST_OUTPUT: usize = 10 * 1024;

/// Probes a container.
pub(crate) async fn check<R: Runtime>(
    runtime: &R,
    id: &ContainerId,
    container: &Container,
    spec: &Spec,
    pod_ip: &str,
) -> Outcome {
    let mut outcome = Outcome::Success;
    for _ in 0..TRIES {
        outcome = once(runtime, id, container, spec, pod_ip).await;
        if !matches!(outcome, Outcome::Error(_)) {
            break;
        }
    }
    outcome
}

async fn once<R: Runtime>(runtime: &R, id: &ContainerId, container: &Container, spec: &Spec, pod_ip: &str) -> Outcome {
    let timeout = Duration::from_secs(spec.timeout_seconds.unwrap_or(1).max(1).unsigned_abs().into());
    if let Some(exec) = &spec.exec {
        let command = static_command(exec.command.as_deref().unwrap_or_default(), container);
        return run(runtime, id, &command, timeout).await;
    }
    if R::SIMULATED {
        return Outcome::Success;
    }
    if let Some(get) = &spec.http_get {
        return match Request::new(get, container, pod_ip, "probe") {
            Ok(request) => answer(http::get(&request, Some(timeout)).await),
            Err(error) => Outcome::Error(error),
        };
    }
    if let Some(socket) = &spec.tcp_socket {
        let host = socket.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip);
        return match port(&socket.port, container) {
            Ok(port) => connect(host, port, timeout).await,
            Err(error) => Outcome::Error(error),
        };
    }
    if let Some(grpc) = &spec.grpc {
        let service = grpc.service.as_deref().unwrap_or_default();
        return super::grpc::check(&address(pod_ip, u16::try_from(grpc.port).unwrap_or_default()), service, timeout)
            .await;
    }
    Outcome::Error(format!("missing probe handler for {}", container.name))
}

/// Variables with a plain value are expanded in the command of a probe, others are not.
fn static_command(command: &[String], container: &Container) -> Vec<String> {
    let value = |name: &str| {
        let variable = container.env.iter().flatten().find(|variable| variable.name == name)?;
        variable.value.as_deref().filter(|_| variable.value_from.is_none())
    };
    command.iter().map(|word| expand(word, value)).collect()
}

async fn run<R: Runtime>(runtime: &R, id: &ContainerId, command: &[String], timeout: Duration) -> Outcome {
    match runtime.exec(id, command, Some(timeout)).await {
        Ok(output) if output.code == 0 => Outcome::Success,
        Ok(output) => Outcome::Failure(shortened(&output.output)),
        Err(error @ ExecError::TimedOut { .. }) => Outcome::Failure(error.to_string()),
        Err(ExecError::Failed(error)) => Outcome::Error(error),
    }
}

fn answer(answer: Result<http::Answer, String>) -> Outcome {
    match answer {
        Err(error) => Outcome::Failure(error),
        Ok(answer) if (200..300).contains(&answer.status) => Outcome::Success,
        Ok(answer) if (300..400).contains(&answer.status) => {
            Outcome::Warning(format!("Probe terminated redirects, Response body: {}", shortened(&answer.body)))
        }
        Ok(answer) => Outcome::Failure(format!("HTTP probe failed with statuscode: {}", answer.status)),
    }
}

async fn connect(host: &str, port: u16, timeout: Duration) -> Outcome {
    let address = address(host, port);
    match tokio::time::timeout(timeout, TcpStream::connect(&address)).await {
        Ok(Ok(_)) => Outcome::Success,
        Ok(Err(error)) => Outcome::Failure(http::dial_error(&address, &error)),
        Err(_) => Outcome::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}

pub(crate) fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A port by its number or by the name that the container gave it.
pub(crate) fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
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

impl Request {
    pub(crate) fn new(
        get: &HTTPGetAction,
        container: &Container,
        pod_ip: &str,
        purpose: &str,
    ) -> Result<Request, String> {
        let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip);
        let path = get.path.as_deref().unwrap_or_default();
        let headers = get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
        Ok(Request {
            https: get.scheme.as_deref() == Some("HTTPS"),
            host: host.to_owned(),
            port: port(&get.port, container)?,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            headers: headers.collect(),
            user_agent: format!("kube-{purpose}/1.35"),
        })
    }
}

fn shortened(output: &[u8]) -> String {
    String::from_utf8_lossy(&output[..output.len().min(LONGEST_OUTPUT)]).into_owned()
}
