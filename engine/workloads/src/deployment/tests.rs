//! Deployments on an API server, in virtual time.

use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};
use crate::test_kubelet;

const KIND: &str = "apps/v1 Deployment";

fn deployment(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
        },
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

async fn start() -> TestCluster {
    let cluster = TestCluster::start().await;
    test_kubelet::start(cluster.client.clone(), cluster.clock);
    cluster
}

/// Type, status, reason and message of each condition.
fn conditions(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
    let show = |condition| ["type", "status", "reason", "message"].map(|field| text(condition, field)).join(" | ");
    conditions.iter().map(show).collect()
}

/// Every ReplicaSet, oldest first: name, revision, replicas.
async fn sets(cluster: &TestCluster) -> Vec<(String, String, i64)> {
    let mut sets = cluster.list("apps/v1 ReplicaSet", "default").await;
    sets.sort_by_key(|set| {
        set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap().parse::<i64>().unwrap()
    });
    let show = |set: &Value| {
        let revision = &set["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        let name = set["metadata"]["name"].as_str().unwrap().to_owned();
        (name, revision.as_str().unwrap().to_owned(), set["spec"]["replicas"].as_i64().unwrap())
    };
    sets.iter().map(show).collect()
}

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_through_and_says_so() {
    let cluster = start().await;
    cluster.create(deployment(3)).await;
    settle(5).await;
    let first = sets(&cluster).await[0].0.clone();
    let deployment = cluster.get(KIND, "web").await;
    assert_eq!(
        conditions(&deployment),
        [
            "Available | True | MinimumReplicasAvailable | Deployment has minimum availability.".to_owned(),
            format!(
                "Progressing | True | NewReplicaSetAvailable | ReplicaSet \"{first}\" has successfully progressed."
            ),
        ]
    );
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(
        cluster.events("web").await,
        [format!("Normal ScalingReplicaSet Scaled up replica set {first} from 0 to 3")]
    );

    cluster.patch(KIND, "web", image("web:2")).await;
    settle(20).await;
    let sets = sets(&cluster).await;
    let second = sets[1].0.clone();
    assert_eq!(sets, [(first.clone(), "1".into(), 0), (second.clone(), "2".into(), 3)]);
    assert_eq!(
        cluster.events("web").await[1..],
        [
            format!("Normal ScalingReplicaSet Scaled up replica set {second} from 0 to 1"),
            format!("Normal ScalingReplicaSet Scaled down replica set {first} from 3 to 2"),
            format!("Normal ScalingReplicaSet Scaled up replica set {second} from 1 to 2"),
            format!("Normal ScalingReplicaSet Scaled down replica set {first} from 2 to 1"),
            format!("Normal ScalingReplicaSet Scaled up replica set {second} from 2 to 3"),
            format!("Normal ScalingReplicaSet Scaled down replica set {first} from 1 to 0"),
        ]
    );
    let deployment = cluster.get(KIND, "web").await;
    assert_eq!(
        conditions(&deployment)[1],
        format!("Progressing | True | NewReplicaSetAvailable | ReplicaSet \"{second}\" has successfully progressed.")
    );
    let mut numbers = deployment["status"].clone();
    numbers.as_object_mut().unwrap().shift_remove("conditions");
    insta::assert_json_snapshot!(numbers, @r#"
    {
      "observedGeneration": 2,
      "replicas": 3,
      "updatedReplicas": 3,
      "readyReplicas": 3,
      "availableReplicas": 3,
      "terminatingReplicas": 0
    }
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_takes_the_old_set_with_a_new_revision() {
    let cluster = start().await;
    cluster.create(deployment(2)).await;
    settle(10).await;
    cluster.patch(KIND, "web", image("web:2")).await;
    settle(20).await;
    cluster.patch(KIND, "web", image("web:1")).await;
    settle(20).await;
    let sets = cluster.list("apps/v1 ReplicaSet", "default").await;
    let mut history: Vec<_> = sets.iter().map(|set| set["metadata"]["annotations"].clone()).collect();
    history.sort_by_key(|annotations| annotations["deployment.kubernetes.io/revision"].to_string());
    assert_eq!(history.len(), 2);
    assert_eq!(history[1]["deployment.kubernetes.io/revision"], "3");
    assert_eq!(history[1]["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(cluster.get(KIND, "web").await["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[tokio::test(start_paused = true)]
async fn recreate_stops_all_old_pods_before_it_starts_new_ones() {
    let cluster = start().await;
    let mut recreate = deployment(3);
    recreate["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create(recreate).await;
    settle(10).await;
    cluster.patch(KIND, "web", image("web:2")).await;
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let hashes = test_kubelet::count_by_label(&cluster.client, "pod-template-hash").await;
        assert!(hashes.len() <= 1, "old and new at once: {hashes:?}");
    }
    let deployment = cluster.get(KIND, "web").await;
    assert_eq!(
        (&deployment["status"]["availableReplicas"], &deployment["status"]["updatedReplicas"]),
        (&json!(3), &json!(3))
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_does_not_move_times_out() {
    let cluster = start().await;
    let mut stuck = deployment(2);
    stuck["spec"]["progressDeadlineSeconds"] = 60.into();
    stuck["spec"]["template"]["metadata"]["labels"]["broken"] = "yes".into();
    cluster.create(stuck).await;
    settle(50).await;
    let set = sets(&cluster).await[0].0.clone();
    let is = |reason: &str, status: &str, message: &str| {
        format!("Progressing | {status} | {reason} | ReplicaSet \"{set}\" {message}.")
    };
    assert!(conditions(&cluster.get(KIND, "web").await).contains(&is("ReplicaSetUpdated", "True", "is progressing")));
    settle(20).await;
    let deployment = cluster.get(KIND, "web").await;
    let timed_out = is("ProgressDeadlineExceeded", "False", "has timed out progressing");
    assert!(conditions(&deployment).contains(&timed_out), "{:?}", conditions(&deployment));
    assert_eq!(deployment["status"]["unavailableReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_and_does_not_roll() {
    let cluster = start().await;
    cluster.create(deployment(2)).await;
    settle(10).await;
    cluster.patch(KIND, "web", json!({"spec": {"paused": true}})).await;
    cluster.patch(KIND, "web", image("web:2")).await;
    cluster.patch(KIND, "web", json!({"spec": {"replicas": 4}})).await;
    settle(10).await;
    assert_eq!(sets(&cluster).await.iter().map(|set| set.2).collect::<Vec<_>>(), [4]);
    let paused = "Progressing | Unknown | DeploymentPaused | Deployment is paused".to_owned();
    assert!(conditions(&cluster.get(KIND, "web").await).contains(&paused));
    cluster.patch(KIND, "web", json!({"spec": {"paused": false}})).await;
    settle(30).await;
    assert_eq!(sets(&cluster).await.iter().map(|set| set.2).collect::<Vec<_>>(), [0, 4]);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_old_revisions_are_kept() {
    let cluster = start().await;
    let mut short = deployment(1);
    short["spec"]["revisionHistoryLimit"] = 1.into();
    cluster.create(short).await;
    for revision in 2..=4 {
        settle(20).await;
        cluster.patch(KIND, "web", image(&format!("web:{revision}"))).await;
    }
    settle(20).await;
    let revisions: Vec<String> = sets(&cluster).await.into_iter().map(|set| set.1).collect();
    assert_eq!(revisions, ["3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_changes() {
    let cluster = start().await;
    cluster.create(deployment(2)).await;
    settle(30).await;
    let before = cluster.get(KIND, "web").await["metadata"]["resourceVersion"].clone();
    let set = cluster.list("apps/v1 ReplicaSet", "default").await[0]["metadata"]["resourceVersion"].clone();
    settle(3600).await;
    assert_eq!(cluster.get(KIND, "web").await["metadata"]["resourceVersion"], before);
    assert_eq!(cluster.list("apps/v1 ReplicaSet", "default").await[0]["metadata"]["resourceVersion"], set);
}
