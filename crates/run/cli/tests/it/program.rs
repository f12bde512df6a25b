//! The program as such: help, names, streams, completions, CRDs.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::pillion;

#[test]
fn without_a_command_it_shows_help_as_a_wrong_use() {
    let shown = pillion(&[]);
    assert!(shown.starts_with("exit 2\n--- stderr\nSidecars done properly on Kubernetes\n"), "{shown}");
}

#[test]
fn help_is_data() {
    let shown = pillion(&["inject", "--help"]);
    assert!(shown.starts_with("exit 0\n--- stdout\nPrint what pods and workloads become"), "{shown}");
    assert!(shown.contains("\nExamples:\n"));
}

#[test]
fn as_a_plugin_of_kubectl_it_says_so() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pillion")).arg0("kubectl-pillion").args(["expr", "eval"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("Usage: kubectl pillion expr eval"), "{stderr}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_mistake() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pillion"))
        .args(["crds"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn the_definition_of_sidecarset_has_both_versions() {
    let yaml = pillion(&["crds"]);
    let text = yaml.strip_prefix("exit 0\n--- stdout\n").unwrap();
    let (documents, broken) = pillion::manifest::parse(&"crds.yaml".into(), text);
    assert_eq!(broken, []);
    assert_eq!(documents[0].title(), "CustomResourceDefinition/sidecarsets.apps.kruise.io");
    let versions = documents[0].value["spec"]["versions"].as_array().unwrap();
    assert_eq!(
        versions.iter().map(|version| version["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["v1alpha1", "v1beta1"]
    );
    let json = pillion(&["crds", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(json.strip_prefix("exit 0\n--- stdout\n").unwrap()).unwrap();
    assert_eq!(json["kind"], "List");
    let values: Vec<serde_json::Value> = documents.into_iter().map(|document| document.value).collect();
    assert_eq!(json["items"], serde_json::Value::Array(values));
}

#[test]
fn a_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = pillion(&["completions", shell]);
        assert!(script.starts_with("exit 0\n--- stdout\n") && script.contains("inject"), "{script}");
    }
}
