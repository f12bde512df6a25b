//! What is in the way of an installation: the version of Kubernetes, missing rights, others that serve the same objects.

use std::collections::BTreeMap;

use pillion_manager::{Peer, Standing};
use serde_json::Value;

use crate::finding::Finding;
use crate::snapshot::Snapshot;

/// The first minor version of Kubernetes 1 that is supported.
const SUPPORTED: u32 = 33;
/// The first one that starts native sidecars by default.
const NATIVE_SIDECARS: u32 = 29;

pub(crate) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = vec![version(&snapshot.version)];
    if !snapshot.is_installed() {
        findings.extend(rights(snapshot));
    }
    findings.push(kruise(snapshot));
    findings.extend(vpa(snapshot));
    findings
}

fn version(version: &Result<Value, String>) -> Finding {
    const CHECK: &str = "kubernetes";
    let version = match version {
        Ok(version) => version["gitVersion"].as_str().unwrap_or_default(),
        Err(why) => return Finding::unread(CHECK, why),
    };
    let numbers = version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().ok());
    let numbers: Vec<Option<u32>> = numbers.take(2).collect();
    let &[Some(major), Some(minor)] = numbers.as_slice() else {
        return Finding::warning(CHECK, format!("the version of Kubernetes cannot be read: {version:?}"));
    };
    match (major, minor) {
        (1, minor) if minor < NATIVE_SIDECARS => Finding::error(
            CHECK,
            format!("Kubernetes {version} does not run native sidecars and cannot resize pods in place"),
            format!("upgrade to 1.{SUPPORTED} or later"),
        ),
        (1, minor) if minor < SUPPORTED => {
            Finding::warning(CHECK, format!("Kubernetes {version} is not supported: pods cannot be resized in place"))
                .with_remedy(format!("upgrade to 1.{SUPPORTED} or later"))
        }
        _ => Finding::ok(CHECK, format!("Kubernetes {version} is supported")),
    }
}

