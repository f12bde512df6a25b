use clap::Parser as _;
use serde_json::json;

use super::*;
use crate::args::Cli;

fn autoscaler(mode: &str) -> VerticalPodAutoscaler {
    let both = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    vpa::decode(json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "updatePolicy": {"updateMode": mode}
        },
        "status": {"recommendation": {"containerRecommendations": [
            {"containerName": "app", "target": both("250m", "200Mi"), "lowerBound": both("100m", "100Mi"),
             "upperBound": both("500m", "1Gi"), "uncappedTarget": both("250m", "180Mi")},
            {"containerName": "mesh", "target": {"cpu": "50m"}, "lowerBound": {"cpu": "25m"}, "upperBound": {"cpu": "80m"}}
        ]}}
    }))
    .unwrap()
}

fn target() -> Target {
    let resources = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let pod = |created: &str, cpu: &str| {
        json!({
            "metadata": {"name": created, "creationTimestamp": created},
            "spec": {
                "containers": [{"name": "app", "resources": resources(cpu, "2Gi")}],
                "initContainers": [{"name": "mesh", "restartPolicy": "Always", "resources": resources("10m", "1Gi")}]
            }
        })
    };
    let pods = vec![pod("2026-01-01T00:00:00Z", "9"), pod("2026-01-02T00:00:00Z", "300m")];
    let template = json!({"spec": {
        "containers": [{"name": "app", "resources": resources("100m", "100Mi")}],
        "initContainers": [{"name": "mesh", "restartPolicy": "Always", "resources": resources("10m", "1Gi")}]
    }});
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}});
    Target { workload, pods, ..Target::default() }
}

#[test]
fn why_pods_are_not_updated_is_a_reason() {
    let held = Target { updates: vec!["web-0: is not updated: no".to_owned()], ..target() };
    let rows = rows(&autoscaler("Recreate"), &[], &held);
    let reasons: Vec<String> = rows.iter().flat_map(Row::lines).filter_map(|line| line.cells.last().cloned()).collect();
    assert!(
        !reasons.is_empty() && reasons.iter().all(|it| it.ends_with("pod web-0: is not updated: no")),
        "{reasons:?}"
    );
}

fn checkpoint() -> VerticalPodAutoscalerCheckpoint {
    vpa::decode_checkpoint(json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": "web-app", "namespace": "shop"}, "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {
            "version": "v3", "totalSamplesCount": 31,
            "firstSampleStart": "2026-01-01T00:00:00Z", "lastSampleStart": "2026-01-01T00:30:00Z",
            "cpuHistogram": {
                "referenceTimestamp": "2026-01-01T00:00:00Z", "bucketWeights": {"1": 10000, "4": 5000, "9": 1000}, "totalWeight": 3.1
            },
            "memoryHistogram": {"referenceTimestamp": "2026-01-01T00:00:00Z", "bucketWeights": {"3": 10000}, "totalWeight": 1.0}
        }
    }))
    .unwrap()
}

#[test]
fn each_container_has_a_line_for_each_resource() {
    let rows = rows(&autoscaler("Off"), &[checkpoint()], &target());
    let text = shown(&rows, RecommendOutput::Table, RecommendOrder::Name).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], rows::HEADER);
    assert_eq!(
        lines[1][..11],
        ["shop", "web", "Deployment/web", "app", "cpu", "300m", "250m", "100m", "500m", "31", "8800m"]
    );
    assert_eq!(lines[2][4..11], ["memory", "2Gi", "200Mi", "100Mi", "1Gi", "31", "3696Mi"]);
    assert_eq!(lines[2][11..].join(" "), "capped by its policy, too much memory, mode Off");
    assert_eq!(lines[3][3..11], ["mesh", "cpu", "10m", "50m", "25m", "80m", "-", "-80m"]);
    assert_eq!(lines[3][11..].join(" "), "too little cpu, mode Off");
    assert_eq!(lines.len(), 4);
}

/// The other pod of the target requests 9 cores.
#[test]
fn savings_are_those_of_every_pod_and_can_be_sorted() {
    let rows = rows(&autoscaler("Off"), &[], &target());
    let sorted: Vec<String> = lines(&rows, RecommendOrder::Saves)
        .iter()
        .map(|line| format!("{} {} {}", line.cells[3], line.resource, line.cells[10]))
        .collect();
    assert_eq!(sorted, ["app cpu 8800m", "mesh cpu -80m", "app memory 3696Mi"]);
    let mut scaled_to_zero = target();
    scaled_to_zero.pods.clear();
    scaled_to_zero.workload["spec"]["replicas"] = json!(3);
    let saves = super::rows(&autoscaler("Off"), &[], &scaled_to_zero)[0].lines().next().unwrap().cells[10].clone();
    assert_eq!(saves, "-450m", "3 times the 100m of the template, less 250m each");
}

