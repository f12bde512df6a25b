//! Sidecars that their author has marked: they end when the work is done.

mod cases;
mod deletion;
mod ways;

pub use cases::*;
pub use deletion::*;
pub use ways::*;

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use pillion_cluster::image::{PILLION, SHELL};
use pillion_gates::Gates;
use pillion_manager::{Config, ControllerName};
use serde_json::{Value, json};

use super::managed::managed_with;
use super::volumes::mounts;
use super::{A_WHILE, UNTIL_TERM, hungry, job_is, phase, shell, status_of, with};
use crate::{Namespace, wait};
use cases::ended_at;

/// What nobody has taught to end: as process 1 it does not even notice TERM.
fn stock_server(name: &str) -> Value {
    json!({"name": name, "image": SHELL, "imagePullPolicy": "Never", "command": ["/bin/sleep", "3600"]})
}

fn pod_template(policy: &str, annotations: Value, containers: Value) -> Value {
    json!({"metadata": {"annotations": annotations}, "spec": {
        "restartPolicy": policy, "terminationGracePeriodSeconds": 2, "containers": containers
    }})
}

/// Runs a scenario with a manager that honours marks.
async fn with_marks(
    namespace: &Namespace,
    wrap_image: Option<&str>,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    with_marks_by(namespace, wrap_image, &[ControllerName::Webhook, ControllerName::Lifecycle], scenario).await
}

/// The same with a manager that has these parts.
async fn with_marks_by(
    namespace: &Namespace,
    wrap_image: Option<&str>,
    parts: &[ControllerName],
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let gates = gates()?;
    let wrap_image = wrap_image.map(str::to_owned);
    let adjust = |config| Config { gates, wrap_image: wrap_image.clone(), parts: parts.to_vec(), ..config };
    managed_with(namespace, adjust, async |namespace| {
        is_called(namespace).await?;
        scenario(namespace).await
    })
    .await
}

fn gates() -> anyhow::Result<Gates> {
    Ok(Gates::default().with(&"SidecarField=true".parse()?))
}

/// The API server learns of a configuration some time after it is created; a dry run leaves nothing behind.
async fn is_called(namespace: &Namespace) -> anyhow::Result<()> {
    let annotations = json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Native"});
    let mut pod = pod_template("Never", annotations, json!([shell("main", A_WHILE), stock_server("side")]));
    pod["metadata"]["name"] = json!("try");
    let pod: Pod = serde_json::from_value(pod)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("a pod whose marks are honoured", async || {
        let created = namespace.api::<Pod>().create(&dry_run, &pod).await?;
        Ok(created.spec.and_then(|spec| spec.init_containers).filter(|containers| !containers.is_empty()).map(drop))
    })
    .await
}

/// Creates an object whose type here does not know the field `sidecar`.
async fn create_with_field<K>(namespace: &Namespace, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = ()>,
{
    let objects: Api<DynamicObject> =
        Api::namespaced_with(namespace.client(), namespace.name(), &ApiResource::erase::<K>(&()));
    objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// A Job with one annotation and a stock server beside its work runs to its end.
pub async fn a_job_with_one_annotation_completes(namespace: &Namespace) -> anyhow::Result<()> {
    with_marks(namespace, None, async |namespace| {
        let containers = json!([shell("main", A_WHILE), stock_server("server")]);
        let template = pod_template("Never", json!({"pillion.dev/sidecars": "server"}), containers);
        let job = json!({"metadata": {"name": "work"}, "spec": {"backoffLimit": 0, "template": template}});
        namespace.create::<Job>(job).await?;
        job_is(namespace, "work", "Complete").await.map(drop)
    })
    .await
}

/// An error of a sidecar fails the pod where its author says so.
pub async fn native_marks_fail_the_pod_where_asked_for(namespace: &Namespace) -> anyhow::Result<()> {
    with_marks(namespace, None, async |namespace| {
        let annotations = json!({
            "pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Native",
            "pillion.dev/fail-pod-on-sidecar-error": "true",
        });
        let containers = json!([shell("main", UNTIL_TERM), shell("side", "sleep 2; exit 1")]);
        let mut pod = pod_template("Never", annotations, containers);
        pod["metadata"]["name"] = json!("app");
        namespace.create::<Pod>(pod).await?;
        let has_ended = |pod: &Pod| {
            let main = status_of(pod, "main").and_then(|status| status.state.as_ref()?.terminated.as_ref());
            phase(pod) == "Failed" && main.is_some()
        };
        namespace.wait_for_pod("app", "failed by its sidecar", has_ended).await.map(drop)
    })
    .await
}

/// A sidecar fails, and the work ends because of it at once, mostly in the same second. A kubelet reports both times in whole seconds. The error came
/// first, so the pod has failed.
pub async fn an_error_in_the_second_in_which_the_work_ends_counts(namespace: &Namespace) -> anyhow::Result<()> {
    const PODS: usize = 12;
    with_marks(namespace, None, async |namespace| {
        let annotations = json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Strict"});
        let shared = mounts(&[("shared", "/shared")]);
        let main = with(shell("main", "until [ -e /shared/failed ]; do sleep 0.1; done"), shared.clone());
        let side = with(shell("side", "sleep 1; : > /shared/failed; exit 1"), shared);
        let mut pod = pod_template("Never", annotations, json!([main, side]));
        pod["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
        for i in 0..PODS {
            pod["metadata"]["name"] = json!(format!("app-{i}"));
            namespace.create::<Pod>(pod.clone()).await?;
        }
        for i in 0..PODS {
            let is_over = |pod: &Pod| matches!(phase(pod), "Succeeded" | "Failed");
            let pod = namespace.wait_for_pod(&format!("app-{i}"), "over", is_over).await?;
            let ends = [ended_at(&pod, "main"), ended_at(&pod, "side")];
            ensure!(phase(&pod) == "Failed", "app-{i} has {}; work and sidecar ended at {ends:?}", phase(&pod));
        }
        Ok(())
    })
    .await
}

/// The work is OOM killed, on cgroup v2 with its wrapper: its sidecars end all the same, and the pod has failed.
pub async fn work_that_is_oom_killed_ends_its_strict_sidecars(namespace: &Namespace) -> anyhow::Result<()> {
    let wrap_image = namespace.is_real().then_some(PILLION);
    with_marks(namespace, wrap_image, async |namespace| {
        let annotations = json!({"pillion.dev/sidecars": "server", "pillion.dev/sidecar-mode": "Strict"});
        let limit = json!({"resources": {"limits": {"memory": "32Mi"}}});
        let main = with(shell("main", &hungry()), limit);
        let mut pod = pod_template("Never", annotations, json!([main, stock_server("server")]));
        pod["metadata"]["name"] = json!("app");
        namespace.create::<Pod>(pod).await?;
        let has_ended = |pod: &Pod| phase(pod) == "Failed" && ended_at(pod, "server").is_some();
        let pod = namespace.wait_for_pod("app", "failed and over", has_ended).await?;
        let reason = |name| status_of(&pod, name)?.state.as_ref()?.terminated.as_ref()?.reason.as_deref();
        ensure!(reason("main") == Some("OOMKilled"), "the work ended with the reason {:?}", reason("main"));
        if wrap_image.is_some() {
            ensure!(reason("server") == Some("Completed"), "the sidecar ended with the reason {:?}", reason("server"));
        }
        Ok(())
    })
    .await
}
