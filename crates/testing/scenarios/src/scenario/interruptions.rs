//! An installation under load while replicas, versions, certificates and finally all of its webhooks go away. For the real cluster.
//!
//! The pods are never scheduled: only their admission counts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use pillion_api::names;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::custom_resources;
use super::installation::commands::{kubectl, pillion};
use super::installation::{HOME, clear, has_proxy, is_injected};
use super::{A_WHILE, UNTIL_TERM, shell, sidecar, with};
use crate::{Namespace, diagnostics, wait};

/// How many pods are asked for at once.
const AT_ONCE: usize = 4;
/// Between two pods of one asker: a load, and still room for others on the machine.
const PAUSE: Duration = Duration::from_millis(40);
/// How many pods are created while the leader is deleted, and when that is.
const CREATED: usize = 500;
const DELETED_AFTER: usize = 100;
/// A serving certificate that expires while one looks.
const LIFETIME: SignedDuration = SignedDuration::from_secs(20);
/// How many pods are missed while nobody answers.
const MISSED: usize = 5;
const MANAGER: &str = "deployment/pillion-manager";

/// The leader is deleted, the manager is upgraded, certificates and their authority expire: no pod is without its sidecars. Then nobody
/// answers, and what was missed is found afterwards.
pub async fn an_installation_is_interrupted(namespace: &Namespace) -> anyhow::Result<()> {
    let _mine = namespace.cluster().alone().await;
    clear(namespace).await?;
    pillion(&["install"]).await?;
    for (kind, strategy) in [
        ("open", json!({})),
        ("shut", json!({"failurePolicy": "Fail"})),
        ("evicted", json!({"repair": {"policy": "Evict", "maxPerMinute": 60}})),
    ] {
        custom_resources::create(namespace, &set(namespace, kind, &strategy)).await?;
        is_injected(namespace, kind).await?;
    }
    the_leader_is_deleted(namespace).await.context("while the leader was deleted")?;
    the_manager_is_upgraded(namespace).await.context("while the manager was upgraded")?;
    certificates_expire(namespace).await.context("while certificates expired")?;
    nobody_answers(namespace).await.context("while nobody answered")?;
    pillion(&["uninstall", "--all", "--yes"]).await?;
    clear(namespace).await
}

fn set(namespace: &Namespace, kind: &str, strategy: &Value) -> Value {
    json!({
        "apiVersion": names::V1BETA1, "kind": names::SIDECARSET_KIND, "metadata": {"name": set_name(namespace, kind)},
        "spec": {
            "namespaceSelector": {"matchLabels": {names::NAMESPACE_NAME: namespace.name()}},
            "selector": {"matchLabels": {"mesh": kind}}, "initContainers": [sidecar("proxy", UNTIL_TERM)],
            "injectionStrategy": strategy,
        }
    })
}

fn set_name(namespace: &Namespace, kind: &str) -> String {
    format!("{}-{kind}", namespace.name())
}

/// The spec of a pod that no scheduler looks at.
fn gated() -> Value {
    json!({
        "schedulingGates": [{"name": "pillion.dev/test"}], "terminationGracePeriodSeconds": 0,
        "containers": [shell("main", A_WHILE)]
    })
}

