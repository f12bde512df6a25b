//! Installs Pillion on a cluster, and removes it.
//!
//! ```
//! use pillion_install::{Options, manifests};
//!
//! let objects = manifests(&Options { replicas: 3, ..Options::default() });
//! let manager = objects.iter().find(|object| object["kind"] == "Deployment").ok_or("there is no Deployment")?;
//! assert_eq!(manager["spec"]["replicas"], 3);
//! # Ok::<(), &str>(())
//! ```
//!
//! ```text
//!  Options ─▶ manifests (pure) ─┬─▶ `pillion install --print`, deploy/pillion.yaml
//!                               ├─▶ the templates of the Helm chart (cargo xtask gen)
//!                               └─▶ install: nothing in the way? ▸ apply ▸ prune ▸ replicas available ▸ an admission works
//!
//!  uninstall: configurations ▸ one stored version ▸ manager ▸ conversion ▸ the rest ▸ (all: SidecarSets, revisions, definition)
//! ```
//!
//! # Invariants
//! - One description: what is printed, applied and in the chart is made by [`manifests`].
//! - An object of somebody else is never overwritten or deleted; it is reported before anything is changed. A namespace in which one is stays.
//! - The manager's own fields (webhooks, conversion) are not in the manifests, so that applying them again does not interrupt it.
//! - Without the manager SidecarSets can be read and edited: they are stored in one version before the conversion webhook goes.
//! - Installing twice changes nothing, and whatever was interrupted is completed by the next run.
#![forbid(unsafe_code)]

mod agent;
mod agents_left;
mod check;
mod error;
mod install;
mod manifests;
mod migrate;
mod namespaces;
mod objects;
mod options;
mod ready;
mod rights;
mod take_over;
mod uninstall;

pub use agent::{AgentOptions, agent, agent_config};
pub use error::Error;
pub use install::install;
pub use manifests::{
    CERTIFICATE_SECRET, CONFIGURATION, HEALTH_PORT, MANAGER, REPLICAS, SERVICE, manifests, own_flags, removal,
};
pub use options::{Certificates, IMAGE, KUBELETS, Options, SHUTDOWN_DELAY, SHUTDOWN_DELAY_FLAG, SHUTDOWN_GRACE};
pub use pillion_manager::{ControllerName, NAMESPACE, Peer};
pub use ready::is_available;
pub use rights::{Right, rights};
pub use uninstall::{prepare, uninstall};
