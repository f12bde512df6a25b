//! What runs inside the pods of scenarios: a client and a webhook server with no shell around them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Config};
use serde_json::json;

use crate::test_cluster::install_crypto_provider;
use crate::{game, webhook};

/// What a pod does.
#[derive(Debug, Parser)]
pub enum Program {
    /// Puts a label on a pod, with the pod's own token, through the `kubernetes` Service.
    Label {
        /// The pod, in the program's own namespace.
        #[arg(long)]
        pod: String,
        /// The label's key.
        key: String,
        /// The label's value.
        value: String,
    },
    /// Plays a game server that an agent probes and updates.
    Game,
    /// Runs the in-pod agent.
    #[command(disable_help_flag = true)]
    Agent {
        /// Its own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Is a plugin of the agent.
    Plugin,
    /// Uses the agent's token against another pod.
    Steal {
        /// The other pod.
        victim: String,
        /// `results` if the agent may write results.
        results: String,
    },
    /// Serves the marking webhook.
    Webhook {
        /// The port.
        #[arg(long, default_value_t = 8443)]
        port: u16,
        /// A folder with `tls.crt` and `tls.key`.
        #[arg(long)]
        certificate: PathBuf,
    },
}

impl Program {
    /// Does it.
    pub async fn run(self) -> anyhow::Result<()> {
        install_crypto_provider();
        match self {
            Program::Label { pod, key, value } => {
                let config = Config::incluster().context("this runs in a pod")?;
                let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config)?);
                let labels = BTreeMap::from([(key, value)]);
                let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
                pods.patch(&pod, &PatchParams::default(), &patch).await?;
                Ok(())
            }
            Program::Game => game::play().await,
            Program::Agent { arguments } => match pillion_agent::parse(arguments).map_err(anyhow::Error::msg)? {
                pillion_agent::Command::Run(arguments) => {
                    pillion_agent::run(arguments, pillion_agent::Registry::new()).await.map_err(anyhow::Error::msg)
                }
                other => anyhow::bail!("{other:?} is of no use to a pod"),
            },
            Program::Plugin => game::plugin(),
            Program::Steal { victim, results } => game::steal(&victim, results == "results").await,
            Program::Webhook { port, certificate } => {
                let read = |file: &str| {
                    std::fs::read_to_string(certificate.join(file)).with_context(|| format!("cannot read {file}"))
                };
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
                webhook::server(listener, &read("tls.crt")?, &read("tls.key")?)?.run().await;
                Ok(())
            }
        }
    }
}
