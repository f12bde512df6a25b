//! The arguments of `pillion rollout`.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Output, RevisionsArgs, StrictnessArgs, ToClusterArgs};

/// What can be done with a rollout.
#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Show how far a rollout is, and what it waits for
    ///
    /// Prints the conditions, how many pods have which revision, the workloads, and the pods that are waited for and for how long.
    ///
    /// With -w it follows the rollout until it ends: as a tree of revisions, workloads and pods on a terminal, as lines elsewhere. The exit
    /// status is then 0 when the rollout is complete, and 1 when it has failed, cannot go on, or --timeout has passed.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// List the revisions of a SidecarSet, with what changed between them
    #[command(after_help = HISTORY_EXAMPLES)]
    History(HistoryArgs),
    /// Go back to an earlier revision
    ///
    /// Writes what the earlier revision injects into the SidecarSet: containers, init containers, volumes, imagePullSecrets,
    /// patchPodMetadata and customVersion. Selectors and strategies stay as they are. Somebody else's change in between is not
    /// overwritten.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo(UndoArgs),
    /// Pause a rollout: running pods are not updated until it is resumed
    Pause(SetArgs),
    /// Go on with a rollout that was paused, or that has paused itself because updated pods failed
    ///
    /// A rollout that has paused itself goes on with the same revision, whatever fails; `pillion rollout undo` goes back instead.
    Resume(SetArgs),
    /// Restart the sidecars of all pods of a SidecarSet, by evicting the pods
    ///
    /// No API of Kubernetes restarts one container of a pod: the pods are evicted, and their workloads create them again. Not more
    /// pods than updateStrategy.maxUnavailable allows are missing at any time, and PodDisruptionBudgets are respected. Pods
    /// without a controller, and pods of Jobs, stay.
    #[command(after_help = RESTART_EXAMPLES)]
    Restart(RestartArgs),
    /// Play a rollout in virtual time over the pods as they are now, without applying it
    ///
    /// Prints which pods would be updated in which waves, how long it would take, from how long these pods took to get ready before, and
    /// what would be in the way. Reads the cluster and writes nothing. The exit status is 1 if the rollout would not come to
    /// its end.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
}

/// What every command about one SidecarSet takes.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The SidecarSet
    #[arg(value_name = "SIDECARSET", value_parser = parse_name)]
    pub name: String,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Where ControllerRevisions are.
    #[command(flatten)]
    pub revisions: RevisionsArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ToClusterArgs,
}

/// `pillion rollout status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The SidecarSet.
    #[command(flatten)]
    pub set: SetArgs,
    /// Follow the rollout until it ends
    #[arg(short, long)]
    pub watch: bool,
    /// With --watch, give up after so many seconds [default: never]
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true, requires = "watch")]
    pub timeout: u64,
    /// With --watch, write lines even to a terminal
    #[arg(long, requires = "watch")]
    pub plain: bool,
}

/// `pillion rollout history`
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The SidecarSet.
    #[command(flatten)]
    pub set: SetArgs,
    /// Show this revision alone, by its name or its number, with all that it injects
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
}

/// `pillion rollout undo`
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The SidecarSet.
    #[command(flatten)]
    pub set: SetArgs,
    /// The revision to go back to, by its name or its number [default: the one before the latest]
    #[arg(long, value_name = "REVISION")]
    pub to_revision: Option<String>,
}

/// `pillion rollout restart`
#[derive(Debug, Args)]
pub struct RestartArgs {
    /// The SidecarSet.
    #[command(flatten)]
    pub set: SetArgs,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Give up after so many seconds [default: never]
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    pub timeout: u64,
}

/// `pillion rollout plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Manifests with the SidecarSets: a file, a folder with everything below it, or - for stdin
    ///
    /// YAML or JSON, one document or many, Lists included. In a folder, *.yaml, *.yml and *.json are read in order of
    /// their names. Can be given several times.
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub filenames: Vec<PathBuf>,
    /// How SidecarSets are read.
    #[command(flatten)]
    pub strictness: StrictnessArgs,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Where ControllerRevisions are.
    #[command(flatten)]
    pub revisions: RevisionsArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ToClusterArgs,
}

/// As `kubectl rollout` takes it: a name, or the kind before it.
fn parse_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some((kind, name)) => {
            let kind = kind.to_lowercase();
            let short = kind.split('.').next().unwrap_or_default();
            if !matches!(short, "sidecarset" | "sidecarsets") {
                return Err(format!("{kind:?} is not a SidecarSet"));
            }
            name
        }
    };
    if name.is_empty() || name.contains('/') {
        Err("write NAME or sidecarset/NAME".to_owned())
    } else {
        Ok(name.to_owned())
    }
}

const STATUS_EXAMPLES: &str = "\
Examples:
  pillion rollout status mesh

  # In a script: until the rollout is done, has failed, or ten minutes have passed
  kubectl apply -f mesh.yaml && pillion rollout status mesh -w --timeout 600";

const HISTORY_EXAMPLES: &str = "\
Examples:
  pillion rollout history mesh
  pillion rollout history mesh --revision mesh-5986d5886 -o yaml";

const UNDO_EXAMPLES: &str = "\
Examples:
  pillion rollout undo mesh
  pillion rollout undo mesh --to-revision mesh-5986d5886";

const RESTART_EXAMPLES: &str = "\
Examples:
  pillion rollout restart mesh
  pillion rollout restart mesh --yes --timeout 600";

const PLAN_EXAMPLES: &str = "\
Examples:
  # How long would it take, and what would be in the way?
  pillion rollout plan -f mesh.yaml";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sidecarset_is_named_as_for_kubectl() {
        for text in ["mesh", "sidecarset/mesh", "SidecarSet/mesh", "sidecarsets.apps.kruise.io/mesh"] {
            assert_eq!(parse_name(text).as_deref(), Ok("mesh"));
        }
        assert_eq!(parse_name("deploy/mesh"), Err("\"deploy\" is not a SidecarSet".to_owned()));
        assert!(parse_name("sidecarset/").is_err() && parse_name("sidecarset/a/b").is_err());
    }
}
