use serde_json::json;

use super::group::JSON;
use super::*;
use crate::config::Target;
use crate::update::RESULTS;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn ledger() -> Ledger {
    Ledger::new(PodName { namespace: "games".into(), name: "web-1".into() })
}

fn annotation(value: Option<&str>) -> Desired {
    Desired { values: [(Key::Annotation("a".into()), value.map(Value::from))].into(), ..Desired::default() }
}

fn label(key: &str) -> Desired {
    Desired::one(Key::Label(key.to_owned()), "yes".into())
}

/// A condition with this status and the message.
fn said(name: &str, status: &str, message: &str) -> Desired {
    Desired::one(Key::Condition(name.to_owned()), condition(name, status, "R", message))
}

/// All of these.
fn together<const N: usize>(all: [Desired; N]) -> Desired {
    Desired { values: all.into_iter().flat_map(|desired| desired.values).collect(), ..Desired::default() }
}

fn flush(ledger: &mut Ledger, now: Timestamp) -> Vec<Value> {
    let writes = ledger.due(now);
    for write in &writes {
        ledger.sent(write, Sent::Written, now);
    }
    writes.into_iter().map(|write| write.body).collect()
}

#[test]
fn only_changes_are_written() {
    let mut ledger = ledger();
    assert!(ledger.set("probe", annotation(Some("idle"))));
    assert_eq!(flush(&mut ledger, at(0)), [json!({"metadata": {"annotations": {"a": "idle"}}})]);
    assert!(!ledger.set("probe", annotation(Some("idle"))));
    assert_eq!((ledger.due(at(1)).len(), ledger.next_due(at(1))), (0, None));
    ledger.set("probe", annotation(None));
    assert_eq!(flush(&mut ledger, at(2)), [json!({"metadata": {"annotations": {"a": null}}})]);
}

#[test]
fn a_change_that_is_taken_back_before_it_was_written_is_no_write() {
    let mut ledger = ledger();
    ledger.set("probe", annotation(Some("idle")));
    flush(&mut ledger, at(0));
    ledger.set("probe", annotation(Some("busy")));
    ledger.set("probe", annotation(Some("idle")));
    assert!(ledger.due(at(1)).is_empty());
}

