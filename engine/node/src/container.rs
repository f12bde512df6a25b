//! How a container of a pod becomes something that a runtime can start.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{
    Container, ObjectReference, Pod, ResourceRequirements, Service, ServicePort, ServiceSpec,
};
use kube::{Api, Client, ResourceExt as _};
use pillion_process::Input;
use pillion_quantity::Quantity;

use crate::config::Config;
use crate::environment::{self, EnvironmentError, Place, expand};
use crate::events;
use crate::runtime::{ContainerId, ContainerSpec, Limits, Mount, Refusal, Runtime, Started};
use crate::sources::{Sources, Wanted};

/// The container of a pod that has this name. Ephemeral ones, which have no probes, hooks or resources, are not among them.
pub(crate) fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

/// The same for ephemeral containers as well: each is a container with fewer fields.
pub(crate) fn find_any<'a>(pod: &'a Pod, name: &str) -> Option<Cow<'a, Container>> {
    if let Some(found) = find(pod, name) {
        return Some(Cow::Borrowed(found));
    }
    let ephemeral =
        pod.spec.as_ref()?.ephemeral_containers.iter().flatten().find(|container| container.name == name)?;
    let value = serde_json::to_value(ephemeral).ok()?;
    serde_json::from_value(value).ok().map(Cow::Owned)
}

/// Starts an attempt of a container, and reports how it went.
pub(crate) async fn start<R: Runtime>(
    config: &Config,
    runtime: &R,
    pod: &Pod,
    id: ContainerId,
    pod_ip: &str,
) -> Result<Started, Refusal> {
    let about = events::container(pod, &id.container);
    let refuse = |reason: &str, message: String| {
        config.recorder.warning(&about, "Failed", format!("Error: {message}"));
        Err(Refusal { reason: reason.to_owned(), message })
    };
    let Some(container) = find_any(pod, &id.container) else {
        return refuse("CreateContainerConfigError", format!("container {} not found", id.container));
    };
    let container = &*container;
    let image = container.image.as_deref().unwrap_or_default();
    if let Some(why) = runtime.pull_error(image) {
        return Err(not_pulled(config, &about, container, &why));
    }
    let present = format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
    config.recorder.normal(&about, "Pulled", present);
    let sources =
        Sources::fetch(&config.client, &pod.namespace().unwrap_or_default(), Wanted::by_container(container)).await;
    let services = if R::SIMULATED { Vec::new() } else { services(config, pod).await };
    let place = Place { host_ip: config.address.to_string(), pod_ip: pod_ip.to_owned(), capacity: config.capacity };
    let resolved = resolve(pod, container, id, &place, &services, &sources);
    let spec = match resolved.and_then(|spec| check_user(pod, container, spec, runtime.runs_as_root(image))) {
        Ok(spec) => spec,
        Err(error) => return refuse("CreateContainerConfigError", error.to_string()),
    };
    match runtime.start(spec).await {
        Ok(started) => {
            config.recorder.normal(&about, "Created", "Container created");
            config.recorder.normal(&about, "Started", "Container started");
            Ok(started)
        }
        Err(refusal) => {
            if matches!(refusal.reason.as_str(), "RunContainerError" | "StartError") {
                config.recorder.normal(&about, "Created", "Container created");
            }
            refuse(&refusal.reason, refusal.message)
        }
    }
}

/// What becomes of a container whose image cannot be pulled, with the events of a kubelet. With the policy `Never` nothing is tried.
fn not_pulled(config: &Config, about: &ObjectReference, container: &Container, why: &str) -> Refusal {
    let image = container.image.as_deref().unwrap_or_default();
    let warning = |reason: &str, message: String| config.recorder.warning(about, reason, message);
    let refusal = if container.image_pull_policy.as_deref() == Some("Never") {
        let message = format!("Container image \"{image}\" is not present with pull policy of Never");
        warning("ErrImageNeverPull", message.clone());
        Refusal { reason: "ErrImageNeverPull".to_owned(), message }
    } else {
        config.recorder.normal(about, "Pulling", format!("Pulling image \"{image}\""));
        warning("Failed", format!("Failed to pull image \"{image}\": {why}"));
        Refusal { reason: "ErrImagePull".to_owned(), message: why.to_owned() }
    };
    warning("Failed", format!("Error: {}", refusal.reason));
    refusal
}

/// Why a container cannot be configured. The text is the message of the container that waits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("container's runAsUser breaks non-root policy (pod: \"{pod}\", container: {container})")]
    RunsAsRoot { pod: String, container: String },
    #[error("container has runAsNonRoot and image will run as root (pod: \"{pod}\", container: {container})")]
    ImageRunsAsRoot { pod: String, container: String },
    #[error("missing value for \"{0}\"")]
    NoValue(String),
}

