//! Which changes of a pod's status are accepted.

use pillion_rules::address;
use pillion_rules::field::{Error, IMMUTABLE, Path};
use pillion_rules::pod::internal::bad_value;
use pillion_rules::pod::read::{list, number, part, pointer_text, text};
use pillion_rules::pod::validation::report::{Errors, Report};
use pillion_rules::pod::validation::{format, metadata};
use serde_json::Value;

use super::update::validate_annotations;

/// Checks an update of `pods/status` against what the pod was.
pub fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = Errors::new();
    metadata::validate_update(&mut errors, &new["metadata"], &old["metadata"]);
    validate_annotations(&mut errors, new, old);
    let (status, before, path) = (&new["status"], &old["status"], Path::new("status"));
    validate_conditions(&mut errors, status, &path.child("conditions"));
    validate_nominated_node(&mut errors, new, old, &path.child("nominatedNodeName"));
    let generation = number(status, "observedGeneration");
    if generation < 0 {
        errors.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    if text(status, "qosClass") != text(before, "qosClass") {
        errors.invalid(&path.child("qosClass"), text(status, "qosClass"), IMMUTABLE);
    }
    for (field, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        validate_transitions(&mut errors, status, old, field, containers, &path.child(field));
    }
    validate_claim_statuses(&mut errors, new, &path.child("resourceClaimStatuses"));
    validate_addresses(&mut errors, status, before, "podIPs", &path.child("podIPs"));
    validate_host_addresses(&mut errors, status, before, &path.child("hostIPs"));
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_users(&mut errors, new, field, &path.child(field));
    }
    errors
}

/// Warnings about the addresses in a pod's status.
pub fn status_warnings(pod: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for field in ["podIPs", "hostIPs"] {
        for (i, ip) in list(&pod["status"], field).iter().enumerate() {
            let path = Path::new("status").child(field).index(i).child("ip");
            warnings.extend(address::warning(text(ip, "ip"), &path));
        }
    }
    warnings
}

fn validate_conditions(errors: &mut Errors, status: &Value, path: &Path) {
    for (i, condition) in list(status, "conditions").iter().enumerate() {
        let path = path.index(i);
        let generation = number(condition, "observedGeneration");
        if generation < 0 {
            errors.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.each(&path.child("Type"), kind, format::qualified_name(kind));
        }
    }
}

fn validate_nominated_node(errors: &mut Errors, new: &Value, old: &Value, path: &Path) {
    let name = text(&new["status"], "nominatedNodeName");
    if name.is_empty() || name == text(&old["status"], "nominatedNodeName") {
        return;
    }
    errors.each(path, name, format::dns_subdomain(name));
    if !text(&old["spec"], "nodeName").is_empty() {
        errors.forbidden(path, "may not be set on pods that are already bound to a node");
    }
}

