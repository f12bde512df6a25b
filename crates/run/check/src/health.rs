//! Whether an installation works: replicas, registration, certificate, leaders.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use pillion_install::{CERTIFICATE_SECRET, CONFIGURATION, ControllerName, MANAGER, SERVICE, is_available};
use pillion_manager::conversion_service;
use serde_json::Value;

use crate::certificate;
use crate::finding::Finding;
use crate::snapshot::{Replica, Snapshot, is_led, is_ours, name, webhooks};

/// The entries that a manager registers, beside those of single SidecarSets.
const MUTATING: [&str; 2] = ["pods.pillion.dev", "sidecarsets.pillion.dev"];
const VALIDATING: [&str; 2] = ["places.pillion.dev", "sidecarsets.pillion.dev"];

pub(crate) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = vec![deployment(snapshot)];
    if !snapshot.is_installed() {
        return findings;
    }
    match &snapshot.separate {
        Ok(separate) => findings.extend(separate.iter().map(|live| replicas(live, name(live), &snapshot.namespace))),
        Err(why) => findings.push(Finding::unread("deployment", why)),
    }
    findings.extend(caches(snapshot));
    findings.push(registration("MutatingWebhookConfiguration", &snapshot.mutating, &MUTATING));
    findings.push(registration("ValidatingWebhookConfiguration", &snapshot.validating, &VALIDATING));
    findings.extend(conversion(snapshot));
    let deployment = snapshot.deployment.as_ref().ok().and_then(Option::as_ref);
    findings.extend(certificate::findings(snapshot, certificate_secret(deployment), &bundles(snapshot)));
    let is_of_usual_lifetime = !arguments(deployment).any(|argument| argument.starts_with("--certificate-lifetime"));
    findings.extend(certificate::of_replicas(snapshot, is_of_usual_lifetime));
    for live in deployment.into_iter().chain(snapshot.separate.iter().flatten()) {
        findings.extend(leaders(snapshot, live));
    }
    findings
}

fn deployment(snapshot: &Snapshot) -> Finding {
    const CHECK: &str = "deployment";
    let namespace = &snapshot.namespace;
    let value = match &snapshot.deployment {
        Ok(Some(value)) => value,
        Ok(None) if snapshot.is_installed() => {
            let url = snapshot.our_webhooks().find_map(|webhook| webhook["clientConfig"]["url"].as_str());
            let place = url.map(|url| format!(" at {url}")).unwrap_or_default();
            let message = format!(
                "there is no Deployment {namespace}/{MANAGER}: the webhooks are served{place} by a manager elsewhere"
            );
            return Finding::warning(CHECK, message)
                .with_remedy("if Pillion is installed in another namespace, give --namespace");
        }
        Ok(None) => return Finding::ok(CHECK, format!("Pillion is not installed in namespace {namespace}")),
        Err(why) => return Finding::unread(CHECK, why),
    };
    replicas(value, MANAGER, namespace)
}

/// Whether a Deployment has the replicas that it should have.
fn replicas(live: &Value, deployment: &str, namespace: &str) -> Finding {
    const CHECK: &str = "deployment";
    let typed: Deployment = serde_json::from_value(live.clone()).unwrap_or_default();
    let wanted = typed.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = typed.status.clone().unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let what = deployment.trim_start_matches("pillion-");
    if wanted == 0 {
        let remedy =
            format!("start it with `kubectl --namespace={namespace} scale deployment/{deployment} --replicas=2`");
        return Finding::error(CHECK, format!("the {what} is scaled to 0 replicas"), remedy);
    }
    let message = format!("{available} of {wanted} replicas of the {what} are available");
    if is_available(&typed) {
        return Finding::ok(CHECK, message);
    }
    let remedy = format!(
        "see `kubectl --namespace={namespace} describe pods` and `kubectl --namespace={namespace} logs deployment/{deployment}`"
    );
    if available < wanted {
        return Finding::error(CHECK, message, remedy);
    }
    let message = format!("{message}, but a rollout is under way: {}", rollout(&status, wanted));
    let mut conditions = status.conditions.iter().flatten();
    match conditions.find(|it| it.type_ == "Progressing" && it.status == "False").and_then(|it| it.message.clone()) {
        Some(stuck) => Finding::error(CHECK, format!("{message}; {stuck}"), remedy),
        None => Finding::warning(CHECK, message)
            .with_remedy(format!("see `kubectl --namespace={namespace} rollout status deployment/{deployment}`")),
    }
}

