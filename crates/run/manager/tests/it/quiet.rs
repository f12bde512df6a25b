//! A cluster in which nothing changes.

use std::time::Duration;

use pillion_manager::{Config, Part};
use serde_json::json;
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, names, pod, sidecarset};

#[tokio::test(start_paused = true)]
async fn where_nothing_changes_nothing_but_leases_is_written() {
    let cluster = Cluster::new().await;
    for namespace in ["pillion-system", "kruise-system"] {
        cluster.namespace(namespace, json!({})).await;
    }
    let (client, writes) = cluster.counted_client();
    let config = cluster.config();
    let rightsizing = pillion_rightsizer::Config::new(client.clone(), config.now.clone());
    let manager = cluster.manage(Config { client, rightsizing, parts: Part::ALL.to_vec(), ..config }).await;
    let running = tokio::spawn(async move { manager.run().await });
    // Something of everything that controllers look at.
    let own = |app: &str, spec: serde_json::Value| {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": app}});
        sidecarset(app, spec)
    };
    cluster
        .create(SIDECARSETS, own("web", json!({"updateStrategy": {"type": "RollingUpdate", "partition": 1}})))
        .await
        .object();
    cluster.create(SIDECARSETS, own("strict", json!({"injectionStrategy": {"failurePolicy": "Fail"}}))).await.object();
    let mut bare = pod("missed");
    bare["metadata"]["labels"]["app"] = json!("late");
    cluster.create(PODS, bare).await.object();
    let repair = json!({"injectionStrategy": {"repair": {"policy": "Evict", "includeOlder": true}}});
    cluster.create(SIDECARSETS, own("late", repair)).await.object();
    for i in 0..3 {
        assert_eq!(names(&cluster.create(PODS, pod(&format!("web-{i}"))).await.object()).len(), 2);
        let status = json!({"name": "app", "image": "app:1", "imageID": "app@1", "ready": true, "restartCount": 0});
        let running = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [status],
        }});
        cluster.merge(&format!("{PODS}/web-{i}/status"), running).await.object();
    }
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": {"targetRef": target},
    });
    cluster.create("/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers", autoscaler).await.object();
    let newer = json!({"spec": {"containers": [{"name": "proxy", "image": "envoy:1.31"}]}});
    cluster.merge(&format!("{SIDECARSETS}/web"), newer).await.object();
    // Longer than the deadline of the rollout, whose pods do not become ready.
    sleep(Duration::from_mins(30)).await;
    assert!(writes.lock().unwrap().iter().any(|write| write.contains("/leases/")), "{writes:?}");
    assert_eq!(cluster.get(&format!("{SIDECARSETS}/late")).await["status"]["missedPods"], 1);
    writes.lock().unwrap().clear();

    sleep(Duration::from_hours(1)).await;
    let mut others = std::mem::take(&mut *writes.lock().unwrap());
    others.retain(|write| !write.contains("/leases/"));
    others.dedup();
    assert_eq!(others, [""; 0]);
    running.abort();
}
