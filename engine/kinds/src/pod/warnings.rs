//! What is accepted and yet probably not meant, or not for ever.

mod overlap;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use pillion_rules::address;
use pillion_rules::field::Path;
use pillion_rules::pod::read::{annotation, containers, entries, list, number, part, pointer_number, text};
use pillion_rules::pod::resources::{is_fractional, quantity};
use pillion_rules::pod::validation::format;
use pillion_rules::pod::{SIDECAR_FIELD, endless_work};

/// Warnings about a new pod. An update of a pod is not worth any: people seldom make them by hand.
pub fn warnings(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let objections = format::dns_label(text(&pod["metadata"], "name"));
    if !objections.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            objections.join(" ")
        ));
    }
    collect(&mut warnings, pod, None);
    warnings
}

/// Warnings about the template of a workload at `path`.
pub fn template_warnings(template: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    collect(&mut warnings, template, Some(path));
    warnings
}

/// All that pods and templates have in common, in the order of the API server.
fn collect(warnings: &mut Vec<String>, object: &Value, template: Option<&Path>) {
    let root = template.cloned().unwrap_or_default();
    let (spec, path) = (&object["spec"], root.child("spec"));
    warn_about_nodes(warnings, spec, &path);
    warn_about_annotations(warnings, object, &root);
    warn_about_volumes(warnings, spec, &path.child("volumes"));
    overlap::warn(warnings, list(spec, "volumes"));
    warn_about_duplicates(warnings, spec, &path);
    warn_about_fractions(warnings, spec, "overhead", &path.child("overhead"));
    for (container, path) in containers(spec, &path) {
        warn_about_container(warnings, container, &path);
    }
    warn_about_ports(warnings, spec, &path);
    warn_of_endless_work(warnings, spec, &path);
    if let Some(seconds) = pointer_number(spec, "terminationGracePeriodSeconds")
        && seconds < 0
    {
        let path = path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    warn_about_pod_affinity(warnings, spec, &path.child("affinity"));
    for (i, server) in list(&spec["dnsConfig"], "nameservers").iter().filter_map(Value::as_str).enumerate() {
        warnings.extend(address::warning(server, &path.child("dnsConfig").child("nameservers").index(i)));
    }
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        warnings.extend(address::warning(text(alias, "ip"), &path.child("hostAliases").index(i).child("ip")));
    }
}

/// What is said of labels of nodes that have other names now.
fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

fn warn_about_nodes(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for (key, _) in entries(spec, "nodeSelector") {
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{}: {message}", path.child("nodeSelector").key(key)));
        }
    }
    let nodes = &spec["affinity"]["nodeAffinity"];
    let nodes_path = path.child("affinity").child("nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (i, term) in list(&nodes[required], "nodeSelectorTerms").iter().enumerate() {
        warn_about_term(warnings, term, false, &nodes_path.child(required).child("nodeSelectorTerms").index(i));
    }
    for (i, term) in list(nodes, preferred).iter().enumerate() {
        warn_about_term(warnings, &term["preference"], true, &nodes_path.child(preferred).index(i).child("preference"));
    }
    for (i, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = path.child("topologySpreadConstraints").index(i);
        let key = text(constraint, "topologyKey");
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        warn_about_null_selector(warnings, constraint, &path);
    }
}

fn warn_about_term(warnings: &mut Vec<String>, term: &Value, with_values: bool, path: &Path) {
    for (i, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let key = text(expression, "key");
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("key")));
        }
        if !with_values {
            continue;
        }
        for (j, value) in list(expression, "values").iter().filter_map(Value::as_str).enumerate() {
            for objection in format::label_value(value) {
                warnings.push(format!("{}: {value} is invalid, {objection}", path.child("values").index(j)));
            }
        }
    }
}

fn warn_about_null_selector(warnings: &mut Vec<String>, term: &Value, path: &Path) {
    if part(term, "labelSelector").is_none() {
        warnings.push(format!("{}: a null labelSelector results in matching no pod", path.child("labelSelector")));
    }
}

fn warn_about_annotations(warnings: &mut Vec<String>, object: &Value, root: &Path) {
    for (key, message) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
        ),
        ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
        ("security.alpha.kubernetes.io/unsafe-sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    ] {
        if annotation(object, key).is_some() {
            warnings.push(format!("{}: {message}", root.child("metadata").child("annotations").key(key)));
        }
    }
}

fn warn_about_volumes(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for (i, volume) in list(spec, "volumes").iter().enumerate() {
        let path = path.index(i);
        let mut warn = |kind: &str, shown: &str, message: &str| {
            if part(volume, kind).is_some() {
                warnings.push(format!("{}: {message}", path.child(shown)));
            }
        };
        warn("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+");
        warn("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+");
        warn("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+");
        warn("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+");
        warn("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+");
        warn("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+");
        warn("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+");
        if let Some(claim) = part(&volume["ephemeral"], "volumeClaimTemplate") {
            let path = path.child("ephemeral").child("volumeClaimTemplate").child("spec").child("resources");
            for which in ["requests", "limits"] {
                warn_about_fraction(warnings, &claim["spec"]["resources"][which], "storage", &path.child(which));
            }
        }
        let mut warn = |kind: &str| {
            if part(volume, kind).is_some() {
                warnings.push(format!("{}: deprecated in v1.28, non-functional in v1.31+", path.child(kind)));
            }
        };
        warn("cephfs");
        warn("rbd");
    }
}

