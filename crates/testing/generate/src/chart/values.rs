//! The values of the chart: one schema, from which `values.yaml` follows.

use std::fmt::Write as _;

use pillion::render;
use pillion_install::{ControllerName, IMAGE, Options, manifests, own_flags};
use serde_json::{Map, Value, json};

/// `values.schema.json`.
pub(super) fn schema() -> Value {
    let options = Options::default();
    let repository = IMAGE.rsplit_once(':').map_or(IMAGE, |(repository, _)| repository);
    let resources = manifests(&options)
        .iter()
        .find_map(|object| object.pointer("/spec/template/spec/containers/0/resources").cloned())
        .unwrap_or_default();
    let controllers = ControllerName::ALL.map(ControllerName::name);
    let object = |about: &str, properties: Value| json!({"description": about, "type": "object", "additionalProperties": false, "properties": properties});
    let map = |about: &str| json!({"description": about, "type": "object", "default": {}});
    let text = |about: &str, default: &str| json!({"description": about, "type": "string", "default": default});
    let list = |about: &str| json!({"description": about, "type": "array", "items": {"type": "object"}, "default": []});
    let choice = |about: &str, choices: &[&str], default: &str| json!({"description": about, "type": "string", "enum": choices, "default": default});
    let switch = |about: &str| json!({"description": about, "type": "boolean", "default": true});
    let mut schema = object(
        "Values of the chart of Pillion.",
        json!({
            "image": object("The image of the manager.", json!({
                "repository": text("Where it is.", repository),
                "tag": text("Its tag; the version of the chart when empty.", ""),
                "pullPolicy": choice("When it is pulled.", &["Always", "IfNotPresent", "Never"], "IfNotPresent"),
            })),
            "imagePullSecrets": list("Secrets to pull it with, each as {name: NAME}."),
            "replicas": {
                "description": "How many replicas the manager has: all serve webhooks, one leads the controllers.",
                "type": "integer", "minimum": 0, "default": options.replicas,
            },
            "controllers": {
                "description": "The parts of the manager that run, webhook among them; each has rights of its own. In-pod agents need agents, which may mark pods, and read and write ConfigMaps, of all namespaces.",
                "type": "array", "minItems": 1, "uniqueItems": true,
                // Without it, SidecarSets and pods would be sent to webhooks that nobody serves.
                "contains": {"const": ControllerName::Webhook.name()},
                "items": {"type": "string", "enum": controllers}, "default": ControllerName::INSTALLED.map(ControllerName::name),
            },
            "revisionsNamespace": text("The namespace of the revisions of SidecarSets.", &options.revisions_namespace),
            "createRevisionsNamespace": switch(
                "Whether that namespace is created. Set this to false where it exists, for example because Kruise is installed."
            ),
            "crds": object("The definitions of SidecarSet, VerticalPodAutoscaler and its checkpoints.", json!({
                "enabled": switch("Whether they are installed and upgraded with the chart. They stay when the chart is uninstalled."),
                "autoscaler": switch(
                    "Whether those of VerticalPodAutoscaler are among them. Set this to false where the VerticalPodAutoscaler project has \
                     installed them: they are as good."
                ),
            })),
            "certificates": object("The certificates of the webhooks.", json!({
                "secretName": text(
                    "A Secret in the release's namespace with tls.crt, tls.key and ca.crt, as cert-manager writes it. When empty, the \
                     manager makes, shares and renews them itself.",
                    "",
                ),
            })),
            "featureGates": text("Features to switch on or off: a comma-separated list of NAME=true or NAME=false.", ""),
            "wrapImage": text(
                "The image with pillion-wrap, for sidecars with the mode Strict; that of the manager when empty. It has an effect where featureGates \
                 switch SidecarField on.",
                "",
            ),
            "extraArgs": {
                "description": format!(
                    "More flags of `pillion manager`, each with its value, such as --usage-source=kubelets, with which the recommender has the \
                     right to read what kubelets measure. Other values set {}.",
                    own_flags().join(", ")
                ),
                "type": "array", "default": [],
                "items": {
                    "type": "string", "pattern": "^--",
                    "not": {"pattern": format!("^--({})(=|$)", own_flags().join("|").replace("--", ""))},
                },
            },
            "logFormat": choice("How the manager writes its log.", &["text", "json"], &options.log_format),
            "takeOver": choice(
                "Serve the objects of an installed OpenKruise or VerticalPodAutoscaler, once it has stopped.",
                &["", "kruise", "vpa", "kruise,vpa"], "",
            ),
            "resources": {"description": "Requests and limits of the manager.", "type": "object", "default": resources},
            "podAnnotations": map("Annotations of the manager's pods."),
            "priorityClassName": text("The PriorityClass of the manager's pods.", ""),
            "nodeSelector": map("Labels of the nodes that the manager runs on."),
            "tolerations": list("Tolerations of the manager's pods."),
            "affinity": map("Affinity of the manager's pods."),
        }),
    );
    schema["$schema"] = json!("https://json-schema.org/draft-07/schema#");
    // Helm passes this to every chart that another one depends on.
    schema["properties"]["global"] = json!({"type": "object"});
    schema
}

/// `values.yaml`: every value with its description and default.
pub(super) fn yaml() -> anyhow::Result<String> {
    let mut text = String::new();
    push(&mut text, &schema(), "")?;
    Ok(text)
}

fn push(text: &mut String, schema: &Value, indent: &str) -> anyhow::Result<()> {
    for (name, field) in schema["properties"].as_object().unwrap_or(&Map::new()) {
        let Some(about) = field["description"].as_str() else { continue };
        if indent.is_empty() {
            text.push('\n');
        }
        writeln!(text, "{indent}# {about}")?;
        if let Some(choices) = field["enum"].as_array().or_else(|| field["items"]["enum"].as_array()) {
            writeln!(
                text,
                "{indent}# One of {}.",
                choices.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
            )?;
        }
        if let Some(default) = field.get("default") {
            let yaml = render::yaml(&json!({name: default}))?;
            yaml.lines().try_for_each(|line| writeln!(text, "{indent}{line}"))?;
        } else {
            writeln!(text, "{indent}{name}:")?;
            push(text, field, &format!("{indent}  "))?;
        }
    }
    Ok(())
}
