//! What the worker hears about pods: from the watch, from the runtime, and from what it has started itself.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use pillion_lifecycle::Marked;

use crate::facts::Fact;
use crate::probe::Kind;
use crate::runtime::{ContainerId, Refusal};
use crate::volumes::{self, Mounted};

/// Something that has happened to a pod.
pub(crate) enum News {
    /// A pod was added or has changed; with its sidecars.
    Pod(Box<Pod>, Marked),
    /// A pod was removed from the API server.
    Gone(String),
    /// The uids of all pods there are.
    Listed(BTreeSet<String>),
    /// The sandbox of a pod is ready, or could not be created.
    Sandbox(String, Result<(IpAddr, Mounted), Unprepared>),
    /// Something happened to an attempt of a container.
    Container(ContainerId, Fact),
    /// The result of a probe; `None` if it could not be made.
    Probed(ContainerId, Kind, Option<bool>),
    /// A status was written, or the write failed.
    Written(String, Box<kube::Result<Pod>>),
    /// Whether an ended pod was deleted.
    Deleted(String, bool),
}

/// Why a pod has no sandbox yet.
pub(crate) enum Unprepared {
    Volumes(Vec<volumes::Failure>),
    Runtime(Refusal),
}
