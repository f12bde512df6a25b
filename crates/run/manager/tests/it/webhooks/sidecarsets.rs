//! What SidecarSets become, and which are refused.

use serde_json::{Value, json};

use crate::{Cluster, SIDECARSETS, sidecarset};

#[tokio::test(start_paused = true)]
async fn a_sidecarset_gets_defaults_and_hashes() {
    let (cluster, _manager) = Cluster::managed().await;
    let set = cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    insta::assert_json_snapshot!(set["spec"], @r#"
    {
      "containers": [
        {
          "image": "envoy:1.30",
          "imagePullPolicy": "IfNotPresent",
          "name": "proxy",
          "podInjectPolicy": "BeforeAppContainer",
          "shareVolumePolicy": {
            "type": "disabled"
          },
          "terminationMessagePath": "/dev/termination-log",
          "terminationMessagePolicy": "File",
          "upgradeStrategy": {
            "upgradeType": "ColdUpgrade"
          }
        }
      ],
      "revisionHistoryLimit": 10,
      "selector": {
        "matchLabels": {
          "app": "web"
        }
      },
      "updateStrategy": {
        "type": "RollingUpdate",
        "partition": 0,
        "maxUnavailable": 1
      }
    }
    "#);
    let annotations = set["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(
        annotations.keys().collect::<Vec<_>>(),
        ["kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"]
    );

    let path = format!("{SIDECARSETS}/mesh");
    let labelled = cluster.merge(&path, json!({"metadata": {"labels": {"team": "net"}}})).await.object();
    assert_eq!(labelled["metadata"]["annotations"], set["metadata"]["annotations"]);
    let image = json!({"spec": {"containers": [{"name": "proxy", "image": "envoy:1.31"}]}});
    let changed = cluster.merge(&path, image).await.object();
    let hash = |set: &Value, key: &str| set["metadata"]["annotations"][key].clone();
    assert_ne!(hash(&changed, "kruise.io/sidecarset-hash"), hash(&set, "kruise.io/sidecarset-hash"));
    let without = "kruise.io/sidecarset-hash-without-image";
    assert_eq!(hash(&changed, without), hash(&set, without));
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_wrong_with_a_sidecarset_is_said_at_once() {
    let (cluster, _manager) = Cluster::managed().await;
    let broken = json!({
        "selector": null,
        "containers": [{"name": "Proxy", "image": "envoy:1.30", "colour": "red"}],
        "updateStrategy": {"partition": "x"},
    });
    let reply = cluster.create(SIDECARSETS, sidecarset("mesh", broken)).await;
    assert_eq!(reply.status.as_u16(), 422);
    insta::assert_json_snapshot!(reply.body, @r#"
    {
      "kind": "Status",
      "apiVersion": "v1",
      "metadata": {},
      "status": "Failure",
      "message": "admission webhook \"sidecarsets.pillion.dev\" denied the request: SidecarSet.apps.kruise.io \"mesh\" is invalid: [spec.selector: Required value: no selector defined for SidecarSet, spec.updateStrategy.partition: Invalid value: \"x\": must be an integer or percentage (e.g '5%'), spec.containers[0].name: Invalid value: \"Proxy\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')]",
      "reason": "Invalid",
      "details": {
        "name": "mesh",
        "group": "apps.kruise.io",
        "kind": "SidecarSet",
        "causes": [
          {
            "reason": "FieldValueRequired",
            "message": "Required value: no selector defined for SidecarSet",
            "field": "spec.selector"
          },
          {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: \"x\": must be an integer or percentage (e.g '5%')",
            "field": "spec.updateStrategy.partition"
          },
          {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: \"Proxy\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "field": "spec.containers[0].name"
          }
        ]
      },
      "code": 422
    }
    "#);
    assert_eq!(reply.warnings, ["299 - \"unknown field \\\"spec.containers[0].colour\\\"\""]);
}

#[tokio::test(start_paused = true)]
async fn an_update_is_checked_too_and_a_refused_one_is_not_waited_for() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let path = format!("{SIDECARSETS}/mesh");
    let reply = cluster.merge(&path, json!({"spec": {"updateStrategy": {"maxUnavailable": "x"}}})).await;
    assert_eq!(reply.status.as_u16(), 422);
    let before = tokio::time::Instant::now();
    cluster.create(crate::PODS, crate::pod("web-0")).await.object();
    assert_eq!(before.elapsed().as_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_sets_that_would_meet_in_a_pod_must_agree() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("one", json!({}))).await.object();
    let reply = cluster.create(SIDECARSETS, sidecarset("two", json!({}))).await;
    insta::assert_snapshot!(reply.body["message"].as_str().unwrap(), @r#"admission webhook "sidecarsets.pillion.dev" denied the request: SidecarSet.apps.kruise.io "two" is invalid: spec.containers[0].name: Invalid value: "proxy": container proxy already exist in sidecarset one, whose selectors can match the same pods"#);
    let elsewhere = json!({"selector": {"matchLabels": {"app": "db"}}});
    cluster.create(SIDECARSETS, sidecarset("three", elsewhere)).await.object();
}

/// A set is copied to another cluster, say, whose revisions have other names.
#[tokio::test(start_paused = true)]
async fn a_set_may_come_before_its_pinned_revision_only_where_new_pods_get_the_latest_one_meanwhile() {
    let (cluster, _manager) = Cluster::managed().await;
    for (app, pin) in [("web", json!({"customVersion": "v1"})), ("db", json!({"revisionName": "mesh-5d8c"}))] {
        let set = |on_missing: Value| {
            let mut pin = pin.clone();
            pin["onMissing"] = on_missing;
            let selector = json!({"matchLabels": {"app": app}});
            sidecarset(app, json!({"selector": selector, "injectionStrategy": {"revision": pin}}))
        };
        for on_missing in [Value::Null, json!("Refuse")] {
            let reply = cluster.create(SIDECARSETS, set(on_missing)).await;
            let message = reply.body["message"].as_str().unwrap();
            assert_eq!(reply.status.as_u16(), 422, "{message}");
            assert!(message.contains("err: the set has no such revision"), "{message}");
        }
        cluster.create(SIDECARSETS, set(json!("Latest"))).await.object();
        let mut pod = crate::pod(app);
        pod["metadata"]["labels"]["app"] = json!(app);
        let pod = cluster.create(crate::PODS, pod).await.object();
        assert_eq!(crate::names(&pod), ["proxy", "app"]);
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_are_patched_only_as_the_whitelist_says() {
    let (cluster, _manager) = Cluster::managed().await;
    let spec = json!({"patchPodMetadata": [{"annotations": {"team": "net"}}]});
    let reply = cluster.create(SIDECARSETS, sidecarset("mesh", spec.clone())).await;
    insta::assert_snapshot!(reply.body["message"].as_str().unwrap(), @r#"admission webhook "sidecarsets.pillion.dev" denied the request: SidecarSet.apps.kruise.io "mesh" is invalid: spec.patchPodMetadata: Forbidden: SidecarSet patch metadata whitelist not found"#);

    cluster.namespace("kruise-system", json!({})).await;
    let rules = json!({"rules": [{"allowedAnnotationKeyExprs": ["team"]}]}).to_string();
    let map =
        json!({"metadata": {"name": "kruise-configuration"}, "data": {"SidecarSet_PatchPodMetadata_WhiteList": rules}});
    cluster.create("/api/v1/namespaces/kruise-system/configmaps", map).await.object();
    cluster.create(SIDECARSETS, sidecarset("mesh", spec)).await.object();
    let pod = cluster.create(crate::PODS, crate::pod("web-0")).await.object();
    assert_eq!(pod["metadata"]["annotations"]["team"], "net");
}

#[tokio::test(start_paused = true)]
async fn with_their_gate_annotations_are_patched_without_a_whitelist() {
    let cluster = Cluster::new().await;
    let mut config = cluster.config();
    config.gates = config.gates.with(&"SidecarSetPatchPodMetadataDefaultsAllowed=true".parse().unwrap());
    let _manager = cluster.manage(config).await;
    let spec = json!({"patchPodMetadata": [{"annotations": {"team": "net"}}]});
    cluster.create(SIDECARSETS, sidecarset("mesh", spec)).await.object();
    let pod = cluster.create(crate::PODS, crate::pod("web-0")).await.object();
    assert_eq!(pod["metadata"]["annotations"]["team"], "net");
}