/// A container that has ended stays so, unless it is one that is restarted. An ephemeral container never is.
fn validate_transitions(
    errors: &mut Errors,
    status: &Value,
    old: &Value,
    field: &str,
    containers: Option<&str>,
    path: &Path,
) {
    for (i, before) in list(&old["status"], field).iter().enumerate() {
        let Some(ended) = part(&before["state"], "terminated") else { continue };
        let is_same = |other: &&Value| text(other, "name") == text(before, "name");
        let runs_again = |now: &Value| part(&now["state"], "terminated").is_none();
        if !list(status, field).iter().filter(is_same).any(runs_again) {
            continue;
        }
        let may_restart = containers.is_some_and(|containers| {
            let container = list(&old["spec"], containers).iter().find(is_same);
            container.is_some_and(|container| restarts(container, &old["spec"], number(ended, "exitCode")))
        });
        if !may_restart {
            errors.forbidden(&path.index(i).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// Whether a container that ended with this code is started again.
fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let own = pointer_text(container, "restartPolicy");
    let matches_rule = |rule: &Value| {
        let is_listed = list(&rule["exitCodes"], "values").iter().any(|value| value.as_i64() == Some(code));
        text(rule, "action") == "Restart"
            && match text(&rule["exitCodes"], "operator") {
                "In" => is_listed,
                "NotIn" => !is_listed,
                _ => false,
            }
    };
    if own.is_some() && list(container, "restartPolicyRules").iter().any(matches_rule) {
        return true;
    }
    match own.unwrap_or_else(|| text(spec, "restartPolicy")) {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

fn validate_claim_statuses(errors: &mut Errors, pod: &Value, path: &Path) {
    let mut names = std::collections::BTreeSet::new();
    for (i, status) in list(&pod["status"], "resourceClaimStatuses").iter().enumerate() {
        let path = path.index(i).child("name");
        let name = text(status, "name");
        if !list(&pod["spec"], "resourceClaims").iter().any(|claim| text(claim, "name") == name) {
            errors.invalid(&path, name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !names.insert(name) {
            errors.duplicate(&path, name);
        }
        if let Some(claim) = pointer_text(status, "resourceClaimName") {
            errors.each(&path, claim, format::dns_subdomain(claim));
        }
    }
}

fn validate_host_addresses(errors: &mut Errors, status: &Value, old: &Value, path: &Path) {
    let Some(first) = list(status, "hostIPs").first().map(|ip| text(ip, "ip")) else { return };
    if text(status, "hostIP") != first {
        errors.invalid(&path.index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    validate_addresses(errors, status, old, "hostIPs", path);
}

/// At most one address of each family; what is there already is not looked at again.
fn validate_addresses(errors: &mut Errors, status: &Value, old: &Value, field: &str, path: &Path) {
    let had: Vec<&str> = list(old, field).iter().map(|ip| text(ip, "ip")).collect();
    let addresses: Vec<&str> = list(status, field).iter().map(|ip| text(ip, "ip")).collect();
    for (i, ip) in addresses.iter().enumerate().filter(|(_, ip)| !had.contains(ip)) {
        address::validate(ip, &path.index(i), errors);
    }
    if addresses.len() > 1 {
        let parsed: Vec<bool> = addresses.iter().filter_map(|ip| address::parse(ip)).map(|ip| ip.is_ipv6()).collect();
        if addresses.len() > 2 || parsed.len() != 2 || parsed.first() == parsed.get(1) {
            let value = list(status, field).iter().map(|ip| bad_value("PodIP", ip)).collect::<Value>();
            errors.invalid(path, value, "may specify no more than one IP for each IP family");
        }
    }
}

fn validate_users(errors: &mut Errors, pod: &Value, field: &str, path: &Path) {
    for (i, status) in list(&pod["status"], field).iter().enumerate() {
        let Some(user) = part(&status["user"], "linux") else { continue };
        let path = path.index(i).child("user").child("linux");
        for id in ["uid", "gid"] {
            errors.each(&path.child(id), number(user, id), format::user_id(number(user, id)));
        }
        for (i, group) in list(user, "supplementalGroups").iter().filter_map(Value::as_i64).enumerate() {
            errors.each(&path.child("supplementalGroups").index(i), group, format::user_id(group));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_ended_container_starts_again_only_where_it_is_restarted() {
        let pod = |policy: &str, own: Value, state: Value| {
            let mut container = json!({"name": "a", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]});
            if !own.is_null() {
                container["restartPolicy"] = own;
            }
            json!({
                "metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"},
                "spec": {"restartPolicy": policy, "containers": [container]},
                "status": {"containerStatuses": [{"name": "a", "state": state}]},
            })
        };
        let count = |policy: &str, own: Value, code: i64| {
            let old = pod(policy, own.clone(), json!({"terminated": {"exitCode": code}}));
            validate_status(&pod(policy, own, json!({"running": {}})), &old).len()
        };
        for (policy, own, code, mistakes) in [
            ("Always", json!(null), 0, 0),
            ("OnFailure", json!(null), 0, 1),
            ("OnFailure", json!(null), 1, 0),
            ("Never", json!(null), 42, 1),
            ("Never", json!("Never"), 42, 0),
            ("Never", json!("OnFailure"), 1, 0),
            ("Always", json!("Never"), 1, 1),
        ] {
            assert_eq!(count(policy, own.clone(), code), mistakes, "{policy} {own} {code}");
        }
    }

    #[test]
    fn a_pod_has_one_address_of_each_family() {
        let pod = |ips: Value| json!({"metadata": {"resourceVersion": "1"}, "status": {"podIPs": ips}});
        let errors = validate_status(&pod(json!([{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}])), &pod(json!([])));
        assert_eq!(
            errors[0].to_string(),
            r#"status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.5"}]: may specify no more than one IP for each IP family"#
        );
        assert!(validate_status(&pod(json!([{"ip": "1.2.3.4"}, {"ip": "::1"}])), &pod(json!([]))).is_empty());
    }
}
