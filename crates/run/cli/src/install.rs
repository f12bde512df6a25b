//! `pillion install` and `pillion uninstall`: connect, report the steps, ask before users' objects are deleted.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use kube::Client;
use pillion_api::names::agent::{CONFIG, CONFIG_KEY, MIRROR};
use pillion_install::{AgentOptions, ControllerName, Options, agent, agent_config, manifests, own_flags};
use pillion_manager_program::Program;
use serde_json::Value;

use crate::args::{ClusterArgs, InstallArgs, ToClusterArgs, UninstallArgs};
use crate::confirm::confirm;
use crate::connect::connect;
use crate::{Failure, chain, print, render, say};

/// Prints or installs.
pub(crate) fn install(args: &InstallArgs) -> Result<(), Failure> {
    let options = args.options();
    refuse_what_cannot_run(&options)?;
    if let Some(file) = args.filename.as_ref().filter(|_| args.agent) {
        let (namespace, image) = (args.agent_namespace.clone(), args.agent_image.clone());
        let options = AgentOptions { namespace, image, user: args.agent_user, mirror: None };
        return print(&render::yaml_stream(&agent_objects(file, options)?)?);
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

/// What would only fail in the cluster, after minutes, is refused before anything is changed.
fn refuse_what_cannot_run(options: &Options) -> Result<(), Failure> {
    if !options.controllers.contains(&ControllerName::Webhook) {
        return Err(Failure::misuse(
            "--controllers: webhook is missing, and an installation is nothing without it: SidecarSets and pods would be sent to webhooks that \
             nobody serves. Add webhook; `pillion manager --controllers` runs other parts beside an installation",
        ));
    }
    let own = own_flags();
    for argument in &options.manager_args {
        let refuse = |reason: String| Err(Failure::misuse(format!("--manager-arg={argument}: {reason}")));
        let flag = argument.split_once('=').map_or(argument.as_str(), |(flag, _)| flag);
        if !flag.starts_with("--") {
            return refuse("write a flag with its value, as in --manager-arg=--log-level=debug".to_owned());
        }
        if own.contains(&flag) {
            let own = own.join(", ");
            return refuse(format!("an installation sets this flag itself, from its own options; it sets {own}"));
        }
    }
    let manager = manifests(options).into_iter().find(|object| object["kind"] == "Deployment").unwrap_or_default();
    let arguments = manager.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array);
    let words = arguments.into_iter().flatten().filter_map(Value::as_str);
    if let Err(error) = Program::try_parse_from(std::iter::once("pillion-manager").chain(words)) {
        let error = error.to_string();
        let reason = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        return Err(Failure::misuse(format!("--manager-arg: `pillion-manager` would not start: {reason}")));
    }
    Ok(())
}

/// The objects of the agent, for a configuration by itself or in its ConfigMap.
fn agent_objects(file: &Path, mut options: AgentOptions) -> Result<Vec<Value>, Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| Failure::misuse(format!("{shown}: {error}")))?;
    let documents = pillion_yaml::parse(&text, pillion_yaml::Options::default()).unwrap_or_default();
    let source = documents.iter().find(|document| document.value["data"][CONFIG_KEY].is_string());
    let inner = source.and_then(|source| source.value["data"][CONFIG_KEY].as_str());
    if let Some(metadata) = source.map(|source| &source.value["metadata"])
        && !metadata["labels"][MIRROR].is_null()
    {
        let text = |key: &str, default: &str| metadata[key].as_str().unwrap_or(default).to_owned();
        options.mirror = Some((text("namespace", "default"), text("name", CONFIG)));
    }
    if inner.is_none() && documents.iter().any(|document| document.value["kind"] == "ConfigMap") {
        return Err(Failure::misuse(format!("{shown}: the ConfigMap has no key config.yaml")));
    }
    let (text, place) = match inner {
        Some(inner) => (inner.to_owned(), format!("{shown}: config.yaml")),
        None => (text, shown.to_string()),
    };
    let config = agent_config(&text, &options).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|error| format!("{place}:{error}")).collect();
        Failure::misuse(lines.join("\n"))
    })?;
    for warning in &config.warnings {
        say(&format!("{place}:{warning}"));
    }
    Ok(agent(&config, &text, &options))
}

