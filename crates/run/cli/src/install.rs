//! `pillion install` and `pillion uninstall`: connect, report the steps, ask before users' objects are deleted.

use std::future::Future;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use kube::Client;
use pillion_install::manifests;

use crate::args::{ClusterArgs, InstallArgs, ToClusterArgs, UninstallArgs};
use crate::connect::connect;
use crate::{Failure, chain, print, render, say};

/// Prints or installs.
pub(crate) fn install(args: &InstallArgs) -> Result<(), Failure> {
    let options = args.options();
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

/// Uninstalls, or prepares that for Helm.
pub(crate) fn uninstall(args: &UninstallArgs) -> Result<(), Failure> {
    if args.all && !args.yes {
        confirm()?;
    }
    with_client(&args.cluster, async |client| {
        let timeout = Duration::from_secs(args.timeout);
        if args.prepare {
            return pillion_install::prepare(client, &args.namespace, timeout, &say).await;
        }
        pillion_install::uninstall(client, args.all, timeout, &say).await?;
        say(if args.all {
            "Pillion is uninstalled, with all SidecarSets"
        } else {
            "Pillion is uninstalled; SidecarSets, their revisions and their definition stay"
        });
        Ok(())
    })
}

/// What users have written cannot be brought back.
fn confirm() -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::misuse("--all deletes every SidecarSet of the cluster: confirm it with --yes"));
    }
    let _ = write!(anstream::stderr(), "Delete every SidecarSet of the cluster, with all revisions? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Failure::no("nothing was changed")) }
}

/// Connects, and runs the work on a runtime of its own.
fn with_client(
    cluster: &ToClusterArgs,
    work: impl AsyncFnOnce(&Client) -> Result<(), pillion_install::Error>,
) -> Result<(), Failure> {
    let args =
        ClusterArgs { kubeconfig: cluster.kubeconfig.clone(), context: cluster.context.clone(), namespace: None };
    block_on(async {
        let client = connect(&args).await?.client;
        work(&client).await.map_err(|error| Failure::no(chain(&error)))
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
