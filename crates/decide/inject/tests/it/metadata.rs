use pillion_api::pod::Pod;
use pillion_note::Denied;
use pillion_testkit::{mk_container, mk_set};
use serde_json::{Value, json};

use super::{base_pod, inject, try_inject};

fn patched(annotations: Value, patches: &[Value]) -> Result<Value, Denied> {
    let mut app = base_pod().into_value();
    app["metadata"]["annotations"] = annotations;
    let sets = patches
        .iter()
        .enumerate()
        .map(|(i, patch)| mk_set(&format!("s{i}"), json!({"app": "test"}), json!({"patchPodMetadata": [patch]})));
    try_inject(&Pod::new(app).unwrap(), sets).map(|(pod, _)| pod["metadata"]["annotations"].clone())
}

#[test]
fn each_policy_treats_an_annotation_that_is_there_in_its_own_way() {
    let policy = |policy: &str, value: &str| {
        patched(json!({"k": "old"}), &[json!({"patchPolicy": policy, "annotations": {"k": value, "new": "{}"}})])
    };
    assert_eq!(policy("Retain", "v").unwrap(), json!({"k": "old", "new": "{}"}));
    assert_eq!(policy("Overwrite", "v").unwrap(), json!({"k": "v", "new": "{}"}));
    let denied = policy("MergePatchJson", "{}").unwrap_err().to_string();
    assert!(
        denied.starts_with(
            r#"SidecarSet "s0": patchPodMetadata cannot merge annotation "k" of the pod: its value is not a JSON object"#
        ),
        "{denied}"
    );
}

#[test]
fn json_of_two_sets_is_merged() {
    let merge = |json: &str| json!({"patchPolicy": "MergePatchJson", "annotations": {"key1": json}});
    assert_eq!(
        patched(json!({}), &[merge(r#"{"log-agent":1}"#), merge(r#"{"envoy":2}"#)]).unwrap(),
        json!({"key1": r#"{"envoy":2,"log-agent":1}"#})
    );
}

#[test]
fn the_pod_records_what_was_injected() {
    let set = |name: &str| {
        mk_set(
            name,
            json!({"app": "test"}),
            json!({
                "initContainers": [mk_container(&format!("{name}-init")), {"name": format!("{name}-native"), "image": "i", "restartPolicy": "Always"}],
                "containers": [mk_container(&format!("{name}-b")), mk_container(&format!("{name}-a"))]
            }),
        )
    };
    let mut app = base_pod().into_value();
    app["metadata"]["annotations"] =
        json!({"kruise.io/sidecarset-hash": r#"{"older":"abc"}"#, "kruise.io/sidecarset-injected-list": "older"});
    let pod = inject(&Pod::new(app).unwrap(), [set("s1"), set("s3")]);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["kruise.io/sidecarset-injected-list"], "older,s1,s3");
    let hash = pillion_api::sidecarset::hash(&set("s1"));
    let revision = pillion_api::sidecarset::revision::current_name(&set("s1"));
    let text = annotations["kruise.io/sidecarset-hash"].as_str().unwrap();
    let record = format!(
        r#""s1":{{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"{hash}","sidecarSetName":"s1","sidecarList":["s1-a","s1-b","s1-native"],"controllerRevision":"{revision}"}}"#
    );
    assert!(text.contains(&record), "{text}");
    assert!(
        text.starts_with(
            r#"{"older":{"updateTimestamp":null,"hash":"abc","sidecarSetName":"older","sidecarList":null},"s1":"#
        ),
        "{text}"
    );
}

#[test]
fn the_record_names_the_revision_of_the_spec_and_not_the_one_that_the_status_lags_behind_with() {
    let mut set = mk_set("s", json!({"app": "test"}), json!({"containers": [mk_container("c")]}));
    let revision = |set| {
        let pod = inject(&base_pod(), [set]);
        let records: Value =
            serde_json::from_str(pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap())
                .unwrap();
        records["s"]["controllerRevision"].as_str().unwrap().to_owned()
    };
    let computed = revision(set.clone());
    let status = set.status.get_or_insert_default();
    status.latest_revision = Some("s-old".to_owned());
    assert_eq!(revision(set.clone()), computed);
    set.status.get_or_insert_default().collision_count = Some(1);
    assert_ne!(revision(set), computed, "two revisions whose hashes collide have different names");
}

#[test]
fn the_record_of_another_set_is_not_touched() {
    let other = r#""other":{"futureField":1,"sidecarList":null,"hash":null}"#;
    let mut app = base_pod().into_value();
    app["metadata"]["annotations"] = json!({"kruise.io/sidecarset-hash": format!("{{{other}}}")});
    let set = mk_set("s", json!({"app": "test"}), json!({"containers": [mk_container("c")]}));
    let pod = inject(&Pod::new(app).unwrap(), [set]);
    let text = pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap();
    assert!(text.starts_with(&format!("{{{other},")), "{text}");
}

#[test]
fn a_record_that_cannot_be_read_is_answered_with_its_name() {
    let mut app = base_pod().into_value();
    app["metadata"]["annotations"] = json!({"kruise.io/sidecarset-hash": "garbage"});
    let set = mk_set("s", json!({"app": "test"}), json!({"containers": [mk_container("c")]}));
    let denied = try_inject(&Pod::new(app).unwrap(), [set]).unwrap_err().to_string();
    assert!(
        denied.starts_with(r#"pod "default/test-pod": annotation "kruise.io/sidecarset-hash" is not a record"#),
        "{denied}"
    );
}
