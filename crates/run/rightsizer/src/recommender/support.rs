//! Whether the target of an autoscaler can be served, in upstream's words.

use jiff::Timestamp;
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_rightsize::{Owner, Workload, refuse_set_target, refuse_target, targeted_set};

use crate::cluster::Cluster;
use crate::config::Config;
use crate::owners::{Scales, Unscalable};

/// An autoscaler without a target.
pub(super) const NO_TARGET: &str =
    "Cannot read targetRef. Reason: targetRef not defined. If this is a v1beta1 object, switch to v1";

/// Why an autoscaler cannot be served.
pub(super) async fn unsupported(
    cluster: &Cluster,
    config: &Config,
    scales: &mut Scales,
    autoscaler: &VerticalPodAutoscaler,
    workload: &Workload,
    now: Timestamp,
) -> Option<String> {
    let target = autoscaler.spec.target_ref.as_ref()?;
    let unreadable = |reason: String| format!("Cannot read targetRef. Reason: {reason}");
    if targeted_set(autoscaler).is_some() {
        if let Some(refused) = refuse_set_target(autoscaler, &config.home, config.gates) {
            return Some(unreadable(refused));
        }
        return scales.check_set(&config.client, target, now).await.err().map(unreadable);
    }
    let owner = Owner { kind: workload.kind.clone(), name: workload.name.clone() };
    let owners = cluster.owners();
    match owners.exists(&workload.namespace, &owner) {
        Some(false) => {
            Some(unreadable(format!("{} {}/{} does not exist", workload.kind, workload.namespace, workload.name)))
        }
        Some(true) => {
            let version = target.api_version.as_deref().unwrap_or_default();
            refuse_target(&workload.namespace, version, &owner, |it| owners.look(&workload.namespace, it))
        }
        None => match scales.check(&config.client, &workload.namespace, target, now).await {
            Ok(()) => None,
            Err(Unscalable::Refused(error)) => {
                let version = target.api_version.as_deref().unwrap_or_default();
                let (kind, name) = (&target.kind, &target.name);
                Some(unreadable(format!("unhandled targetRef {version} / {kind} / {name}, last error {error}")))
            }
            // What is known of it stays: a restart of the API server must not take recommendations away.
            Err(Unscalable::Unanswered(error)) => {
                let (kind, name, namespace) = (&target.kind, &target.name, &workload.namespace);
                tracing::warn!(kind, name, namespace, error, "whether a target can be scaled is not known");
                pillion_rightsize::unsupported(autoscaler).map(str::to_owned)
            }
        },
    }
}