#[test]
fn a_name_that_a_terminal_would_act_on_is_shown_as_text() {
    let mut autoscaler = autoscaler("Off");
    let recommended = autoscaler.status.recommendation.as_mut().unwrap();
    recommended.container_recommendations[0].container_name = "\u{1b}[31mapp".to_owned();
    let text = shown(&rows(&autoscaler, &[], &target()), RecommendOutput::Table, RecommendOrder::Name).unwrap();
    assert!(text.contains("^[[31mapp") && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_spreadsheet_has_the_same_cells() {
    let rows = rows(&autoscaler("Recreate"), &[], &target());
    let text = shown(&rows, RecommendOutput::Csv, RecommendOrder::Name).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "namespace,vpa,workload,container,resource,current,target,lower,upper,samples,saves,reason");
    assert_eq!(
        lines[1],
        r#"shop,web,Deployment/web,app,cpu,300m,250m,100m,500m,-,8800m,"capped by its policy, too much memory""#
    );
}

#[test]
fn a_patch_has_the_requests_of_containers_and_native_sidecars() {
    let rows = rows(&autoscaler("Off"), &[], &target());
    let patch = &patches(&rows)[0];
    assert_eq!(
        patch["spec"]["template"]["spec"],
        json!({
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "250m", "memory": "200Mi"}}}],
            "initContainers": [{"name": "mesh", "resources": {"requests": {"cpu": "50m"}}}]
        })
    );
}

/// A recommendation is sorted by name, and the native sidecars of this template are not.
#[tokio::test(start_paused = true)]
async fn a_patch_that_is_applied_changes_only_the_requests_and_owns_only_them() {
    let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await.unwrap();
    let client = kube::Client::new(server.router(), "default");
    let send = async |method: &str, path: &str, content: &str, object: &Value| -> Value {
        let request = axum::http::Request::builder().method(method).uri(path).header("content-type", content);
        client.request(request.body(serde_json::to_vec(object).unwrap()).unwrap()).await.unwrap()
    };
    let with = |name: &str, more: Value| {
        let requests = json!({"requests": {"cpu": "10m", "memory": "10Mi"}});
        let mut container = json!({"name": name, "image": "x", "resources": requests});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        container
    };
    let (init, sidecar) = (|name| with(name, json!({})), |name| with(name, json!({"restartPolicy": "Always"})));
    let pod = json!({
        "containers": [with("web", json!({})), with("cache", json!({})), with("app", json!({}))],
        "initContainers": [init("prep"), sidecar("mesh"), init("migrate"), sidecar("logs")],
    });
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template}
    });
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let created = send("POST", &format!("{all}?fieldManager=team"), "application/json", &deployment).await;

    let mut autoscaler = autoscaler("Off");
    autoscaler.metadata.namespace = Some("default".into());
    let recommended = ["app", "cache", "logs", "mesh", "web"]
        .map(|name| json!({"containerName": name, "target": {"cpu": "30m", "memory": "30Mi"}}));
    let recommendation = json!({"containerRecommendations": recommended});
    autoscaler.status.recommendation = Some(serde_json::from_value(recommendation).unwrap());
    let target = Target { workload: created.clone(), ..Target::default() };
    let patch = patches(&rows(&autoscaler, &[], &target)).remove(0);
    let path = format!("{all}/web?fieldManager=pillion-recommend&force=true");
    let applied = send("PATCH", &path, "application/apply-patch+yaml", &patch).await;

    let mut expected = created["spec"].clone();
    for (list, sized) in [("containers", vec![0, 1, 2]), ("initContainers", vec![1, 3])] {
        for place in sized {
            expected["template"]["spec"][list][place]["resources"]["requests"] =
                json!({"cpu": "30m", "memory": "30Mi"});
        }
    }
    assert_eq!(applied["spec"], expected);
    let managers = applied["metadata"]["managedFields"].as_array().unwrap();
    let ours = managers.iter().find(|entry| entry["manager"] == "pillion-recommend").unwrap();
    let container = json!({
        ".": {}, "f:name": {}, "f:resources": {"f:requests": {"f:cpu": {}, "f:memory": {}}}
    });
    let containers = |names: &[&str]| -> Value {
        names.iter().map(|name| (format!("k:{{\"name\":\"{name}\"}}"), container.clone())).collect()
    };
    let owned = json!({"f:spec": {"f:template": {"f:spec": {
        "f:containers": containers(&["app", "cache", "web"]), "f:initContainers": containers(&["logs", "mesh"])
    }}}});
    assert_eq!(ours["fieldsV1"], owned);
}

