use pillion_api::pod::Pod;
use pillion_gates::Gates;
use pillion_note::Severity;

use super::*;

fn gates(text: &str) -> Gates {
    Gates::default().with(&text.parse().unwrap())
}

const ON: &str = "SidecarField=true";

/// The pod after its marks were honoured, and the warnings.
fn admitted(pod: Value, means: &Means) -> (Value, Vec<String>) {
    let pod = Pod::new(pod).unwrap();
    let mut draft = Draft::new(&pod);
    apply(&mut draft, Vec::new(), gates(ON), means).unwrap();
    let warnings =
        draft.notes().iter().filter(|note| note.severity == Severity::Warning).map(ToString::to_string).collect();
    (draft.to_value(), warnings)
}

/// The pod and all that is said of it, with marks of SidecarSets: the container, the mode, whether its error fails the pod.
fn admitted_with(pod: Value, sets: &[(&str, Option<SidecarMode>, bool)], means: &Means) -> (Value, Vec<String>) {
    let pod = Pod::new(pod).unwrap();
    let mut draft = Draft::new(&pod);
    let marks = sets.iter().map(|(name, mode, fail_pod)| {
        let mut containers = draft.containers(ContainerList::Containers);
        let (key, _) = containers.find(|(_, container)| container.name() == *name).unwrap();
        Mark { key, source: Source::SidecarSet("mesh".to_owned()), mode: mode.clone(), fail_pod: *fail_pod }
    });
    let marks = marks.collect();
    apply(&mut draft, marks, gates(ON), means).unwrap();
    (draft.to_value(), draft.notes().iter().map(ToString::to_string).collect())
}

fn refused(pod: Value) -> String {
    let pod = Pod::new(pod).unwrap();
    apply(&mut Draft::new(&pod), Vec::new(), gates(ON), &Means::default()).unwrap_err().to_string()
}

/// A Job's pod with the annotations.
fn job(annotations: Value) -> Value {
    json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {
        "restartPolicy": "Never",
        "initContainers": [{"name": "setup"}],
        "containers": [
            {"name": "web", "image": "web:1"},
            {"name": "main", "image": "main:1", "ports": [{"containerPort": 8080}]},
            {"name": "log", "image": "log:1"},
        ],
    }})
}

fn names_in(pod: &Value, list: &str) -> Vec<String> {
    let containers = pod["spec"][list].as_array().unwrap().iter();
    containers.map(|container| container["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn native_sidecars_are_appended_in_the_order_of_the_containers_and_a_second_admission_changes_nothing() {
    let (pod, warnings) = admitted(job(json!({"pillion.dev/sidecars": "log, web"})), &Means::default());
    assert_eq!(names_in(&pod, "initContainers"), ["setup", "web", "log"]);
    assert_eq!(names_in(&pod, "containers"), ["main"]);
    assert_eq!(pod["spec"]["initContainers"][1], json!({"name": "web", "image": "web:1", "restartPolicy": "Always"}));
    assert_eq!(warnings, [""; 0]);
    let again = Pod::new(pod).unwrap();
    let mut draft = Draft::new(&again);
    apply(&mut draft, Vec::new(), gates(ON), &Means::default()).unwrap();
    assert!(draft.patch().0.is_empty());
}

#[test]
fn a_startup_probe_of_a_container_that_starts_later_does_not_hold_the_work_back() {
    let with_probe = |probe: Value| {
        let mut pod = job(json!({"pillion.dev/sidecars": "web"}));
        pod["spec"]["containers"][0]["startupProbe"] = probe;
        admitted(pod, &Means::default())
    };
    let (pod, warnings) = with_probe(json!({"tcpSocket": {"port": 8080}, "terminationGracePeriodSeconds": 5}));
    let web = &pod["spec"]["initContainers"][1];
    assert!(web.get("startupProbe").is_none());
    assert_eq!(web["readinessProbe"], json!({"tcpSocket": {"port": 8080}}));
    assert!(warnings[0].contains("asks port 8080 of container \"main\""), "{warnings:?}");
    let (pod, warnings) = with_probe(json!({"tcpSocket": {"port": 9000}}));
    assert_eq!(pod["spec"]["initContainers"][1]["startupProbe"], json!({"tcpSocket": {"port": 9000}}));
    assert!(warnings[0].contains("start only when its startup probe has succeeded"), "{warnings:?}");

    let mut pod = job(json!({"pillion.dev/sidecars": "web"}));
    pod["spec"]["containers"][0]["startupProbe"] = json!({"tcpSocket": {"port": 8080}});
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["/ready"]}});
    let (pod, warnings) = admitted(pod, &Means::default());
    let web = &pod["spec"]["initContainers"][1];
    assert_eq!((web.get("startupProbe"), &web["readinessProbe"]["exec"]["command"]), (None, &json!(["/ready"])));
    let removed = "it is removed, and the readiness probe that the container has stays";
    assert!(warnings[0].ends_with(removed), "{warnings:?}");
}

