//! The Helm chart, made from the manifests of `pillion install`: what differs between installations becomes an expression.
//!
//! ```text
//!  manifests(options with marks) ─▶ YAML with marks ─▶ marks become expressions ─▶ templates
//!  schema ─▶ values.schema.json, and values.yaml with the defaults and descriptions of it
//! ```

mod template;
mod values;

use anyhow::{Context as _, ensure};
use pillion::render;
use pillion_api::probe_marker;
use pillion_install::{
    Certificates, ControllerName, KUBELETS, Options, SHUTDOWN_DELAY, SHUTDOWN_DELAY_FLAG, SHUTDOWN_GRACE, manifests,
    removal,
};
use serde_json::{Value, json};

use crate::Files;
use template::Template;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CERTIFICATE_SECRET: &str = ".Values.certificates.secretName";
const IMAGE: &str = "printf \"%s:%s\" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)";

/// Whether the gate `SidecarField` is on: by its name, or else with all alpha gates.
fn is_sidecar_field_on() -> String {
    let is_on =
        |gate: &str| format!("(regexMatch \"(^|,) *{gate} *= *(1|t|T|true|TRUE|True) *(,|$)\" .Values.featureGates)");
    let (named, all) = (is_on("SidecarField"), is_on("AllAlpha"));
    format!("or {named} (and {all} (not (contains \"SidecarField\" .Values.featureGates)))")
}

/// How long a replica may take to end: what its flag says, and what comes after that.
fn termination_grace() -> String {
    let given = format!("regexFind \"{SHUTDOWN_DELAY_FLAG}[0-9]+\" (join \" \" .Values.extraArgs)");
    let delay = format!("{given} | trimPrefix \"{SHUTDOWN_DELAY_FLAG}\" | default \"{SHUTDOWN_DELAY}\" | int");
    format!("add {SHUTDOWN_GRACE} ({delay})")
}

/// The files of the chart, and `deploy/pillion.yaml`.
pub(crate) fn files() -> anyhow::Result<Files> {
    let mut files = Files::from([
        ("deploy/pillion.yaml".to_owned(), plain()?),
        (in_chart("Chart.yaml"), generated(&render::yaml(&chart())?)),
        (in_chart("values.yaml"), generated(&values::yaml()?)),
        (in_chart("values.schema.json"), render::json_text(&values::schema())),
        (in_chart("templates/NOTES.txt"), NOTES.to_owned()),
    ]);
    for (name, text) in templates()? {
        files.insert(in_chart(&format!("templates/{name}")), text);
    }
    Ok(files)
}

fn in_chart(name: &str) -> String {
    format!("deploy/helm/pillion/{name}")
}

const NOTES: &str = "\
Pillion {{ .Chart.AppVersion }} is installed in namespace {{ .Release.Namespace }}.

  kubectl --namespace={{ .Release.Namespace }} rollout status deployment/pillion-manager

SidecarSets, their revisions and their definition stay when this release is uninstalled.
";

fn generated(text: &str) -> String {
    format!("# Made by `cargo xtask gen`; do not edit.\n{text}")
}

fn chart() -> Value {
    json!({
        "apiVersion": "v2",
        "name": "pillion",
        "description": "Sidecars done properly on Kubernetes",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        "kubeVersion": ">=1.33.0-0",
        "home": env!("CARGO_PKG_REPOSITORY"),
    })
}

/// The templates by the names of their files.
fn templates() -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut template = Template::default();
    let options = options(&mut template);
    let objects = objects_of(&options);
    let mut files: Vec<(&'static str, String)> = Vec::new();
    let mut add = |file: &'static str, document: String| match files.iter_mut().find(|(name, _)| *name == file) {
        Some((_, text)) => {
            text.push_str("---\n");
            text.push_str(&document);
        }
        None => files.push((file, format!("{{{{- /* Made by `cargo xtask gen`; do not edit. */ -}}}}\n{document}"))),
    };
    for object in objects {
        let (file, condition) = (file_of(&object)?, condition(&object, &options));
        let object = fill(object, &mut template);
        add(file, template.document(&object, condition.as_deref())?);
    }
    for (weight, object) in removal(&options).into_iter().enumerate() {
        let object = hook(object, weight, &mut template);
        add("removal.yaml", template.document(&object, None)?);
    }
    Ok(files)
}

