//! The same work in every way to mark sidecars: a Job with two of them, a CronJob, and a manager that is down when the work is done.

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use pillion_cluster::image::PILLION;
use pillion_manager::{Config, ControllerName};
use serde_json::{Value, json};

use super::super::managed::{Replica, is_injected};
use super::super::{A_WHILE, IGNORES_TERM, custom_resources, job_is, phase, pre_stop, shell, status_of, with};
use super::cases::ended_at;
use super::{create_with_field, gates, with_marks_by};
use crate::{Namespace, wait};

/// Longer than what a kubelet gives to a native sidecar whose turn comes after the grace period (2 s), and the second that it takes to notice.
const GRACE: i64 = 10;

/// The marked containers, in their order in the pod.
const SIDECARS: [&str; 2] = ["stubborn", "server"];

/// How sidecars are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `sidecar: true` in the pod.
    Field,
    /// The annotation, with the mode `Native`.
    Native,
    /// The annotation, with the mode `Strict`.
    Strict,
    /// The same with a hook, which the wrapper cannot run.
    Hooked,
    /// Kruise's variable.
    Variable,
    /// `sidecar: true` in a SidecarSet.
    Set,
}

/// What ends the sidecars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Field,
    Native,
    Wrapper,
    Phase,
}

impl Way {
    /// A real API server does not know the field.
    fn all(is_real: bool) -> &'static [Way] {
        let all = &[Way::Field, Way::Native, Way::Strict, Way::Hooked, Way::Variable, Way::Set];
        if is_real { &all[1..] } else { all }
    }

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The embedded node honours the field, and has no images to copy the wrapper from.
    fn method(self, is_real: bool) -> Method {
        match (self, is_real) {
            (Way::Field, _) | (Way::Variable | Way::Set, false) => Method::Field,
            (Way::Native, _) | (Way::Set, true) => Method::Native,
            (Way::Strict, true) => Method::Wrapper,
            (Way::Strict, false) | (Way::Hooked, _) | (Way::Variable, true) => Method::Phase,
        }
    }

    /// The template of a pod with this work, whose sidecars are marked.
    fn template(self, policy: &str, work: &str) -> Value {
        let mut sidecars = sidecars();
        let mut annotations = json!({});
        let mode = |mode: &str| json!({"pillion.dev/sidecars": SIDECARS.join(","), "pillion.dev/sidecar-mode": mode});
        let mut each =
            |more: Value| sidecars.iter_mut().for_each(|sidecar| *sidecar = with(sidecar.take(), more.clone()));
        match self {
            Way::Field => each(json!({"sidecar": true})),
            Way::Native => annotations = mode("Native"),
            Way::Strict => annotations = mode("Strict"),
            Way::Hooked => {
                annotations = mode("Strict");
                each(pre_stop("true"));
            }
            Way::Variable => {
                each(json!({"env": [{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]}));
            }
            Way::Set => sidecars.clear(),
        }
        let containers: Vec<Value> = [shell("main", work)].into_iter().chain(sidecars).collect();
        json!({"metadata": {"annotations": annotations, "labels": {"way": self.name()}}, "spec": {
            "restartPolicy": policy, "terminationGracePeriodSeconds": GRACE, "containers": containers
        }})
    }
}

/// One has to be killed, and the other one ends when it is asked to, with an error.
fn sidecars() -> Vec<Value> {
    let lines = [IGNORES_TERM, "trap 'exit 3' TERM; sleep 3600 & wait $!"];
    SIDECARS.iter().zip(lines).map(|(name, line)| shell(name, line)).collect()
}

/// A Job and a CronJob complete in every way. One grace period is given, from the end of the work, and not more than one.
pub async fn jobs_complete_in_every_way(namespace: &Namespace) -> anyhow::Result<()> {
    with_ways(namespace, &[ControllerName::Webhook, ControllerName::Lifecycle], async |namespace, ways| {
        for way in ways {
            let job = |policy, work| json!({"backoffLimit": 0, "template": way.template(policy, work)});
            let named = |spec: Value| json!({"metadata": {"name": way.name()}, "spec": spec});
            create_with_field::<Job>(namespace, named(job("OnFailure", A_WHILE))).await?;
            let each = json!({"spec": job("Never", "true")});
            let cron_job = json!({"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": each});
            create_with_field::<CronJob>(namespace, named(cron_job)).await?;
        }
        try_join_all(ways.iter().map(|way| async move {
            sidecars_end_as_their_method_says(namespace, *way).await?;
            let has_succeeded = |cron_job: &CronJob| {
                cron_job.status.as_ref().is_some_and(|status| status.last_successful_time.is_some())
            };
            wait::for_object(namespace.api::<CronJob>(), &way.name(), "successful", has_succeeded).await
        }))
        .await
        .map(drop)
    })
    .await
}

