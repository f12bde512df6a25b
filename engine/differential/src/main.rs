//! Plays the corpus for those who write it: `record` the answers of a real API server, `play` against any.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::{Parser, Subcommand};
use kube::Client;
use pillion_differential::{
    Conversation, Known, Report, check, connect, corpus, generate, known_differences, own_corpus, play,
};

/// One corpus of requests, played against API servers.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plays conversations against a real API server and writes down what it answers.
    Record {
        /// The server, instead of `KUBECONFIG`'s.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Where the records go, instead of beside the corpus.
        #[arg(long)]
        into: Option<PathBuf>,
        /// Only these conversations.
        conversations: Vec<String>,
    },
    /// Plays conversations and shows where the answers are not the recorded ones.
    Play {
        /// The server, instead of `KUBECONFIG`'s.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// The server is the embedded one, and may differ as known.yaml says.
        #[arg(long)]
        embedded: bool,
        /// Only these conversations.
        conversations: Vec<String>,
    },
    /// Plays generated conversations against two servers and shows where the answers differ.
    Generated {
        /// The one server, instead of `KUBECONFIG`'s.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// The other server.
        #[arg(long)]
        against: PathBuf,
        /// Where the generator begins.
        #[arg(long, default_value_t = 1)]
        start: u64,
        /// How many requests, about.
        #[arg(long, default_value_t = 300)]
        requests: usize,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Record { kubeconfig, into, conversations } => {
            let client = connect(kubeconfig.as_deref()).await?;
            record(&client, &into.unwrap_or_else(own_corpus), &chosen(&conversations)?).await
        }
        Command::Play { kubeconfig, embedded, conversations } => {
            let client = connect(kubeconfig.as_deref()).await?;
            let known = if embedded { Known::list(&known_differences())? } else { Vec::new() };
            Ok(shown(&check(&client, &chosen(&conversations)?, &own_corpus(), &known).await?))
        }
        Command::Generated { kubeconfig, against, start, requests } => {
            let (left, right) = (connect(kubeconfig.as_deref()).await?, connect(Some(&against)).await?);
            println!("start {start}");
            let mut pairs = Vec::new();
            for conversation in generate::conversations(start, requests) {
                pairs.push((play(&left, &conversation).await?, play(&right, &conversation).await?));
            }
            Ok(shown(&Report::new(&pairs, &[])))
        }
    }
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Conversation>> {
    let mut conversations = corpus(&own_corpus())?;
    for name in names {
        if !conversations.iter().any(|conversation| conversation.name == *name) {
            bail!("there is no conversation {name:?}");
        }
    }
    conversations.retain(|conversation| names.is_empty() || names.contains(&conversation.name));
    Ok(conversations)
}

async fn record(client: &Client, into: &Path, conversations: &[Conversation]) -> anyhow::Result<ExitCode> {
    let version = client.apiserver_version().await?.git_version;
    let (mut requests, mut is_as_expected) = (0, true);
    for conversation in conversations {
        let transcript = play(client, conversation).await?;
        requests += transcript.exchanges.len();
        for (step, why) in transcript.unmet() {
            is_as_expected = false;
            println!("{} · {step}: {why}", conversation.name);
        }
        transcript.write(&conversation.record(into), &version)?;
    }
    println!("{requests} requests recorded");
    Ok(if is_as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shown(report: &Report) -> ExitCode {
    for (conversation, step, why) in &report.unmet {
        println!("{conversation} · {step}: {why}");
    }
    println!("{report}");
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
