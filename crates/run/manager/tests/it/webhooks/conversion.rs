//! Both versions of SidecarSet.

use serde_json::json;

use pillion_manager::Manager;

use crate::{Cluster, PODS, SIDECARSETS, URL, names, pod, sidecarset};

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

#[tokio::test(start_paused = true)]
async fn sets_that_are_stored_in_the_older_version_are_listed_with_the_help_of_the_manager() {
    let cluster = Cluster::new().await;
    // An earlier installation stored v1alpha1.
    let mut definition = pillion_api::sidecarset::crd::sidecarset();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == "v1alpha1");
    }
    cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.object();
    let mut old = sidecarset("mesh", json!({"namespace": "default"}));
    old["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    loop {
        let reply = cluster.create(OLD, old.clone()).await;
        if reply.status.is_success() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let manager = Manager::new(cluster.config());
    cluster.server.register_webhook(URL, manager.webhooks());
    manager.start().await.unwrap();
    manager.register().await.unwrap();
    let set = cluster.get(&format!("{SIDECARSETS}/mesh")).await;
    assert_eq!(set["spec"]["namespaceSelector"], json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}}));
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["app", "proxy"], "it was never defaulted");
}

/// The memory of this process in KiB: `VmRSS` is what it takes now, `VmHWM` the most since that was reset.
fn memory(which: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Measured in a process of its own: other tests take memory as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversion_takes_a_small_multiple_of_its_body() {
    const NAME: &str = "conversion::a_conversion_takes_a_small_multiple_of_its_body";
    if std::env::var_os("PILLION_MEASURED").is_none() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", NAME, "--nocapture"]).env("PILLION_MEASURED", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let cluster = Cluster::new().await;
    let manager = Manager::new(cluster.config());
    let webhooks = manager.webhooks();
    let convert = async |objects: String| {
        let wanted = "apps.kruise.io/v1beta1";
        let body = format!(r#"{{"request":{{"uid":"1","desiredAPIVersion":"{wanted}","objects":[{objects}]}}}}"#);
        let body = axum::body::Bytes::from(body);
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let (length, before) = (u64::try_from(body.len()).unwrap().div_ceil(1024), memory("VmRSS"));
        let (status, _) = crate::webhooks::many::ask(&webhooks, "POST", "/convert", body).await;
        (status, memory("VmHWM").saturating_sub(before) / length)
    };
    let mut old = sidecarset("mesh", json!({"namespace": "default"}));
    old["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    convert(old.to_string()).await;
    for objects in [vec![old.to_string(); 30_000].join(","), vec!["{}".to_owned(); 4_000_000].join(",")] {
        let (status, multiple) = convert(objects).await;
        assert!(status == 200 && multiple <= 4, "{status}: {multiple} times its body");
    }
}
