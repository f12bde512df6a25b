//! `pillion preview`, and `pillion why` of a cluster: how they are used, and used wrongly.

use insta::assert_snapshot;
use serde_json::Value;

use crate::Folder;

const SET: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata:
  name: mesh
spec:
  selector:
    matchLabels: {app: web}
  containers:
  - name: proxy
    image: envoy:1.30
    resources:
      requests: {cpu: 100m}
";

const APP: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: app
        image: web:1
        resources:
          requests: {cpu: 1, memory: 1Gi}
";

fn folder(set: &str) -> Folder {
    let base = SET.replace("envoy:1.30", "envoy:1.29");
    Folder::with(&[("set.yaml", set), ("app.yaml", APP), ("base.yaml", &base)])
}

#[test]
fn manifests_are_previewed_without_a_cluster() {
    assert_snapshot!(folder(SET).run(&["preview", "--offline", "-f", "set.yaml", "app.yaml"]), @r"
    exit 0
    --- stdout
      SIDECARSET  CHANGE   WORKLOADS  PODS
      mesh        created  0 -> 1     0 -> 3

      NAMESPACE  PODS  CPU REQUESTS  CPU LIMITS  MEMORY REQUESTS  MEMORY LIMITS
      default    3     3 -> 3300m    0           3Gi              0

      NAMESPACE  WORKLOAD        PODS  NEW PODS GET
      default    Deployment/web  3     + container proxy
    ");
}

#[test]
fn a_base_says_what_is_in_force_now() {
    let shown = folder(SET).run(&[
        "preview",
        "--offline",
        "-f",
        "set.yaml",
        "-f",
        "app.yaml",
        "--base",
        "base.yaml",
        "-n",
        "shop",
    ]);
    assert_snapshot!(shown, @r"
    exit 0
    --- stdout
      SIDECARSET  CHANGE   WORKLOADS  PODS
      mesh        changed  1          3

      NAMESPACE  PODS  CPU REQUESTS  CPU LIMITS  MEMORY REQUESTS  MEMORY LIMITS
      shop       3     3300m         0           3Gi              0

      NAMESPACE  WORKLOAD        PODS  NEW PODS GET
      shop       Deployment/web  3     ~ proxy: image: envoy:1.29 -> envoy:1.30
    ");
}

#[test]
fn a_pod_that_would_be_refused_is_exit_status_1_with_the_reason() {
    let set = SET.replace(
        "    resources:\n      requests: {cpu: 100m}\n",
        "    resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ^main$, resourcesExpr: {limits: {cpu: cpu}}}\n",
    );
    assert_snapshot!(folder(&set).run(&["preview", "--offline", "-f", "set.yaml", "app.yaml"]), @r#"
    exit 1
    --- stdout
      SIDECARSET  CHANGE   WORKLOADS  PODS
      mesh        created  0 -> 1     0 -> 3

      NAMESPACE  PODS  CPU REQUESTS  CPU LIMITS  MEMORY REQUESTS  MEMORY LIMITS
      default    3     3             0           3Gi              0

      PODS OF THESE WORKLOADS WOULD BE REFUSED
      Deployment/web in namespace default: SidecarSet "mesh", container "proxy": no containers match the regex pattern "^main$" of resourcesPolicy (the pod's own containers: app); its expression "cpu" has nothing to compute from
    --- stderr
    error: pods of 1 workload would be refused
    "#);
}

#[test]
fn a_program_gets_json_or_yaml() {
    let folder = folder(SET);
    let shown = folder.run(&["preview", "--offline", "-f", "set.yaml", "app.yaml", "-o", "json"]);
    let json: Value = serde_json::from_str(shown.strip_prefix("exit 0\n--- stdout\n").unwrap()).unwrap();
    assert_eq!(json["workloads"][0]["containers"][0]["change"], "Added");
    assert_eq!(json["namespaces"][0]["requests"]["then"]["cpu"], "3300m");
    assert!(
        folder
            .run(&["preview", "--offline", "-f", "set.yaml", "app.yaml", "-o", "yaml"])
            .contains("\nworkloads:\n- namespace: default\n")
    );
}

#[test]
fn a_broken_sidecarset_is_shown_with_its_place() {
    let shown = folder(&SET.replace("image: envoy:1.30", "image: ''")).run(&[
        "preview",
        "--offline",
        "-f",
        "set.yaml",
        "app.yaml",
    ]);
    assert_eq!(shown, "exit 1\n--- stderr\nerror: set.yaml:10:12: spec.containers[0].image: Required value\n");
}

#[test]
fn a_wrong_use_is_exit_status_2_and_says_what_to_do() {
    let folder = folder(SET);
    let rows: [(&[&str], &str); 11] = [
        (&["preview"], "--filename <FILE>..."),
        (&["preview", "--offline", "-f", "app.yaml"], "there is no SidecarSet in these manifests"),
        (
            &["preview", "--offline", "-f", "set.yaml"],
            "there is no pod and no workload in these manifests; without --offline those of the cluster are previewed",
        ),
        (&["preview", "-f", "set.yaml"], "no cluster: give --kubeconfig FILE, or set KUBECONFIG"),
        (&["preview", "-f", "set.yaml"], "--offline previews manifests without a cluster"),
        (&["preview", "-f", "set.yaml", "--base", "base.yaml"], "--offline"),
        (&["preview", "-f", "set.yaml", "--offline", "--context", "x"], "cannot be used with '--context <NAME>'"),
        (&["preview", "-f", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (&["why"], "<POD|--filename <FILE>...>"),
        (&["why", "web-0", "-f", "app.yaml"], "cannot be used with"),
        (&["why", "-f", "app.yaml", "--kubeconfig", "x"], "cannot be used with '--kubeconfig <FILE>'"),
    ];
    for (arguments, said) in rows {
        let shown = folder.run(arguments);
        assert!(shown.starts_with("exit 2\n--- stderr\n") && shown.contains(said), "{arguments:?}: {shown}");
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_an_error_that_says_what_was_asked() {
    let folder = Folder::with(&[(
        "kubeconfig",
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}], current-context: one, contexts: [{name: one, context: {cluster: c, user: u}}]}",
    )]);
    let shown = folder.run(&["why", "web-0", "--kubeconfig", "kubeconfig"]);
    assert!(
        shown.starts_with("exit 1\n--- stderr\nerror: cannot get pods \"web-0\" in namespace \"default\": "),
        "{shown}"
    );
    assert!(shown.contains("Connection refused"), "{shown}");
}