/// A pod whose container `web` is marked, and the restart policies of its containers.
fn job_with_policies(policy: &str, own: [Option<&str>; 3]) -> Value {
    let mut pod = job(json!({"pillion.dev/sidecars": "web"}));
    pod["spec"]["restartPolicy"] = json!(policy);
    for (i, own) in own.into_iter().enumerate() {
        if let Some(own) = own {
            pod["spec"]["containers"][i]["restartPolicy"] = json!(own);
        }
    }
    pod
}

#[test]
fn a_pod_that_is_always_restarted_ends_by_the_policies_of_its_containers() {
    let work_ends = job_with_policies("Always", [None, Some("Never"), Some("OnFailure")]);
    let (pod, warnings) = admitted(work_ends.clone(), &Means::default());
    assert_eq!((names_in(&pod, "initContainers"), warnings), (vec!["setup".into(), "web".into()], vec![]));
    let by_field = Means { field: true, wrap_image: None };
    assert_eq!(admitted(work_ends, &by_field).0["spec"]["containers"][0]["sidecar"], true);
    // One container without this policy runs for ever.
    let (_, warnings) = admitted(job_with_policies("Always", [Some("Never"), Some("Never"), None]), &by_field);
    assert!(warnings[0].contains("has no effect in a pod with restartPolicy Always"), "{warnings:?}");
}

