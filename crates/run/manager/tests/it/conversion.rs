//! Both versions of SidecarSet.

use serde_json::json;

use crate::{Cluster, PODS, SIDECARSETS, names, pod, sidecarset};

const OLD: &str = "/apis/apps.kruise.io/v1alpha1/sidecarsets";

#[tokio::test(start_paused = true)]
async fn the_older_version_is_converted_defaulted_and_injected() {
    let (cluster, _manager) = Cluster::managed().await;
    let mut old = sidecarset("mesh", json!({"namespace": "default"}));
    old["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    old["metadata"]["labels"] = json!({"apps.kruise.io/sidecarset-custom-version": "v1"});
    let stored = cluster.create(OLD, old).await.object();
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]["namespace"]),
        (&json!("apps.kruise.io/v1alpha1"), &json!("default"))
    );
    assert_eq!(stored["spec"]["revisionHistoryLimit"], 10);

    let new = cluster.get(&format!("{SIDECARSETS}/mesh")).await;
    assert_eq!(new["spec"]["namespaceSelector"], json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}}));
    assert_eq!(new["spec"]["customVersion"], "v1");
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);

    cluster.namespace("shop", json!({})).await;
    let shop = cluster.create("/api/v1/namespaces/shop/pods", pod("web-0")).await.object();
    assert_eq!(names(&shop), ["app"]);
}
