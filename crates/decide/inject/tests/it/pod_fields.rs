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