#[test]
fn marks_without_effect_are_named_in_a_warning_and_leave_the_pod_as_it_is() {
    let mut always = job(json!({"pillion.dev/sidecars": "web"}));
    always["spec"]["restartPolicy"] = json!("Always");
    let (pod, warnings) = admitted(always.clone(), &Means::default());
    assert_eq!(pod, always);
    assert!(warnings[0].contains("has no effect in a pod with restartPolicy Always"), "{warnings:?}");

    // The policy of a container counts more than the pod's.
    let endless = job_with_policies("Never", [None, Some("Always"), Some("Never")]);
    let (pod, warnings) = admitted(endless.clone(), &Means::default());
    assert_eq!(pod, endless);
    assert!(warnings[0].contains("has no effect: container \"main\" has restartPolicy Always"), "{warnings:?}");

    let marked = Pod::new(job(json!({"pillion.dev/sidecars": "web"}))).unwrap();
    let mut draft = Draft::new(&marked);
    apply(&mut draft, Vec::new(), gates(""), &Means::default()).unwrap();
    assert!(draft.patch().0.is_empty());
    assert!(draft.notes()[0].to_string().contains("the feature gate SidecarField is off"));

    let (_, warnings) = admitted(job(json!({"pillion.dev/sidecars": "web, wbe"})), &Means::default());
    assert_eq!(warnings, [r#"Pod: the annotation pillion.dev/sidecars names "wbe", which is no container of the pod"#]);
}

#[test]
fn marks_do_nothing_under_always_in_every_mode() {
    for mode in ["Native", "Strict", "field", "Kruise"] {
        let mut pod = job(json!({}));
        pod["spec"]["restartPolicy"] = json!("Always");
        for container in pod["spec"]["containers"].as_array_mut().unwrap() {
            container["command"] = json!(["/run"]);
        }
        match mode {
            "field" => pod["spec"]["containers"][0]["sidecar"] = json!(true),
            "Kruise" => {
                pod["spec"]["containers"][0]["env"] = json!([{"name": names::KRUISE_TERMINATE, "value": "true"}]);
            }
            mode => {
                pod["metadata"]["annotations"] =
                    json!({"pillion.dev/sidecars": "web", "pillion.dev/sidecar-mode": mode});
            }
        }
        let means = Means { field: mode == "field", wrap_image: Some("pillion:1".to_owned()) };
        let (after, warnings) = admitted(pod.clone(), &means);
        assert_eq!(after, pod, "{mode}");
        let is_warned_of = |warning: &String| warning.contains("has no effect in a pod with restartPolicy Always");
        // The API server warns of its own field.
        assert_eq!(warnings.iter().any(is_warned_of), mode != "field", "{mode}: {warnings:?}");
        assert_eq!(record_of_kruise(&pod), None, "{mode}");
    }
}

#[test]
fn of_two_marks_that_disagree_the_pods_own_wins_and_the_other_is_named() {
    let pod = job(json!({"pillion.dev/sidecars": "web", "pillion.dev/sidecar-mode": "Native"}));
    let (pod, notes) = admitted_with(pod, &[("web", Some(SidecarMode::Strict), false)], &Means::default());
    assert_eq!(names_in(&pod, "initContainers"), ["setup", "web"]);
    let expected = "is marked by the annotation pillion.dev/sidecars with the mode Native, which wins over the mode Strict of this SidecarSet";
    assert!(notes.iter().any(|note| note.ends_with(expected)), "{notes:?}");
    // The annotation comes before Kruise's variable, which alone would leave the end to the manager.
    let mut both = job(json!({"pillion.dev/sidecars": "web"}));
    both["spec"]["containers"][0]["env"] = json!([{"name": names::KRUISE_TERMINATE, "value": "true"}]);
    assert_eq!(names_in(&admitted(both, &Means::default()).0, "initContainers"), ["setup", "web"]);
}

#[test]
fn of_each_native_sidecar_it_is_said_whether_its_error_fails_the_pod() {
    let sets = [("web", None, true), ("log", None, false)];
    let (pod, notes) = admitted_with(job(json!({})), &sets, &Means::default());
    assert_eq!(
        pod["metadata"]["annotations"][names::SIDECAR_RECORD],
        r#"{"method":"Native","sidecars":["web","log"],"failPod":["web"]}"#
    );
    let of = |name: &str| notes.iter().find(|note| note.contains(name)).unwrap();
    assert!(of("web").ends_with("an error of it before the end of the work fails the pod"), "{notes:?}");
    assert!(of("log").ends_with("an error of it does not fail the pod"), "{notes:?}");
}

#[test]
fn a_record_that_the_pod_came_with_counts_for_nothing() {
    let forged = r#"{"method":"Native","sidecars":["log"],"failPod":["main"]}"#;
    let annotations =
        json!({"pillion.dev/sidecars": "web", "pillion.dev/sidecar-mode": "Strict", names::SIDECAR_RECORD: forged});
    let (pod, _) = admitted_with(job(annotations), &[("log", Some(SidecarMode::Native), false)], &Means::default());
    assert_eq!(pod["metadata"]["annotations"][names::SIDECAR_RECORD], r#"{"method":"Phase","sidecars":["web"]}"#);
}

#[test]
fn marks_that_cannot_be_meant_are_refused() {
    let all = refused(job(json!({"pillion.dev/sidecars": "web,main,log"})));
    assert_eq!(
        all,
        r#"spec.containers: every container is marked as a sidecar, and at least one must do the pod's work: remove "web" from the annotation pillion.dev/sidecars, for example"#
    );
    let mut by_field = job(json!({}));
    for container in by_field["spec"]["containers"].as_array_mut().unwrap() {
        container["sidecar"] = json!(true);
    }
    assert!(refused(by_field).ends_with(r#"remove the field sidecar from "web", for example"#));
    let init = refused(job(json!({"pillion.dev/sidecars": "setup"})));
    assert!(init.starts_with(r#"metadata.annotations[pillion.dev/sidecars]: "setup" is an init container"#), "{init}");
    let mode = refused(job(json!({"pillion.dev/sidecars": "web", "pillion.dev/sidecar-mode": "strict"})));
    assert_eq!(mode, r#"metadata.annotations[pillion.dev/sidecar-mode]: "strict" is not a mode: use Native or Strict"#);
}

#[test]
fn where_the_node_knows_the_field_it_is_set_unless_a_mode_is_asked_for() {
    let means = Means { field: true, ..Means::default() };
    let (pod, _) = admitted(job(json!({"pillion.dev/sidecars": "web"})), &means);
    assert_eq!(pod["spec"]["containers"][0]["sidecar"], true);
    let (pod, _) = admitted(job(json!({"pillion.dev/sidecars": "web", "pillion.dev/sidecar-mode": "Native"})), &means);
    assert_eq!(names_in(&pod, "initContainers"), ["setup", "web"]);
    // A pod that has the field is the node's, and one that no API server would take with it loses it.
    let mut with_field = job(json!({}));
    with_field["spec"]["containers"][0]["sidecar"] = json!(true);
    assert_eq!(admitted(with_field.clone(), &means).0, with_field);
    let (pod, _) = admitted(with_field, &Means::default());
    assert_eq!(pod["spec"]["initContainers"][1], json!({"name": "web", "image": "web:1", "restartPolicy": "Always"}));
}

#[test]
fn an_error_that_fails_the_pod_is_recorded_for_the_manager() {
    let annotations = json!({"pillion.dev/sidecars": "web", "pillion.dev/fail-pod-on-sidecar-error": "true"});
    let (pod, _) = admitted(job(annotations), &Means::default());
    assert_eq!(
        pod["metadata"]["annotations"][names::SIDECAR_RECORD],
        r#"{"method":"Native","sidecars":["web"],"failPod":["web"]}"#
    );
}

#[test]
fn strict_wraps_all_commands_where_they_are_known() {
    let strict = |commands: bool, image: Option<&str>| {
        let mut pod = job(json!({"pillion.dev/sidecars": "web", "pillion.dev/sidecar-mode": "Strict"}));
        pod["spec"]["terminationGracePeriodSeconds"] = json!(7);
        if commands {
            for container in pod["spec"]["containers"].as_array_mut().unwrap() {
                container["command"] = json!(["/run", "$(ARG)"]);
                container["args"] = json!(["x"]);
            }
        }
        admitted(pod, &Means { field: false, wrap_image: image.map(str::to_owned) }).0
    };
    let pod = strict(true, Some("pillion:1"));
    let containers = &pod["spec"]["containers"];
    assert_eq!(
        containers[0]["command"],
        json!([
            "/pillion-wrap/pillion-wrap",
            "sidecar",
            "--grace=7",
            "--policy=Never",
            "--work=main",
            "--work=log",
            "--name=web",
            "--state=/pillion-wrap-state",
            "--",
            "/run",
            "$(ARG)"
        ])
    );
    assert_eq!(
        containers[1]["command"],
        json!([
            "/pillion-wrap/pillion-wrap",
            "work",
            "--name=main",
            "--state=/pillion-wrap-state",
            "--",
            "/run",
            "$(ARG)"
        ])
    );
    assert_eq!(containers[1]["args"], json!(["x"]));
    assert_eq!(
        containers[1]["volumeMounts"][0],
        json!({"name": "pillion-wrap", "mountPath": "/pillion-wrap", "readOnly": true})
    );
    assert_eq!(pod["spec"]["initContainers"][1]["image"], "pillion:1");
    assert_eq!(pod["metadata"]["annotations"][names::SIDECAR_RECORD], r#"{"method":"Wrap","sidecars":["web"]}"#);
    let again = admitted(pod.clone(), &Means { field: false, wrap_image: Some("pillion:1".to_owned()) }).0;
    assert_eq!(again, pod, "a second admission changes nothing");

    for pod in [strict(false, Some("pillion:1")), strict(true, None)] {
        assert_eq!(pod["metadata"]["annotations"][names::SIDECAR_RECORD], r#"{"method":"Phase","sidecars":["web"]}"#);
        assert_eq!(names_in(&pod, "containers"), ["web", "main", "log"]);
        assert_eq!(names_in(&pod, "initContainers"), ["setup"]);
    }
}

#[test]
fn the_init_container_that_copies_the_wrapper_is_admitted_where_pod_security_is_restricted() {
    let wrapped = |security: Value, grace: i64| {
        let mut pod = job(json!({"pillion.dev/sidecars": "web", "pillion.dev/sidecar-mode": "Strict"}));
        pod["spec"]["securityContext"] = security;
        pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        for container in pod["spec"]["containers"].as_array_mut().unwrap() {
            container["command"] = json!(["/run"]);
        }
        admitted(pod, &Means { field: false, wrap_image: Some("pillion:1".to_owned()) }).0
    };
    let pod = wrapped(json!({}), 0);
    assert_eq!(
        pod["spec"]["initContainers"][1]["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    // A kubelet gives every process two seconds after TERM.
    assert_eq!(pod["spec"]["containers"][0]["command"][2], "--grace=2");
    // It would not start as root.
    let pod = wrapped(json!({"runAsUser": 0}), 30);
    assert_eq!(pod["spec"]["initContainers"][1]["securityContext"]["runAsUser"], 65532);
}

#[test]
fn kruises_variables_are_read_as_kruise_reads_them() {
    let with = |variables: Value| {
        let mut pod = job(json!({"pillion.dev/sidecar-mode": "Strict"}));
        for container in pod["spec"]["containers"].as_array_mut().unwrap() {
            container["command"] = json!(["/run"]);
        }
        pod["spec"]["containers"][0]["env"] = variables;
        let by_manager = record_of_kruise(&pod).map(|record| record.to_string());
        let (pod, _) = admitted(pod, &Means { field: false, wrap_image: Some("pillion:1".to_owned()) });
        let by_admission = pod["metadata"]["annotations"].get(names::SIDECAR_RECORD).cloned();
        (by_manager, by_admission.map(|record| record.as_str().unwrap().to_owned()))
    };
    let by_phase = r#"{"method":"Phase","sidecars":["web"]}"#.to_owned();
    let wrapped = r#"{"method":"Wrap","sidecars":["web"]}"#.to_owned();
    let image = json!({"name": names::KRUISE_TERMINATE_WITH_IMAGE, "value": "exit:1"});
    assert_eq!(with(json!([image])), (Some(by_phase), Some(wrapped)));
    let secret = json!({"name": names::KRUISE_TERMINATE, "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}});
    assert_eq!(with(json!([secret])), (None, None), "only literal values count");
    // Where errors are to be ignored the kubelet must not compute the phase, so that the commands are not wrapped.
    let ignoring = r#"{"method":"Phase","sidecars":["web"],"ignoreErrors":["web"]}"#.to_owned();
    let variables = json!([
        {"name": names::KRUISE_TERMINATE, "value": "true"}, {"name": names::KRUISE_IGNORE_EXIT_CODE, "value": "true"}
    ]);
    assert_eq!(with(variables), (Some(ignoring.clone()), Some(ignoring)));
}

#[test]
fn kruises_variables_mark_a_container_whose_end_is_left_to_the_manager() {
    let mut pod = job(json!({}));
    pod["spec"]["containers"][0]["env"] = json!([{"name": names::KRUISE_TERMINATE, "value": "True"}]);
    pod["spec"]["containers"][2]["env"] = json!([{"name": names::KRUISE_TERMINATE, "value": "no"}]);
    assert!(has_own_marks(&pod));
    let (after, _) = admitted(pod, &Means::default());
    assert_eq!(names_in(&after, "containers"), ["web", "main", "log"]);
    assert_eq!(after["metadata"]["annotations"][names::SIDECAR_RECORD], r#"{"method":"Phase","sidecars":["web"]}"#);
    assert!(!has_own_marks(&job(json!({}))));
}

/// What is said of a pod when its marks are honoured, and the record that it gets.
fn outcome(pod: &Value) -> (Vec<String>, Value) {
    let pod = Pod::new(pod.clone()).unwrap();
    let mut draft = Draft::new(&pod);
    apply(&mut draft, Vec::new(), gates(ON), &Means::default()).unwrap();
    let record = draft.to_value()["metadata"]["annotations"][names::SIDECAR_RECORD].take();
    (draft.notes().iter().map(ToString::to_string).collect(), record)
}

#[test]
fn every_setting_of_the_table_has_an_effect_with_a_value_that_counts_and_none_with_another() {
    use table::Values;

    let strict = json!({"pillion.dev/sidecars": "web,log", "pillion.dev/sidecar-mode": "Strict"});
    let pods = [json!({}), json!({"pillion.dev/sidecars": "web"}), strict].map(job);
    for setting in table::settings().filter(|setting| !matches!(setting.place, Place::SidecarSet(_))) {
        let has_effect = |value: &str| {
            pods.iter().any(|pod| {
                let mut with = pod.clone();
                match setting.place {
                    Place::Annotation(name) => with["metadata"]["annotations"][name] = json!(value),
                    Place::Variable(name) => {
                        with["spec"]["containers"][2]["env"] = json!([{"name": name, "value": value}]);
                    }
                    Place::Field(name) | Place::SidecarSet(name) => {
                        with["spec"]["containers"][2][name] = json!(value == "true");
                    }
                }
                outcome(pod) != outcome(&with)
            })
        };
        let (counts, does_not) = match setting.values {
            Values::True => ("true", Some("TRUE")),
            Values::TrueInAnyCase => ("TRUE", Some("1")),
            Values::NotEmpty => ("exit:1", Some("")),
            Values::Containers => ("log", None),
            Values::OneOf(names) => (*names.last().unwrap(), None),
        };
        assert!(has_effect(counts), "{} = {counts}", setting.place);
        assert!(does_not.is_none_or(|value| !has_effect(value)), "{} = {does_not:?}", setting.place);
    }
}

#[test]
fn the_variable_that_marks_a_container_is_named() {
    let mut pod = job(json!({}));
    pod["spec"]["containers"][0]["env"] = json!([{"name": names::KRUISE_TERMINATE_WITH_IMAGE, "value": "exit:1"}]);
    let (notes, _) = outcome(&pod);
    assert!(notes[0].contains(&format!("its variable {} says", names::KRUISE_TERMINATE_WITH_IMAGE)), "{notes:?}");
}

#[test]
fn the_table_of_the_documentation_is_this_one() {
    let page = include_str!("../../../../../docs/lifecycle.md");
    let (_, rest) = page.split_once("<!-- begin: marks -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- end: marks -->").unwrap();
    assert_eq!(table, super::table(), "docs/lifecycle.md is out of date: run `cargo xtask gen`");
}