fn warn_about_duplicates(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for (list_field, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for (i, item) in list(spec, list_field).iter().enumerate() {
            if !seen.insert(text(item, field)) {
                let path = path.child(list_field).index(i).child(field);
                warnings.push(format!("{path}: duplicate {field} {:?}", text(item, field)));
            }
        }
    }
    for (i, _) in list(spec, "imagePullSecrets").iter().enumerate().filter(|(_, item)| text(item, "name").is_empty()) {
        let path = path.child("imagePullSecrets").index(i).child("name");
        warnings.push(format!(r#"{path}: invalid empty name """#));
    }
}

/// Parts of bytes are accepted and mean nothing.
fn warn_about_fractions(warnings: &mut Vec<String>, object: &Value, field: &str, path: &Path) {
    for name in ["memory", "ephemeral-storage"] {
        warn_about_fraction(warnings, &object[field], name, path);
    }
}

fn warn_about_fraction(warnings: &mut Vec<String>, amounts: &Value, name: &str, path: &Path) {
    let Some(amount) = part(amounts, name).map(quantity).filter(|amount| is_fractional(*amount)) else { return };
    let path = path.key(name);
    warnings.push(format!("{path}: fractional byte value {:?} is invalid, must be an integer", amount.to_string()));
}

fn warn_about_container(warnings: &mut Vec<String>, container: &Value, path: &Path) {
    for name in ["memory", "ephemeral-storage"] {
        for which in ["limits", "requests"] {
            let path = path.child("resources").child(which);
            warn_about_fraction(warnings, &container["resources"][which], name, &path);
        }
    }
    let mut names = BTreeSet::new();
    for (i, variable) in list(container, "env").iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        let reference = format!("$({name})");
        let builds_on_previous =
            value != reference && value.contains(&reference) && part(variable, "valueFrom").is_none();
        if !names.insert(name) && !builds_on_previous {
            let path = path.child("env").index(i);
            warnings
                .push(format!("{path}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
}

fn warn_about_ports(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let mut by_number: BTreeMap<(i64, &str), Vec<(Path, &Value)>> = BTreeMap::new();
    let ports = || {
        containers(spec, path).into_iter().flat_map(|(container, path)| {
            let ports = list(container, "ports").iter().enumerate();
            ports.map(move |(i, port)| (port, path.child("ports").index(i))).collect::<Vec<_>>()
        })
    };
    for (port, path) in ports() {
        let (host_ip, host_port) = (text(port, "hostIP"), number(port, "hostPort"));
        if !host_ip.is_empty() && host_port == 0 {
            warnings.push(format!(
                "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{host_ip}}}",
                text(port, "name"),
                number(port, "containerPort"),
                text(port, "protocol"),
            ));
        }
        let others = by_number.entry((number(port, "containerPort"), text(port, "protocol"))).or_default();
        for (other_path, other) in others.iter() {
            let (other_ip, other_port) = (text(other, "hostIP"), number(other, "hostPort"));
            let how = if host_ip == other_ip && host_port == other_port {
                "duplicate"
            } else if host_port == 0 || other_port == 0 {
                "overlapping"
            } else if host_port == other_port && host_ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{path}: {how} port definition with {other_path}"));
        }
        others.push((path, port));
    }
    let mut by_name: BTreeMap<&str, Path> = BTreeMap::new();
    for (port, path) in ports() {
        let name = text(port, "name");
        if name.is_empty() {
            continue;
        }
        match by_name.get(name) {
            Some(other) => warnings.push(format!(
                "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            )),
            None => {
                by_name.insert(name, path);
            }
        }
    }
}

fn warn_about_pod_affinity(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (affinity, path) = (&spec["affinity"][kind], path.child(kind));
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in list(affinity, required).iter().enumerate() {
            warn_about_null_selector(warnings, term, &path.child(required).index(i));
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in list(affinity, preferred).iter().enumerate() {
            let path = path.child(preferred).index(i).child("podAffinityTerm");
            warn_about_null_selector(warnings, &term["podAffinityTerm"], &path);
        }
    }
}

/// Warns of marks of sidecars that have no effect.
fn warn_of_endless_work(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let work = list(spec, "containers").iter().filter(|container| container[SIDECAR_FIELD] != true);
    let work = work.map(|container| (text(container, "name"), text(container, "restartPolicy")));
    let why = endless_work(work, text(spec, "restartPolicy"));
    let Some(why) = why else { return };
    for (i, container) in list(spec, "containers").iter().enumerate() {
        if container[SIDECAR_FIELD] == true {
            warnings.push(format!("{}: {why}", path.child("containers").index(i).child(SIDECAR_FIELD)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mark_without_effect_is_warned_of_whoever_keeps_the_work_going() {
        let warnings = |policy: &str, main: &str, side: &str| {
            let containers = json!([
                {"name": "main", "restartPolicy": main}, {"name": "side", "sidecar": true, "restartPolicy": side},
            ]);
            let mut warnings = Vec::new();
            warn_of_endless_work(
                &mut warnings,
                &json!({"restartPolicy": policy, "containers": containers}),
                &Path::new("spec"),
            );
            warnings
        };
        assert!(warnings("Always", "", "")[0].starts_with("spec.containers[1].sidecar: has no effect in a pod"));
        assert_eq!(warnings("Always", "", "Never").len(), 1, "the policy of the sidecar does not matter");
        assert_eq!(warnings("Always", "Never", ""), [""; 0]);
        assert_eq!(warnings("Never", "", "Always"), [""; 0]);
        assert!(warnings("Never", "Always", "")[0].contains("container \"main\" has restartPolicy Always"));
    }
}
