//! The arguments of `pillion check`.

use clap::Args;
use pillion_install::NAMESPACE;

use super::{Output, RevisionsArgs, ToClusterArgs};

/// `pillion check`
#[derive(Debug, Args)]
pub struct ClusterCheckArgs {
    /// The namespace of the manager
    #[arg(short, long, value_name = "NAME", default_value = NAMESPACE)]
    pub namespace: String,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Where ControllerRevisions are.
    #[command(flatten)]
    pub revisions: RevisionsArgs,
    /// What is checked.
    #[command(flatten)]
    pub cluster: ToClusterArgs,
}

pub(super) const CLUSTER_CHECK_EXAMPLES: &str = "\
Examples:
  # Can Pillion be installed here?
  pillion check

  # In CI: does the installation work, and does every pod have its sidecars?
  pillion check --context production -o json";
