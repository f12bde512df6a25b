//! Whole rollouts, step by step, with pods that come and go as planned.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn deployment(replicas: i32, surge: i32, unavailable: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "uid": "1", "generation": 1},
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": template("web:1"),
        },
    }))
    .unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

/// A Deployment whose pods all become available at once.
struct World {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
}

impl World {
    fn plan(&self) -> Plan {
        let sets: Vec<Arc<ReplicaSet>> = self.sets.iter().cloned().map(Arc::new).collect();
        plan(&self.deployment, &sets, |_| false, NOW)
    }

    /// Does what is planned; whether anything was.
    fn step(&mut self) -> bool {
        let plan = self.plan();
        let acted = plan.create.is_some() || !plan.changes.is_empty();
        if let Some(new) = plan.create {
            let mut set: ReplicaSet = serde_json::from_value(new.object).unwrap();
            set.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                NOW + jiff::SignedDuration::from_secs(i64::try_from(self.sets.len()).unwrap()),
            ));
            self.sets.push(set);
        }
        for change in plan.changes {
            let set = self.sets.iter_mut().find(|set| set.name_any() == change.name).unwrap();
            set.spec.replicas = Some(change.to);
            set.metadata.annotations = Some(change.annotations);
        }
        let settled = self.deployment.status == plan.status;
        self.deployment.status = plan.status;
        acted || !settled
    }

    fn pods_follow(&mut self) {
        for set in &mut self.sets {
            let replicas = set.spec.replicas.unwrap_or(1);
            set.status.replicas = replicas;
            set.status.ready_replicas = Some(replicas);
            set.status.available_replicas = Some(replicas);
        }
    }

    fn total(&self) -> i32 {
        self.sets.iter().map(|set| set.spec.replicas.unwrap_or(1)).sum()
    }

    /// Pods that are available now and stay, whatever was just written to the sets.
    fn available(&self) -> i32 {
        let left = |set: &ReplicaSet| set.status.available_replicas.unwrap_or(0).min(set.spec.replicas.unwrap_or(1));
        self.sets.iter().map(left).sum()
    }
}

proptest! {
    #[test]
    fn a_rollout_ends_and_never_leaves_its_bounds(replicas in 1..40_i32, surge in 0..10_i32, unavailable in 0..10_i32) {
        let mut world = World { deployment: deployment(replicas, surge, unavailable), sets: Vec::new() };
        while world.step() {
            world.pods_follow();
        }
        prop_assert_eq!(world.total(), replicas);
        world.deployment.spec.template = template("web:2");
        let lowest = replicas - if surge == 0 { unavailable.max(1) } else { unavailable };
        for _ in 0..1000 {
            if !world.step() {
                break;
            }
            prop_assert!(world.total() <= replicas + surge, "{} pods of {replicas}, surge {surge}", world.total());
            prop_assert!(world.available() >= lowest, "{} available of {replicas}", world.available());
            world.pods_follow();
        }
        let sizes: Vec<_> = world.sets.iter().map(|set| set.spec.replicas).collect();
        prop_assert_eq!(sizes, vec![Some(0), Some(replicas)]);
        let reason = status::progressing(&world.deployment.status).and_then(|condition| condition.reason.clone());
        prop_assert_eq!(reason.as_deref(), Some("NewReplicaSetAvailable"));
    }
}

#[test]
fn a_new_deployment_creates_its_first_set() {
    let world = World { deployment: deployment(3, 1, 0), sets: Vec::new() };
    let plan = world.plan();
    let mut object = plan.create.unwrap().object;
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let hash = name.strip_prefix("web-").unwrap();
    assert_eq!(object["spec"]["selector"]["matchLabels"][POD_TEMPLATE_HASH], hash);
    assert_eq!(object["spec"]["template"]["metadata"]["labels"][POD_TEMPLATE_HASH], hash);
    insta::assert_json_snapshot!(object["metadata"]["annotations"].take(), @r#"
    {
      "deployment.kubernetes.io/desired-replicas": "3",
      "deployment.kubernetes.io/max-replicas": "4",
      "deployment.kubernetes.io/revision": "1"
    }
    "#);
    assert_eq!(plan.revision.as_deref(), Some("1"));
    let reasons: Vec<_> =
        plan.status.conditions.iter().flatten().map(|condition| condition.reason.as_deref().unwrap()).collect();
    assert_eq!(reasons, ["NewReplicaSetCreated", "MinimumReplicasUnavailable"]);
}

#[test]
fn a_deployment_that_goes_changes_nothing_but_its_status() {
    let mut world = World { deployment: deployment(3, 1, 0), sets: Vec::new() };
    world.deployment.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(NOW));
    let plan = world.plan();
    assert!(plan.create.is_none() && plan.changes.is_empty());
}

#[test]
fn a_long_name_is_cut_for_its_set() {
    let name = replica_set_name(&"a".repeat(253), "bcdf");
    assert_eq!((name.len(), name.ends_with("a-bcdf")), (253, true));
}
