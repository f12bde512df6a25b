//! The sign of life of a node.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::config::Config;

const NAMESPACE: &str = "kube-node-lease";

/// A lease that was not renewed for so long says that the node is dead.
const DURATION_SECONDS: i32 = 40;

/// Between renewals.
const PERIOD: Duration = Duration::from_secs(10);

/// Renews the node's lease, for ever.
pub(crate) async fn keep(config: &Config, node_uid: &str) {
    loop {
        if let Err(error) = renew(config, node_uid).await {
            tracing::debug!(%error, "the lease of the node was not renewed");
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn renew(config: &Config, node_uid: &str) -> kube::Result<()> {
    let leases: Api<Lease> = Api::namespaced(config.client.clone(), NAMESPACE);
    let now = MicroTime(config.clock.now());
    let renewal = Patch::Merge(json!({"spec": {"renewTime": now, "holderIdentity": config.name}}));
    match leases.patch(&config.name, &PatchParams::default(), &renewal).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            leases.create(&PostParams::default(), &lease(config, node_uid, now)).await.map(drop)
        }
        other => other.map(drop),
    }
}

fn lease(config: &Config, node_uid: &str, now: MicroTime) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: config.name.clone(),
        uid: node_uid.to_owned(),
        ..OwnerReference::default()
    };
    let mut lease = Lease {
        spec: Some(LeaseSpec {
            holder_identity: Some(config.name.clone()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
        ..Lease::default()
    };
    lease.metadata.name = Some(config.name.clone());
    lease.metadata.owner_references = Some(vec![owner]);
    lease
}
