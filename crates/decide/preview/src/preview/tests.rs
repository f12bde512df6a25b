use pillion_admission::Snapshot;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use pillion_inject::Namespace;
use pillion_testkit::{mk_container, mk_set, mk_sized};

use super::*;

fn offline(sets: impl IntoIterator<Item = SidecarSet>) -> Offline {
    let shop = Namespace::new("shop", [("tier".to_owned(), "gold".to_owned())].into());
    let snapshot = Snapshot {
        catalog: Catalog::new(sets, &[]).unwrap(),
        namespaces: [("shop".to_owned(), shop)].into_iter().collect(),
        ..Snapshot::default()
    };
    Offline { snapshot, namespace: "default".to_owned(), ..Offline::default() }
}

fn deployment(namespace: &str, name: &str, replicas: u64) -> Workload {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [mk_sized("app", ("1", "1Gi"), ("500m", ""))]}});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "template": template},
    });
    Workload::of(object).unwrap()
}

fn mesh(spec: Value) -> SidecarSet {
    mk_set("mesh", json!({"app": "web"}), spec)
}

fn proxy(image: &str) -> Value {
    json!({"name": "proxy", "image": image, "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}})
}

fn of(now: &Offline, then: &Offline, workloads: &[Workload]) -> Preview {
    preview(&Input { now, then, applied: &["mesh".to_owned()].into(), workloads, pods: &[] })
}

fn lines(preview: &Preview) -> Vec<String> {
    let of_workload = |workload: &WorkloadChange| {
        let container = |change: &ContainerChange| {
            let differences: Vec<String> = change.differences.iter().map(ToString::to_string).collect();
            format!("{:?} {} {}", change.change, change.container, differences.join(", ")).trim_end().to_owned()
        };
        let containers: Vec<String> = workload.containers.iter().map(container).collect();
        format!("{}/{}/{}: {}", workload.namespace, workload.kind, workload.name, containers.join("; "))
    };
    preview.workloads.iter().map(of_workload).collect()
}

fn amounts(resources: &Resources) -> String {
    resources.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_new_set_adds_its_sidecars_where_it_matches_and_nowhere_else() {
    let (now, then) = (offline([]), offline([mesh(json!({"containers": [proxy("envoy:1")]}))]));
    let workloads = [deployment("shop", "web", 3), deployment("shop", "api", 2), deployment("other", "api", 9)];
    let preview = of(&now, &then, &workloads);
    assert_eq!(lines(&preview), ["shop/Deployment/web: Added proxy"]);
    let [set] = &preview.sidecar_sets[..] else { panic!() };
    assert_eq!((set.change, set.workloads.now, set.workloads.then, set.pods.then), (Some(Change::Added), 0, 1, 3));
    let [shop] = &preview.namespaces[..] else {
        panic!("only namespaces with a workload that is matched: {:?}", preview.namespaces)
    };
    assert_eq!((shop.namespace.as_str(), shop.workloads, shop.pods), ("shop", 1, 5));
    assert_eq!(amounts(&shop.requests.now), "cpu=2500m memory=5Gi", "a limit of memory is its request");
    assert_eq!(amounts(&shop.requests.then), "cpu=2800m memory=5Gi");
    assert_eq!(amounts(&shop.limits.then), "cpu=5600m memory=5Gi");
}

#[test]
fn a_changed_set_changes_its_sidecars_and_one_that_matches_no_longer_takes_them_away() {
    let now = offline([mesh(json!({"containers": [proxy("envoy:1"), mk_container("logs")]}))]);
    let then = offline([mesh(json!({"containers": [proxy("envoy:2")]}))]);
    let workloads = [deployment("shop", "web", 1)];
    assert_eq!(
        lines(&of(&now, &then, &workloads)),
        ["shop/Deployment/web: Changed proxy image: envoy:1 -> envoy:2; Removed logs"]
    );
    let gold = json!({"containers": [proxy("envoy:2")], "namespaceSelector": {"matchLabels": {"tier": "iron"}}});
    let preview = of(&now, &offline([mesh(gold)]), &workloads);
    assert_eq!(lines(&preview), ["shop/Deployment/web: Removed proxy; Removed logs"]);
    assert_eq!(preview.sidecar_sets[0].workloads, Compared { now: 1, then: 0 });
}

#[test]
fn a_canary_is_shown_with_the_set_whose_pods_it_takes() {
    let base = mk_set("base", json!({"app": "web"}), json!({"containers": [proxy("envoy:1")]}));
    let gold = json!({"matchLabels": {"tier": "gold"}});
    let mut canary = mesh(json!({"containers": [proxy("envoy:2")], "namespaceSelector": gold}));
    canary.metadata.annotations = Some(
        [(names::CANARY.to_owned(), "true".to_owned()), (names::CANARY_BASE.to_owned(), "base".to_owned())].into(),
    );
    let (now, then) = (offline([base.clone()]), offline([base, canary]));
    let preview = of(&now, &then, &[deployment("shop", "web", 3), deployment("other", "web", 9)]);
    let seen: Vec<_> = preview
        .sidecar_sets
        .iter()
        .map(|set| (set.sidecar_set.as_str(), set.change, set.pods.now, set.pods.then))
        .collect();
    assert_eq!(seen, [("base", None, 12, 9), ("mesh", Some(Change::Added), 0, 3)]);
    assert_eq!(lines(&preview), ["shop/Deployment/web: Changed proxy image: envoy:1 -> envoy:2"]);
}

#[test]
fn what_is_in_force_already_changes_nothing() {
    let now = offline([mesh(json!({"containers": [proxy("envoy:1")]}))]);
    let preview = of(&now, &now.clone(), &[deployment("shop", "web", 1)]);
    assert_eq!((lines(&preview), preview.sidecar_sets[0].change), (Vec::new(), None));
    assert_eq!(preview.sidecar_sets[0].workloads, Compared { now: 1, then: 1 });
}

#[test]
fn volumes_and_annotations_are_shown_beside_containers() {
    let mounting = |volume: Value| {
        let proxy = json!({"name": "proxy", "image": "p", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        mesh(json!({"containers": [proxy], "volumes": [volume], "patchPodMetadata": [{"annotations": {"a": "1"}}]}))
    };
    let (now, then) = (offline([]), offline([mounting(json!({"name": "v", "emptyDir": {}}))]));
    let preview = of(&now, &then, &[deployment("shop", "web", 1)]);
    let outside: Vec<String> = preview.workloads[0].pod.iter().map(ToString::to_string).collect();
    assert_eq!(outside, ["annotations.a: + 1", "spec.volumes[v]: + v"]);
}

#[test]
fn pods_that_would_be_refused_say_why_and_keep_their_sums() {
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu - 5"}}});
    let strict = mesh(json!({"containers": [{"name": "proxy", "image": "p", "resourcesPolicy": policy}]}));
    let (now, then) = (offline([]), offline([strict]));
    let first = of(&now, &then, &[deployment("shop", "web", 1)]);
    let [(workload, refusal)] = &first.refused().collect::<Vec<_>>()[..] else { panic!() };
    assert!(refusal.message.contains("calculation result is negative") && !refusal.also_now, "{refusal:?}");
    assert_eq!(workload.requests.now, workload.requests.then);
    assert!(of(&then, &then.clone(), &[deployment("shop", "web", 1)]).workloads[0].refused.as_ref().unwrap().also_now);
}

#[test]
fn a_sidecar_beyond_a_limit_range_is_a_refusal() {
    let range = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
    let with_range = |sets: Vec<SidecarSet>| Offline {
        limit_ranges: [("shop".to_owned(), vec![range.clone()])].into(),
        ..offline(sets)
    };
    let (now, then) = (with_range(vec![]), with_range(vec![mesh(json!({"containers": [proxy("envoy:1")]}))]));
    let preview = of(&now, &then, &[deployment("shop", "web", 1), deployment("other", "web", 1)]);
    let refused: Vec<(&str, &str)> =
        preview.refused().map(|(workload, refusal)| (workload.namespace.as_str(), refusal.message.as_str())).collect();
    assert_eq!(refused, [("shop", "LimitRange: maximum cpu usage per Pod is 1, but limit is 1200m")]);
}

#[test]
fn the_token_of_a_stored_pod_is_no_difference() {
    let app = json!({"name": "app", "image": "app:1", "volumeMounts": [
        {"name": "data", "mountPath": "/data"},
        {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
    ]});
    let stored = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "containers": [app], "serviceAccountName": "default", "serviceAccount": "default",
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-x", "projected": {}}],
        },
    });
    let mut sharing = proxy("envoy:1");
    sharing["shareVolumePolicy"] = json!({"type": "enabled"});
    let now = offline([mesh(json!({"containers": [proxy("envoy:1")]}))]);
    let then = offline([mesh(json!({"containers": [sharing]}))]);
    let preview = of(&now, &then, &[Workload::of(stored).unwrap()]);
    assert_eq!(lines(&preview), ["shop/Pod/web-0: Changed proxy volumeMounts[data].mountPath: + /data"]);
    assert_eq!(preview.workloads[0].pod, []);
}

#[test]
fn the_defaults_of_a_limit_range_count_for_sidecars() {
    let range = json!({"spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "64Mi"}}]}});
    let with_range = |sets: Vec<SidecarSet>| Offline {
        limit_ranges: [("shop".to_owned(), vec![range.clone()])].into(),
        ..offline(sets)
    };
    let (now, then) = (with_range(vec![]), with_range(vec![mesh(json!({"containers": [mk_container("proxy")]}))]));
    let preview = of(&now, &then, &[deployment("shop", "web", 2)]);
    assert_eq!(amounts(&preview.namespaces[0].requests.then), "cpu=1 memory=2176Mi");
}

#[test]
fn opted_out_templates_excluded_namespaces_and_workloads_without_pods_count_for_what_they_are() {
    let (now, mut then) = (offline([]), offline([mesh(json!({"containers": [proxy("envoy:1")]}))]));
    let mut opted_out = deployment("shop", "web", 1);
    opted_out.object["spec"]["template"]["metadata"]["annotations"] = json!({"pillion.dev/inject": "false"});
    assert_eq!(lines(&of(&now, &then, &[opted_out])), Vec::<String>::new());
    let idle = of(&now, &then, &[deployment("shop", "web", 0)]);
    assert_eq!(lines(&idle), ["shop/Deployment/web: Added proxy"]);
    assert_eq!(amounts(&idle.namespaces[0].requests.then), "cpu=0 memory=0");
    then.excluded_namespaces.insert("shop".to_owned());
    assert_eq!(lines(&of(&now, &then, &[deployment("shop", "web", 1)])), Vec::<String>::new());
}

#[test]
fn a_malformed_template_is_refused_now_and_then() {
    let mut broken = deployment("shop", "web", 1);
    broken.object["spec"]["template"]["spec"]["containers"] = json!(5);
    let (now, then) = (offline([]), offline([mesh(json!({"containers": [proxy("envoy:1")]}))]));
    let mut other = deployment("shop", "api", 1);
    other.object["spec"]["template"]["spec"]["containers"] = json!(5);
    let preview = of(&now, &then, &[broken, other]);
    assert_eq!(preview.refused().count(), 1, "only those that the SidecarSets are about");
    assert!(
        preview.workloads[0].refused.as_ref().unwrap().message.contains("spec.template.spec.containers"),
        "{preview:?}"
    );
}