/// The Deployments with the volume for certificates, and the rights that making them needs: conditions leave out one or the other.
fn objects_of(options: &Options) -> Vec<Value> {
    let mut objects = manifests(&own_certificates(options));
    objects.retain(|object| object["kind"] != "Deployment");
    objects.extend(manifests(options).into_iter().filter(|object| object["kind"] == "Deployment"));
    // Helm creates the namespace of a release, or not, as its user says.
    objects.retain(|object| object["metadata"]["name"] != options.namespace);
    objects
}

fn own_certificates(options: &Options) -> Options {
    Options { certificates: Certificates::SelfMade, ..options.clone() }
}

/// Options whose texts are marks.
fn options(template: &mut Template) -> Options {
    let wrap_image = format!("ternary (.Values.wrapImage | default ({IMAGE})) \"\" ({})", is_sidecar_field_on());
    Options {
        namespace: template.text(".Release.Namespace"),
        controllers: ControllerName::ALL.to_vec(),
        revisions_namespace: template.text(".Values.revisionsNamespace"),
        image: template.text(IMAGE),
        // This one has the volume; without a Secret it is left out.
        certificates: Certificates::Secret(template.text(CERTIFICATE_SECRET)),
        feature_gates: template.argument(".Values.featureGates"),
        take_over: template.argument(".Values.takeOver"),
        log_format: template.text(".Values.logFormat"),
        wrap_image: template.argument(&wrap_image),
        manager_args: vec![template.items(".Values.extraArgs")],
        sidecar_field: true,
        kubelets: true,
        ..Options::default()
    }
}

/// When an object is part of a release: it is not among the manifests of options that leave it out.
fn condition(object: &Value, options: &Options) -> Option<String> {
    match object["kind"].as_str() {
        Some("CustomResourceDefinition") if is_of_autoscaler(object) => {
            let sized_by = [ControllerName::Recommender, ControllerName::Updater]
                .map(|part| format!("(has \"{part}\" .Values.controllers)"));
            return Some(format!("and .Values.crds.enabled .Values.crds.autoscaler (or {})", sized_by.join(" ")));
        }
        Some("CustomResourceDefinition") if object["metadata"]["name"] == probe_marker::DEFINITION => {
            return Some(format!("and .Values.crds.enabled (has \"{}\" .Values.controllers)", ControllerName::Agents));
        }
        Some("CustomResourceDefinition") => return Some(".Values.crds.enabled".to_owned()),
        Some("Namespace") => {
            let other = "ne .Values.revisionsNamespace .Release.Namespace";
            return Some(format!("and .Values.createRevisionsNamespace ({other})"));
        }
        _ => {}
    }
    let mut conditions = Vec::new();
    let is_deployment = object["kind"] == "Deployment";
    let present = own_certificates(options);
    let is_left_out = |options: Options| !manifests(&options).contains(object);
    // The Deployment of all controllers names them, and is there with any of them.
    if !is_deployment {
        for controller in ControllerName::ALL {
            let others = ControllerName::ALL.into_iter().filter(|other| *other != controller).collect();
            if is_left_out(Options { controllers: others, ..present.clone() }) {
                conditions.push(format!("has \"{controller}\" .Values.controllers"));
            }
        }
        if is_left_out(Options { sidecar_field: false, ..present.clone() }) {
            conditions.push(is_sidecar_field_on());
        }
        if is_left_out(Options { kubelets: false, ..present }) {
            conditions.push(format!("has \"{KUBELETS}\" .Values.extraArgs"));
        }
    }
    if is_left_out(options.clone()) {
        conditions.push(format!("not {CERTIFICATE_SECRET}"));
    }
    match conditions.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("and ({})", all.join(") ("))),
    }
}

/// Whether a definition is one that the VerticalPodAutoscaler project has as well.
fn is_of_autoscaler(object: &Value) -> bool {
    object["spec"]["group"] == pillion_api::names::AUTOSCALING_GROUP
}

