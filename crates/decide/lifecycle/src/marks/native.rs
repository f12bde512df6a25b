//! Marked containers as native sidecars (KEP-753): last in `initContainers`, in their order.

use pillion_api::pod::{Container, Object};
use pillion_note::{ContainerKey, ContainerList, Draft, Note, Reason};
use serde_json::{Value, json};

use super::Mark;

/// What a probe of another kind may not have.
const STARTUP_ONLY: &str = "terminationGracePeriodSeconds";

/// Makes a native sidecar of a container, and returns where it is: a pod that was admitted before has it already.
pub(super) fn make(draft: &mut Draft<'_>, mark: &Mark) -> ContainerKey {
    let Some(container) = draft.container(mark.key) else { return mark.key };
    let name = container.name().to_owned();
    let mut sidecar = container.0.clone();
    sidecar.insert("restartPolicy".to_owned(), json!("Always"));
    sidecar.shift_remove("restartPolicyRules");
    open_gate(&mut sidecar, mark, draft);
    let known = draft.containers(ContainerList::InitContainers).find(|(_, init)| init.name() == name);
    if let Some((key, _)) = known {
        draft.replace(key, sidecar);
        draft.remove(mark.key);
        return key;
    }
    if let Some(container) = draft.container_mut(mark.key) {
        *container = sidecar;
    }
    draft.move_last(mark.key, ContainerList::InitContainers);
    mark.key
}

/// The work starts only when the startup probe of a native sidecar has succeeded. One that asks a container that starts later would wait for ever:
/// it becomes a readiness probe.
fn open_gate(sidecar: &mut Object, mark: &Mark, draft: &mut Draft<'_>) {
    let Some(probe) = sidecar.get("startupProbe").filter(|probe| !probe.is_null()).cloned() else { return };
    let name = Container(sidecar).name().to_owned();
    let other = others_port(&probe, &name, sidecar, draft);
    let message = match other {
        Some((port, other)) => {
            sidecar.shift_remove("startupProbe");
            let now = if sidecar.get("readinessProbe").is_none_or(Value::is_null) {
                let mut probe = probe;
                if let Some(probe) = probe.as_object_mut() {
                    probe.shift_remove(STARTUP_ONLY);
                }
                sidecar.insert("readinessProbe".to_owned(), probe);
                "it is a readiness probe now"
            } else {
                "it is removed, and the readiness probe that the container has stays"
            };
            format!(
                "its startup probe asks port {port} of container {other:?}, which starts after a native sidecar: {now}"
            )
        }
        None => {
            "the containers of the pod start only when its startup probe has succeeded, because it is a native sidecar"
                .to_owned()
        }
    };
    draft.note(Note::warning(mark.source.subject(), Reason::ProbeChanged, message).about(&name));
}

/// The port that a probe asks, and the container that declares it, if that is another one.
fn others_port(probe: &Value, name: &str, sidecar: &Object, draft: &Draft<'_>) -> Option<(String, String)> {
    let port = ["httpGet", "tcpSocket", "grpc"].into_iter().find_map(|handler| {
        let handler = probe.get(handler).filter(|handler| handler.get("host").is_none_or(Value::is_null))?;
        handler.get("port")
    })?;
    if declares(sidecar, port) {
        return None;
    }
    // The name of a port is known to its own container only, so a name is never that of another one.
    let lists = [ContainerList::Containers, ContainerList::InitContainers];
    let mut others = lists.into_iter().flat_map(|list| draft.containers(list)).map(|(_, container)| container);
    let other = others.find(|container| container.name() != name && declares(container.0, port))?;
    let port = port.as_str().map_or_else(|| port.to_string(), str::to_owned);
    Some((port, other.name().to_owned()))
}

fn declares(container: &Object, port: &Value) -> bool {
    let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
    let number = port.as_i64().or_else(|| port.as_str()?.parse().ok());
    ports.into_iter().any(|declared| {
        declared.get("containerPort").and_then(Value::as_i64).is_some_and(|declared| Some(declared) == number)
            || (port.is_string() && declared.get("name") == Some(port))
    })
}