/// One finding for each resource of which a right is missing.
fn rights(snapshot: &Snapshot) -> Vec<Finding> {
    const CHECK: &str = "rights";
    let rights = match &snapshot.rights {
        Ok(rights) => rights,
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let mut missing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (right, _) in rights.iter().filter(|(_, is_allowed)| !is_allowed) {
        missing.entry(right.object()).or_default().push(right.verb);
    }
    if missing.is_empty() {
        let rights = match rights.len() {
            1 => "the right".to_owned(),
            count => format!("the {count} rights"),
        };
        return vec![Finding::ok(CHECK, format!("you have {rights} that an installation needs"))];
    }
    let remedy = "install with an account that may, such as a cluster administrator; `pillion install --print` prints the objects";
    let missing = missing.into_iter();
    missing
        .map(|(object, verbs)| {
            // Nobody needs these who has the rights that the roles give.
            let only_to_give_rights = verbs.iter().all(|verb| matches!(*verb, "escalate" | "bind"));
            let verbs = verbs.join(", ");
            if only_to_give_rights {
                let message = format!(
                    "you may not {verbs} {object}: an installation fails unless you have every right of the manager"
                );
                return Finding::warning(CHECK, message).with_remedy(remedy);
            }
            Finding::error(CHECK, format!("you may not {verbs} {object}"), remedy)
        })
        .collect()
}

fn kruise(snapshot: &Snapshot) -> Finding {
    const CHECK: &str = "kruise";
    let kruise = match &snapshot.kruise {
        Ok(kruise) => kruise,
        Err(why) => return Finding::unread(CHECK, why),
    };
    let (stop, delete) = (kruise.stop_command(), kruise.delete_command());
    let is_ours = snapshot.is_installed();
    match kruise.standing(snapshot.now) {
        Standing::Absent => Finding::ok(CHECK, "no OpenKruise serves SidecarSets"),
        Standing::Serving if is_ours => Finding::error(
            CHECK,
            "OpenKruise serves SidecarSets, and Pillion stands by",
            format!("stop one of them: `{stop}`, or `pillion uninstall`"),
        ),
        Standing::Serving => Finding::error(
            CHECK,
            "OpenKruise serves SidecarSets",
            format!("to take them over, stop it (`{stop}`), then `pillion install --take-over=kruise`"),
        ),
        Standing::Stopped => Finding::error(
            CHECK,
            "OpenKruise does not run, but its webhooks for SidecarSets and pods are registered",
            format!("start it, or install with --take-over=kruise, or `{delete}`"),
        ),
    }
}

/// A component that runs, or that has left its webhook, is a warning: the same part of ours waits, and nothing is broken.
fn vpa(snapshot: &Snapshot) -> Vec<Finding> {
    const CHECK: &str = "vpa";
    let found = match &snapshot.vpa {
        Ok(found) => found,
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let may_take_over = snapshot.takes_over(Peer::Vpa);
    let obstacles = found.iter().filter_map(|peer| peer.obstacle_and_remedy(may_take_over));
    let finding = |(obstacle, remedy): (String, String)| {
        let message = format!("{obstacle}: the same part of Pillion waits");
        Finding::warning(CHECK, message).with_remedy(remedy)
    };
    obstacles.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use pillion_install::{Options, Right, manifests};
    use pillion_manager::Kruise;
    use serde_json::json;

    use super::*;
    use crate::finding::Severity;

    fn snapshot() -> Snapshot {
        Snapshot::empty("2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn versions_before_1_33_are_reported_with_what_they_lack() {
        let rows = [
            ("v1.28.9", Severity::Error),
            ("v1.29.0", Severity::Warning),
            ("v1.32.1+k3s1", Severity::Warning),
            ("v1.33.0-gke.100", Severity::Ok),
            ("v2.0.0", Severity::Ok),
            ("", Severity::Warning),
        ];
        for (text, severity) in rows {
            assert_eq!(version(&Ok(json!({"gitVersion": text}))).severity, severity, "{text}");
        }
        assert_eq!(version(&Err("no".to_owned())).to_string(), "warning  not checked: no");
    }

    #[test]
    fn missing_rights_are_reported_once_for_each_resource() {
        let right = |verb, resource: &str, is_allowed| {
            let namespace = Some("pillion-system".to_owned());
            (Right { verb, group: "apps".to_owned(), resource: resource.to_owned(), namespace }, is_allowed)
        };
        let rights = vec![
            right("create", "deployments", false),
            right("patch", "deployments", false),
            right("get", "deployments", true),
        ];
        let found = rights_of(rights);
        insta::assert_snapshot!(found, @"error    you may not create, patch deployments.apps in namespace pillion-system; install with an account that may, such as a cluster administrator; `pillion install --print` prints the objects");
        assert_eq!(
            rights_of(vec![right("get", "deployments", true)]),
            "ok       you have the right that an installation needs"
        );
    }

    #[test]
    fn the_rights_to_give_rights_are_needed_only_by_those_who_do_not_have_them() {
        let right = |verb| {
            let (group, resource) = ("rbac.authorization.k8s.io".to_owned(), "clusterroles".to_owned());
            (Right { verb, group, resource, namespace: None }, false)
        };
        insta::assert_snapshot!(rights_of(vec![right("escalate"), right("bind")]), @"warning  you may not escalate, bind clusterroles.rbac.authorization.k8s.io: an installation fails unless you have every right of the manager; install with an account that may, such as a cluster administrator; `pillion install --print` prints the objects");
        assert!(rights_of(vec![right("create"), right("bind")]).starts_with("error    you may not create, bind "));
    }

    fn rights_of(of: Vec<(Right, bool)>) -> String {
        let found = rights(&Snapshot { rights: Ok(of), ..snapshot() });
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_open_kruise_that_serves_sidecar_sets_needs_action() {
        let entry = json!({"rules": [{"apiGroups": ["apps.kruise.io"], "resources": ["sidecarsets"]}]});
        let kruise_of = |renewed: Option<&str>| {
            let mut found = Kruise::registered(&json!({"webhooks": [entry.clone()]}), &Value::Null, "kruise-system");
            found.lease = renewed.map(|time| (time.parse().unwrap(), std::time::Duration::from_secs(15)));
            kruise(&Snapshot { kruise: Ok(found), ..snapshot() }).to_string()
        };
        insta::assert_snapshot!(kruise_of(Some("2025-12-31T23:59:50Z")), @"error    OpenKruise serves SidecarSets; to take them over, stop it (`kubectl --namespace=kruise-system scale deployment kruise-controller-manager --replicas=0`), then `pillion install --take-over=kruise`");
        insta::assert_snapshot!(kruise_of(None), @"error    OpenKruise does not run, but its webhooks for SidecarSets and pods are registered; start it, or install with --take-over=kruise, or `kubectl delete mutatingwebhookconfiguration/kruise-mutating-webhook-configuration`");
        assert_eq!(kruise(&snapshot()).severity, Severity::Ok);
    }

    #[test]
    fn each_part_of_a_vertical_pod_autoscaler_that_is_in_the_way_is_reported_with_the_remedy() {
        use pillion_rightsizer::{Peer, PeerPart, Standing};
        assert_eq!(vpa(&snapshot()), []);
        let of = |part, standing| Peer { part, standing, deployment: None };
        let peers = vec![
            of(PeerPart::Recommender, Standing::Absent),
            of(PeerPart::Updater, Standing::Serving),
            of(PeerPart::Admission, Standing::Stopped),
        ];
        let text = |snapshot: &Snapshot| vpa(snapshot).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let mut snapshot = Snapshot { vpa: Ok(peers), ..snapshot() };
        insta::assert_snapshot!(text(&snapshot), @"
        warning  vpa-updater of the VerticalPodAutoscaler project runs: the same part of Pillion waits; stop it (`kubectl --namespace=kube-system scale deployment vpa-updater --replicas=0`), then start with --take-over=vpa
        warning  vpa-admission-controller of the VerticalPodAutoscaler project is installed, but does not run: the same part of Pillion waits; delete it, or start with --take-over=vpa
        ");
        let options = Options { take_over: "vpa".to_owned(), ..Options::default() };
        let deployment = manifests(&options).into_iter().find(|object| object["kind"] == "Deployment");
        snapshot.deployment = Ok(deployment);
        insta::assert_snapshot!(text(&snapshot), @"warning  vpa-updater of the VerticalPodAutoscaler project still runs: the same part of Pillion waits; stop it: `kubectl --namespace=kube-system scale deployment vpa-updater --replicas=0`");
    }
}
