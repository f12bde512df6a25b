//! The pod template of a workload, for what no pod shows.

use pillion_api::pod::Pod;
use pillion_api::workload::pod_template;
use pillion_rightsize::{Owner, PodView, Workload};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::config::Config;

pub(super) struct Template {
    pub(super) object: Value,
    pub(super) of_pods: Value,
    /// A pod as the template has it.
    pub(super) pod: PodView,
}

impl Template {
    /// Reads it. `None` for a kind that Kubernetes does not bring, or if it cannot be read.
    pub(super) async fn read(cluster: &Cluster, config: &Config, workload: &Workload) -> Option<Template> {
        let owner = Owner { kind: workload.kind.clone(), name: workload.name.clone() };
        let object = cluster.owners().object(&config.client, &workload.namespace, &owner).await?;
        let template = object.pointer(pod_template(&object)?)?.clone();
        let pod = PodView::new(&Pod::new(template.clone()).ok()?);
        Some(Template { object, of_pods: template, pod })
    }
}
