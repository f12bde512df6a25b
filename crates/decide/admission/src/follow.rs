//! What the sidecars of a running pod should have after its own containers were resized in place.

use pillion_api::pod::Pod;
use pillion_inject::{Catalog, injected_before};
use pillion_note::{Denied, Draft};
use pillion_rightsize::{Amounts, ContainerTarget, PodContainer, PodView};

/// What the injected sidecars with a `resourcesPolicy` should have, of those that differ. Sidecars that an autoscaler sizes are left out:
/// it wins over the policy.
///
/// # Errors
/// The policy has no answer for this pod: no container is a target, or a result is negative.
pub fn follow(
    pod: &Pod,
    catalog: &Catalog,
    is_left_out: impl Fn(&str) -> bool,
) -> Result<Vec<ContainerTarget>, Denied> {
    let mut draft = Draft::new(pod);
    let injected = injected_before(&draft, catalog);
    pillion_inject::size(&mut draft, &injected)?;
    let Ok(after) = Pod::new(draft.to_value()) else { return Ok(Vec::new()) };
    let (before, after) = (PodView::new(pod), PodView::new(&after));
    let pairs = before.containers.iter().zip(after.containers.iter()).filter(|(it, _)| !is_left_out(&it.name));
    Ok(pairs.map(|(before, after)| target(before, after)).filter(|target| !target.is_empty()).collect())
}

/// A resize can change a value, and add one; it cannot take one away.
fn target(before: &PodContainer, after: &PodContainer) -> ContainerTarget {
    let changed = |before: Option<Amounts>, after: Option<Amounts>| {
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        Amounts {
            cpu: after.cpu.filter(|cpu| before.cpu != Some(*cpu)),
            memory: after.memory.filter(|memory| before.memory != Some(*memory)),
        }
    };
    ContainerTarget {
        container: after.name.clone(),
        requests: changed(before.spec.requests, after.spec.requests),
        limits: changed(before.spec.limits, after.spec.limits),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use pillion_gates::Gates;
    use pillion_note::Draw;
    use pillion_testkit::mk_set;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Snapshot, admit};

    fn snapshot(percent: &str) -> Snapshot {
        let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {
            "requests": {"cpu": format!("cpu*{percent}")}, "limits": {"memory": "max(memory*10%, 64Mi)"}
        }});
        let sidecars = json!({"containers": [
            {"name": "proxy", "image": "proxy:1", "resourcesPolicy": policy}, {"name": "log", "image": "log:1"}
        ]});
        let set = mk_set("mesh", json!({"app": "web"}), sidecars);
        Snapshot { catalog: Catalog::new([set], &[]).unwrap(), ..Snapshot::default() }
    }

    /// A pod that was admitted, and whose app was resized since.
    fn resized(snapshot: &Snapshot, cpu: &str, memory: &str) -> Pod {
        let app = json!({"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}});
        let pod = json!({"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": {"containers": [app]}});
        let decision = admit(&Pod::new(pod.clone()).unwrap(), snapshot, Gates::default(), &Draw::default(), None);
        let mut after = pod;
        json_patch::patch(&mut after, &decision.outcome.unwrap()).unwrap();
        let containers = after["spec"]["containers"].as_array_mut().unwrap();
        let app = containers.iter_mut().find(|container| container["name"] == "app").unwrap();
        app["resources"] = json!({"requests": {"cpu": cpu}, "limits": {"memory": memory}});
        Pod::new(after).unwrap()
    }

    fn shown(targets: &[ContainerTarget]) -> Vec<String> {
        let text = |it: &ContainerTarget| {
            let of = |amounts: Amounts| -> Value {
                serde_json::to_value(pillion_api::vpa::ResourceList::from(amounts)).unwrap()
            };
            format!("{} {} {}", it.container, of(it.requests), of(it.limits))
        };
        targets.iter().map(text).collect()
    }

    #[test]
    fn a_sidecar_with_a_policy_follows_the_app() {
        let it = snapshot("50%");
        let of = |cpu: &str, memory: &str| follow(&resized(&it, cpu, memory), &it.catalog, |_| false).unwrap();
        assert_eq!(shown(&of("3", "1Gi")), [r#"proxy {"cpu":"1500m"} {}"#]);
        assert_eq!(shown(&of("1", "2Gi")).len(), 1);
        assert!(of("1", "1Gi").is_empty(), "nothing was resized");
        assert!(follow(&resized(&it, "3", "1Gi"), &it.catalog, |name| name == "proxy").unwrap().is_empty());
    }

    #[test]
    fn a_pod_of_another_revision_is_left_alone() {
        let (before, now) = (snapshot("50%"), snapshot("25%"));
        assert!(follow(&resized(&before, "3", "1Gi"), &now.catalog, |_| false).unwrap().is_empty());
    }
}
