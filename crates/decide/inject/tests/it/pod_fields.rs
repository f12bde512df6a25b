use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarSet;
use pillion_note::{Reason, Severity};
use pillion_testkit::mk_set;
use serde_json::{Value, json};

use crate::{base_pod, try_inject};

fn set(name: &str, share: Option<bool>) -> SidecarSet {
    let mut spec = json!({"containers": [{"name": format!("{name}-sidecar"), "image": "x"}]});
    if let Some(share) = share {
        spec["shareProcessNamespace"] = json!(share);
    }
    mk_set(name, json!({"app": "web"}), spec)
}

fn pod(field: &str, value: Value) -> Pod {
    let mut pod = base_pod().as_value().clone();
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["spec"][field] = value;
    Pod::new(pod).unwrap()
}

/// The field afterwards, and the severities of the notes about it.
fn shared(pod: &Pod, sets: Vec<SidecarSet>) -> (Value, Vec<Severity>) {
    let (after, notes) = try_inject(pod, sets).unwrap();
    let severities = notes.iter().filter(|note| note.reason == Reason::PodField).map(|note| note.severity).collect();
    (after["spec"]["shareProcessNamespace"].clone(), severities)
}

#[test]
fn the_process_namespace_is_shared_where_a_set_asks_for_it_and_the_pod_says_nothing_else() {
    use Severity::{Info, Warning};
    let (yes, no, nothing) = (json!(true), json!(false), Value::Null);
    let field = "shareProcessNamespace";
    let table = [
        ((field, nothing.clone()), vec![set("a", Some(true))], (yes.clone(), vec![Info])),
        ((field, nothing.clone()), vec![set("a", None)], (nothing.clone(), vec![])),
        ((field, nothing.clone()), vec![set("a", Some(false))], (nothing.clone(), vec![])),
        ((field, yes.clone()), vec![set("a", Some(true))], (yes.clone(), vec![])),
        ((field, no.clone()), vec![set("a", Some(true))], (no.clone(), vec![Warning])),
        (("hostPID", yes.clone()), vec![set("a", Some(true))], (nothing.clone(), vec![Warning])),
        // Two sets that disagree: the first by name counts, the other is warned of.
        (
            (field, nothing.clone()),
            vec![set("b", Some(false)), set("a", Some(true))],
            (yes.clone(), vec![Warning, Info]),
        ),
        ((field, nothing.clone()), vec![set("a", None), set("b", Some(true))], (yes, vec![Info])),
    ];
    for (index, ((field, value), sets, expected)) in table.into_iter().enumerate() {
        assert_eq!(shared(&pod(field, value), sets), expected, "{index}");
    }
}

fn with_account(name: &str, account: &str, policy: &str) -> SidecarSet {
    let account = json!({"name": account, "policy": policy});
    let spec = json!({"serviceAccount": account, "containers": [{"name": format!("{name}-sidecar"), "image": "x"}]});
    mk_set(name, json!({"app": "web"}), spec)
}

#[test]
fn an_injectable_account_is_given_to_pods_that_run_as_default() {
    use Severity::{Info, Warning};
    let field = "serviceAccountName";
    let set = |account: &str| with_account("a", account, "IfDefault");
    // The account `agent` may be injected, `other` may not.
    let table = [
        (json!(null), set("agent"), "agent", vec![Info]),
        (json!("default"), set("agent"), "agent", vec![Info]),
        (json!("agent"), set("agent"), "agent", vec![]),
        (json!("mine"), set("agent"), "mine", vec![Warning]),
        (json!("default"), set("other"), "default", vec![Warning]),
        (json!("mine"), with_account("a", "mine", "Required"), "mine", vec![]),
    ];
    for (own, set, expected, severities) in table {
        let (after, notes) = try_inject(&pod(field, own.clone()), [set]).unwrap();
        assert_eq!(after["spec"][field], expected, "{own}");
        let found: Vec<Severity> =
            notes.iter().filter(|it| it.reason == Reason::PodField).map(|it| it.severity).collect();
        assert_eq!(found, severities, "{own}");
    }
    // The API server writes the older field as well; both stay alike.
    let mut both = pod(field, json!("default")).as_value().clone();
    both["spec"]["serviceAccount"] = json!("default");
    let (after, _) = try_inject(&Pod::new(both).unwrap(), [set("agent")]).unwrap();
    assert_eq!(after["spec"]["serviceAccount"], "agent");
    // Of two sets the first by name counts, and the other is warned of.
    let (after, notes) =
        try_inject(&pod(field, json!(null)), [with_account("b", "other", "IfDefault"), set("agent")]).unwrap();
    assert_eq!(after["spec"][field], "agent");
    assert!(notes.iter().any(|note| note.severity == Warning && note.subject.name() == "b"));
}

#[test]
fn a_pod_that_cannot_get_what_a_set_requires_is_refused() {
    let refusal =
        |field: &str, value: Value, set: SidecarSet| try_inject(&pod(field, value), [set]).unwrap_err().to_string();
    assert_eq!(
        refusal("serviceAccountName", json!("mine"), with_account("a", "agent", "Required")),
        r#"SidecarSet "a" requires the service account "agent": the pod runs as the service account "mine", and not as "default""#
    );
    assert_eq!(
        refusal("hostNetwork", json!(false), with_account("a", "other", "Required")),
        r#"SidecarSet "a" requires the service account "other": namespace "default" has no ServiceAccount "other" with the annotation pillion.dev/injectable: "true""#
    );
    let mut shares = with_account("a", "agent", "Required");
    shares.spec.share_process_namespace = Some(true);
    assert_eq!(
        refusal("hostPID", json!(true), shares),
        r#"SidecarSet "a" requires shareProcessNamespace: the pod has hostPID: true"#
    );
}
