use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::cluster::testing::{
    SIDECARSETS, TestCluster, message, owner_reference, pod, pod_of, proxy, sidecarset, wanted, workload,
};
use crate::why;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn explain(cluster: &TestCluster, namespace: &str, target: &[&str]) -> Result<Explanation, Failure> {
    let target: Vec<String> = target.iter().map(|part| (*part).to_owned()).collect();
    let now = "2026-02-02T00:00:00Z".parse().unwrap();
    explain_running(&cluster.reader(), &target, wanted(Some(namespace)), &Settings::default(), now, &mut Vec::new())
        .await
}

async fn shown(cluster: &TestCluster, target: &[&str]) -> String {
    why::text(&explain(cluster, "default", target).await.ok().unwrap())
}

async fn error(cluster: &TestCluster, target: &[&str]) -> (u8, String) {
    message(explain(cluster, "default", target).await.err().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_what_it_would_get_says_so() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    let mut other = sidecarset("other", json!([proxy("envoy:1.30")]));
    other["spec"]["selector"]["matchLabels"] = json!({"app": "db"});
    cluster.create(SIDECARSETS, other).await;
    cluster.create(PODS, pod("web-0")).await;
    assert_snapshot!(shown(&cluster, &["web-0"]).await, @r#"
    Pod/web-0 in namespace default
      SIDECARSET  MATCHED  REASON
      mesh        yes      selector app=web matches
      other       no       selector wants app=db of the pod; it has "web"

      DECISIONS
      mesh: injects proxy
      mesh/proxy: limits.cpu = cpu*50% = 1, with cpu = 2, the sum of the limits of app
      mesh/proxy: requests.cpu = 100m

      ORDER
      containers: proxy, app

      WHAT THE POD HAS, AND WHAT IT WOULD GET TODAY
      SIDECARSET  HAS REVISION    REVISION TODAY  INJECTED AT           STATE
      mesh        mesh-5986d5886  mesh-5986d5886  2026-01-01T00:00:00Z  up to date
    "#);
    assert_eq!(shown(&cluster, &["pod/web-0"]).await, shown(&cluster, &["po", "web-0"]).await);
    assert!(cluster.requests().iter().all(|request| request.starts_with("GET ")), "{:?}", cluster.requests());
}

#[tokio::test(start_paused = true)]
async fn an_older_revision_an_edited_container_and_a_missing_sidecar_are_shown() {
    let cluster = TestCluster::managed().await;
    for name in ["mesh", "logs"] {
        let container =
            json!({"name": name, "image": format!("{name}:1"), "env": [{"name": "LEVEL", "value": "info"}]});
        cluster.create(SIDECARSETS, sidecarset(name, json!([container]))).await;
    }
    cluster.create(PODS, pod("web-0")).await;
    let newer =
        json!([{"name": "mesh", "image": "mesh:2", "env": [{"name": "LEVEL", "value": "debug"}], "args": ["-v"]}]);
    cluster.merge(&format!("{SIDECARSETS}/mesh"), json!({"spec": {"containers": newer}})).await;
    cluster.create(SIDECARSETS, sidecarset("metrics", json!([{"name": "metrics", "image": "metrics:1"}]))).await;
    // `kubectl set image pod/web-0 logs=logs:debug`
    let edited = json!([{"name": "logs", "image": "logs:debug"}]);
    let kind = "application/strategic-merge-patch+json";
    cluster
        .send(axum::http::Method::PATCH, &format!("{PODS}/web-0"), kind, Some(json!({"spec": {"containers": edited}})))
        .await;
    assert_snapshot!(shown(&cluster, &["web-0"]).await, @r#"
    Pod/web-0 in namespace default
      SIDECARSET  MATCHED  REASON
      logs        yes      selector app=web matches
      mesh        yes      selector app=web matches
      metrics     yes      selector app=web matches

      DECISIONS
      logs: injects logs
      mesh: injects mesh
      metrics: injects metrics

      ORDER
      containers: logs, mesh, metrics, app

      WHAT THE POD HAS, AND WHAT IT WOULD GET TODAY
      SIDECARSET  HAS REVISION     REVISION TODAY     INJECTED AT           STATE
      logs        logs-5d658866b6  logs-5d658866b6    2026-01-01T00:00:00Z  same revision, but changed since it was injected
      mesh        mesh-68fff65cbb  mesh-5696f6b648    2026-01-01T00:00:00Z  other revision
      metrics     -                metrics-f8b5dc479  -                     missing

      container logs: image: logs:debug -> logs:1
      container mesh: image: mesh:1 -> mesh:2
      container mesh: env[LEVEL].value: info -> debug
      container mesh: args: + ["-v"]
      container metrics: is missing, and would be injected by metrics
    "#);
    let explanation = explain(&cluster, "default", &["web-0"]).await.ok().unwrap();
    let drift = serde_json::to_value(&explanation).unwrap()["drift"].clone();
    assert_eq!(drift["sidecarSets"][1]["state"], "Outdated");
    assert_eq!(
        drift["containers"][0]["differences"][0],
        json!({"path": "image", "now": "logs:debug", "then": "logs:1"})
    );
}

#[tokio::test(start_paused = true)]
async fn the_sidecars_of_a_deleted_set_are_left_over_and_an_opted_out_pod_has_none() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    cluster.create(PODS, pod("web-0")).await;
    let mut opted_out = pod("web-1");
    opted_out["metadata"]["annotations"] = json!({"pillion.dev/inject": "false"});
    cluster.create(PODS, opted_out).await;
    assert_snapshot!(shown(&cluster, &["web-1"]).await, @r#"
    Pod/web-1 in namespace default
      SIDECARSET  MATCHED  REASON
      mesh        no       the pod's annotation pillion.dev/inject: "false" keeps every SidecarSet out

      ORDER
      containers: app

      WHAT THE POD HAS, AND WHAT IT WOULD GET TODAY
      no SidecarSet has injected anything, and none would
    "#);
    cluster.delete(&format!("{SIDECARSETS}/mesh")).await;
    assert_snapshot!(shown(&cluster, &["web-0"]).await, @r#"
    Pod/web-0 in namespace default
      there are no SidecarSets

      WHAT THE POD HAS, AND WHAT IT WOULD GET TODAY
      SIDECARSET  HAS REVISION    REVISION TODAY  INJECTED AT           STATE
      mesh        mesh-5986d5886  -               2026-01-01T00:00:00Z  would not be injected today

      container proxy: was injected by mesh, and would not be
    "#);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_adds_to_sidecars_is_no_difference() {
    let cluster = TestCluster::managed().await;
    let limits = json!([{"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"memory": "64Mi"}}]);
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": limits}});
    cluster.create("/api/v1/namespaces/default/limitranges", range).await;
    let logs = json!({
        "name": "logs", "image": "logs", "readinessProbe": {"httpGet": {"port": 80}}, "ports": [{"containerPort": 80}],
        "shareVolumePolicy": {"type": "enabled"}, "podInjectPolicy": "AfterAppContainer",
        "volumeMounts": [{"name": "certs", "mountPath": "/certs"}], "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
    });
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let hot = json!({"name": "hot", "image": "hot:1", "upgradeStrategy": hot});
    let mut set = sidecarset("mesh", json!([proxy("envoy:1.30"), logs, hot]));
    set["spec"]["initContainers"] =
        json!([{"name": "native", "image": "n:1", "restartPolicy": "Always"}, {"name": "setup", "image": "s:1"}]);
    set["spec"]["volumes"] = json!([{"name": "certs", "secret": {"secretName": "certs"}}]);
    set["spec"]["imagePullSecrets"] = json!([{"name": "registry"}]);
    cluster.create(SIDECARSETS, set).await;
    let created = cluster.create(PODS, pod("web-0")).await;
    assert_eq!(created["spec"]["containers"].as_array().unwrap().len(), 5, "{created:#}");
    let explanation = explain(&cluster, "default", &["web-0"]).await.ok().unwrap();
    assert!(explanation.drift.as_ref().unwrap().is_empty(), "{:#?}", explanation.drift);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_is_explained_like_the_one_in_its_place() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    let mut finalized = pod("web-0");
    finalized["metadata"]["finalizers"] = json!(["example.com/wait"]);
    cluster.create(PODS, finalized).await;
    cluster.delete(&format!("{PODS}/web-0")).await;
    let explanation = explain(&cluster, "default", &["web-0"]).await.ok().unwrap();
    assert_eq!(explanation.remarks, ["it is being deleted; this is about a pod created in its place"]);
    assert!(explanation.why.sidecar_sets[0].matched && explanation.drift.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_explained_with_its_pods_and_with_no_others() {
    let cluster = TestCluster::managed().await;
    let deployment = cluster.create("/apis/apps/v1/namespaces/default/deployments", workload("web", 2)).await;
    let mut replica_set = workload("web-1", 2);
    replica_set["metadata"]["ownerReferences"] = json!([owner_reference(&deployment)]);
    let replica_set = cluster.create("/apis/apps/v1/namespaces/default/replicasets", replica_set).await;
    cluster.create(PODS, pod_of("web-1-a", &replica_set)).await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    cluster.create(PODS, pod_of("web-1-b", &replica_set)).await;
    cluster.create(PODS, pod("stranger")).await;
    assert_snapshot!(shown(&cluster, &["deploy/web"]).await, @r#"
    Deployment/web in namespace default
      SIDECARSET  MATCHED  REASON
      mesh        yes      selector app=web matches

      DECISIONS
      mesh: injects proxy
      mesh/proxy: limits.cpu = cpu*50% = 1, with cpu = 2, the sum of the limits of app
      mesh/proxy: requests.cpu = 100m

      ORDER
      containers: proxy, app

      POD      STATE
      web-1-a  mesh: missing
      web-1-b  up to date

      `pillion why web-1-a -n default` shows what differs
    "#);
    cluster.create("/apis/apps/v1/namespaces/default/deployments", workload("idle", 0)).await;
    assert!(shown(&cluster, &["deployment", "idle"]).await.ends_with("\n  it has no pods\n"));
    assert!(explain(&cluster, "default", &["rs/web-1"]).await.ok().unwrap().pods.unwrap().len() == 2);
}

#[tokio::test(start_paused = true)]
async fn jobs_are_explained_with_their_pods_those_of_cron_jobs_too() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    let mut spec = crate::cluster::testing::pod_spec();
    spec["restartPolicy"] = json!("Never");
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let cron_job = json!({"metadata": {"name": "nightly"}, "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}});
    let cron_job = cluster.create("/apis/batch/v1/namespaces/default/cronjobs", cron_job).await;
    let job = json!({"metadata": {"name": "nightly-1", "ownerReferences": [owner_reference(&cron_job)]}, "spec": {"template": template}});
    let job = cluster.create("/apis/batch/v1/namespaces/default/jobs", job).await;
    let mut of_job = pod_of("nightly-1-x", &job);
    of_job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    cluster.create(PODS, of_job).await;
    for target in ["job/nightly-1", "cj/nightly", "cronjobs.batch/nightly"] {
        let explanation = explain(&cluster, "default", &[target]).await.ok().unwrap();
        assert!(explanation.why.sidecar_sets[0].matched, "{target}");
        let pods: Vec<(String, bool)> =
            explanation.pods.unwrap().into_iter().map(|pod| (pod.name, pod.drift.is_empty())).collect();
        assert_eq!(pods, [("nightly-1-x".to_owned(), true)], "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_gets_the_name_of_each_pod_of_a_workload_beside_what_differs() {
    let cluster = TestCluster::managed().await;
    let replica_set = cluster.create("/apis/apps/v1/namespaces/default/replicasets", workload("web", 1)).await;
    cluster.create(PODS, pod_of("web-a", &replica_set)).await;
    let mut set = sidecarset("mesh", json!([proxy("envoy:1.30")]));
    set["spec"]["imagePullSecrets"] = json!([{"name": "registry"}]);
    cluster.create(SIDECARSETS, set).await;
    let explanation = explain(&cluster, "default", &["rs/web"]).await.ok().unwrap();
    let json = serde_json::to_value(&explanation).unwrap();
    let of_pod = &json["pods"][0];
    assert_eq!((&of_pod["name"], &of_pod["sidecarSets"][0]["state"]), (&json!("web-a"), &json!("Missing")));
    assert_eq!(of_pod["pod"][0]["path"], "imagePullSecrets[registry]", "{of_pod:#}");
    assert_eq!((&json["object"], &json["namespace"]), (&json!("ReplicaSet/web"), &json!("default")));
}

/// The definition of a kind in one version that lets everything through.
fn definition(group: &str, version: &str, kind: &str, scope: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_custom_workload_is_found_in_whatever_version_it_is_served() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    // The group prefers v1beta1, in which SidecarSets are.
    cluster.create(DEFINITIONS, definition("apps.kruise.io", "v1alpha1", "CloneSet", "Namespaced")).await;
    let mut clones = workload("web", 1);
    (clones["apiVersion"], clones["kind"]) = (json!("apps.kruise.io/v1alpha1"), json!("CloneSet"));
    let clones = cluster.create("/apis/apps.kruise.io/v1alpha1/namespaces/default/clonesets", clones).await;
    cluster.create(PODS, pod_of("web-x", &clones)).await;
    for target in ["cloneset/web", "clonesets.apps.kruise.io/web"] {
        let explanation = explain(&cluster, "default", &[target]).await.ok().unwrap();
        assert_eq!(explanation.object, "CloneSet/web");
        assert!(explanation.why.sidecar_sets[0].matched, "{target}");
        assert_eq!(explanation.pods.unwrap()[0].name, "web-x", "{target}");
    }
    cluster.create(DEFINITIONS, definition("example.com", "v1", "Fleet", "Cluster")).await;
    let said = "a Fleet has no pod template: name a pod, or the workload that makes its pods";
    assert_eq!(error(&cluster, &["fleet/all"]).await, (2, said.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn pods_of_namespaces_that_the_webhook_is_not_called_for_get_nothing() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    cluster.service_account("kube-system").await;
    cluster.create("/api/v1/namespaces/kube-system/pods", pod("web-0")).await;
    let explanation = explain(&cluster, "kube-system", &["web-0"]).await.ok().unwrap();
    let verdict = &explanation.why.sidecar_sets[0];
    assert_eq!(
        (verdict.matched, verdict.message.as_str()),
        (false, "the webhook is not called for pods of namespace \"kube-system\"")
    );
    assert!(explanation.drift.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pinned_revision_is_read_from_its_namespace() {
    let cluster = TestCluster::managed().await;
    cluster.namespace("kruise-system").await;
    let old =
        pillion_api::sidecarset::decode(sidecarset("mesh", json!([{"name": "proxy", "image": "envoy:1.29"}]))).unwrap();
    let revision = pillion_api::sidecarset::revision::new(&old, 1, "kruise-system");
    let name = revision["metadata"]["name"].clone();
    let mut stored = revision;
    stored["metadata"].as_object_mut().unwrap().shift_remove("ownerReferences");
    cluster.create("/apis/apps/v1/namespaces/kruise-system/controllerrevisions", stored).await;
    let mut set = sidecarset("mesh", json!([{"name": "proxy", "image": "envoy:1.30"}]));
    set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": name, "policy": "Always"}});
    cluster.create(SIDECARSETS, set).await;
    cluster.create(PODS, pod("web-0")).await;
    let explanation = explain(&cluster, "default", &["web-0"]).await.ok().unwrap();
    let drift = explanation.drift.unwrap();
    assert!(drift.is_empty(), "{drift:#?}");
    assert_eq!(drift.sidecar_sets[0].revision.as_deref(), name.as_str());
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_answered_with_what_may_have_been_meant() {
    let cluster = TestCluster::managed().await;
    cluster.create("/apis/apps/v1/namespaces/default/deployments", workload("web", 2)).await;
    cluster.create(PODS, pod("web-5d8f9c7b6-x2k4p")).await;
    cluster.namespace("shop").await;
    cluster.create("/api/v1/namespaces/shop/pods", pod("cart-0")).await;
    let rows = [
        (vec!["web"], 1, r#"pod "web" is not in namespace "default"; did you mean deployment/web?"#),
        (
            vec!["web-5d8f9c7b6-x2k4q"],
            1,
            r#"pod "web-5d8f9c7b6-x2k4q" is not in namespace "default"; did you mean "web-5d8f9c7b6-x2k4p"?"#,
        ),
        (
            vec!["cart-0"],
            1,
            r#"pod "cart-0" is not in namespace "default"; there is one in namespace "shop": add -n shop"#,
        ),
        (vec!["deploy/wbe"], 1, r#"deployment.apps "wbe" is not in namespace "default"; did you mean "web"?"#),
        (vec!["deployments/zzz"], 1, r#"deployment.apps "zzz" is not in namespace "default""#),
        (vec!["deplyo/web"], 2, r#"the cluster has no resource "deplyo"; did you mean "deploy"?"#),
        (vec!["svc/web"], 2, "a Service has no pod template: name a pod, or the workload that makes its pods"),
        (vec!["ns/shop"], 2, "a Namespace has no pod template: name a pod, or the workload that makes its pods"),
        (
            vec!["sidecarset/mesh"],
            2,
            "a SidecarSet has no pod template: `pillion rollout status mesh` shows how it is doing, and `pillion preview -f FILE` what a change \
             of it would do",
        ),
        (vec!["deploy/"], 2, r#""deploy/" has no name: write KIND/NAME"#),
        (vec!["a/b", "c"], 2, r#""a/b" and "c": one object at a time, as KIND/NAME or KIND NAME"#),
    ];
    for (target, status, said) in rows {
        assert_eq!(error(&cluster, &target).await, (status, said.to_owned()), "{target:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_and_one_that_is_not_needed_is_not_missed() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    cluster.create(PODS, pod("web-0")).await;
    let now = "2026-02-02T00:00:00Z".parse().unwrap();
    let target = ["web-0".to_owned()];
    let reader = cluster.reader_without(&["/sidecarsets"]);
    let refused =
        explain_running(&reader, &target, wanted(Some("default")), &Settings::default(), now, &mut Vec::new()).await;
    assert_snapshot!(message(refused.err().unwrap()).1, @r#"cannot list sidecarsets.apps.kruise.io at the cluster scope: the right to list sidecarsets.apps.kruise.io is missing: sidecarsets is forbidden: User "jane" cannot list resource "sidecarsets""#);
    let forbidden = &["/mutatingwebhookconfigurations", "/controllerrevisions", "/configmaps", "/namespaces/default"];
    let mut warnings = Vec::new();
    let reader = cluster.reader_without(forbidden);
    assert!(
        explain_running(&reader, &target, wanted(Some("default")), &Settings::default(), now, &mut warnings)
            .await
            .is_ok()
    );
    let [namespace, webhooks] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(namespace.ends_with("its labels are taken to be none but its name"), "{namespace}");
    assert!(
        webhooks.ends_with("all namespaces but kube-system and pillion-system are taken to be injected"),
        "{webhooks}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_sidecarsets_says_so() {
    let cluster = TestCluster::bare().await;
    cluster.create(PODS, pod("web-0")).await;
    let mut warnings = Vec::new();
    let now = "2026-02-02T00:00:00Z".parse().unwrap();
    let explained = explain_running(
        &cluster.reader(),
        &["web-0".to_owned()],
        wanted(Some("default")),
        &Settings::default(),
        now,
        &mut warnings,
    )
    .await;
    assert_eq!(why::text(&explained.ok().unwrap()).lines().nth(1), Some("  there are no SidecarSets"));
    assert_eq!(warnings[0], "this cluster does not serve SidecarSets: their CustomResourceDefinition is not installed");
}

/// A StatefulSet with so many pods, which request 100m each and have run for a month, and an autoscaler that recommends 500m.
async fn sized(replicas: u64) -> TestCluster {
    let cluster = TestCluster::managed().await;
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}});
    let mut web = workload("web", replicas);
    web["spec"]["serviceName"] = json!("web");
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = resources.clone();
    let web = cluster.create("/apis/apps/v1/namespaces/default/statefulsets", web).await;
    for name in (0..replicas).map(|i| format!("web-{i}")) {
        let mut pod = pod_of(&name, &web);
        pod["spec"]["nodeName"] = json!("node");
        pod["spec"]["containers"][0]["resources"] = resources.clone();
        cluster.create(PODS, pod).await;
        let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
        cluster.merge(&format!("{PODS}/{name}/status"), json!({"status": status})).await;
    }
    let autoscalers = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";
    let reference = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    let spec = json!({"targetRef": reference, "updatePolicy": {"updateMode": "Recreate"}});
    let autoscaler = json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec});
    cluster.create(autoscalers, autoscaler).await;
    let amount = json!({"cpu": "500m"});
    let recommended = json!({"containerName": "app", "target": amount, "lowerBound": amount, "upperBound": amount});
    let status = json!({"recommendation": {"containerRecommendations": [recommended]}});
    cluster.merge(&format!("{autoscalers}/web/status"), json!({"status": status})).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn what_holds_a_running_pod_back_is_read_from_the_cluster() {
    let updates = async |cluster: &TestCluster, target: &str| {
        explain(cluster, "default", &[target]).await.ok().unwrap().updates.join("\n")
    };
    let shown = shown(&sized(1).await, &["web-0"]).await;
    let few = "web: pod web-0: is not updated: its controller has fewer pods than minReplicas";
    assert!(shown.contains(&format!("\n  UPDATES OF RUNNING PODS\n  {few}")), "{shown}");

    // The other pods of its controller count, and nothing is said of them.
    let cluster = sized(2).await;
    let next = updates(&cluster, "web-0").await;
    assert!(next.starts_with("web: pod web-0: is evicted in one of the next passes"), "{next}");
    let budget = json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    cluster.create(budgets, json!({"metadata": {"name": "strict"}, "spec": budget})).await;
    let forbidden = "is not updated: a PodDisruptionBudget forbids its eviction: strict";
    assert_eq!(updates(&cluster, "web-1").await, format!("web: pod web-1: {forbidden}"));
    assert_eq!(updates(&cluster, "statefulset/web").await, format!("web: pod web-0 and 1 more: {forbidden}"));
    let range = json!({"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]});
    let ranges = "/api/v1/namespaces/default/limitranges";
    cluster.create(ranges, json!({"metadata": {"name": "narrow"}, "spec": range})).await;
    let refused = updates(&cluster, "web-1").await;
    let said = "web: pod web-1: is not updated: the API server would refuse its successor: ";
    assert!(refused.starts_with(said) && refused.contains("provided ratio is 3"), "{refused}");
}

fn on() -> pillion_gates::Gates {
    pillion_gates::Gates::default().with(&"SidecarField=true".parse().unwrap())
}

fn job(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {"pillion.dev/sidecars": "log"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "m:1"}, {"name": "log", "image": "l:1"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn where_the_node_honours_the_field_marks_are_explained_with_it() {
    let cluster = TestCluster::managed_with(on()).await;
    cluster.create(PODS, job("job")).await;
    let shown = shown(&cluster, &["job"]).await;
    let has = "  sidecar log: mode field: the node honours containers[].sidecar: all rules of KEP-0008 hold\n";
    assert!(shown.contains(has), "{shown}");
    assert!(!shown.contains("the feature gate SidecarField is off"), "{shown}");
    assert!(shown.contains("mode field"), "{shown}");
    assert!(shown.ends_with("\n  no SidecarSet has injected anything, and none would\n"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn the_gate_and_the_image_of_the_wrapper_are_read_from_the_managers_arguments() {
    let cluster = TestCluster::bare().await;
    cluster.namespace("pillion-system").await;
    let args = json!(["--feature-gates=SidecarField=true", "--wrap-image=pillion:1"]);
    let labels = json!({"app": "pillion"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "pillion:1", "args": args}]}});
    let deployment =
        json!({"metadata": {"name": "pillion"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
    cluster.create("/apis/apps/v1/namespaces/pillion-system/deployments", deployment).await;
    let mut pod = job("job");
    pod["metadata"]["annotations"]["pillion.dev/sidecar-mode"] = json!("Strict");
    for i in 0..2 {
        pod["spec"]["containers"][i]["command"] = json!(["/run"]);
    }
    cluster.create(PODS, pod).await;
    let shown = shown(&cluster, &["job"]).await;
    assert!(shown.contains("mode Strict: pillion-wrap runs all commands of the pod"), "{shown}");
}
