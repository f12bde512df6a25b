//! Whether the target of an autoscaler can be served, in upstream's words.

use std::fmt;

use jiff::Timestamp;
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_rightsize::{Owner, Workload, refuse_set_target, refuse_target, targeted_set};

use crate::cluster::Cluster;
use crate::config::Config;
use crate::owners::{Scales, Unscalable};

/// An autoscaler without a target.
pub(super) const NO_TARGET: &str =
    "Cannot read targetRef. Reason: targetRef not defined. If this is a v1beta1 object, switch to v1";

/// Why an autoscaler cannot be served, or `None` if it can.
pub(super) enum Support {
    /// What is watched says so.
    Known(Option<String>),
    /// The API server has to be asked: see [`ask`].
    Unknown,
}

fn unreadable(reason: impl fmt::Display) -> String {
    format!("Cannot read targetRef. Reason: {reason}")
}

/// Why an autoscaler cannot be served, as far as that is watched.
pub(super) fn support(
    cluster: &Cluster,
    config: &Config,
    autoscaler: &VerticalPodAutoscaler,
    workload: &Workload,
) -> Support {
    let Some(target) = &autoscaler.spec.target_ref else { return Support::Known(None) };
    if targeted_set(autoscaler).is_some() {
        let refused = refuse_set_target(autoscaler, &config.home, config.gates);
        return refused.map_or(Support::Unknown, |refused| Support::Known(Some(unreadable(refused))));
    }
    let owner = Owner { kind: workload.kind.clone(), name: workload.name.clone() };
    let owners = cluster.owners();
    match owners.exists(&workload.namespace, &owner) {
        Some(false) => {
            let Workload { namespace, kind, name } = workload;
            Support::Known(Some(unreadable(format_args!("{kind} {namespace}/{name} does not exist"))))
        }
        Some(true) => {
            let version = target.api_version.as_deref().unwrap_or_default();
            let look = |it: &Owner| owners.look(&workload.namespace, it);
            Support::Known(refuse_target(&workload.namespace, version, &owner, look))
        }
        None => Support::Unknown,
    }
}

/// Why an autoscaler of a SidecarSet or of a custom resource cannot be served.
pub(super) async fn ask(
    config: &Config,
    scales: &Scales,
    autoscaler: &VerticalPodAutoscaler,
    workload: &Workload,
    now: Timestamp,
) -> Option<String> {
    let target = autoscaler.spec.target_ref.as_ref()?;
    if targeted_set(autoscaler).is_some() {
        return scales.check_set(&config.client, target, now).await.err().map(unreadable);
    }
    match scales.check(&config.client, &workload.namespace, target, now).await {
        Ok(()) => None,
        Err(Unscalable::Refused(error)) => {
            let version = target.api_version.as_deref().unwrap_or_default();
            let (kind, name) = (&target.kind, &target.name);
            let reason = format_args!("unhandled targetRef {version} / {kind} / {name}, last error {error}");
            Some(unreadable(reason))
        }
        // What is known of it stays: a restart of the API server must not take recommendations away.
        Err(Unscalable::Unanswered(error)) => {
            let (kind, name, namespace) = (&target.kind, &target.name, &workload.namespace);
            tracing::warn!(kind, name, namespace, error, "whether a target can be scaled is not known");
            pillion_rightsize::unsupported(autoscaler).map(str::to_owned)
        }
    }
}
