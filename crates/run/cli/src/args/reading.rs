//! The arguments of commands that read a cluster, or manifests in its place.

// Documentation of arguments is what `--help` prints: words in it stand without backticks.
#![allow(clippy::doc_markdown)]

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use jiff::Timestamp;

use super::{ClusterArgs, DecisionArgs, Output, StrictnessArgs};

/// `pillion why`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("explained").args(["target", "filenames"]).required(true)))]
pub struct WhyArgs {
    /// A pod or a workload of the cluster: POD, KIND/NAME or KIND NAME
    ///
    /// KIND is pod, deployment, statefulset, daemonset, replicaset, replicationcontroller, job or cronjob, with kubectl's short names
    /// (deploy, sts, ds, rs, rc, cj), or another kind that has a pod template, such as cloneset.
    #[arg(value_name = "POD", num_args = 1..=2)]
    pub target: Vec<String>,
    /// Explain manifests, without a cluster: a file, a folder with everything below it, or - for stdin
    ///
    /// YAML or JSON, one document or many, Lists included. In a folder, *.yaml, *.yml and *.json are read in order of
    /// their names. Can be given several times.
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1.., conflicts_with_all = ["kubeconfig", "context"])]
    pub filenames: Vec<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// How SidecarSets are read.
    #[command(flatten)]
    pub strictness: StrictnessArgs,
    /// What decides beside SidecarSets.
    #[command(flatten)]
    pub decision: DecisionArgs,
    /// The time of admission [default: now]
    #[arg(long, value_name = "TIME")]
    pub now: Option<Timestamp>,
    /// Where ControllerRevisions are.
    #[command(flatten)]
    pub revisions: RevisionsArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Where the manager keeps what belongs to SidecarSets.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct RevisionsArgs {
    /// The namespace of the ControllerRevisions of SidecarSets
    #[arg(long, value_name = "NAME", default_value = pillion_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub revisions_namespace: String,
}

/// `pillion preview`
#[derive(Debug, Args)]
#[command(mut_arg("namespace", |namespace| namespace.help(PREVIEW_NAMESPACE)))]
pub struct PreviewArgs {
    /// Manifests with the SidecarSets: a file, a folder with everything below it, or - for stdin
    ///
    /// YAML or JSON, one document or many, Lists included. In a folder, *.yaml, *.yml and *.json are read in order of
    /// their names. Can be given several times.
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub filenames: Vec<PathBuf>,
    /// Contact no cluster: pods, workloads, Namespaces and LimitRanges are those in the manifests
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "revisions_namespace"])]
    pub offline: bool,
    /// With --offline, manifests with the SidecarSets that are in force now [default: none]
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "offline")]
    pub base: Vec<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// How SidecarSets are read.
    #[command(flatten)]
    pub strictness: StrictnessArgs,
    /// What decides beside SidecarSets.
    #[command(flatten)]
    pub decision: DecisionArgs,
    /// Where ControllerRevisions are.
    #[command(flatten)]
    pub revisions: RevisionsArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

const PREVIEW_NAMESPACE: &str =
    "Only workloads of this namespace [default: all; with --offline, the namespace of objects that name none]";

pub(super) const WHY_EXAMPLES: &str = "\
Examples:
  # Why is there no sidecar in this pod, or an old one?
  pillion why web-5d8f9c7b6-x2k4p -n shop

  # Which pods of a Deployment do not have what they would get today?
  pillion why deploy/web -n shop

  # The same of manifests, without a cluster, for a program
  pillion why -f sidecarsets/ -f pod.yaml -o json";

pub(super) const PREVIEW_EXAMPLES: &str = "\
Examples:
  # What would applying these SidecarSets do to the cluster?
  pillion preview -f sidecarsets/

  # Only to one namespace
  pillion preview -f mesh.yaml -n shop

  # In CI, without a cluster: what does this change do to our manifests?
  git worktree add /tmp/main main
  pillion preview --offline --base /tmp/main/sidecarsets -f sidecarsets/ -f app/";