/// Uninstalls.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &Options) -> String {
        match refuse_what_cannot_run(options) {
            Ok(()) => String::new(),
            Err(Failure::Misuse(reasons)) => reasons.join("\n"),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_installation_without_webhooks_is_refused() {
        for separate in [false, true] {
            let of = |controllers: &[ControllerName]| {
                refused(&Options { separate, controllers: controllers.to_vec(), ..Options::default() })
            };
            assert!(
                of(&[ControllerName::Recommender, ControllerName::Updater])
                    .starts_with("--controllers: webhook is missing")
            );
            assert_eq!(of(&[ControllerName::Recommender, ControllerName::Webhook]), "");
        }
    }

    #[test]
    fn flags_of_the_manager_are_checked_before_they_are_installed() {
        let of = |given: &[&str]| {
            let manager_args = given.iter().map(|argument| (*argument).to_owned()).collect();
            refused(&Options { manager_args, ..Options::default() })
        };
        assert_eq!(of(&["--usage-source=kubelets", "--storage=prometheus", "--eviction-rate-limit=0.5"]), "");
        insta::assert_snapshot!(of(&["log-level=debug"]), @"--manager-arg=log-level=debug: write a flag with its value, as in --manager-arg=--log-level=debug");
        insta::assert_snapshot!(of(&["--bind-address=[::]:443"]), @"--manager-arg=--bind-address=[::]:443: an installation sets this flag itself, from its own options; it sets --namespace, --controllers, --revisions-namespace, --service-name, --bind-address, --health-address, --certificates, --log-format, --feature-gates, --take-over, --wrap-image");
        insta::assert_snapshot!(of(&["--controllers"]), @"--manager-arg=--controllers: an installation sets this flag itself, from its own options; it sets --namespace, --controllers, --revisions-namespace, --service-name, --bind-address, --health-address, --certificates, --log-format, --feature-gates, --take-over, --wrap-image");
        insta::assert_snapshot!(of(&["--usage-sauce=kubelets"]), @"--manager-arg: `pillion-manager` would not start: unexpected argument '--usage-sauce' found");
        insta::assert_snapshot!(of(&["--usage-source=guesses"]), @"--manager-arg: `pillion-manager` would not start: invalid value 'guesses' for '--usage-source <USAGE_SOURCE>'");
        insta::assert_snapshot!(of(&["--log-level=info", "--log-level=debug"]), @"--manager-arg: `pillion-manager` would not start: the argument '--log-level <LEVELS>' cannot be used multiple times");
        insta::assert_snapshot!(of(&["--webhook-url=https://example.com"]), @"--manager-arg: `pillion-manager` would not start: the argument '--service-name <NAME>' cannot be used with '--webhook-url <URL>'");
        let of_levels = of(&["--log-level=nonsense=loud"]);
        assert!(of_levels.contains("invalid value 'nonsense=loud' for '--log-level <LEVELS>': "), "{of_levels}");
        assert_eq!(of(&["--log-level=info,pillion_lease=debug", "--shutdown-delay=60"]), "");
        insta::assert_snapshot!(of(&["--shutdown-delay=100000"]), @"--manager-arg: `pillion-manager` would not start: invalid value '100000' for '--shutdown-delay <SECONDS>': 100000 is not in 0..=3600");
    }

    #[test]
    fn values_that_no_cluster_accepts_are_refused_with_their_flags() {
        let of = |arguments: &[&str]| {
            let words = ["pillion", "install", "--print"].into_iter().chain(arguments.iter().copied());
            let refused =
                crate::args::Cli::try_parse_from(words).err().map(|error| error.to_string()).unwrap_or_default();
            refused.lines().next().unwrap_or_default().to_owned()
        };
        let rows = [
            ("--replicas=0", "0 is not in 1.."),
            ("--namespace=Foo_Bar", "a lowercase RFC 1123 label must"),
            ("--namespace=a.b", "must not contain dots"),
            ("--revisions-namespace=", "a lowercase RFC 1123 label must"),
            ("--image=", "write an image"),
            ("--image=Bad Image", "the name of an image has no spaces in it"),
            ("--wrap-image=Bad Image", "the name of an image has no spaces in it"),
            ("--certificate-secret=A_B", "a lowercase RFC 1123 subdomain must"),
            ("--agent-namespace=Foo_Bar", "a lowercase RFC 1123 label must"),
        ];
        for (argument, expected) in rows {
            let (flag, value) = argument.split_once('=').unwrap();
            let refused = of(&[argument]);
            assert!(refused.starts_with(&format!("error: invalid value '{value}' for '{flag} <")), "{refused}");
            assert!(refused.contains(expected), "{refused}");
        }
        let fine =
            ["--replicas=1", "--namespace=a-1", "--image=example.com:5000/a:1@sha256:0", "--certificate-secret=a.b"];
        assert_eq!(of(&fine), "");
    }
}
