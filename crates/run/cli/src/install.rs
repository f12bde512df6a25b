//! `pillion install` and `pillion uninstall`: connect, report the steps, ask before users' objects are deleted.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use kube::Client;
use pillion_assist::Config;
use pillion_install::{AgentOptions, Part, agent, manifests};
use serde_json::Value;

use crate::args::{ClusterArgs, InstallArgs, ToClusterArgs, UninstallArgs};
use crate::confirm::confirm;
use crate::connect::connect;
use crate::{Failure, chain, print, render, say};

/// Prints or installs.
pub(crate) fn install(args: &InstallArgs) -> Result<(), Failure> {
    let options = args.options();
    if options.separate && !options.controllers.contains(&Part::Webhook) {
        let reason = "--separate needs the controller webhook: the others are installed beside it";
        return Err(Failure::misuse(reason));
    }
    if let Some(file) = args.filename.as_ref().filter(|_| args.agent) {
        let options = AgentOptions { namespace: args.agent_namespace.clone(), image: args.agent_image.clone() };
        return print(&render::yaml_stream(&agent_objects(file, &options)?)?);
    }
    if args.print {
        return print(&render::yaml_stream(&manifests(&options))?);
    }
    with_client(&args.cluster, async |client| {
        let timeout = Duration::from_secs(args.timeout);
        pillion_install::install(client, &options, timeout, &say).await?;
        say(&format!("Pillion is ready in namespace {}", options.namespace));
        Ok(())
    })
}

/// The objects of the agent, for a configuration by itself or in its ConfigMap.
fn agent_objects(file: &Path, options: &AgentOptions) -> Result<Vec<Value>, Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| Failure::misuse(format!("{shown}: {error}")))?;
    let documents = pillion_yaml::parse(&text, pillion_yaml::Options::default()).unwrap_or_default();
    let inner = documents.iter().find_map(|document| document.value["data"]["config.yaml"].as_str());
    if inner.is_none() && documents.iter().any(|document| document.value["kind"] == "ConfigMap") {
        return Err(Failure::misuse(format!("{shown}: the ConfigMap has no key config.yaml")));
    }
    let (text, place) = match inner {
        Some(inner) => (inner.to_owned(), format!("{shown}: config.yaml")),
        None => (text, shown.to_string()),
    };
    let config = Config::parse(&text, None).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|error| format!("{place}:{error}")).collect();
        Failure::misuse(lines.join("\n"))
    })?;
    for warning in &config.warnings {
        say(&format!("{place}:{warning}"));
    }
    Ok(agent(&config, &text, options))
}

/// Uninstalls, or prepares that for Helm.
pub(crate) fn uninstall(args: &UninstallArgs) -> Result<(), Failure> {
    if args.all && !args.yes {
        // What users have written cannot be brought back.
        let question =
            "Delete every SidecarSet and VerticalPodAutoscaler of the cluster, with all revisions and checkpoints?";
        confirm(
            question,
            "--all deletes every SidecarSet and VerticalPodAutoscaler of the cluster: confirm it with --yes",
        )?;
    }
    with_client(&args.cluster, async |client| {
        let timeout = Duration::from_secs(args.timeout);
        if args.prepare {
            return pillion_install::prepare(client, &args.namespace, timeout, &say).await;
        }
        pillion_install::uninstall(client, args.all, timeout, &say).await?;
        say(if args.all {
            "Pillion is uninstalled, with all SidecarSets and VerticalPodAutoscalers that it has defined"
        } else {
            "Pillion is uninstalled; SidecarSets and VerticalPodAutoscalers, their revisions, checkpoints and definitions stay"
        });
        Ok(())
    })
}

/// Connects, and runs the work on a runtime of its own.
fn with_client(
    cluster: &ToClusterArgs,
    work: impl AsyncFnOnce(&Client) -> Result<(), pillion_install::Error>,
) -> Result<(), Failure> {
    block_on(async {
        let client = connect(&ClusterArgs::from(cluster)).await?.client;
        work(&client).await.map_err(|error| Failure::no(chain(&error)))
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