#[test]
fn failures_wait_ever_longer_and_refusals_longer_still() {
    let mut ledger = ledger();
    ledger.set("probe", annotation(Some("idle")));
    let mut waits = Vec::new();
    let mut now = at(0);
    for _ in 0..9 {
        let write = ledger.due(now).remove(0);
        ledger.sent(&write, Sent::Failed, now);
        assert!(ledger.due(now).is_empty());
        let next = ledger.next_due(now).unwrap();
        waits.push(next.duration_since(now).as_secs());
        now = next;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    let write = ledger.due(now).remove(0);
    ledger.sent(&write, Sent::Written, now);
    ledger.set("probe", annotation(Some("busy")));
    let write = ledger.due(now).remove(0);
    ledger.sent(&write, Sent::Refused, now);
    assert_eq!(ledger.next_due(now), Some(now + SignedDuration::from_secs(30)));
}

#[test]
fn what_one_source_sets_another_does_not_remove() {
    let mut ledger = ledger();
    ledger.set("a", annotation(None));
    ledger.set("b", annotation(Some("idle")));
    assert_eq!(flush(&mut ledger, at(0)), [json!({"metadata": {"annotations": {"a": "idle"}}})]);
    ledger.retire("b");
    assert_eq!(flush(&mut ledger, at(1)), [json!({"metadata": {"annotations": {"a": null}}})]);
}

#[test]
fn a_condition_keeps_its_time_while_only_its_message_changes() {
    let mut ledger = ledger();
    let mut times = Vec::new();
    for (second, status, message) in [(0, "True", "one"), (10, "True", "two"), (20, "False", "two")] {
        ledger.set("probe", said("x/y", status, message));
        let written = flush(&mut ledger, at(second));
        times.push(written[0]["status"]["conditions"][0]["lastTransitionTime"].as_str().unwrap().to_owned());
    }
    assert_eq!(times, ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z"]);
}

#[test]
fn what_is_refused_holds_nothing_else_back() {
    let mut ledger = ledger();
    for name in ["x/good", "x/refused"] {
        ledger.set(name, said(name, "True", ""));
    }
    // An API server that refuses every write with one of the conditions.
    let send = |ledger: &mut Ledger, now: Timestamp| {
        let writes = ledger.due(now);
        for write in &writes {
            let is_refused = write.subject().contains("x/refused");
            ledger.sent(write, if is_refused { Sent::Refused } else { Sent::Written }, now);
        }
        writes.iter().map(Write::subject).collect::<Vec<_>>()
    };
    let status = "/api/v1/namespaces/games/pods/web-1/status: condition";
    assert_eq!(send(&mut ledger, at(0)), [format!("{status} x/good, condition x/refused")]);
    assert_eq!(send(&mut ledger, at(0)), [format!("{status} x/good"), format!("{status} x/refused")]);
    assert_eq!(ledger.next_due(at(1)), Some(at(30)), "only what is refused is left, and it waits");
    ledger.set("x/good", said("x/good", "False", ""));
    assert_eq!(send(&mut ledger, at(1)), [format!("{status} x/good")]);
}

#[test]
fn a_condition_that_a_source_does_not_have_any_more_is_unknown() {
    let mut ledger = ledger();
    ledger.set("probe", said("x/a", "True", ""));
    flush(&mut ledger, at(0));
    ledger.retire("probe");
    ledger.set("probe", said("x/b", "True", ""));
    let written = flush(&mut ledger, at(1));
    let statuses: Vec<(&Value, &Value)> = written[0]["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| (&condition["type"], &condition["status"]))
        .collect();
    assert_eq!(statuses, [(&json!("x/a"), &json!("Unknown")), (&json!("x/b"), &json!("True"))]);
    ledger.set("other", said("x/a", "True", ""));
    let written = flush(&mut ledger, at(2));
    assert_eq!(written[0]["status"]["conditions"][0]["status"], "True", "somebody else has it");
}

#[test]
fn a_condition_that_was_retired_is_that_of_whoever_has_it_still() {
    let mut ledger = ledger();
    ledger.set("a/probe", said("x/a", "False", ""));
    ledger.set("b/probe", said("x/a", "True", ""));
    flush(&mut ledger, at(0));
    assert!(ledger.retire("a/") && !ledger.remove("a/none"));
    let written = flush(&mut ledger, at(1));
    assert_eq!(written[0]["status"]["conditions"][0]["status"], "True");
}

#[test]
fn results_go_with_their_storage_when_a_list_changes() {
    let storage = |key: &str| Storage::from(Key::Label(key.to_owned()));
    let (a, b, c) = (storage("a"), storage("b"), storage("c"));
    // What is written at once, and what when each of the list has a result again.
    let table = [
        (vec![&a], json!({"b": null}), json!(null)),
        (vec![&b], json!({"a": null}), json!(null)),
        (vec![&b, &a], json!(null), json!(null)),
        (vec![&c], json!({"b": null}), json!({"a": null, "c": "yes"})),
        (vec![&c, &a, &b], json!(null), json!({"c": "yes"})),
        (vec![], json!({"a": null, "b": null}), json!(null)),
    ];
    for (after, at_once, later) in table {
        let mut ledger = ledger();
        let name = |place: usize| format!("probe/{place:04}");
        ledger.set(&name(0), label("a"));
        ledger.set(&name(1), label("b"));
        flush(&mut ledger, at(0));
        ledger.relist(name, &[&a, &b], &after);
        let labels = |ledger: &mut Ledger, now| {
            let written = flush(ledger, now);
            written.first().map_or(Value::Null, |body| body["metadata"]["labels"].clone())
        };
        assert_eq!(labels(&mut ledger, at(1)), at_once, "{after:?}");
        for (place, storage) in after.iter().enumerate() {
            let all = storage.keys().map(|key| Desired::one(key.clone(), "yes".into())).collect::<Vec<_>>();
            ledger.set(&name(place), all[0].clone());
        }
        assert_eq!(labels(&mut ledger, at(2)), later, "{after:?}");
    }
}

fn game_server() -> Target {
    Target {
        group: "game.kruise.io".into(),
        version: "v1alpha1".into(),
        resource: "gameservers".into(),
        namespace: "games".into(),
        name: "web-1".into(),
    }
}

fn field(target: Target, pointer: &str, value: &str) -> Desired {
    Desired::one(Key::Field(target, pointer.to_owned()), value.into())
}

/// Sends what is due, and answers with these objects: the pod, and the target.
fn answer(ledger: &mut Ledger, pod: &Value, server: &Value, now: Timestamp) -> Vec<String> {
    let writes = ledger.due(now);
    for write in &writes {
        ledger.sent(write, Sent::Written, now);
        ledger.answered(write, if write.path.contains("/pods/") { pod } else { server }, now);
    }
    writes.iter().map(Write::subject).collect()
}

/// Looks at what is due, with the same objects.
fn look(ledger: &mut Ledger, pod: &Value, server: Option<&Value>, now: Timestamp) -> Vec<String> {
    let looks = ledger.looks(now);
    for look in &looks {
        ledger.looked(look, if look.path.contains("/pods/") { Some(pod) } else { server }, now);
    }
    looks.into_iter().map(|look| look.path).collect()
}

#[test]
fn what_somebody_else_has_changed_is_written_again_and_nothing_while_nothing_differs() {
    const POD: &str = "/api/v1/namespaces/games/pods/web-1";
    const SERVER: &str = "/apis/game.kruise.io/v1alpha1/namespaces/games/gameservers/web-1";
    let mut ledger = ledger();
    let old = Desired { values: [(Key::Annotation("old".into()), None)].into(), ..Desired::default() };
    let server = field(game_server(), "/spec/opsState", "idle");
    let desired = together([annotation(Some("idle")), old, said("x/y", "True", ""), server]);
    ledger.set("probe", desired);
    let condition =
        json!({"type": "x/y", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let pod =
        json!({"metadata": {"name": "web-1", "annotations": {"a": "idle"}}, "status": {"conditions": [condition]}});
    let server = json!({"metadata": {"name": "web-1"}, "spec": {"opsState": "idle"}});
    assert_eq!(answer(&mut ledger, &pod, &server, at(0)).len(), 3);
    assert_eq!((ledger.next_due(at(1)), ledger.next_look()), (None, Some(at(600))));
    assert!(ledger.looks(at(599)).is_empty());
    let looks = look(&mut ledger, &pod, Some(&server), at(600));
    assert_eq!(looks, [format!("{POD}?dryRun=All"), format!("{SERVER}?dryRun=All")]);
    assert_eq!((ledger.next_due(at(600)), ledger.next_look()), (None, Some(at(1200))));

    let mut changed = pod.clone();
    changed["metadata"]["annotations"] = json!({"a": "mine", "old": "mine"});
    changed["status"]["conditions"][0]["status"] = json!("False");
    let recreated = json!({"metadata": {"name": "web-1"}, "spec": {}});
    look(&mut ledger, &changed, Some(&recreated), at(1200));
    let expected = [
        format!("{POD}: annotation a, annotation old"),
        format!("{POD}/status: condition x/y"),
        format!("{SERVER}: /spec/opsState"),
    ];
    assert_eq!(answer(&mut ledger, &pod, &server, at(1200)), expected);
    look(&mut ledger, &pod, None, at(1800));
    assert_eq!(answer(&mut ledger, &pod, &server, at(1800)), expected[2..], "it is gone, and may come back");

    // The answer to a write tells of the rest of the object as well.
    ledger.set("other", label("l"));
    assert_eq!(answer(&mut ledger, &changed, &server, at(1900)), [format!("{POD}: label l")]);
    assert_eq!(answer(&mut ledger, &pod, &server, at(1900)), expected[..2]);
    assert_eq!(ledger.next_due(at(1900)), None);
}

#[test]
fn what_a_configuration_names_no_more_is_removed_once() {
    let mut ledger = ledger();
    let two = together([label("l"), said("x/y", "True", ""), annotation(Some("idle"))]);
    let of = |annotations: Value, labels: Value, status: &str| {
        let condition = json!({"type": "x/y", "status": status, "reason": "Other", "message": ""});
        let metadata = json!({"name": "web-1", "annotations": annotations, "labels": labels});
        json!({"metadata": metadata, "status": {"conditions": [condition]}})
    };
    ledger.set("probe", two);
    answer(&mut ledger, &json!({}), &json!({}), at(0));
    ledger.set("probe", annotation(Some("idle")));
    assert_eq!(answer(&mut ledger, &json!({}), &json!({}), at(1)).len(), 2);
    let theirs = of(json!({"a": "idle"}), json!({"l": "theirs"}), "True");
    look(&mut ledger, &theirs, None, at(700));
    assert_eq!(ledger.next_due(at(700)), None);

    // It is the agent's again where it is named again.
    let removed = Desired { values: [(Key::Label("l".into()), None)].into(), ..Desired::default() };
    ledger.set("probe", together([removed, annotation(Some("idle"))]));
    look(&mut ledger, &theirs, None, at(1400));
    assert_eq!(answer(&mut ledger, &json!({}), &json!({}), at(1400)).len(), 1);

    ledger.retire("probe");
    assert_eq!(answer(&mut ledger, &json!({}), &json!({}), at(1500)).len(), 1);
    look(&mut ledger, &of(json!({"a": "theirs"}), json!({"l": "theirs"}), "False"), None, at(2200));
    assert_eq!(ledger.next_due(at(2200)), None);
}

#[test]
fn an_object_that_is_gone_is_not_looked_at_until_it_is_written_to_again() {
    let mut ledger = ledger();
    ledger.set("probe", field(game_server(), "/spec/opsState", "idle"));
    let server = json!({"metadata": {"name": "web-1"}, "spec": {"opsState": "idle"}});
    answer(&mut ledger, &json!({}), &server, at(0));
    assert_eq!(look(&mut ledger, &json!({}), None, at(600)).len(), 1);
    assert_eq!((ledger.next_look(), ledger.next_due(at(601))), (None, Some(at(601))));
    let write = ledger.due(at(601)).remove(0);
    ledger.sent(&write, Sent::Refused, at(601));
    assert_eq!((ledger.next_look(), ledger.next_due(at(2000))), (None, Some(at(2000))));
    assert_eq!(answer(&mut ledger, &json!({}), &server, at(2000)).len(), 1);
    assert_eq!(ledger.next_look(), Some(at(2600)));
}

#[test]
fn what_the_api_server_makes_of_a_value_is_not_fought_and_results_of_updates_are_not_looked_at() {
    let mut ledger = ledger();
    ledger.set("probe", field(game_server(), "/spec/pruned", "x"));
    let results = Target { group: String::new(), name: RESULTS.to_owned(), ..game_server() };
    ledger.set("record", field(results, "/data/web-1", "x"));
    let server = json!({"metadata": {"name": "web-1"}, "spec": {}});
    assert_eq!(answer(&mut ledger, &server, &server, at(0)).len(), 2);
    assert_eq!(look(&mut ledger, &server, Some(&server), at(600)).len(), 1);
    assert_eq!(ledger.next_due(at(600)), None);
    // What is not an object says nothing.
    look(&mut ledger, &json!({}), Some(&json!({})), at(1200));
    assert_eq!(ledger.next_due(at(1200)), None);
}

#[test]
fn fields_of_targets_are_patched_by_pointer() {
    let target = game_server();
    let table = [
        ("/spec/opsState", "", MERGE, json!({"spec": {"opsState": "x"}})),
        ("/metadata/annotations/a~1b", "", MERGE, json!({"metadata": {"annotations": {"a/b": "x"}}})),
        ("/status/state", "/status", MERGE, json!({"status": {"state": "x"}})),
        ("/spec/list/0", "", JSON, json!([{"op": "replace", "path": "/spec/list/0", "value": "x"}])),
    ];
    for (pointer, suffix, media, body) in table {
        let mut ledger = ledger();
        ledger.set("probe", field(target.clone(), pointer, "x"));
        let write = ledger.due(at(0)).remove(0);
        let path = "/apis/game.kruise.io/v1alpha1/namespaces/games/gameservers/web-1";
        assert_eq!((write.path, write.media, write.body), (format!("{path}{suffix}"), media, body));
    }
}
