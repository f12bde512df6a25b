//! Pillion as users install it, on the real cluster. One after the other: a cluster has one installation.

use std::process::Command;

use anyhow::{Context as _, ensure};
use pillion_install::{Certificates, ControllerName, Options, manifests};
use pillion_scenarios::{TestCluster, scenario};
use serde_json::Value;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/helm/pillion");

#[tokio::test]
async fn pillion_installs_and_uninstalls() -> anyhow::Result<()> {
    Box::pin(TestCluster::real().await?.run("install", scenario::installation::pillion_installs_and_uninstalls)).await
}

#[tokio::test]
async fn helm_installs_and_uninstalls() -> anyhow::Result<()> {
    Box::pin(TestCluster::real().await?.run("helm", scenario::installation::helm_installs_and_uninstalls)).await
}

#[tokio::test]
async fn a_cluster_of_open_kruise_is_taken_over() -> anyhow::Result<()> {
    let scenario = scenario::installation::a_cluster_of_open_kruise_is_taken_over;
    Box::pin(TestCluster::real().await?.run("kruise", scenario)).await
}

#[tokio::test]
async fn an_installation_is_interrupted() -> anyhow::Result<()> {
    Box::pin(TestCluster::real().await?.run("interrupted", scenario::interruptions::an_installation_is_interrupted))
        .await
}

#[test]
fn the_image_that_is_installed_is_the_one_that_is_built() {
    assert_eq!(pillion_install::IMAGE, pillion_cluster::image::PILLION);
}

#[test]
fn the_chart_passes_helms_linter_and_refuses_values_that_it_does_not_know() -> anyhow::Result<()> {
    helm(&["lint", "--strict", CHART])?;
    let rows = [
        ("replica=3", "replica"),
        ("controllers={recommender,updater}", "controllers"),
        ("extraArgs={log-level=debug}", "extraArgs"),
        ("extraArgs={--bind-address=[::]:443}", "extraArgs"),
    ];
    for (value, expected) in rows {
        let refused = helm(&["template", CHART, "--set", value]).err();
        let refused = refused.with_context(|| format!("{value} was accepted"))?;
        // The command itself is repeated in the first line.
        let reason = format!("{refused}").replace(value, "");
        ensure!(reason.contains(expected), "{value}: {refused}");
    }
    Ok(())
}

#[test]
fn the_chart_renders_what_install_prints() -> anyhow::Result<()> {
    let default = Options::default();
    let rows: [(&[&str], Options); 4] = [
        (&[], default.clone()),
        (
            &["--set", "controllers={webhook}"],
            Options { controllers: vec![ControllerName::Webhook], ..default.clone() },
        ),
        (
            &["--set", "certificates.secretName=mine"],
            Options { certificates: Certificates::Secret("mine".to_owned()), ..default.clone() },
        ),
        (
            &[
                "--set",
                "replicas=3",
                "--set",
                "image.repository=example.com/pillion",
                "--set-string",
                "image.tag=2",
                "--set",
                "revisionsNamespace=revisions",
                "--set",
                "featureGates=AllAlpha=true",
                "--set",
                "logFormat=json",
                "--set",
                "takeOver=kruise",
                "--set",
                "extraArgs={--usage-source=kubelets,--shutdown-delay=60}",
            ],
            Options {
                replicas: 3,
                image: "example.com/pillion:2".to_owned(),
                revisions_namespace: "revisions".to_owned(),
                feature_gates: "AllAlpha=true".to_owned(),
                log_format: "json".to_owned(),
                take_over: "kruise".to_owned(),
                manager_args: vec!["--usage-source=kubelets".to_owned(), "--shutdown-delay=60".to_owned()],
                ..default
            },
        ),
    ];
    for (values, options) in rows {
        let arguments = ["template", "pillion", CHART, "--namespace", "pillion-system", "--no-hooks"];
        let rendered = helm(&[&arguments[..], values].concat())?;
        let rendered = pillion_yaml::parse(&rendered, pillion_yaml::Options::default());
        let rendered = rendered.map_err(|errors| anyhow::anyhow!("helm has rendered no YAML: {errors:?}"))?;
        let mut rendered: Vec<Value> = rendered.into_iter().map(|document| comparable(document.value)).collect();
        let mut printed: Vec<Value> = manifests(&options)
            .into_iter()
            .filter(|object| object["metadata"]["name"] != "pillion-system")
            .map(comparable)
            .collect();
        for objects in [&mut rendered, &mut printed] {
            objects.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]));
        }
        let names = |objects: &[Value]| -> Vec<String> {
            objects.iter().map(|object| format!("{} {}", object["kind"], object["metadata"]["name"])).collect()
        };
        ensure!(names(&rendered) == names(&printed), "{values:?}: {:?} and {:?}", names(&rendered), names(&printed));
        for (rendered, printed) in rendered.iter().zip(&printed) {
            ensure!(rendered == printed, "{values:?}: the chart has\n{rendered:#}\nand install prints\n{printed:#}");
        }
    }
    Ok(())
}

/// Without what says who has installed the object.
fn comparable(mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    for label in ["app.kubernetes.io/managed-by", "helm.sh/chart"] {
        metadata["labels"].as_object_mut().map(|labels| labels.shift_remove(label));
    }
    metadata.as_object_mut().map(|metadata| metadata.shift_remove("annotations"));
    object
}

fn helm(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(pillion_cluster::helm()?).args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {}: {}{said}", arguments.join(" "), String::from_utf8_lossy(&output.stdout));
    Ok(String::from_utf8(output.stdout)?)
}
