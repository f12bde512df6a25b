//! The explanation of a pod or a workload of a cluster.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_admission::{Offline, OfflineError, Why};
use pillion_api::vpa::{self, VerticalPodAutoscaler};
use pillion_gates::Settings;
use pillion_lifecycle::marks::modes_of;
use pillion_preview::{before_injection, drift};
use pillion_rightsize::{LimitRanges, PodView};
use serde_json::Value;

use super::{Derivation, Explanation, PodDrift};
use crate::Failure;
use crate::cluster::fleet::pods_of;
use crate::cluster::known::{Known, Wanted};
use crate::cluster::read::{Parts, Reader};
use crate::cluster::target;
use crate::cluster::updates::{Circumstances, lines, updates};
use crate::recommend::explain;

/// Explains the object that `target` names, with the gates that the user sets. Warnings are what the user should know beside it.
pub(crate) async fn explain_running(
    reader: &Reader,
    target: &[String],
    wanted: Wanted<'_>,
    user: &Settings,
    now: Timestamp,
    warnings: &mut Vec<String>,
) -> Result<Explanation, Failure> {
    let namespace = wanted.namespace.unwrap_or("default").to_owned();
    let object = target::find(reader, &namespace, target).await?;
    let known = Known::read_with(reader, wanted, user).await?;
    warnings.extend(known.warnings);
    let (kind, name) = (text(&object, "/kind"), text(&object, "/metadata/name"));
    let title = format!("{kind}/{name}");
    let malformed = |error: OfflineError| Failure::no(format!("{title}: {error}"));
    let is_pod = kind == "Pod" && text(&object, "/apiVersion") == "v1";
    let asked = if is_pod { before_injection(&object) } else { object.clone() };
    let why = known.offline.why(&asked, now).map_err(malformed)?;
    let why = why.ok_or_else(|| {
        Failure::misuse(format!("{title} has no pod template: name a pod, or the workload that makes its pods"))
    })?;
    let mut explanation = Explanation::new(title.clone(), &namespace, why);
    explanation.derivations = derivations(reader, &known.offline, &explanation.why, &asked).await?;
    let is_sized = matched(&known.offline, &explanation.why).next().is_some();
    let pods = if is_pod && is_sized {
        siblings(reader, &object).await?
    } else if is_pod {
        Vec::new()
    } else {
        pods_of(reader, &object).await?
    };
    for autoscaler in matched(&known.offline, &explanation.why) {
        let is_admitted = !known.offline.excluded_namespaces.contains(&namespace);
        let circumstances = Circumstances { gates: known.offline.gates.into(), is_admitted, now };
        let mut updates = updates(reader, autoscaler, &pods, &circumstances).await?;
        updates.retain(|pod, _| !is_pod || *pod == name);
        let lines = lines(&updates).into_iter().map(|line| format!("{}: pod {line}", autoscaler.name()));
        explanation.updates.extend(lines);
    }
    if is_pod {
        explanation.remarks = remarks(&object);
        explanation.drift = Some(drift(&object, &known.offline, now).map_err(malformed)?);
    } else {
        let mut drifts = Vec::new();
        for pod in &pods {
            let drift = drift(pod, &known.offline, now).map_err(malformed)?;
            drifts.push(PodDrift { name: text(pod, "/metadata/name"), drift });
        }
        explanation.pods = Some(drifts);
    }
    Ok(explanation)
}

/// How the numbers of the autoscalers that size an object's pods were computed, from their checkpoints.
async fn derivations(
    reader: &Reader,
    offline: &Offline,
    why: &Why,
    object: &Value,
) -> Result<Vec<Derivation>, Failure> {
    let mut derivations = Vec::new();
    let Ok(Some((pod, _))) = offline.pod(object) else { return Ok(derivations) };
    let view = PodView::new(&pod);
    for autoscaler in matched(offline, why) {
        let decode = |object: Value| {
            let checkpoint = vpa::decode_checkpoint(object).ok()?;
            (checkpoint.spec.vpa_object_name == autoscaler.name()).then_some(checkpoint)
        };
        let (resource, namespace) = (pillion_rightsizer::checkpoints(), Some(autoscaler.namespace()));
        let stored = reader.list(&resource, namespace, Parts::All, &ListParams::default(), decode).await;
        let stored = match stored {
            Err(error) if error.is_not_found() || error.is_forbidden() => Vec::new(),
            stored => stored?,
        };
        let ranges = LimitRanges::merge(offline.limit_ranges_of(pod.namespace()));
        let mut text =
            explain::text(autoscaler, &stored, &view.containers).unwrap_or_else(|error| format!("{error}\n"));
        text.push_str(&explain::of_pod(autoscaler, &view, &ranges, offline.gates.into()));
        let lines = text.lines().map(str::to_owned).collect();
        derivations.push(Derivation { vertical_pod_autoscaler: autoscaler.name().to_owned(), lines });
    }
    Ok(derivations)
}

/// The autoscalers that size the object or a part of it.
fn matched<'a>(offline: &'a Offline, why: &'a Why) -> impl Iterator<Item = &'a VerticalPodAutoscaler> {
    let all = offline.snapshot.autoscalers.list.iter().chain(&offline.snapshot.autoscalers.of_sets);
    all.map(AsRef::as_ref).filter(|autoscaler| {
        why.vertical_pod_autoscalers.iter().any(|verdict| {
            verdict.matched && verdict.name == autoscaler.name() && verdict.namespace == autoscaler.namespace()
        })
    })
}

/// A pod, and the other pods of its controller.
async fn siblings(reader: &Reader, pod: &Value) -> Result<Vec<Value>, Failure> {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let Some(owner) = owners.into_iter().find(|owner| owner["controller"] == true) else {
        return Ok(vec![pod.clone()]);
    };
    let is_owned = |other: &Value| {
        let mut owners = other["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.any(|other| other["uid"] == owner["uid"] && other["controller"] == true)
    };
    let namespace = text(pod, "/metadata/namespace");
    let keep = |other: Value| is_owned(&other).then_some(other);
    let pods = ApiResource::erase::<KubePod>(&());
    match reader.list(&pods, Some(&namespace), Parts::All, &ListParams::default(), keep).await {
        Err(error) if error.is_forbidden() => Ok(vec![pod.clone()]),
        listed => Ok(listed?),
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What a pod's state has to do with its sidecars.
fn remarks(pod: &Value) -> Vec<String> {
    let mut remarks = Vec::new();
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        remarks.push("it is being deleted; this is about a pod created in its place".to_owned());
    }
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => remarks.push("it has completed; this is about a pod created in its place".to_owned()),
        Some("Failed") => remarks.push("it has failed; this is about a pod created in its place".to_owned()),
        _ => {}
    }
    remarks.extend(modes_of(pod));
    remarks
}

#[cfg(test)]
mod tests;
