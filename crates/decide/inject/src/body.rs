//! What one revision of a SidecarSet injects, compiled.

use std::sync::{Arc, OnceLock};

use pillion_api::field::Path;
use pillion_api::sidecarset::{SidecarContainer, SidecarSet, TransferEnv, revision};
use pillion_selector::SelectorError;

use crate::policy::{Policy, PolicyError};

/// A SidecarSet that validation should have refused.
#[derive(Debug, thiserror::Error)]
#[error("SidecarSet {set:?}: {path}")]
pub struct CompileError {
    pub set: String,
    /// Where in it.
    pub path: Path,
    /// What is wrong.
    #[source]
    pub reason: CompileReason,
}

/// What is wrong with a SidecarSet.
#[derive(Debug, thiserror::Error)]
pub enum CompileReason {
    /// A selector is malformed.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A `resourcesPolicy` is malformed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// What one revision of a SidecarSet injects.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) set: Arc<SidecarSet>,
    pub(crate) init_containers: Vec<Option<Arc<Policy>>>,
    pub(crate) containers: Vec<Option<Arc<Policy>>>,
    pub(crate) hash: String,
    pub(crate) hash_without_image: String,
    /// The name of the ControllerRevision, computed when it is first needed: most sets of a large cluster match few pods.
    revision: OnceLock<String>,
}

impl Body {
    /// Compiles a set as it is in force.
    pub(crate) fn compile(set: Arc<SidecarSet>) -> Result<Body, CompileError> {
        let policies = |list: &[SidecarContainer], field: &str| {
            list.iter()
                .enumerate()
                .map(|(i, container)| {
                    container.resources_policy.as_ref().map(Policy::shared).transpose().map_err(|reason| CompileError {
                        set: set.name().to_owned(),
                        path: Path::new("spec").child(field).index(i).child("resourcesPolicy"),
                        reason: reason.into(),
                    })
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let init_containers = policies(&set.spec.init_containers, "initContainers")?;
        let containers = policies(&set.spec.containers, "containers")?;
        let hash = set.current_hash().into_owned();
        let hash_without_image = set.current_hash_without_image().into_owned();
        Ok(Body { set, init_containers, containers, hash, hash_without_image, revision: OnceLock::new() })
    }

    /// Compiles a set as it was in the ControllerRevision of this name.
    pub(crate) fn compile_revision(set: Arc<SidecarSet>, revision: &str) -> Result<Body, CompileError> {
        Ok(Body { revision: OnceLock::from(revision.to_owned()), ..Body::compile(set)? })
    }

    /// The name of the ControllerRevision that holds this.
    pub(crate) fn revision(&self) -> &str {
        self.revision.get_or_init(|| revision::current_name(&self.set))
    }

    /// The environment variables of the app that its sidecars get.
    pub(crate) fn transferred_variables(&self) -> impl Iterator<Item = &str> {
        let spec = &self.set.spec;
        spec.init_containers
            .iter()
            .chain(&spec.containers)
            .flat_map(|sidecar| &sidecar.transfer_env)
            .flat_map(TransferEnv::names)
    }
}
