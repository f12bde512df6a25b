//! The commands that `cargo xtask` offers: arguments and printing.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use signal_hook::consts::SIGINT;

use crate::cluster::{self, Cluster};
use crate::folder::Folder;
use crate::image::PILLION;
use crate::options::Options;
use crate::state::{Phase, State};
use crate::static_linking::StaticLinking;
use crate::version::KubernetesVersion;
use crate::{gomod, images, names};

/// A real Kubernetes on this machine, for tests.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Bring the cluster up; print the path of its kubeconfig when its node is Ready
    Up(UpArguments),
    /// Take the cluster down, and take away whatever an earlier one left
    Down,
    /// Say what is up; exit 1 if nothing is
    Status,
    /// Print the environment for using the cluster: eval "$(cargo xtask cluster env)"
    Env,
    /// Run a command with a cluster: the one that is up, or one for this command alone
    Run {
        /// What kind of cluster
        #[command(flatten)]
        up: UpArguments,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Make go/kubernetes/go.mod anew from that of k8s.io/kubernetes
    GoMod {
        /// Only say whether it would change
        #[arg(long)]
        check: bool,
    },
}

/// What kind of cluster.
#[derive(Debug, Args)]
pub struct UpArguments {
    /// The version of Kubernetes: a minor version such as 1.34, or a patch release
    #[arg(long, value_name = "VERSION", default_value = "1.35")]
    kubernetes: KubernetesVersion,
    /// Start etcd and kube-apiserver alone; this needs no root
    #[arg(long)]
    control_plane_only: bool,
    /// Install missing system packages with apt-get (also when CI=true and run by root)
    #[arg(long)]
    install: bool,
}

/// Build images as OCI tarballs, without Docker, and give them to the cluster if one is up.
///
/// Without options these are the images that tests use. `skopeo copy oci-archive:FILE docker://…` pushes one to a registry.
#[derive(Debug, Args)]
pub struct ImageCommand {
    /// Build the images that users install: optimized, and linked statically
    #[arg(long)]
    release: bool,
    /// Install the compiler for static programs with rustup and apt-get if it is missing (also when CI=true and run by root)
    #[arg(long)]
    install: bool,
    /// Where to put the tarballs [default: images/ in cargo's target directory]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Runs a cluster command.
pub fn run(command: ClusterCommand) -> anyhow::Result<ExitCode> {
    match command {
        ClusterCommand::Up(arguments) => {
            let cluster = Cluster::up(&arguments.options())?;
            let kubeconfig = cluster.kubeconfig().display().to_string();
            cluster.detach()?;
            println!("{kubeconfig}");
        }
        ClusterCommand::Down => {
            let was_there = cluster::down()?;
            eprintln!("cluster: {}", if was_there { "down" } else { "there is none" });
        }
        ClusterCommand::Status => return status(),
        ClusterCommand::Env => {
            for (name, value) in Cluster::current()?.context("no cluster is up")?.environment() {
                println!("export {name}={}", quoted(&value.to_string_lossy()));
            }
        }
        ClusterCommand::Run { up, command } => return run_with_cluster(&up, &command),
        ClusterCommand::GoMod { check: true } => gomod::check()?,
        ClusterCommand::GoMod { check: false } => gomod::update()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds images.
pub fn image(command: &ImageCommand) -> anyhow::Result<ExitCode> {
    let folder = match &command.output {
        Some(folder) => folder.clone(),
        None => images::default_folder()?,
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let cluster = Cluster::current()?.filter(|cluster| cluster.node_name().is_some());
    let linking = StaticLinking::here(command.install || Options::default().install)?;
    let basic = if command.release { Vec::new() } else { images::basic()?.to_vec() };
    for image in basic.into_iter().chain(images::of_programs(command.release, &linking)?) {
        let tarball = folder.join(images::tarball_name(&image.name));
        image.write(&tarball)?;
        if image.name == PILLION {
            names::check(&image)?;
        }
        if let Some(cluster) = &cluster {
            cluster.import_image(&tarball)?;
            eprintln!("image: {} is in the cluster", image.name);
        }
        println!("{}", tarball.display());
    }
    Ok(ExitCode::SUCCESS)
}

impl UpArguments {
    fn options(&self) -> Options {
        let default = Options::default();
        Options {
            kubernetes: self.kubernetes,
            control_plane_only: self.control_plane_only,
            install: self.install || default.install,
            ..default
        }
    }
}

fn status() -> anyhow::Result<ExitCode> {
    let folder = Folder::of_this_user()?;
    let Some(state) = State::read(&folder)? else {
        println!("no cluster");
        return Ok(ExitCode::FAILURE);
    };
    let phase = match &state.phase {
        Phase::Failed { why } => format!("failed: {why}"),
        _ if !state.supervisor.is_alive() => "crashed: the supervisor is gone; `cluster down` cleans up".to_owned(),
        Phase::Starting => "starting".to_owned(),
        Phase::Ready => "ready".to_owned(),
        Phase::Ending => "ending".to_owned(),
    };
    println!("kubernetes  {}", state.kubernetes);
    println!("node        {}", state.node_name.as_deref().unwrap_or("none"));
    println!("kubeconfig  {}", state.kubeconfig.display());
    println!("logs        {}", folder.logs().display());
    println!("supervisor  process {}", state.supervisor.pid);
    println!("phase       {phase}");
    Ok(if state.is_ready() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_with_cluster(up: &UpArguments, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let (program, arguments) = command.split_first().context("no command")?;
    let options = up.options();
    let (cluster, ours) = match Cluster::current()? {
        Some(cluster) => (cluster, false),
        None => (Cluster::up(&options)?, true),
    };
    if !ours
        && (cluster.node_name().is_none() != options.control_plane_only
            || !options.kubernetes.fits(cluster.kubernetes()))
    {
        bail!("a cluster of another kind is up already: take it down first, with `cluster down`");
    }
    // A Ctrl-C is for the command; what follows it is to be done all the same.
    signal_hook::flag::register(SIGINT, Arc::default())?;
    let status = Command::new(program)
        .args(arguments)
        .envs(cluster.environment())
        .status()
        .with_context(|| format!("cannot run {}", program.display()));
    if ours {
        cluster.down()?;
    }
    let status = status?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// As one word of a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(subcommand)]
        command: ClusterCommand,
    }

    #[test]
    fn the_command_to_run_is_what_follows_the_dashes() {
        let parsed = Program::try_parse_from(["x", "run", "--kubernetes", "1.34", "--", "kubectl", "--help"]).unwrap();
        let ClusterCommand::Run { up, command } = parsed.command else { panic!("{parsed:?}") };
        assert_eq!(up.kubernetes.to_string(), "1.34.10");
        assert_eq!(command, ["kubectl", "--help"]);
        assert!(Program::try_parse_from(["x", "run"]).is_err());
    }

    #[test]
    fn the_default_version_is_the_pinned_one() {
        let parsed = Program::try_parse_from(["x", "up"]).unwrap();
        let ClusterCommand::Up(up) = parsed.command else { panic!("{parsed:?}") };
        assert_eq!(up.kubernetes, KubernetesVersion::default());
    }

    #[test]
    fn a_value_is_one_word_for_the_shell() {
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
