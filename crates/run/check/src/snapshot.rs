//! What is read from a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use pillion_api::sidecarset::SidecarSet;
use pillion_install::Right;
use pillion_manager::{ControllerName, Kruise, NAMESPACE, Peer, held_within};
use serde_json::Value;

use crate::missed::MissedPods;

/// What was read, or why it could not be.
pub type Answer<T> = Result<T, String>;

/// A cluster at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was read.
    pub now: Timestamp,
    /// The namespace of the manager.
    pub namespace: String,
    /// The answer of `/version`.
    pub version: Answer<Value>,
    /// What an installation needs, and whether the user may do it. Read only if Pillion is not installed.
    pub rights: Answer<Vec<(Right, bool)>>,
    /// Every `MutatingWebhookConfiguration`.
    pub mutating: Answer<Vec<Value>>,
    /// Every `ValidatingWebhookConfiguration`.
    pub validating: Answer<Vec<Value>>,
    /// The OpenKruise of the cluster.
    pub kruise: Answer<Kruise>,
    /// The components of the VerticalPodAutoscaler project.
    pub vpa: Answer<Vec<pillion_rightsizer::Peer>>,
    /// The definition of SidecarSet.
    pub definition: Answer<Option<Value>>,
    /// The Deployment of the manager.
    pub deployment: Answer<Option<Value>>,
    /// The Deployments of the parts that run apart.
    pub separate: Answer<Vec<Value>>,
    /// The replicas of the manager.
    pub replicas: Answer<Vec<Replica>>,
    /// The Secret of the webhooks' certificate.
    pub secret: Answer<Option<Value>>,
    /// The manager's Leases, by name.
    pub leases: Answer<BTreeMap<String, Lease>>,
    pub sets: Answer<Vec<Arc<SidecarSet>>>,
    /// What is wrong with SidecarSets that cannot be used.
    pub unusable: Vec<String>,
    /// The pods that should have sidecars and have none.
    pub missed: Answer<MissedPods>,
}

/// A replica of the manager, as it describes itself.
#[derive(Clone, Debug)]
pub struct Replica {
    /// The name of its pod.
    pub name: String,
    /// Whether its pod is Ready: its readiness probe asks `/readyz`.
    pub is_ready: bool,
    /// What it answers to `/readyz`, or why it cannot be asked.
    pub readiness: Answer<String>,
    /// When the certificate that it serves expires.
    pub certificate: Option<Timestamp>,
}

impl Snapshot {
    /// A cluster with nothing in it.
    pub fn empty(now: Timestamp) -> Snapshot {
        Snapshot {
            now,
            namespace: NAMESPACE.to_owned(),
            version: Ok(Value::Null),
            rights: Ok(Vec::new()),
            mutating: Ok(Vec::new()),
            validating: Ok(Vec::new()),
            kruise: Ok(Kruise::registered(&Value::Null, &Value::Null, "kruise-system")),
            vpa: Ok(Vec::new()),
            definition: Ok(None),
            deployment: Ok(None),
            separate: Ok(Vec::new()),
            replicas: Ok(Vec::new()),
            secret: Ok(None),
            leases: Ok(BTreeMap::new()),
            sets: Ok(Vec::new()),
            unusable: Vec::new(),
            missed: Ok(MissedPods::default()),
        }
    }

    /// Whether Pillion is here: its Deployment is, or its webhooks are registered by a manager elsewhere, such as that of `pillion up`.
    pub fn is_installed(&self) -> bool {
        self.has_deployment() || self.our_webhooks().next().is_some()
    }

    pub(crate) fn has_deployment(&self) -> bool {
        matches!(&self.deployment, Ok(Some(_)))
    }

    /// Whether the manager runs with `--take-over` of `peer`.
    pub(crate) fn takes_over(&self, peer: Peer) -> bool {
        let deployment = self.deployment.as_ref().ok().and_then(Option::as_ref);
        let arguments = deployment.and_then(|live| live.pointer("/spec/template/spec/containers/0/args"));
        let mut arguments = arguments.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let mut given =
            arguments.find_map(|argument| argument.strip_prefix("--take-over=")).unwrap_or_default().split(',');
        given.any(|name| name == peer.name())
    }

    /// Our entries of the `MutatingWebhookConfigurations`.
    pub(crate) fn our_webhooks(&self) -> impl Iterator<Item = &Value> {
        self.mutating.iter().flatten().filter(|configuration| is_ours(configuration)).flat_map(webhooks)
    }
}

/// Whether the manager registers its webhooks in this configuration.
pub(crate) fn is_ours(configuration: &Value) -> bool {
    name(configuration) == pillion_install::CONFIGURATION
}

pub(crate) fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten()
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Whether a replica leads a part. The Lease of a part that shares its process with others is renewed rarely, and holds only together with the Lease
/// that it names.
pub(crate) fn is_led(leases: &BTreeMap<String, Lease>, part: ControllerName, now: Timestamp) -> bool {
    let holder = |name: &str| {
        let lease = leases.get(name).filter(|lease| is_renewed(lease, now))?;
        lease.spec.as_ref()?.holder_identity.as_deref()
    };
    holder(part.lease()).is_some_and(|it| match held_within(it) {
        Some((identity, other)) => holder(other) == Some(identity),
        None => true,
    })
}

/// Whether whoever holds a Lease has renewed it in time.
fn is_renewed(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let is_held = spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
    let lasts = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or_default()));
    let renewed = spec.renew_time.as_ref().map(|renewed| renewed.0);
    is_held && renewed.is_some_and(|renewed| now.duration_since(renewed) < lasts)
}
