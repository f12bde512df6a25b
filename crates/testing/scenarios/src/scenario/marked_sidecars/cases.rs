//! The cases of `pillion_lifecycle::cases`, in each mode. Which phase follows is in their table, with a column for each mode.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use pillion_cluster::image::PILLION;
use pillion_lifecycle::cases::{CASES, Case, Does, End};
use serde_json::{Value, json};

use super::super::{IGNORES_TERM, phase, shell, status_of};
use super::{create_with_field, with_marks};
use crate::Namespace;

/// Where the end of each mode is in a case.
const FIELD: usize = 0;
const NATIVE: usize = 1;
const WRAPPED: usize = 2;
const BY_PHASE: usize = 3;

/// Much longer than the second that a kubelet takes to notice.
const GRACE: i64 = 4;

/// `sidecar: true`, where the API server has the field; a real one says that it does not know it.
pub async fn the_field_ends_every_case_as_the_table_says(namespace: &Namespace) -> anyhow::Result<()> {
    if namespace.is_real() {
        let pods: Api<DynamicObject> =
            Api::namespaced_with(namespace.client(), namespace.name(), &ApiResource::erase::<Pod>(&()));
        let mut pod = template(&CASES[0], true);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["spec"]["containers"][1]["sidecar"] = json!(true);
        let apply = PatchParams {
            field_validation: Some(kube::api::ValidationDirective::Strict),
            ..PatchParams::apply("test")
        };
        let refusal = pods.patch("case", &apply, &Patch::Apply(pod)).await.err().context("the field is known")?;
        ensure!(refusal.to_string().contains("sidecar"), "the field is not named: {refusal}");
        return Ok(());
    }
    for (i, case) in CASES.iter().enumerate() {
        let mut pod = template(case, false);
        pod["metadata"]["name"] = json!(format!("case-{i}"));
        pod["spec"]["containers"][1]["sidecar"] = json!(true);
        create_with_field::<Pod>(namespace, pod).await?;
    }
    they_end(namespace, FIELD).await
}

/// The marked containers become native sidecars.
pub async fn native_marks_end_every_case_as_the_table_says(namespace: &Namespace) -> anyhow::Result<()> {
    marked(namespace, None, "Native", NATIVE).await
}

/// Where there is an image of the wrapper, it runs all commands. The embedded node has no images, and the phase is written.
pub async fn strict_marks_end_every_case_as_the_table_says(namespace: &Namespace) -> anyhow::Result<()> {
    let (image, mode) = if namespace.is_real() { (Some(PILLION), WRAPPED) } else { (None, BY_PHASE) };
    marked(namespace, image, "Strict", mode).await
}

/// Without the wrapper the manager writes the phase.
pub async fn the_phase_ends_every_case_as_the_table_says(namespace: &Namespace) -> anyhow::Result<()> {
    marked(namespace, None, "Strict", BY_PHASE).await
}

async fn marked(namespace: &Namespace, wrap_image: Option<&str>, mode: &str, column: usize) -> anyhow::Result<()> {
    with_marks(namespace, wrap_image, async |namespace| {
        for (i, case) in CASES.iter().enumerate() {
            let mut pod = template(case, namespace.is_real());
            pod["metadata"] = json!({
                "name": format!("case-{i}"),
                "annotations": {"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": mode},
            });
            namespace.create::<Pod>(pod).await?;
        }
        they_end(namespace, column).await
    })
    .await
}

/// A real node looks for the image first, whatever the command; the embedded one runs every command, and has nothing to run without one.
fn template(case: &Case, is_real: bool) -> Value {
    let container = |name: &str, does: Does| match does {
        Does::Exits(after, code) => shell(name, &format!("sleep {after}; exit {code}")),
        Does::Serves(code) => shell(name, &format!("trap 'exit {code}' TERM; sleep 3600 & wait $!")),
        Does::IgnoresTerm => shell(name, IGNORES_TERM),
        Does::CannotStart => {
            let mut container = shell(name, "true");
            // Nobody listens there: ErrImagePull, then ImagePullBackOff.
            container["image"] = json!("127.0.0.1:1/nothing:1");
            container["imagePullPolicy"] = json!("IfNotPresent");
            if !is_real {
                container["command"] = json!([]);
            }
            container
        }
    };
    json!({"metadata": {}, "spec": {
        "restartPolicy": case.policy, "terminationGracePeriodSeconds": GRACE,
        "containers": [container("main", case.main), container("side", case.side)],
    }})
}

async fn they_end(namespace: &Namespace, column: usize) -> anyhow::Result<()> {
    for (i, case) in CASES.iter().enumerate() {
        let name = format!("case-{i}");
        let expected = format!("{:?}", case.ends[column]);
        let over = |pod: &Pod| matches!(phase(pod), "Succeeded" | "Failed");
        if case.ends[column] == End::Pending {
            // The others have ended by now.
            let pod: Pod = namespace.api().get(&name).await?;
            ensure!(phase(&pod) == expected, "{name} is {}: {case:?}", phase(&pod));
            continue;
        }
        let pod = namespace.wait_for_pod(&name, &expected, over).await?;
        ensure!(phase(&pod) == expected, "{name} is {}: {case:?}", phase(&pod));
        if case.side == Does::IgnoresTerm {
            // By phase the processes end after the phase is there.
            let has_ended = |pod: &Pod| ended_at(pod, "side").is_some();
            let pod = namespace.wait_for_pod(&name, "without processes", has_ended).await?;
            let (main, side) = (ended_at(&pod, "main"), ended_at(&pod, "side"));
            let grace = main.zip(side).map(|(main, side)| side.duration_since(main).as_secs());
            // Both are whole seconds.
            ensure!(
                grace.is_some_and(|grace| grace >= GRACE - 1),
                "{name} was killed after {grace:?} seconds: {case:?}"
            );
        }
    }
    Ok(())
}

pub(super) fn ended_at(pod: &Pod, container: &str) -> Option<jiff::Timestamp> {
    let status = status_of(pod, container)?;
    Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
}