#[test]
fn a_target_of_two_autoscalers_has_one_patch() {
    let of = |name: &str, created: &str| {
        let mut autoscaler = autoscaler("Off");
        autoscaler.metadata.name = Some(name.to_owned());
        autoscaler.metadata.creation_timestamp = Some(serde_json::from_value(json!(created)).unwrap());
        autoscaler
    };
    let (newer, older) = (of("a", "2026-01-02T00:00:00Z"), of("b", "2026-01-01T00:00:00Z"));
    let (kept, warnings) = without_rivals(vec![&newer, &older]);
    assert_eq!(kept.iter().map(|it| it.name()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(warnings, [r#""a" is left out: "b" is older and sizes the same target"#]);
}

/// Applied on the server, a container that the template does not have would be a new one, without an image.
#[test]
fn a_patch_leaves_out_what_the_template_does_not_have() {
    let mut target = target();
    target.workload["spec"]["template"]["spec"]["initContainers"] = json!([]);
    let rows = rows(&autoscaler("Off"), &[], &target);
    assert_eq!(rows.len(), 2, "the pods have it");
    let patch = &patches(&rows)[0]["spec"]["template"]["spec"];
    assert_eq!(patch.as_object().unwrap().keys().collect::<Vec<_>>(), ["containers"]);
    let warnings = left_out(&rows);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with(r#"container "mesh" is left out: the template of Deployment "web""#),
        "{warnings:?}"
    );
}

/// Requests above the limits of the template would be refused.
#[test]
fn a_patch_keeps_limits_in_proportion_and_within_limit_ranges() {
    let mut target = target();
    let app = &mut target.workload["spec"]["template"]["spec"]["containers"][0];
    app["resources"]["limits"] = json!({"cpu": "200m"});
    let of = |autoscaler: &VerticalPodAutoscaler, target: &Target| {
        patches(&rows(autoscaler, &[], target))[0]["spec"]["template"]["spec"]["containers"][0]["resources"].clone()
    };
    let requests = json!({"cpu": "250m", "memory": "200Mi"});
    assert_eq!(of(&autoscaler("Off"), &target), json!({"requests": requests, "limits": {"cpu": "500m"}}));
    let range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "300m"}}]}});
    target.ranges = LimitRanges::merge([&range]);
    assert_eq!(of(&autoscaler("Off"), &target)["limits"], json!({"cpu": "300m"}));
}

