//! Sidecars that their author has marked: they end when the work is done.

mod cases;
mod deletion;

pub use cases::*;
pub use deletion::*;

use anyhow::ensure;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use pillion_cluster::image::{PILLION, SHELL};
use pillion_gates::Gates;
use pillion_manager::{Config, Part};
use serde_json::{Value, json};

use super::managed::{Replica, managed_with};
use super::{A_WHILE, UNTIL_TERM, job_is, phase, shell, status_of};
use crate::{Namespace, wait};

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
    with_marks_by(namespace, wrap_image, &[Part::Webhook, Part::Lifecycle], scenario).await
}

/// The same with a manager that has these parts.
async fn with_marks_by(
    namespace: &Namespace,
    wrap_image: Option<&str>,
    parts: &[Part],
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

async fn run_job(namespace: &Namespace, template: Value) -> anyhow::Result<Pod> {
    let job = json!({"metadata": {"name": "work"}, "spec": {"backoffLimit": 0, "template": template}});
    namespace.create::<Job>(job).await?;
    job_is(namespace, "work", "Complete").await?;
    let pods = namespace.api::<Pod>().list(&ListParams::default()).await?.items;
    pods.into_iter().next().ok_or_else(|| anyhow::anyhow!("the Job has no pod"))
}

/// A Job with one annotation and a stock server beside its work runs to its end.
pub async fn a_job_with_one_annotation_completes(namespace: &Namespace) -> anyhow::Result<()> {
    with_marks(namespace, None, async |namespace| {
        let containers = json!([shell("main", A_WHILE), stock_server("server")]);
        let pod =
            run_job(namespace, pod_template("Never", json!({"pillion.dev/sidecars": "server"}), containers)).await?;
        ensure!(phase(&pod) == "Succeeded", "the phase is {}", phase(&pod));
        Ok(())
    })
    .await
}

/// The same for the Jobs of a CronJob.
pub async fn a_cron_job_with_one_annotation_completes(namespace: &Namespace) -> anyhow::Result<()> {
    with_marks(namespace, None, async |namespace| {
        let containers = json!([shell("main", "true"), stock_server("server")]);
        let template = pod_template("OnFailure", json!({"pillion.dev/sidecars": "server"}), containers);
        let job = json!({"spec": {"backoffLimit": 0, "template": template}});
        let spec = json!({"schedule": "* * * * *", "jobTemplate": job});
        namespace.create::<CronJob>(json!({"metadata": {"name": "work"}, "spec": spec})).await?;
        let has_succeeded =
            |cron_job: &CronJob| cron_job.status.as_ref().is_some_and(|status| status.last_successful_time.is_some());
        wait::for_object(namespace.api::<CronJob>(), "work", "successful", has_succeeded).await.map(drop)
    })
    .await
}

/// The manager is down when the work is done: it ends the pod when it is back.
pub async fn a_manager_that_was_down_ends_the_pod_later(namespace: &Namespace) -> anyhow::Result<()> {
    with_marks_by(namespace, None, &[Part::Webhook], async |namespace| {
        let annotations = json!({"pillion.dev/sidecars": "server", "pillion.dev/sidecar-mode": "Strict"});
        let mut pod = pod_template("Never", annotations, json!([shell("main", "true"), stock_server("server")]));
        pod["metadata"]["name"] = json!("app");
        namespace.create::<Pod>(pod).await?;
        let is_done = |pod: &Pod| {
            let state = |name| status_of(pod, name).and_then(|status| status.state.as_ref());
            let is_over = state("main").is_some_and(|state| state.terminated.is_some());
            is_over && state("server").is_some_and(|state| state.running.is_some())
        };
        let pod = namespace.wait_for_pod("app", "done while nobody looks", is_done).await?;
        ensure!(phase(&pod) == "Running", "the phase is {}", phase(&pod));
        let gates = gates()?;
        let parts = vec![Part::Lifecycle];
        let _back = Replica::of(namespace, namespace.client(), |config| Config { gates, parts, ..config });
        namespace.wait_for_pod("app", "ended", |pod| phase(pod) == "Succeeded").await.map(drop)
    })
    .await
}

/// As native sidecars they are last in `initContainers`, in their order.
pub async fn native_marks_end_with_the_work(namespace: &Namespace) -> anyhow::Result<()> {
    with_marks(namespace, None, async |namespace| {
        let annotations = json!({"pillion.dev/sidecars": "log,server", "pillion.dev/sidecar-mode": "Native"});
        let containers = json!([stock_server("server"), shell("main", A_WHILE), shell("log", UNTIL_TERM)]);
        let pod = run_job(namespace, pod_template("OnFailure", annotations, containers)).await?;
        let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let names: Vec<&str> = init.map(|container| container.name.as_str()).collect();
        ensure!(names == ["server", "log"], "the init containers are {names:?}");
        ensure!(phase(&pod) == "Succeeded", "the phase is {}", phase(&pod));
        Ok(())
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

/// Strict marks end together, and how they end does not matter: under `OnFailure` nothing is started again.
pub async fn strict_marks_end_with_the_work(namespace: &Namespace) -> anyhow::Result<()> {
    // The embedded node runs programs of this machine: there is no image to copy the wrapper from.
    let wrap_image = namespace.is_real().then_some(PILLION);
    with_marks(namespace, wrap_image, async |namespace| {
        let annotations = json!({"pillion.dev/sidecars": "server,log", "pillion.dev/sidecar-mode": "Strict"});
        let containers = json!([
            shell("main", A_WHILE),
            stock_server("server"),
            shell("log", "trap 'exit 3' TERM; sleep 3600 & wait $!")
        ]);
        let pod = run_job(namespace, pod_template("OnFailure", annotations, containers)).await?;
        ensure!(phase(&pod) == "Succeeded", "the phase is {}", phase(&pod));
        for name in ["server", "log"] {
            let status = status_of(&pod, name);
            ensure!(status.is_some_and(|status| status.restart_count == 0), "{name} was started again");
            let exit = status.and_then(|status| status.state.as_ref()?.terminated.as_ref());
            if wrap_image.is_some() {
                let reason = exit.and_then(|exit| exit.reason.as_deref());
                ensure!(reason == Some("Completed"), "{name} ended with the reason {reason:?}");
            }
        }
        Ok(())
    })
    .await
}