/// How far the rollout of a Deployment is whose replicas are available.
fn rollout(status: &DeploymentStatus, wanted: i32) -> String {
    let updated = status.updated_replicas.unwrap_or_default();
    let older = status.replicas.unwrap_or_default() - updated;
    if updated < wanted {
        format!("{updated} of {wanted} run the current version")
    } else if older > 0 {
        format!("{older} of an older version still run")
    } else {
        "the Deployment controller has not seen the last change yet".to_owned()
    }
}

/// Each replica knows best whether its caches are synced and their watches work.
fn caches(snapshot: &Snapshot) -> Vec<Finding> {
    const CHECK: &str = "caches";
    let replicas = match &snapshot.replicas {
        Ok(replicas) => replicas,
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let finding = |Replica { name, is_ready, readiness, .. }: &Replica| match readiness {
        Ok(answer) if answer == "ok" => Finding::ok(CHECK, format!("the caches of replica {name} are synced")),
        Ok(answer) => {
            let found = Finding::warning(CHECK, format!("replica {name}: {answer}"));
            if *is_ready { found } else { found.with_remedy(logs_of(name, snapshot)) }
        }
        Err(why) if *is_ready => Finding::ok(
            CHECK,
            format!(
                "the caches of replica {name} are synced: it is Ready (the API server cannot ask it for details: {why})"
            ),
        ),
        Err(why) => {
            let message = format!("replica {name} is not Ready, and the API server cannot ask it why: {why}");
            Finding::warning(CHECK, message).with_remedy(logs_of(name, snapshot))
        }
    };
    replicas.iter().map(finding).collect()
}

fn logs_of(replica: &str, snapshot: &Snapshot) -> String {
    format!("see `kubectl --namespace={} logs {replica}`", snapshot.namespace)
}

fn registration(kind: &str, configurations: &Result<Vec<Value>, String>, wanted: &[&str]) -> Finding {
    const CHECK: &str = "registration";
    let configurations = match configurations {
        Ok(configurations) => configurations,
        Err(why) => return Finding::unread(CHECK, why),
    };
    let entries: Vec<&Value> = configurations.iter().filter(|one| is_ours(one)).flat_map(webhooks).collect();
    let is_there = |name: &str| entries.iter().any(|entry| entry["name"] == name);
    let missing: Vec<String> = wanted.iter().filter(|name| !is_there(name)).map(|name| (*name).to_owned()).collect();
    if missing.is_empty() {
        return Finding::ok(CHECK, format!("{kind} {CONFIGURATION:?} has the manager's webhooks"));
    }
    let message = format!("{kind} {CONFIGURATION:?} lacks webhooks");
    let remedy = "the manager's leader registers them, and its log says why it does not; if the configuration is gone, `pillion install` creates it";
    Finding::error(CHECK, message, remedy).with_details(missing)
}

fn conversion(snapshot: &Snapshot) -> Option<Finding> {
    const CHECK: &str = "conversion";
    // A definition that is missing or cannot be read is reported elsewhere.
    let definition = snapshot.definition.as_ref().ok()?.as_ref()?;
    let conversion = &definition["spec"]["conversion"];
    let client = &conversion["webhook"]["clientConfig"];
    let is_service = client["service"]["name"] == conversion_service(SERVICE).as_str()
        && client["service"]["namespace"] == snapshot.namespace;
    let is_ours = conversion["strategy"] == "Webhook" && (is_service || client["url"].is_string());
    Some(if is_ours {
        Finding::ok(CHECK, "SidecarSets are converted between versions by the manager")
    } else {
        let to = client["service"]["name"].as_str().map(|name| format!(" but by Service {name:?}")).unwrap_or_default();
        let message = format!("SidecarSets are not converted between versions by the manager{to}");
        Finding::error(CHECK, message, "the manager's leader registers its conversion; its log says why it does not")
    })
}

/// What API servers are to trust, with where it is registered.
fn bundles(snapshot: &Snapshot) -> Vec<(String, &Value)> {
    let configurations = snapshot.mutating.iter().chain(&snapshot.validating).flatten();
    let entries = configurations.filter(|configuration| is_ours(configuration)).flat_map(webhooks);
    let mut bundles: Vec<(String, &Value)> = entries
        .filter(|entry| entry["name"].as_str().is_some_and(|name| name.ends_with(".pillion.dev")))
        .map(|entry| {
            (format!("webhook {}", entry["name"].as_str().unwrap_or_default()), &entry["clientConfig"]["caBundle"])
        })
        .collect();
    let definition = snapshot.definition.as_ref().ok().and_then(Option::as_ref);
    if let Some(client) = definition.and_then(|live| live.pointer("/spec/conversion/webhook/clientConfig")) {
        bundles.push(("the conversion of SidecarSets".to_owned(), &client["caBundle"]));
    }
    bundles
}

/// The Secret in which the certificate of the webhooks is: one that the Deployment mounts, or the manager's own.
pub fn certificate_secret(deployment: Option<&Value>) -> &str {
    let volumes = deployment.and_then(|live| live.pointer("/spec/template/spec/volumes")).and_then(Value::as_array);
    let mut volumes = volumes.into_iter().flatten().filter(|volume| volume["name"] == "certificates");
    volumes.find_map(|volume| volume["secret"]["secretName"].as_str()).unwrap_or(CERTIFICATE_SECRET)
}

/// Each part that runs has a leader.
fn leaders(snapshot: &Snapshot, deployment: &Value) -> Vec<Finding> {
    const CHECK: &str = "leases";
    let leases = match &snapshot.leases {
        Ok(leases) => leases,
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let mut findings = Vec::new();
    for part in parts(deployment) {
        let is_led = is_led(leases, part, snapshot.now);
        let lease = format!("Lease {}/{}", snapshot.namespace, part.lease());
        findings.push(if is_led {
            Finding::ok(CHECK, format!("the controller {part} has a leader"))
        } else {
            let message = format!("the controller {part} has no leader: {lease} is not renewed");
            let program = if name(deployment).is_empty() { MANAGER } else { name(deployment) };
            let remedy = format!("see `kubectl --namespace={} logs deployment/{program}`", snapshot.namespace);
            Finding::error(CHECK, message, remedy)
        });
    }
    findings
}

/// What the manager of a Deployment is started with.
fn arguments(deployment: Option<&Value>) -> impl Iterator<Item = &str> {
    let arguments = deployment.and_then(|live| live.pointer("/spec/template/spec/containers/0/args")?.as_array());
    arguments.into_iter().flatten().filter_map(Value::as_str)
}

fn parts(deployment: &Value) -> Vec<ControllerName> {
    match arguments(Some(deployment)).find_map(|argument| argument.strip_prefix("--controllers=")) {
        Some(names) => names.split(',').filter_map(|name| name.parse().ok()).collect(),
        None => ControllerName::ALL.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::coordination::v1::Lease;
    use pillion_install::{Certificates, Options, manifests};
    use serde_json::json;

    use super::*;
    use crate::finding::Severity;

    fn manager(options: &Options, available: u64) -> Value {
        let all = manifests(options);
        let mut deployment = all.into_iter().find(|object| object["kind"] == "Deployment").unwrap();
        deployment["status"] = json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": available});
        deployment
    }

    fn entries(names: &[&str]) -> Vec<Value> {
        let webhooks: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        vec![json!({"metadata": {"name": "pillion"}, "webhooks": webhooks})]
    }

    /// Everything in place, but for the certificate, which has tests of its own.
    fn healthy() -> Snapshot {
        let service = json!({"namespace": "pillion-system", "name": "pillion-webhook-conversion"});
        let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}});
        let lease = json!({
            "metadata": {},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2025-12-31T23:59:50.000000Z"},
        });
        let leases =
            ControllerName::ALL.map(|part| (part.lease().to_owned(), serde_json::from_value(lease.clone()).unwrap()));
        Snapshot {
            deployment: Ok(Some(manager(&Options::default(), 2))),
            mutating: Ok(entries(&MUTATING)),
            validating: Ok(entries(&VALIDATING)),
            definition: Ok(Some(json!({"spec": {"conversion": conversion}}))),
            leases: Ok(BTreeMap::from(leases)),
            secret: Err("the right to get secrets is missing".to_owned()),
            ..Snapshot::empty("2026-01-01T00:00:00Z".parse().unwrap())
        }
    }

    fn text(snapshot: &Snapshot, above: Severity) -> String {
        let found = findings(snapshot).into_iter().filter(|finding| finding.severity >= above);
        found.map(|finding| finding.to_string()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_installation_that_works_is_reported_as_such() {
        insta::assert_snapshot!(text(&healthy(), Severity::Ok), @r#"
        ok       2 of 2 replicas of the manager are available
        ok       MutatingWebhookConfiguration "pillion" has the manager's webhooks
        ok       ValidatingWebhookConfiguration "pillion" has the manager's webhooks
        ok       SidecarSets are converted between versions by the manager
        warning  not checked: the right to get secrets is missing
        ok       the controller webhook has a leader
        ok       the controller rollout has a leader
        ok       the controller repair has a leader
        ok       the controller lifecycle has a leader
        ok       the controller recommender has a leader
        ok       the controller updater has a leader
        "#);
    }

    #[test]
    fn what_does_not_work_comes_with_where_to_look() {
        let snapshot = Snapshot {
            deployment: Ok(Some(manager(&Options::default(), 1))),
            mutating: Ok(entries(&["pods.pillion.dev"])),
            validating: Ok(Vec::new()),
            definition: Ok(Some(json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"service": {"namespace": "kruise-system", "name": "kruise-webhook-service"}},
            }}}}))),
            now: "2026-01-01T00:00:05Z".parse().unwrap(),
            ..healthy()
        };
        insta::assert_snapshot!(text(&snapshot, Severity::Error), @r#"
        error    1 of 2 replicas of the manager are available; see `kubectl --namespace=pillion-system describe pods` and `kubectl --namespace=pillion-system logs deployment/pillion-manager`
        error    MutatingWebhookConfiguration "pillion" lacks webhooks: sidecarsets.pillion.dev; the manager's leader registers them, and its log says why it does not; if the configuration is gone, `pillion install` creates it
        error    ValidatingWebhookConfiguration "pillion" lacks webhooks: places.pillion.dev, sidecarsets.pillion.dev; the manager's leader registers them, and its log says why it does not; if the configuration is gone, `pillion install` creates it
        error    SidecarSets are not converted between versions by the manager but by Service "kruise-webhook-service"; the manager's leader registers its conversion; its log says why it does not
        error    the controller webhook has no leader: Lease pillion-system/pillion-webhook is not renewed; see `kubectl --namespace=pillion-system logs deployment/pillion-manager`
        error    the controller rollout has no leader: Lease pillion-system/pillion-rollout is not renewed; see `kubectl --namespace=pillion-system logs deployment/pillion-manager`
        error    the controller repair has no leader: Lease pillion-system/pillion-repair is not renewed; see `kubectl --namespace=pillion-system logs deployment/pillion-manager`
        error    the controller lifecycle has no leader: Lease pillion-system/pillion-lifecycle is not renewed; see `kubectl --namespace=pillion-system logs deployment/pillion-manager`
        error    the controller recommender has no leader: Lease pillion-system/pillion-recommender is not renewed; see `kubectl --namespace=pillion-system logs deployment/pillion-manager`
        error    the controller updater has no leader: Lease pillion-system/pillion-updater is not renewed; see `kubectl --namespace=pillion-system logs deployment/pillion-manager`
        "#);
    }

    #[test]
    fn a_lease_within_another_says_who_leads_as_long_as_the_same_replica_has_the_other() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let lease = |holder: &str, seconds: i32, renewed: &str| -> Lease {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed});
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        let rollout = || lease("a@pillion-webhook", 180, "2025-12-31T23:58:30.000000Z");
        let rows = [
            (lease("a", 15, "2025-12-31T23:59:50.000000Z"), true),
            (lease("b", 15, "2025-12-31T23:59:50.000000Z"), false),
            (lease("a", 15, "2025-12-31T23:59:40.000000Z"), false),
        ];
        for (webhook, expected) in rows {
            let leases = [("pillion-webhook".to_owned(), webhook), ("pillion-rollout".to_owned(), rollout())].into();
            assert_eq!(is_led(&leases, ControllerName::Rollout, now), expected);
        }
    }

    #[test]
    fn available_replicas_are_an_error_only_while_the_rollout_is_stuck() {
        let found = |change: Value| {
            let mut live = manager(&Options::default(), 2);
            let status = live["status"].as_object_mut().unwrap();
            status.extend(change.as_object().unwrap().clone());
            replicas(&live, MANAGER, "pillion-system").to_string()
        };
        let available = "2 of 2 replicas of the manager are available";
        let see = "see `kubectl --namespace=pillion-system rollout status deployment/pillion-manager`";
        assert_eq!(found(json!({})), format!("ok       {available}"));
        let rows = [
            (json!({"replicas": 3, "updatedReplicas": 1}), "1 of 2 run the current version"),
            (json!({"replicas": 3}), "1 of an older version still run"),
        ];
        for (status, state) in rows {
            let expected = format!("warning  {available}, but a rollout is under way: {state}; {see}");
            assert_eq!(found(status), expected);
        }
        let condition = json!({"type": "Progressing", "status": "False", "message": "it has timed out progressing"});
        let stuck = found(json!({"replicas": 3, "updatedReplicas": 1, "conditions": [condition]}));
        assert!(
            stuck.starts_with(&format!("error    {available}, but a rollout")) && stuck.contains("; it has timed out")
        );
        let mut none = manager(&Options::default(), 0);
        none["spec"]["replicas"] = json!(0);
        let none = replicas(&none, MANAGER, "pillion-system").to_string();
        assert!(none.starts_with("error    the manager is scaled to 0 replicas; start it with `kubectl"), "{none}");
    }

    #[test]
    fn each_replica_is_asked_whether_its_caches_are_synced() {
        let answer = |name: &str, is_ready: bool, answer: Result<&str, &str>| Replica {
            name: name.to_owned(),
            is_ready,
            readiness: answer.map(str::to_owned).map_err(str::to_owned),
            certificate: None,
        };
        let replicas = vec![
            answer("pillion-manager-a", true, Ok("ok")),
            answer("pillion-manager-b", false, Ok("the watch of SidecarSets has failed for 70 s: forbidden")),
            answer("pillion-manager-c", true, Ok("ok, but standing by: OpenKruise serves SidecarSets")),
            answer("pillion-manager-d", true, Err("address not allowed")),
            answer("pillion-manager-e", false, Err("address not allowed")),
        ];
        let found = caches(&Snapshot { replicas: Ok(replicas), ..healthy() });
        insta::assert_snapshot!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @"
        ok       the caches of replica pillion-manager-a are synced
        warning  replica pillion-manager-b: the watch of SidecarSets has failed for 70 s: forbidden; see `kubectl --namespace=pillion-system logs pillion-manager-b`
        warning  replica pillion-manager-c: ok, but standing by: OpenKruise serves SidecarSets
        ok       the caches of replica pillion-manager-d are synced: it is Ready (the API server cannot ask it for details: address not allowed)
        warning  replica pillion-manager-e is not Ready, and the API server cannot ask it why: address not allowed; see `kubectl --namespace=pillion-system logs pillion-manager-e`
        ");
    }

    #[test]
    fn only_the_controllers_that_run_need_a_leader() {
        let options = Options { controllers: vec![ControllerName::Webhook], ..Options::default() };
        assert_eq!(parts(&manager(&options, 2)), [ControllerName::Webhook]);
    }

    #[test]
    fn parts_that_run_apart_are_checked_each() {
        let options = Options { separate: true, ..Options::default() };
        let mut deployments = manifests(&options).into_iter().filter(|object| object["kind"] == "Deployment");
        let status = json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        let manager = json!({"status": status, "spec": deployments.next().unwrap()["spec"]});
        let separate: Vec<Value> = deployments.collect();
        let snapshot = Snapshot { deployment: Ok(Some(manager)), separate: Ok(separate), ..healthy() };
        let found = text(&snapshot, Severity::Ok);
        assert!(found.contains("ok       2 of 2 replicas of the manager are available"), "{found}");
        let dead = "error    0 of 2 replicas of the updater are available; see `kubectl --namespace=pillion-system describe pods` \
                    and `kubectl --namespace=pillion-system logs deployment/pillion-updater`";
        assert!(found.contains(dead), "{found}");
        for part in ControllerName::INSTALLED {
            assert!(found.contains(&format!("the controller {part} has a leader")), "{found}");
        }
    }

    #[test]
    fn the_certificate_is_in_the_secret_that_the_deployment_mounts() {
        let options = Options { certificates: Certificates::Secret("mine".to_owned()), ..Options::default() };
        assert_eq!(certificate_secret(Some(&manager(&options, 2))), "mine");
        assert_eq!(certificate_secret(Some(&manager(&Options::default(), 2))), CERTIFICATE_SECRET);
        assert_eq!(certificate_secret(None), CERTIFICATE_SECRET);
    }
}
