//! Measures the embedded API server beside kube-apiserver with etcd under the same load, and what many simulated pods cost.

mod list;
mod pods;
mod simulate;
mod watch;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use pillion_engine_load::client::Target;
use pillion_engine_load::measure::{Measure, table};
use pillion_engine_load::serve;
use pillion_engine_load::server::Server;

/// As in `pillion`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares API servers under load.
#[derive(Parser)]
#[command(name = "pillion-engine-load")]
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
    /// Many simulated pods in one process, in virtual time.
    Simulate(simulate::Simulate),
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
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match arguments.command {
        Some(Command::Serve { kubeconfig, data }) => {
            runtime()?.block_on(serve::serve(&kubeconfig, data.as_deref()))?;
        }
        // It has a runtime of its own.
        Some(Command::Simulate(simulate)) => simulate.run()?,
        None => compare(&arguments.load.quickly(), &runtime()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(load: &Load, runtime: &tokio::runtime::Runtime) -> anyhow::Result<()> {
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
        let measures = runtime.block_on(measure_all(&server, load));
        server.stop()?;
        columns.push((server.name, measures?));
    }
    println!("{}", table(&columns));
    println!("ratios: how many times better than the first; {} pods, median of {}", load.pods, load.rounds);
    Ok(())
}

/// Everything that is measured of one server. What it was given is taken away again.
async fn measure_all(server: &Server, load: &Load) -> anyhow::Result<Vec<Measure>> {
    let target = Target::of(&server.kubeconfig).await?;
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