fn pod(name: &str, kind: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name, "labels": {"mesh": kind}}, "spec": gated()}))?)
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// Asks for pods while `work` goes on, and for `least` of them at any rate. `work` can see how many have been answered. Every one of them
/// must be injected: the first that is not ends it, with the logs of the managers as they are then.
async fn under_load(
    namespace: &Namespace,
    least: usize,
    parameters: &PostParams,
    work: impl AsyncFnOnce(&AtomicUsize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (asked, answered, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let pods = namespace.api::<Pod>();
    let ask = async || -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(PAUSE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !(is_over.load(Ordering::Relaxed) && asked.load(Ordering::Relaxed) >= least) {
            tick.tick().await;
            let name = format!("load-{}", asked.fetch_add(1, Ordering::Relaxed));
            let created = pods.create(parameters, &pod(&name, "open")?).await;
            let created = created.with_context(|| format!("cannot create {name}"))?;
            ensure!(has_proxy(&created), "{name} is not injected, at {}", Timestamp::now());
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let working = async {
        let outcome = work(&answered).await;
        is_over.store(true, Ordering::Relaxed);
        outcome
    };
    let outcome = tokio::try_join!(Box::pin(working), try_join_all((0..AT_ONCE).map(|_| ask())));
    if outcome.is_err() {
        diagnostics::print_logs_of(&Api::namespaced(namespace.client(), HOME)).await;
    }
    outcome.map(drop)
}

/// `kubectl delete pod` in the middle of 500 creations.
async fn the_leader_is_deleted(namespace: &Namespace) -> anyhow::Result<()> {
    under_load(namespace, CREATED, &PostParams::default(), async |answered| {
        wait::until("pods before the leader goes", async || {
            Ok((answered.load(Ordering::Relaxed) >= DELETED_AFTER).then_some(()))
        })
        .await?;
        let leader = wait::until("a leader", async || leader_of(namespace).await).await?;
        kubectl(&["delete", "pod", &leader, "--namespace", HOME]).await?;
        wait::until("another leader", async || {
            Ok(leader_of(namespace).await?.filter(|other| *other != leader).map(drop))
        })
        .await
    })
    .await?;
    let created = namespace.api::<Pod>().list(&ListParams::default().labels("mesh=open")).await?.items;
    let without: Vec<String> = created.iter().filter(|pod| !has_proxy(pod)).map(ResourceExt::name_any).collect();
    ensure!(
        created.len() >= CREATED && without.is_empty(),
        "of {} pods these have no sidecar: {without:?}",
        created.len()
    );
    // Hundreds of pods would only be in the way of what is printed if something fails later.
    namespace.api::<Pod>().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    kubectl(&["rollout", "status", MANAGER, "--namespace", HOME, "--timeout=2m"]).await.map(drop)
}

/// The pod that leads, if one does.
async fn leader_of(namespace: &Namespace) -> anyhow::Result<Option<String>> {
    let lease = Api::<Lease>::namespaced(namespace.client(), HOME).get_opt("pillion-webhook").await?;
    let holder = lease.and_then(|lease| lease.spec?.holder_identity).filter(|holder| !holder.is_empty());
    Ok(holder.and_then(|holder| holder.rsplit_once('_').map(|(pod, _)| pod.to_owned())))
}

/// The same command with other options replaces every replica.
async fn the_manager_is_upgraded(namespace: &Namespace) -> anyhow::Result<()> {
    let before = replicas(namespace).await?;
    under_load(namespace, 0, &dry_run(), async |_| pillion(&["install", "--log-format=json"]).await.map(drop)).await?;
    let after = replicas(namespace).await?;
    ensure!(!after.iter().any(|pod| before.contains(pod)), "{before:?} became {after:?}");
    Ok(())
}

/// The replicas that are not about to end.
async fn replicas(namespace: &Namespace) -> anyhow::Result<Vec<String>> {
    let selector = ListParams::default().labels("app.kubernetes.io/component=manager");
    let pods = Api::<Pod>::namespaced(namespace.client(), HOME).list(&selector).await?.items;
    let live = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(live.map(ResourceExt::name_any).collect())
}

/// Certificates expire while replicas show them, their authority is succeeded, and connections move to another replica.
async fn certificates_expire(namespace: &Namespace) -> anyhow::Result<()> {
    let seconds = LIFETIME.as_secs();
    let argument = format!("--certificate-lifetime={seconds}s");
    let change = json!([{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": argument}]);
    kubectl(&["patch", MANAGER, "--namespace", HOME, "--type=json", "--patch", &change.to_string()]).await?;
    kubectl(&["rollout", "status", MANAGER, "--namespace", HOME, "--timeout=2m"]).await?;
    under_load(namespace, 0, &dry_run(), async |_| {
        let replicas = replicas(namespace).await?;
        // The first is renewed after two thirds of its life: with the third the first has expired.
        for replica in &replicas {
            has_made_certificates(namespace, replica, 3).await?;
        }
        an_authority_is_succeeded(namespace).await?;
        let first = replicas.first().context("there is no replica")?;
        kubectl(&["delete", "pod", first, "--namespace", HOME]).await?;
        kubectl(&["rollout", "status", MANAGER, "--namespace", HOME, "--timeout=2m"]).await.map(drop)
    })
    .await
}

async fn has_made_certificates(namespace: &Namespace, replica: &str, number: usize) -> anyhow::Result<()> {
    wait::until(&format!("{number} certificates of {replica}"), async || {
        Ok((certificates_of(namespace, replica).await? >= number).then_some(()))
    })
    .await
}

/// How many certificates a replica has made so far.
async fn certificates_of(namespace: &Namespace, replica: &str) -> anyhow::Result<usize> {
    let pods: Api<Pod> = Api::namespaced(namespace.client(), HOME);
    let log = pods.logs(replica, &LogParams::default()).await?;
    Ok(log.matches("new certificate of the webhooks").count())
}

/// Has the replicas believe that their authority expires before long. API servers are to trust its successor before it signs.
async fn an_authority_is_succeeded(namespace: &Namespace) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(namespace.client(), HOME);
    let authority = async || -> anyhow::Result<Vec<u8>> {
        let data = secrets.get("pillion-webhook-certificate").await?.data.unwrap_or_default();
        Ok(data.get("tls.crt").context("the Secret has no certificate")?.0.clone())
    };
    let before = authority().await?;
    let soon = Timestamp::now() + LIFETIME + LIFETIME;
    let annotation = format!("{}={soon}", names::AUTHORITY_NOT_AFTER);
    let secret = ["secret", "pillion-webhook-certificate"];
    kubectl(&[&["annotate", "--overwrite", "--namespace", HOME][..], &secret, &[&annotation]].concat()).await?;
    wait::until("another authority", async || Ok((authority().await? != before).then_some(()))).await?;
    // What each replica makes from now on is signed by the successor.
    for replica in replicas(namespace).await? {
        let so_far = certificates_of(namespace, &replica).await?;
        has_made_certificates(namespace, &replica, so_far + 1).await?;
    }
    Ok(())
}

/// While no replica runs, pods start without their sidecars, except those of the set that wants none of that. Afterwards they are found.
async fn nobody_answers(namespace: &Namespace) -> anyhow::Result<()> {
    let sets = custom_resources::sidecarsets(namespace.client());
    wait::until("an entry of its own for the set that refuses", async || {
        let set = sets.get(&set_name(namespace, "shut")).await?;
        Ok((condition(&set.data, names::FAILURE_POLICY_ENFORCED) == Some("True")).then_some(()))
    })
    .await?;
    scale(0).await?;
    let selector = "--selector=app.kubernetes.io/component=manager";
    kubectl(&["wait", "pods", selector, "--namespace", HOME, "--for=delete", "--timeout=2m"]).await?;

    let pods = namespace.api::<Pod>();
    for number in 0..MISSED {
        let missed = pods.create(&PostParams::default(), &pod(&format!("missed-{number}"), "open")?).await?;
        ensure!(!has_proxy(&missed), "somebody has injected {}", missed.name_any());
    }
    let mut opted_out = pod("opted-out", "open")?;
    opted_out.annotations_mut().insert(names::INJECT.to_owned(), "false".to_owned());
    pods.create(&PostParams::default(), &opted_out).await?;
    let refused = pods.create(&PostParams::default(), &pod("refused", "shut")?).await;
    let refused = refused.err().context("a pod was admitted that must not be without its sidecars")?;
    ensure!(refused.to_string().contains("failed calling webhook"), "{refused}");
    pods.create(&dry_run(), &pod("other", "none")?).await.context("a pod of no set was refused")?;
    let elsewhere: Api<Pod> = Api::namespaced(namespace.client(), "default");
    elsewhere.create(&dry_run(), &pod("other", "shut")?).await.context("a pod of another namespace was refused")?;
    let template = json!({"metadata": {"labels": {"mesh": "evicted"}}, "spec": gated()});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"mesh": "evicted"}}, "template": template});
    namespace.create::<Deployment>(with(json!({"metadata": {"name": "evicted"}}), json!({"spec": spec}))).await?;
    let of_deployment = async |is_fine: fn(&Pod) -> bool| -> anyhow::Result<Option<()>> {
        let pods = pods.list(&ListParams::default().labels("mesh=evicted")).await?.items;
        Ok((pods.len() == 3 && pods.iter().all(is_fine)).then_some(()))
    };
    wait::until("three pods without their sidecars", async || of_deployment(|pod| !has_proxy(pod)).await).await?;

    scale(2).await?;
    kubectl(&["rollout", "status", MANAGER, "--namespace", HOME, "--timeout=2m"]).await?;
    wait::until("every missed pod is found", async || {
        let set = sets.get(&set_name(namespace, "open")).await?;
        Ok((set.data["status"]["missedPods"] == json!(MISSED)).then_some(()))
    })
    .await?;
    namespace.has_event("missed-0", "SidecarsMissed", "the pod has been created without").await?;
    wait::until("pods of the Deployment with their sidecars", async || of_deployment(has_proxy).await).await?;
    wait::until("nothing missed of the set that evicts", async || {
        let status = sets.get(&set_name(namespace, "evicted")).await?.data["status"]["missedPods"].clone();
        Ok((status.is_null() || status == 0).then_some(()))
    })
    .await?;
    for number in 0..MISSED {
        let name = format!("missed-{number}");
        pods.get(&name).await.with_context(|| format!("{name} has no owner that would replace it, and is gone"))?;
    }
    let found = pillion(&["check"]).await.err().context("pillion check found nothing to be done")?;
    let expected = format!("{MISSED} pods lack the sidecars of SidecarSet {:?}", set_name(namespace, "open"));
    ensure!(format!("{found:#}").contains(&expected), "it found {found:#}");
    Ok(())
}

async fn scale(replicas: u32) -> anyhow::Result<()> {
    kubectl(&["scale", MANAGER, "--namespace", HOME, &format!("--replicas={replicas}")]).await.map(drop)
}

fn condition<'a>(set: &'a Value, condition_type: &str) -> Option<&'a str> {
    let conditions = set["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == condition_type)?["status"].as_str()
}