fn file_of(object: &Value) -> anyhow::Result<&'static str> {
    Ok(match object["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => "crds.yaml",
        "Namespace" => "namespace.yaml",
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => "webhooks.yaml",
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => "policies.yaml",
        "ServiceAccount" | "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => "access.yaml",
        "Service" => "service.yaml",
        "NetworkPolicy" => "network-policy.yaml",
        "PodDisruptionBudget" => "disruption-budget.yaml",
        "Deployment" => "deployment.yaml",
        other => anyhow::bail!("no template of the chart is for objects of kind {other}"),
    })
}

/// The object with the marks and annotations of Helm in it.
fn fill(mut object: Value, template: &mut Template) -> Value {
    label(&mut object, template);
    let keeps = object["kind"] == "CustomResourceDefinition" || object["kind"] == "Namespace";
    if keeps {
        object["metadata"]["annotations"]["helm.sh/resource-policy"] = json!("keep");
    }
    if object["kind"] != "Deployment" {
        return object;
    }
    object["metadata"]["labels"]["app.kubernetes.io/version"] = json!(template.text(".Chart.AppVersion"));
    object["spec"]["replicas"] = json!(template.plain(".Values.replicas"));
    let pod = &mut object["spec"]["template"];
    pod["metadata"]["annotations"] = json!(template.optional(".Values.podAnnotations"));
    let pod = &mut pod["spec"];
    fill_pod(pod, template);
    pod["terminationGracePeriodSeconds"] = json!(template.plain(&termination_grace()));
    template.only_if(pod, "volumes", CERTIFICATE_SECRET);
    let manager = &mut pod["containers"][0];
    manager["resources"] = json!(template.block(".Values.resources"));
    template.only_if(manager, "volumeMounts", CERTIFICATE_SECRET);
    for argument in manager["args"].as_array_mut().into_iter().flatten() {
        let text = argument.as_str().unwrap_or_default();
        if text.starts_with("--controllers=") {
            *argument = json!(format!("--controllers={}", template.text("join \",\" .Values.controllers")));
        } else if let Some(folder) = text.strip_prefix("--certificates=") {
            let place = format!("ternary \"{folder}\" \"self\" (not (empty {CERTIFICATE_SECRET}))");
            *argument = json!(format!("--certificates={}", template.text(&place)));
        }
    }
    object
}

/// What is the same for every pod of a release.
fn fill_pod(pod: &mut Value, template: &mut Template) {
    for name in ["imagePullSecrets", "priorityClassName", "nodeSelector", "tolerations", "affinity"] {
        pod[name] = json!(template.optional(&format!(".Values.{name}")));
    }
    pod["containers"][0]["imagePullPolicy"] = json!(template.text(".Values.image.pullPolicy"));
}

/// An object of the hook that runs before a release is deleted.
fn hook(mut object: Value, weight: usize, template: &mut Template) -> Value {
    label(&mut object, template);
    if object["kind"] == "Job" {
        fill_pod(&mut object["spec"]["template"]["spec"], template);
    }
    object["metadata"]["annotations"] = json!({
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-weight": weight.to_string(),
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    });
    object
}

fn label(object: &mut Value, template: &mut Template) {
    let labels = &mut object["metadata"]["labels"];
    labels["app.kubernetes.io/managed-by"] = json!(template.text(".Release.Service"));
    labels["helm.sh/chart"] = json!(template.text("printf \"%s-%s\" .Chart.Name .Chart.Version"));
}

/// `deploy/pillion.yaml`: what `pillion install --print` prints, without the definitions, which are in `deploy/crds`.
fn plain() -> anyhow::Result<String> {
    let objects = manifests(&Options::default());
    let (definitions, others): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| object["kind"] == "CustomResourceDefinition");
    ensure!(definitions.len() == 3, "deploy/crds has one definition for each of the installation");
    let text = render::yaml_stream(&others).context("cannot write deploy/pillion.yaml")?;
    Ok(generated(&text))
}
