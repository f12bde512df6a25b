//! The embedded API server beside kube-apiserver with etcd, on one machine, in one run, under the same load; and what many simulated
//! pods cost.
//!
//! ```text
//!  serve (a child, in memory) ─┐
//!  serve (a child, durable) ───┼─▶ fill with pods ─▶ lists ─▶ writes ─▶ watches ─▶ measures ─┐
//!  kube-apiserver + etcd ──────┘          one client for all: HTTP/1.1 over TLS              └─▶ table of ratios
//! ```
//!
//! # Invariants
//! - Every server gets the same requests, in the same order, from the same code.
//! - A client is one connection that is open before the clock starts. What is sent is written before, but for names and versions.
//! - A server's processor time and memory are those in `/proc`, of all processes that make it up.

mod attack;
mod child;
mod client;
mod fill;
mod large;
mod list;
mod manage;
mod measure;
mod pods;
mod process;
mod rightsize;
mod rollout;
mod serve;
mod server;
mod simulate;
mod watch;
mod webhook;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::measure::{Measure, table};
use crate::server::Server;

/// As in `pillion`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares API servers under load.
#[derive(Parser)]
#[command(name = "pillion-load")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    load: Load,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the embedded API server on a free port until it is killed.
    #[command(hide = true)]
    Serve {
        /// Where to write the kubeconfig.
        kubeconfig: PathBuf,
        /// Where to keep objects, instead of in memory.
        data: Option<PathBuf>,
    },
    /// Manages the cluster of a kubeconfig until it is killed.
    #[command(hide = true)]
    Manage {
        /// The kubeconfig.
        kubeconfig: PathBuf,
    },
    /// Decodes reviews and answers them with what is in a file, until it is killed.
    #[command(hide = true)]
    Decode {
        /// The answer.
        answer: PathBuf,
    },
    /// Recommends for the autoscalers of a cluster until it is killed.
    #[command(hide = true)]
    Recommend {
        /// The kubeconfig.
        kubeconfig: PathBuf,
        /// Seconds between two passes.
        seconds: u64,
    },
    /// Reads what comes and throws it away, until it is killed.
    #[command(hide = true)]
    Discard,
    /// What attacks on the webhooks cost.
    Attack(attack::Attack),
    /// What one admission costs, among few and many SidecarSets.
    Webhook(webhook::Webhook),
    /// What it costs the manager to hold a large cluster.
    Manager(large::Large),
    /// A rollout of a SidecarSet over many simulated pods, in virtual time.
    Rollout(rollout::Rollout),
    /// Many simulated pods in one process, in virtual time.
    Simulate(simulate::Simulate),
    /// What a pass of the recommender costs.
    Rightsize(rightsize::Rightsize),
}

/// How much load.
#[derive(Args, Clone)]
struct Load {
    /// Pods that each server holds.
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
    /// Writes of each round.
    #[arg(long, default_value_t = 4_000)]
    writes: usize,
    /// Watchers of one resource.
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A twentieth of everything, in a single round.
    #[arg(long)]
    quick: bool,
    /// A kube-apiserver on this machine, instead of that of the cluster that is up, or of one for this run.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Where the durable server keeps its objects: a disk, for the numbers to mean something [default: a temporary folder].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

impl Load {
    fn quickly(self) -> Load {
        if !self.quick {
            return self;
        }
        let part = |whole: usize| (whole / 20).max(64);
        Load { pods: part(self.pods), writes: part(self.writes), watchers: part(self.watchers), rounds: 1, ..self }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    // A cluster's supervisor is this program again.
    if let Some(code) = pillion_cluster::supervise_if_asked() {
        return Ok(code);
    }
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::Rollout(rollout)) => {
            rollout.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Simulate(simulate)) => {
            simulate.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Command::Rightsize(rightsize)) => {
            rightsize.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(command) = arguments.command {
        runtime.block_on(async {
            match command {
                Command::Serve { kubeconfig, data } => serve::serve(&kubeconfig, data.as_deref()).await,
                Command::Manage { kubeconfig } => manage::manage(&kubeconfig).await,
                Command::Decode { answer } => manage::decode(&answer).await,
                Command::Discard => manage::discard().await,
                Command::Recommend { kubeconfig, seconds } => rightsize::recommender::run(&kubeconfig, seconds).await,
                Command::Attack(attack) => attack.run().await,
                Command::Webhook(webhook) => webhook.run().await,
                Command::Manager(large) => large.run().await,
                // They have runtimes of their own.
                Command::Simulate(_) | Command::Rightsize(_) | Command::Rollout(_) => Ok(()),
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let load = arguments.load.quickly();
    let folder = tempfile::tempdir()?;
    let data = load.data.clone().unwrap_or_else(|| folder.path().join("data"));
    let mut columns = Vec::new();
    for server in [
        Server::real(load.kubeconfig.as_deref()),
        Server::embedded("embedded, in memory", folder.path(), None),
        Server::embedded("embedded, durable", folder.path(), Some(&data)),
    ] {
        let mut server = server?;
        eprintln!("{}", server.describe());
        let measures = runtime.block_on(measure_all(&server, &load));
        server.stop()?;
        columns.push((server.name, measures?));
    }
    println!("{}", table(&columns));
    println!("ratios: how many times better than the first; {} pods, median of {}", load.pods, load.rounds);
    Ok(ExitCode::SUCCESS)
}

/// Everything that is measured of one server. What it was given is taken away again.
async fn measure_all(server: &Server, load: &Load) -> anyhow::Result<Vec<Measure>> {
    let target = client::Target::of(&server.kubeconfig).await?;
    pods::prepare(&target).await?;
    let mut measures = pods::fill(server, &target, load.pods).await?;
    measures.extend(list::lists(server, &target, load).await?);
    measures.extend(write::writes(server, &target, load).await?);
    measures.extend(watch::watches(server, &target, load).await?);
    if server.outlives_the_run {
        pods::clean_up(&target, pods::PODS).await?;
    }
    Ok(measures)
}
