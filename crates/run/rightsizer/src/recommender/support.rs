//! Whether the target of an autoscaler can be served, in upstream's words.

use jiff::Timestamp;
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_rightsize::{Owner, WELL_KNOWN_CONTROLLERS, Workload, refuse_set_target, targeted_set};

use crate::cluster::Cluster;
use crate::config::Config;
use crate::owners::Scales;

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
            let chain = owners.chain(&workload.namespace, &owner);
            let parent = chain.iter().skip(1).find(|it| WELL_KNOWN_CONTROLLERS.contains(&it.kind.as_str()));
            parent.map(|_| {
                let version = target.api_version.as_deref().unwrap_or_default();
                format!(
                    "The target {version}.{}/{} has a parent controller but it should point to a topmost well-known or scalable \
                     controller",
                    target.kind, target.name
                )
            })
        }
        None => scales.check(&config.client, &workload.namespace, target, now).await.err().map(unreadable),
    }
}
