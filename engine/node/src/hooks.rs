//! `postStart` and `preStop`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use pillion_probe::HttpGet;

use crate::events;
use crate::probe::check::http_get;
use crate::runtime::{ContainerId, Runtime};

/// Runs a hook to its end. The error is what the kubelet would log: it may hold secrets, so events do not repeat it.
pub(crate) async fn run<R: Runtime>(
    runtime: &R,
    id: &ContainerId,
    pod: &Pod,
    container: &Container,
    pod_ip: &str,
    handler: &LifecycleHandler,
) -> Result<(), String> {
    let of = || format!("for Container \"{}\" in Pod \"{}\" failed", container.name, events::pod_name(pod));
    if let Some(exec) = &handler.exec {
        let command = exec.command.as_deref().unwrap_or_default();
        let shown = command.join(" ");
        return match runtime.exec(id, command, None).await {
            Ok(output) if output.code == 0 => Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.output).into_owned();
                let error = format!("command '{shown}' exited with {}: {said}", output.code);
                Err(format!("Exec lifecycle hook ([{shown}]) {} - error: {error}, message: {said:?}", of()))
            }
            Err(error) => Err(format!("Exec lifecycle hook ([{shown}]) {} - error: {error}, message: \"\"", of())),
        };
    }
    if let Some(get) = &handler.http_get {
        if R::SIMULATED {
            return Ok(());
        }
        let outcome = match http_get(get, container, pod_ip, "lifecycle") {
            // Any answer is a good one.
            Ok(request) => ask(request).await,
            Err(error) => Err(error),
        };
        let path = get.path.as_deref().unwrap_or_default();
        return outcome.map_err(|error| format!("HTTP lifecycle hook ({path}) {} - error: {error}", of()));
    }
    if let Some(sleep) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(sleep.seconds.max(0).unsigned_abs())).await;
        return Ok(());
    }
    Err("Cannot run handler: invalid handler".to_owned())
}

/// A server that speaks HTTP where HTTPS was said is asked in plain.
async fn ask(request: HttpGet) -> Result<(), String> {
    match request.send(None).await {
        Err(error) if error.contains("server gave HTTP response to HTTPS client") => {
            HttpGet { https: false, ..request }.send(None).await.map(drop)
        }
        other => other.map(drop),
    }
}
