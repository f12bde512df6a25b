//! The configuration of a node.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use pillion_clock::Clock;
use pillion_events::Recorder;
use pillion_gates::Gates;
use pillion_quantity::Quantity;

/// What a node is made of.
pub struct Config {
    /// Its name: pods whose `spec.nodeName` says this are its pods.
    pub name: String,
    /// How it reaches the API server.
    pub client: kube::Client,
    /// Tells the time.
    pub clock: Clock,
    /// Tells users what happens to their pods.
    pub recorder: Recorder,
    /// What it has for pods.
    pub capacity: Capacity,
    /// Labels of the Node object, besides those that every node has.
    pub labels: BTreeMap<String, String>,
    /// Its own address: `status.hostIP` of its pods.
    pub address: IpAddr,
    /// Where pods find the API server: `KUBERNETES_SERVICE_HOST` and its kin.
    pub api_server: Option<SocketAddr>,
    /// Which features are on: with `SidecarField` the node honours `containers[].sidecar`.
    pub gates: Gates,
}

/// What a node has for pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Cores.
    pub cpu: Quantity,
    /// Bytes.
    pub memory: Quantity,
    /// Bytes on the disk, for logs and volumes. Requests count for the scheduler; nobody measures the use.
    pub ephemeral_storage: Quantity,
    /// So many pods at most.
    pub pods: u64,
}
