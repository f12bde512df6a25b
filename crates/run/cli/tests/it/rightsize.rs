//! The example of `examples/rightsize`.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use nix::sys::signal::Signal;

use super::up::{Place, client, until};

#[test]
fn the_app_and_its_native_sidecar_are_resized_in_place_and_the_plain_init_container_is_not() {
    let place = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/rightsize");
    let mut up = place.up(&["--plain", example]);
    let line = up.line_with("export KUBECONFIG=");
    let kubeconfig = line.split_once('=').unwrap().1;
    let (runtime, client) = client(Path::new(kubeconfig));
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod = || runtime.block_on(pods.list(&ListParams::default())).unwrap().items.into_iter().next();
    let first = until("a pod", pod);

    let has_more = |pod: &Pod| {
        actual(pod, "app", "cpu").is_some_and(|cpu| cpu != "5m")
            && actual(pod, "cache", "memory").is_some_and(|memory| memory != "8Mi")
    };
    let pod = until("containers with more resources", || pod().filter(has_more));
    assert_eq!(pod.uid(), first.uid(), "it was resized, and not replaced");
    assert!(statuses(&pod).all(|status| status.restart_count == 0), "{:?}", pod.status);
    let setup = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).find(|one| one.name == "setup");
    let requests = setup.and_then(|setup| setup.resources.clone()?.requests).unwrap();
    assert_eq!((requests["cpu"].0.as_str(), requests["memory"].0.as_str()), ("5m", "8Mi"));
    let arguments = ["why", "deployment/web", "--kubeconfig", kubeconfig];
    let why = Command::new(env!("CARGO_BIN_EXE_pillion")).args(arguments).output().unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("\n  web/cache: ") && !why.contains("\n  web/setup: "), "{why}");
    up.signal(Signal::SIGINT);
    up.end();
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let lists = pod.status.iter().flat_map(|status| [&status.init_container_statuses, &status.container_statuses]);
    lists.flatten().flatten()
}

/// What the node says that a container has.
fn actual(pod: &Pod, container: &str, resource: &str) -> Option<String> {
    let status = statuses(pod).find(|status| status.name == container)?;
    Some(status.resources.as_ref()?.requests.as_ref()?.get(resource)?.0.clone())
}
