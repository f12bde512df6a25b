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
fn a_manager_that_leaves_the_webhooks_out_needs_no_port_for_them() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (controllers, needs_port) in [("webhook", true), ("rollout,repair", false)] {
        let shown = pillion(&[
            "manager",
            "--controllers",
            controllers,
            "--bind-address",
            &address,
            "--health-address",
            "127.0.0.1:0",
            "--kubeconfig",
            "missing.yaml",
        ]);
        assert_eq!(shown.contains("--bind-address"), needs_port, "{shown}");
        assert_eq!(shown.contains("missing.yaml"), !needs_port, "{shown}");
    }
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

/// The four configurations of OpenKruise's proposal, with corrected indentation.
const CONFIGURATIONS: [&str; 4] = [
    include_str!("../../../../decide/assist/src/config/samples/proposal-1.yaml"),
    include_str!("../../../../decide/assist/src/config/samples/proposal-2.yaml"),
    include_str!("../../../../decide/assist/src/config/samples/proposal-3.yaml"),
    include_str!("../../../../decide/assist/src/config/samples/proposal-4.yaml"),
];

fn agent_objects(file: &str, text: &str) -> String {
    let arguments =
        ["install", "--print", "--agent", "--agent-namespace", "games", "--agent-image", "agent:1", "-f", file];
    crate::Folder::with(&[(file, text)]).run(&arguments)
}

#[test]
fn every_configuration_of_the_proposal_gives_the_objects_of_an_agent() {
    for (index, text) in CONFIGURATIONS.into_iter().enumerate() {
        let shown = agent_objects("config.yaml", text);
        let printed = shown.strip_prefix("exit 0\n--- stdout\n").unwrap_or_else(|| panic!("{index}: {shown}"));
        let printed = printed.split("--- stderr").next().unwrap();
        let (documents, broken) = pillion::manifest::parse(&"agent.yaml".into(), printed);
        assert_eq!(broken, [], "{index}");
        let titles: Vec<String> = documents.iter().map(pillion::manifest::Document::title).collect();
        for title in [
            "ServiceAccount/pillion-agent",
            "Role/pillion-agent",
            "RoleBinding/pillion-agent",
            "ConfigMap/sidecar-config",
            "ConfigMap/pillion-agent",
            "ValidatingAdmissionPolicy/pillion-agent.games",
            "ValidatingAdmissionPolicyBinding/pillion-agent.games",
            "SidecarSet/pillion-agent-games",
        ] {
            assert!(titles.iter().any(|known| known == title), "{index}: {titles:?}");
        }
        // What is printed is what `pillion inject` and the webhook take.
        let app = "apiVersion: v1\nkind: Pod\nmetadata: {name: game, namespace: games, labels: {pillion.dev/agent: enabled}}\nspec: {containers: [{name: game, image: game:1}]}\n";
        let folder = crate::Folder::with(&[("agent.yaml", printed), ("pod.yaml", app)]);
        let injected = folder.run(&["inject", "-f", "agent.yaml", "-f", "pod.yaml"]);
        assert!(injected.starts_with("exit 0") && injected.contains("serviceAccountName: pillion-agent"), "{injected}");
        let why = folder.run(&["why", "-f", "agent.yaml", "-f", "pod.yaml"]);
        assert!(why.contains("the pod runs as the service account \"pillion-agent\""), "{why}");
        // What is in the way is shown.
        let other = app.replace("spec: {", "spec: {hostPID: true, serviceAccountName: mine, ");
        let folder = crate::Folder::with(&[("agent.yaml", printed), ("pod.yaml", &other)]);
        let why = folder.run(&["why", "-f", "agent.yaml", "-f", "pod.yaml"]);
        assert!(why.contains("the service account stays \"mine\" instead of \"pillion-agent\""), "{why}");
        assert_eq!(why.contains("the pod has hostPID: true"), printed.contains("shareProcessNamespace"), "{why}");
    }
}

#[test]
fn a_configuration_that_is_mirrored_is_printed_where_it_is() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: agents, namespace: kube-system, labels: {pillion.dev/mirror: 'true'}}\ndata: {config.yaml: 'plugins: []'}\n";
    let shown = agent_objects("map.yaml", map);
    assert!(shown.starts_with("exit 0") && shown.contains("name: agents\n  namespace: kube-system"), "{shown}");
    assert!(!shown.contains("name: sidecar-config\n  namespace"), "{shown}");
}

#[test]
fn the_objects_of_an_agent_are_printed() {
    insta::assert_snapshot!("agent_objects", agent_objects("config.yaml", CONFIGURATIONS[3]));
    let indented = format!("    {}\n", CONFIGURATIONS[3].trim_end().replace('\n', "\n    "));
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: sidecar-config}}\ndata:\n  config.yaml: |\n{indented}"
    );
    assert_eq!(
        agent_objects("map.yaml", &map),
        agent_objects("config.yaml", CONFIGURATIONS[3]),
        "a ConfigMap is as good"
    );
}

#[test]
fn an_agent_that_starts_after_the_app_is_behind_it() {
    let text = CONFIGURATIONS[3].replace("sidecarstartorder: Before", "sidecarstartorder: After");
    let shown = agent_objects("config.yaml", &text);
    let printed = shown.strip_prefix("exit 0\n--- stdout\n").unwrap_or_else(|| panic!("{shown}"));
    let app = "apiVersion: v1\nkind: Pod\nmetadata: {name: game, namespace: games, labels: {pillion.dev/agent: enabled}}\nspec: {containers: [{name: game, image: game:1}]}\n";
    let folder = crate::Folder::with(&[("agent.yaml", printed.split("--- stderr").next().unwrap()), ("pod.yaml", app)]);
    let injected = folder.run(&["inject", "-f", "agent.yaml", "-f", "pod.yaml"]);
    let (game, agent) = (injected.find("image: game:1"), injected.find("image: agent:1"));
    assert!(game.is_some() && game < agent, "{injected}");
}

#[test]
fn what_is_wrong_with_an_agents_configuration_is_said_with_its_place() {
    let shown = agent_objects("config.yaml", "plugins:\n- name: http_probe\n  config: {endpoints: [{method: GET}]}\n");
    assert!(shown.starts_with("exit 2\n--- stderr\n") && shown.contains("config.yaml:3:"), "{shown}");
    let shown = agent_objects("config.yaml", "kind: ConfigMap\ndata: {}\n");
    assert!(shown.contains("the ConfigMap has no key config.yaml"), "{shown}");
    let shown = pillion(&["install", "--print", "--agent"]);
    assert!(shown.starts_with("exit 2") && shown.contains("--filename"), "{shown}");
}