async fn sidecars_end_as_their_method_says(namespace: &Namespace, way: Way) -> anyhow::Result<()> {
    let method = way.method(namespace.is_real());
    job_is(namespace, &way.name(), "Complete").await?;
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", way.name()));
    let pods = namespace.api::<Pod>().list(&of_job).await?.items;
    ensure!(pods.len() == 1, "{way:?}: the Job had {} pods", pods.len());
    let name = pods.first().map(kube::ResourceExt::name_any).unwrap_or_default();
    // By phase the Job is complete before the processes have ended.
    let have_ended = |pod: &Pod| SIDECARS.iter().all(|sidecar| ended_at(pod, sidecar).is_some());
    let pod = namespace.wait_for_pod(&name, "without processes", have_ended).await?;
    ensure!(phase(&pod) == "Succeeded", "{way:?}: the phase is {}", phase(&pod));
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let native: Vec<&str> =
        init.map(|container| container.name.as_str()).filter(|name| SIDECARS.contains(name)).collect();
    let expected: &[&str] = if method == Method::Native { &SIDECARS } else { &[] };
    ensure!(native == expected, "{way:?}: the native sidecars are {native:?}");
    let work_ended = ended_at(&pod, "main").context("the work has ended")?;
    for sidecar in SIDECARS {
        let status = status_of(&pod, sidecar).context("it has a status")?;
        ensure!(status.restart_count == 0, "{way:?}: {sidecar} was started again");
        let exit = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        let reason = exit.and_then(|exit| exit.reason.as_deref());
        if matches!(method, Method::Field | Method::Wrapper) {
            ensure!(reason == Some("Completed"), "{way:?}: {sidecar} ended with the reason {reason:?}");
        }
        let passed = ended_at(&pod, sidecar).context("it has ended")?.duration_since(work_ended).as_secs();
        // Both are whole seconds.
        if sidecar == "stubborn" {
            ensure!(passed >= GRACE - 1, "{way:?}: {sidecar} was killed after {passed} seconds");
        } else if method != Method::Native {
            ensure!(passed < GRACE, "{way:?}: {sidecar} got TERM too late: it ended after {passed} seconds");
        }
        ensure!(
            passed < 2 * GRACE - 1,
            "{way:?}: {sidecar} had a second grace period: it ended after {passed} seconds"
        );
    }
    Ok(())
}

/// The manager is down when the work is done: only where it writes the phase is it needed, and then it does so when it is back.
pub async fn only_the_phase_waits_for_the_manager(namespace: &Namespace) -> anyhow::Result<()> {
    with_ways(namespace, &[ControllerName::Webhook], async |namespace, ways| {
        for way in ways {
            let mut pod = way.template("Never", A_WHILE);
            pod["metadata"]["name"] = json!(way.name());
            create_with_field::<Pod>(namespace, pod).await?;
        }
        let (by_phase, others): (Vec<Way>, Vec<Way>) =
            ways.iter().partition(|way| way.method(namespace.is_real()) == Method::Phase);
        let succeeds =
            async |way: &Way| namespace.wait_for_pod(&way.name(), "ended", |pod| phase(pod) == "Succeeded").await;
        try_join_all(others.iter().map(succeeds)).await?;
        for way in &by_phase {
            let is_done = |pod: &Pod| ended_at(pod, "main").is_some();
            let pod = namespace.wait_for_pod(&way.name(), "done while nobody looks", is_done).await?;
            ensure!(phase(&pod) == "Running", "{way:?}: the phase is {}", phase(&pod));
        }
        let gates = gates()?;
        let parts = vec![ControllerName::Lifecycle];
        let _back = Replica::of(namespace, namespace.client(), |config| Config { gates, parts, ..config });
        try_join_all(by_phase.iter().map(succeeds)).await.map(drop)
    })
    .await
}

/// Runs a scenario with a manager that has these parts, and with the SidecarSet of [`Way::Set`].
async fn with_ways(
    namespace: &Namespace,
    parts: &[ControllerName],
    scenario: impl AsyncFnOnce(&Namespace, &[Way]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let wrap_image = namespace.is_real().then_some(PILLION);
    with_marks_by(namespace, wrap_image, parts, async |namespace| {
        let marked: Vec<Value> = sidecars().into_iter().map(|one| with(one, json!({"sidecar": true}))).collect();
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace.name()},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
                "selector": {"matchLabels": {"way": Way::Set.name()}}, "containers": marked,
            },
        });
        custom_resources::create(namespace, &set).await?;
        is_injected(namespace, &Way::Set.template("Never", "true")).await?;
        scenario(namespace, Way::all(namespace.is_real())).await
    })
    .await
}