#[test]
fn of_a_target_that_is_not_known_nothing_is_said_about_requests() {
    let mut of_set = autoscaler("Off");
    of_set.spec.target_ref = Some(
        serde_json::from_value(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": "logs"}))
            .unwrap(),
    );
    let rows = rows(&of_set, &[], &Target::default());
    let text = shown(&rows, RecommendOutput::Csv, RecommendOrder::Name).unwrap();
    assert!(text.contains(r#"-,-,"capped by its policy, current requests are not known, mode Off""#), "{text}");
    assert!(patches(&rows).is_empty());
    assert_eq!(left_out(&rows).len(), 2);
}

/// The selector of a Deployment may have expressions only, and a `ReplicationController` has labels alone: pods are known by their controllers.
#[tokio::test(start_paused = true)]
async fn the_pods_of_a_target_are_those_that_it_controls() {
    let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await.unwrap();
    let client = kube::Client::new(server.router(), "default");
    let create = async |path: &str, object: Value| -> Value {
        let request = axum::http::Request::post(path).header("content-type", "application/json");
        client.request(request.body(serde_json::to_vec(&object).unwrap()).unwrap()).await.unwrap()
    };
    create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
    let spec = json!({"containers": [{"name": "app", "image": "x"}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
    let set = json!({"metadata": {"name": "web"}, "spec": {"serviceName": "web", "selector": selector, "template": template}});
    let set = create("/apis/apps/v1/namespaces/default/statefulsets", set).await;
    let old = json!({"metadata": {"name": "old"}, "spec": {"selector": {"app": "web"}, "template": template}});
    let old = create("/api/v1/namespaces/default/replicationcontrollers", old).await;
    for (owner, kind, version) in [(&set, "StatefulSet", "apps/v1"), (&old, "ReplicationController", "v1")] {
        let metadata = &owner["metadata"];
        let owner = json!({"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": true});
        let name = format!("{}-0", metadata["name"].as_str().unwrap());
        let metadata = json!({"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]});
        create("/api/v1/namespaces/default/pods", json!({"metadata": metadata, "spec": spec})).await;
    }
    let reader = Reader::new(client.clone());
    for (version, kind, name) in [("apps/v1", "StatefulSet", "web"), ("v1", "ReplicationController", "old")] {
        let mut autoscaler = autoscaler("Off");
        autoscaler.metadata.namespace = Some("default".into());
        let reference = json!({"apiVersion": version, "kind": kind, "name": name});
        autoscaler.spec.target_ref = Some(serde_json::from_value(reference).unwrap());
        let target = super::target(&reader, &autoscaler).await.unwrap_or_default();
        let names: Vec<&Value> = target.pods.iter().map(|pod| &pod["metadata"]["name"]).collect();
        assert_eq!(names, [&json!(format!("{name}-0"))], "{kind}");
    }
}

#[test]
fn a_number_that_the_status_does_not_have_is_pointed_out() {
    let text = explain::text(&autoscaler("Off"), &[checkpoint()], &target().containers()).unwrap();
    assert!(text.contains("    the status says 250m: the recommender has other settings or newer samples"), "{text}");
    let mut agreed = autoscaler("Off");
    agreed.status.recommendation = None;
    let text = explain::text(&agreed, &[checkpoint()], &target().containers()).unwrap();
    assert!(!text.contains("the status says"), "{text}");
}

#[test]
fn usage_is_drawn_with_its_percentiles() {
    let text = histogram::text(&[checkpoint()]).unwrap();
    let marked = |mark: &str| text.lines().find(|line| line.contains(mark)).unwrap().trim_start().to_owned();
    assert!(marked("◀ 50% (lower bound)").starts_with("20m "), "{text}");
    assert!(marked("◀ 90% (target)").starts_with("55m "), "{text}");
    assert!(marked("◀ 95% (upper bound)").starts_with("125m "), "{text}");
    assert!(text.contains("app: cpu usage (31 samples, newer ones count more)"), "{text}");
    assert!(text.contains("app: memory peaks"), "{text}");
    assert!(histogram::text(&[]).unwrap_err().starts_with("there is no checkpoint yet"));
}

#[test]
fn each_number_is_explained_from_the_percentile_to_the_policy() {
    let mut autoscaler = autoscaler("Off");
    autoscaler.spec.resource_policy = Some(
        serde_json::from_value(
            json!({"containerPolicies": [{"containerName": "app", "maxAllowed": {"memory": "50Mi"}}]}),
        )
        .unwrap(),
    );
    let text = explain::text(&autoscaler, &[checkpoint()], &target().containers()).unwrap();
    assert!(text.contains("  cpu target: 90th percentile of cpu is 55m, with margin 63m = 63m\n"), "{text}");
    assert!(text.contains("at least 250Mi = 250Mi, 50Mi by its policy\n"), "{text}");
}

#[test]
fn a_picture_has_bars_and_the_percentiles_that_recommendations_are_made_from() {
    let read = histogram::read(&[checkpoint()]).unwrap();
    let svg = picture::svg(&histogram::histograms(&read));
    assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("app: cpu usage (31 samples") && svg.contains("app: memory peaks"));
    // Three buckets of CPU and one of memory, and the background.
    assert_eq!(svg.matches("<rect").count(), 5);
    for percentile in ["50% of use", "90% of use", "95% of use"] {
        assert_eq!(svg.matches(percentile).count(), 2, "{percentile}");
    }
    let numbers = svg.split('"').filter(|text| text.contains("NaN") || text.contains("inf"));
    assert_eq!(numbers.count(), 0);
}

#[test]
fn a_picture_needs_the_name_of_an_autoscaler_and_no_further_flag() {
    let args = |words: &[&str]| {
        let words = ["pillion", "recommend"].iter().chain(words);
        let crate::args::Command::Recommend(args) = Cli::try_parse_from(words).unwrap().command else { unreachable!() };
        args
    };
    let drawn = drawn(&args(&["web", "-o", "svg"]), &[checkpoint()]).unwrap();
    assert!(drawn.starts_with("<svg"), "{drawn}");
    for nameless in [&["-o", "svg"][..], &["web", "--all-namespaces", "-o", "svg"]] {
        let refused = run(&args(nameless)).unwrap_err();
        assert!(matches!(&refused, Failure::Misuse(said) if said[0].contains("name it")), "{refused:?}");
    }
}

#[test]
fn what_a_pod_gets_is_within_its_limit_range() {
    let ranges = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "200m"}}]}});
    let pod = json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}});
    let pod = pillion_rightsize::PodView::new(&pillion_api::pod::Pod::new(pod).unwrap());
    let ranges = pillion_rightsize::LimitRanges::merge([&ranges]);
    let text = explain::of_pod(&autoscaler("Recreate"), &pod, &ranges, vpa::Gates::default());
    assert!(
        text.starts_with("app in this pod: requests.cpu = 200m, requests.memory = 200Mi, limits.cpu = 200m ("),
        "{text}"
    );
    assert!(text.contains("cpu capped to fit Max in container LimitRange"), "{text}");
}
