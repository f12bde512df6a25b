//! A real single-node Kubernetes on this machine, brought up and taken down by a test run.
//!
//! ```
//! use pillion_cluster::Cluster;
//!
//! match Cluster::current()? {
//!     Some(cluster) => println!("Kubernetes {} at {}", cluster.kubernetes(), cluster.kubeconfig().display()),
//!     None => println!("no cluster is up: cargo xtask cluster up"),
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! ```text
//! cluster up ─▶ packages, programs (found, or built once into the cache)
//!     │
//!     └─▶ supervisor ── process 1 of a process namespace, in a mount namespace
//!           │            state, logs, keys, data: one folder
//!           ├─ on the host's network: etcd, kube-apiserver, kube-controller-manager, kube-scheduler
//!           └─ in the node's network: containerd ─▶ pods, kubelet, kube-proxy
//! ```
//!
//! **Invariants**
//! - The host is not changed: its files outside the folder, its kernel settings, its firewall and its mounts are as they
//!   were, while a cluster is up as well as after.
//! - When the supervisor ends in whatever way, so does every process of the run, and with them the mounts and the network.
//!   What may be left then (the folder, an empty cgroup) has a known name, and `down` takes it away.
//! - A program in the cache is whole: it is built elsewhere and renamed.
//! - There is one cluster at a time on a machine.

pub mod cli;
pub mod image;

mod binaries;
mod certificates;
mod cgroups;
mod cleanup;
mod cluster;
mod components;
mod folder;
mod gomod;
mod host;
mod images;
mod lock;
mod mounts;
mod names;
mod network;
mod options;
mod packages;
mod prerequisites;
mod process;
mod state;
mod static_linking;
mod supervisor;
mod version;

pub use binaries::{helm, vertical_pod_autoscaler};
pub use cluster::{Cluster, down};
pub use image::ImageSpec;
pub use images::{static_agent, static_wrapper};
pub use names::find_name;
pub use options::{Options, is_ci};
pub use prerequisites::{Missing, prerequisites};
pub use supervisor::supervise_if_asked;
pub use version::KubernetesVersion;