fn resolve(
    pod: &Pod,
    container: &Container,
    id: ContainerId,
    place: &Place,
    services: &[Service],
    sources: &Sources,
) -> Result<ContainerSpec, ConfigError> {
    let environment = environment::environment(pod, container, place, services, sources)?;
    let value = |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let words = |list: &Option<Vec<String>>| list.iter().flatten().map(|word| expand(word, value)).collect();
    let own = container.security_context.as_ref();
    let shared = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let user = own.and_then(|own| own.run_as_user).or_else(|| shared.and_then(|shared| shared.run_as_user));
    let group = own.and_then(|own| own.run_as_group).or_else(|| shared.and_then(|shared| shared.run_as_group));
    Ok(ContainerSpec {
        id,
        image: container.image.clone().unwrap_or_default(),
        command: words(&container.command),
        args: words(&container.args),
        working_directory: container.working_dir.clone().filter(|path| !path.is_empty()),
        mounts: mounts(pod, container, value)?,
        limits: limits(container.resources.as_ref()),
        user,
        group,
        no_new_privileges: own.is_some_and(|own| own.allow_privilege_escalation == Some(false)),
        input: Input {
            stdin: container.stdin == Some(true),
            once: container.stdin_once == Some(true),
            terminal: container.tty == Some(true),
        },
        termination_message_path: container
            .termination_message_path
            .clone()
            .unwrap_or_else(|| "/dev/termination-log".into()),
        message_from_logs: container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"),
        environment,
    })
}

/// `runAsNonRoot`, as the kubelet checks it.
fn check_user(
    pod: &Pod,
    container: &Container,
    spec: ContainerSpec,
    runs_as_root: bool,
) -> Result<ContainerSpec, ConfigError> {
    let own = container.security_context.as_ref().and_then(|own| own.run_as_non_root);
    let shared = || pod.spec.as_ref()?.security_context.as_ref()?.run_as_non_root;
    let (pod, container) = (events::pod_name(pod), container.name.clone());
    match (own.or_else(shared), spec.user) {
        (Some(true), Some(0)) => Err(ConfigError::RunsAsRoot { pod, container }),
        (Some(true), None) if runs_as_root => Err(ConfigError::ImageRunsAsRoot { pod, container }),
        _ => Ok(spec),
    }
}

fn mounts<'a>(
    pod: &Pod,
    container: &Container,
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<Mount>, ConfigError> {
    let mounts = container.volume_mounts.iter().flatten().map(|mount| {
        let sub_path = match mount.sub_path_expr.as_deref().filter(|path| !path.is_empty()) {
            None => mount.sub_path.clone().filter(|path| !path.is_empty()),
            Some(expression) => {
                let missing = std::cell::RefCell::new(None);
                let path = expand(expression, |name| {
                    let known = value(name);
                    if known.is_none() {
                        missing.borrow_mut().get_or_insert_with(|| name.to_owned());
                    }
                    known
                });
                if let Some(name) = missing.into_inner() {
                    return Err(ConfigError::NoValue(name));
                }
                Some(path)
            }
        };
        let read_only = mount.read_only == Some(true) || is_projection(pod, &mount.name);
        Ok(Mount { volume: mount.name.clone(), path: mount.mount_path.clone(), sub_path, read_only })
    });
    mounts.collect()
}

/// Whether a volume shows objects of the API server. Such a volume is never written to by containers, whatever their mounts say.
fn is_projection(pod: &Pod, volume: &str) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter(|known| known.name == volume).any(|known| {
        known.config_map.is_some()
            || known.secret.is_some()
            || known.downward_api.is_some()
            || known.projected.is_some()
    })
}

/// What a container may use, in the units of runtimes.
pub(crate) fn limits(resources: Option<&ResourceRequirements>) -> Limits {
    let limit = |name: &str| -> Option<Quantity> {
        let text = resources?.limits.as_ref()?.get(name)?;
        text.0.parse().ok()
    };
    Limits {
        cpu_millis: limit("cpu").and_then(|cpu| u64::try_from(cpu.milli_value()).ok()),
        memory: limit("memory").and_then(|memory| u64::try_from(memory.value()).ok()),
    }
}

/// The services that a pod can see. The API server is where it really listens: nothing on one machine stands behind a cluster address.
async fn services(config: &Config, pod: &Pod) -> Vec<Service> {
    let namespace = pod.namespace().unwrap_or_default();
    let mut services = match pod.spec.as_ref().and_then(|spec| spec.enable_service_links) {
        Some(false) => Vec::new(),
        _ => list(&config.client, &namespace).await,
    };
    services.retain(|service| !(namespace == "default" && service.name_any() == "kubernetes"));
    if let Some(address) = config.api_server {
        let port = ServicePort { name: Some("https".into()), port: address.port().into(), ..ServicePort::default() };
        let spec = ServiceSpec {
            cluster_ip: Some(address.ip().to_string()),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        };
        let mut kubernetes = Service { spec: Some(spec), ..Service::default() };
        kubernetes.metadata.name = Some("kubernetes".into());
        kubernetes.metadata.namespace = Some("default".into());
        services.push(kubernetes);
    }
    services
}

async fn list(client: &Client, namespace: &str) -> Vec<Service> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    match services.list(&kube::api::ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => {
            tracing::debug!(%error, "services are not known: containers start without their variables");
            Vec::new()
        }
    }
}
