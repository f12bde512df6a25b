//! What it costs the manager and the rightsizer to serve a large cluster, beside smaller work or the peer in the same run. The API server is
//! the embedded one, a process of its own.

mod attack;
mod child;
mod fill;
mod large;
mod manage;
mod rightsize;
mod rollout;
mod webhook;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pillion_engine_load::serve::serve;

/// As in `pillion`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Puts load on the webhooks and the controllers.
#[derive(Parser)]
#[command(name = "pillion-load")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
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
    /// What a pass of the recommender costs.
    Rightsize(rightsize::Rightsize),
}

fn main() -> anyhow::Result<ExitCode> {
    // A cluster's supervisor is this program again.
    if let Some(code) = pillion_cluster::supervise_if_asked() {
        return Ok(code);
    }
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match Arguments::parse().command {
        // These two have runtimes of their own.
        Command::Rollout(rollout) => rollout.run()?,
        Command::Rightsize(rightsize) => rightsize.run()?,
        Command::Serve { kubeconfig, data } => runtime()?.block_on(serve(&kubeconfig, data.as_deref()))?,
        Command::Manage { kubeconfig } => runtime()?.block_on(manage::manage(&kubeconfig))?,
        Command::Decode { answer } => runtime()?.block_on(manage::decode(&answer))?,
        Command::Discard => runtime()?.block_on(manage::discard())?,
        Command::Recommend { kubeconfig, seconds } => {
            runtime()?.block_on(rightsize::recommender::run(&kubeconfig, seconds))?;
        }
        Command::Attack(attack) => runtime()?.block_on(attack.run())?,
        Command::Webhook(webhook) => runtime()?.block_on(webhook.run())?,
        Command::Manager(large) => runtime()?.block_on(large.run())?,
    }
    Ok(ExitCode::SUCCESS)
}
