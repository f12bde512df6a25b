use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::cluster::testing::{
    SIDECARSETS, TestCluster, message, owner_reference, pod, pod_of, pod_spec, proxy, sidecarset, wanted, workload,
};
use crate::manifest;

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn documents(objects: &[Value]) -> Vec<Document> {
    let text: Vec<String> = objects.iter().map(|object| crate::render::yaml(object).unwrap()).collect();
    let (documents, broken) = manifest::parse(&"new.yaml".into(), &text.join("---\n"));
    assert_eq!(broken, []);
    documents
}

async fn of(cluster: &TestCluster, namespace: Option<&str>, objects: &[Value]) -> Result<Preview, Failure> {
    let (reader, user, mut warnings) = (cluster.reader(), Settings::default(), Vec::new());
    let unknown_fields = UnknownFields::Refuse;
    on_cluster(&reader, documents(objects), wanted(namespace), &user, unknown_fields, &mut warnings).await
}

fn names(preview: &Preview) -> Vec<String> {
    preview
        .workloads
        .iter()
        .map(|workload| format!("{}/{}/{} x{}", workload.namespace, workload.kind, workload.name, workload.replicas))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn applying_a_changed_and_a_new_set_is_shown_and_nothing_is_written() {
    let cluster = TestCluster::managed().await;
    cluster.namespace("shop").await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    cluster.create(DEPLOYMENTS, workload("web", 3)).await;
    cluster.create("/apis/apps/v1/namespaces/shop/statefulsets", workload("db", 2)).await;
    let mut unmatched = workload("idle", 4);
    unmatched["spec"]["template"]["metadata"]["labels"] = json!({"app": "idle"});
    unmatched["spec"]["selector"]["matchLabels"] = json!({"app": "idle"});
    cluster.create(DEPLOYMENTS, unmatched).await;
    cluster.create(PODS, pod("web-0")).await;
    let before = cluster.requests().len();
    let mut logs =
        sidecarset("logs", json!([{"name": "logs", "image": "logs:1", "resources": {"requests": {"memory": "64Mi"}}}]));
    logs["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}});
    let preview = of(&cluster, None, &[sidecarset("mesh", json!([proxy("envoy:1.31")])), logs]).await.ok().unwrap();
    assert_snapshot!(text(&preview), @r#"
      SIDECARSET  CHANGE   WORKLOADS  PODS
      logs        created  0 -> 1     0 -> 2
      mesh        changed  3          6

      NAMESPACE  PODS  CPU REQUESTS  CPU LIMITS  MEMORY REQUESTS  MEMORY LIMITS
      default    8     16400m        20          8Gi              8Gi
      shop       2     4200m         6           2Gi -> 2176Mi    2Gi

      NAMESPACE  WORKLOAD        PODS  NEW PODS GET
      default    Deployment/web  3     ~ proxy: image: envoy:1.30 -> envoy:1.31
      default    Pod/web-0       1     ~ proxy: image: envoy:1.30 -> envoy:1.31
      shop       StatefulSet/db  2     + container logs
                                       ~ proxy: image: envoy:1.30 -> envoy:1.31

      RUNNING PODS
      0 have what the SidecarSets inject
      1 could be updated in place:
        default/web-0: only images of mesh change
      0 keep what they have until they are recreated
    "#);
    let made = cluster.requests().split_off(before);
    assert!(!made.is_empty() && made.iter().all(|request| request.starts_with("GET ")), "{made:?}");
    let json = serde_json::to_value(&preview).unwrap();
    assert_eq!(
        json["pods"]["inPlace"][0],
        json!({"namespace": "default", "name": "web-0", "reasons": ["only images of mesh change"]})
    );
    assert_eq!(json["namespaces"][1]["requests"]["then"]["memory"], "2176Mi");
}

#[tokio::test(start_paused = true)]
async fn whatever_makes_pods_counts_once() {
    let cluster = TestCluster::managed().await;
    let deployment = cluster.create(DEPLOYMENTS, workload("web", 1)).await;
    let mut replica_set = workload("web-1", 1);
    replica_set["metadata"]["ownerReferences"] = json!([owner_reference(&deployment)]);
    let replica_set = cluster.create("/apis/apps/v1/namespaces/default/replicasets", replica_set).await;
    cluster.create(PODS, pod_of("web-1-a", &replica_set)).await;
    // A ReplicaSet of its own, and one of an Argo Rollout, which is known by its pods alone.
    cluster.create("/apis/apps/v1/namespaces/default/replicasets", workload("alone", 0)).await;
    let rollout =
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "canary", "uid": "r"}});
    let mut of_rollout = workload("canary-1", 2);
    of_rollout["metadata"]["ownerReferences"] = json!([owner_reference(&rollout)]);
    let of_rollout = cluster.create("/apis/apps/v1/namespaces/default/replicasets", of_rollout).await;
    for name in ["canary-1-a", "canary-1-b"] {
        cluster.create(PODS, pod_of(name, &of_rollout)).await;
    }
    let clone_set = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "clones", "uid": "c"}});
    for i in 0..3 {
        cluster.create(PODS, pod_of(&format!("clones-{i}"), &clone_set)).await;
    }
    // Bare pods: one that runs, one that is being deleted, one that is over.
    cluster.create(PODS, pod("bare")).await;
    let mut ending = pod("ending");
    ending["metadata"]["finalizers"] = json!(["example.com/wait"]);
    cluster.create(PODS, ending).await;
    cluster.delete(&format!("{PODS}/ending")).await;
    cluster.create(PODS, pod("over")).await;
    cluster.merge(&format!("{PODS}/over/status"), json!({"status": {"phase": "Succeeded"}})).await;
    let mut spec = pod_spec();
    spec["restartPolicy"] = json!("Never");
    let job = json!({"metadata": {"name": "report"}, "spec": {"parallelism": 2, "completions": 5, "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}}});
    let job = cluster.create("/apis/batch/v1/namespaces/default/jobs", job).await;
    cluster.create(PODS, pod_of("report-x", &job)).await;
    let preview = of(&cluster, None, &[sidecarset("mesh", json!([proxy("envoy:1.30")]))]).await.ok().unwrap();
    assert_eq!(
        names(&preview),
        [
            "default/CloneSet/clones x3",
            "default/Deployment/web x1",
            "default/Job/report x2",
            "default/Pod/bare x1",
            "default/ReplicaSet/alone x0",
            "default/Rollout/canary x2",
        ]
    );
    let recreate: Vec<&str> = preview.pods.recreate.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(
        recreate,
        ["bare", "canary-1-a", "canary-1-b", "clones-0", "clones-1", "clones-2", "report-x", "web-1-a"]
    );
}

#[tokio::test(start_paused = true)]
async fn running_pods_are_compared_without_what_was_injected_into_them() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    cluster.create(PODS, pod("bare")).await;
    let same = of(&cluster, None, &[sidecarset("mesh", json!([proxy("envoy:1.30")]))]).await.ok().unwrap();
    assert_eq!((names(&same), same.sidecar_sets[0].change, same.pods.up_to_date), (Vec::new(), None, 1));
    assert!(text(&same).contains("\n  1 has what the SidecarSets inject\n"), "{}", text(&same));
    let mut gone = sidecarset("mesh", json!([proxy("envoy:1.30")]));
    gone["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    let gone = of(&cluster, None, &[gone]).await.ok().unwrap();
    assert_eq!(gone.workloads[0].containers[0].change, pillion_preview::Change::Removed);
    assert_eq!(gone.pods.recreate[0].reasons, ["mesh no longer matches it: its sidecars stay until then"]);
    assert!(text(&gone).contains("\n  1 keeps what it has until it is recreated:\n"), "{}", text(&gone));
}

#[tokio::test(start_paused = true)]
async fn a_table_has_no_more_rows_than_a_person_reads() {
    let cluster = TestCluster::managed().await;
    for i in 0..53 {
        cluster.create(DEPLOYMENTS, workload(&format!("web-{i}"), 1)).await;
    }
    let preview = of(&cluster, None, &[sidecarset("mesh", json!([proxy("envoy:1.30")]))]).await.ok().unwrap();
    assert_eq!(preview.workloads.len(), 53);
    let text = text(&preview);
    assert!(text.contains("  … and 3 more workloads; -o json lists all\n"), "{text}");
    assert_eq!(text.matches("+ container proxy").count(), 50);
}

#[tokio::test(start_paused = true)]
async fn pods_that_would_be_refused_are_named_with_the_reason() {
    let cluster = TestCluster::managed().await;
    cluster.create(DEPLOYMENTS, workload("web", 3)).await;
    let limits = json!([{"type": "Pod", "max": {"cpu": "2500m"}}]);
    cluster.namespace("shop").await;
    cluster
        .create("/api/v1/namespaces/shop/limitranges", json!({"metadata": {"name": "l"}, "spec": {"limits": limits}}))
        .await;
    cluster.create("/apis/apps/v1/namespaces/shop/deployments", workload("web", 3)).await;
    let policy = json!({"targetContainersMode": "sum", "targetContainersNameRegex": "^main$", "resourcesExpr": {"limits": {"cpu": "cpu"}}});
    let picky = sidecarset("picky", json!([{"name": "picky", "image": "p", "resourcesPolicy": policy}]));
    let mut picky_here = picky;
    picky_here["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    let preview =
        of(&cluster, None, &[sidecarset("mesh", json!([proxy("envoy:1.30")])), picky_here]).await.ok().unwrap();
    assert_snapshot!(text(&preview), @r#"
      SIDECARSET  CHANGE   WORKLOADS  PODS
      mesh        created  0 -> 2     0 -> 6
      picky       created  0 -> 1     0 -> 3

      NAMESPACE  PODS  CPU REQUESTS  CPU LIMITS  MEMORY REQUESTS  MEMORY LIMITS
      default    3     6             6           3Gi              3Gi
      shop       3     6             6           3Gi              3Gi

      PODS OF THESE WORKLOADS WOULD BE REFUSED
      Deployment/web in namespace default: SidecarSet "picky", container "picky": no containers match the regex pattern "^main$" of resourcesPolicy (the pod's own containers: app); its expression "cpu" has nothing to compute from
      Deployment/web in namespace shop: LimitRange: maximum cpu usage per Pod is 2500m, but limit is 3
    "#);
    assert_eq!(preview.refused().count(), 2);
    let here = of(&cluster, Some("default"), &[sidecarset("mesh", json!([proxy("envoy:1.30")]))]).await.ok().unwrap();
    assert_eq!(here.refused().count(), 0, "with -n only that namespace is looked at");
    assert_eq!(names(&here), ["default/Deployment/web x3"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_set_is_reported_with_its_place_and_with_what_it_meets_in_the_cluster() {
    let cluster = TestCluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!([proxy("envoy:1.30")]))).await;
    let mut same_container =
        sidecarset("other", json!([{"name": "proxy", "image": "x"}, {"name": "Bad_Name", "image": "x"}]));
    same_container["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": "gone"}});
    let (status, said) = message(of(&cluster, None, &[same_container]).await.err().unwrap());
    assert_eq!(status, 1);
    assert_snapshot!(said, @r#"
    new.yaml:16:21: spec.injectionStrategy.revision.revisionName: Invalid value: "gone": Cannot find specific ControllerRevision, err: the set has no such revision
    new.yaml:12:11: spec.containers[1].name: Invalid value: "Bad_Name": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
    new.yaml:10:11: spec.containers[0].name: Invalid value: "proxy": container proxy already exist in sidecarset mesh, whose selectors can match the same pods
    "#);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_sidecarset_is_not_previewed() {
    let cluster = TestCluster::managed().await;
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let (status, said) = message(of(&cluster, None, std::slice::from_ref(&config_map)).await.err().unwrap());
    assert_eq!((status, said.as_str()), (2, "there is no SidecarSet in these manifests"));
    let mut warnings = Vec::new();
    let both = documents(&[config_map, sidecarset("mesh", json!([proxy("envoy:1.30")]))]);
    let preview =
        on_cluster(&cluster.reader(), both, wanted(None), &Settings::default(), UnknownFields::Refuse, &mut warnings)
            .await
            .ok()
            .unwrap();
    assert!(
        warnings[0].starts_with("1 other object in these manifests: only SidecarSets are previewed"),
        "{warnings:?}"
    );
    assert_snapshot!(text(&preview), @r#"
      SIDECARSET  CHANGE   WORKLOADS  PODS
      mesh        created  0          0

      no workload is matched, now or then
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_no_sidecarsets_yet_can_be_previewed() {
    let cluster = TestCluster::bare().await;
    cluster.create(DEPLOYMENTS, workload("web", 1)).await;
    let mut warnings = Vec::new();
    let sets = documents(&[sidecarset("mesh", json!([proxy("envoy:1.30")]))]);
    let preview =
        on_cluster(&cluster.reader(), sets, wanted(None), &Settings::default(), UnknownFields::Refuse, &mut warnings)
            .await
            .ok()
            .unwrap();
    assert_eq!(names(&preview), ["default/Deployment/web x1"]);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_there_is_an_error() {
    let cluster = TestCluster::managed().await;
    let refused = of(&cluster, Some("shpo"), &[sidecarset("mesh", json!([proxy("envoy:1.30")]))]).await;
    assert_eq!(message(refused.err().unwrap()), (1, "the cluster has no namespace \"shpo\"".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named() {
    let cluster = TestCluster::managed().await;
    let reader = cluster.reader_without(&["/deployments"]);
    let sets = documents(&[sidecarset("mesh", json!([proxy("envoy:1.30")]))]);
    let (status, said) = message(
        on_cluster(&reader, sets, wanted(None), &Settings::default(), UnknownFields::Refuse, &mut Vec::new())
            .await
            .err()
            .unwrap(),
    );
    assert_eq!(status, 1);
    assert!(
        said.starts_with(
            "cannot list deployments.apps at the cluster scope: the right to list deployments.apps is missing"
        ),
        "{said}"
    );
}
