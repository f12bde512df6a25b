use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn ledger() -> Ledger {
    Ledger::new(PodName { namespace: "games".into(), name: "web-1".into() })
}

fn annotation(value: Option<&str>) -> Desired {
    Desired { annotations: [("a".to_owned(), value.map(str::to_owned))].into(), ..Desired::default() }
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
    let condition = |status: &str, message: &str| Desired {
        condition: Some(Condition {
            name: "x/y".into(),
            status: status.into(),
            reason: "R".into(),
            message: message.into(),
        }),
        ..Desired::default()
    };
    let mut ledger = ledger();
    let mut times = Vec::new();
    for (second, status, message) in [(0, "True", "one"), (10, "True", "two"), (20, "False", "two")] {
        ledger.set("probe", condition(status, message));
        let written = flush(&mut ledger, at(second));
        times.push(written[0]["status"]["conditions"][0]["lastTransitionTime"].as_str().unwrap().to_owned());
    }
    assert_eq!(times, ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z"]);
}

#[test]
fn what_is_refused_holds_nothing_else_back() {
    let condition =
        |name: &str| Condition { name: name.into(), status: "True".into(), reason: "R".into(), message: String::new() };
    let mut ledger = ledger();
    for name in ["x/good", "x/refused"] {
        ledger.set(name, Desired { condition: Some(condition(name)), ..Desired::default() });
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
    let mut changed = condition("x/good");
    changed.status = "False".into();
    ledger.set("x/good", Desired { condition: Some(changed), ..Desired::default() });
    assert_eq!(send(&mut ledger, at(1)), [format!("{status} x/good")]);
}

#[test]
fn a_condition_that_a_source_does_not_have_any_more_is_unknown() {
    let condition = |name: &str| Desired {
        condition: Some(Condition {
            name: name.into(),
            status: "True".into(),
            reason: "R".into(),
            message: String::new(),
        }),
        ..Desired::default()
    };
    let mut ledger = ledger();
    ledger.set("probe", condition("x/a"));
    flush(&mut ledger, at(0));
    ledger.retire("probe");
    ledger.set("probe", condition("x/b"));
    let written = flush(&mut ledger, at(1));
    let statuses: Vec<(&Value, &Value)> = written[0]["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| (&condition["type"], &condition["status"]))
        .collect();
    assert_eq!(statuses, [(&json!("x/a"), &json!("Unknown")), (&json!("x/b"), &json!("True"))]);
    ledger.set("other", condition("x/a"));
    let written = flush(&mut ledger, at(2));
    assert_eq!(written[0]["status"]["conditions"][0]["status"], "True", "somebody else has it");
}

#[test]
fn a_condition_that_was_retired_is_that_of_whoever_has_it_still() {
    let condition = |status: &str| Desired {
        condition: Some(Condition {
            name: "x/a".into(),
            status: status.into(),
            reason: "R".into(),
            message: String::new(),
        }),
        ..Desired::default()
    };
    let mut ledger = ledger();
    ledger.set("a/probe", condition("False"));
    ledger.set("b/probe", condition("True"));
    flush(&mut ledger, at(0));
    assert!(ledger.retire("a/") && !ledger.remove("a/none"));
    let written = flush(&mut ledger, at(1));
    assert_eq!(written[0]["status"]["conditions"][0]["status"], "True");
}

#[test]
fn results_go_with_their_storage_when_a_list_changes() {
    let storage = |key: &str| Storage { label_key: Some(key.to_owned()), ..Storage::default() };
    let label = |key: &str| Desired { labels: [(key.to_owned(), Some("yes".to_owned()))].into(), ..Desired::default() };
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
            ledger.set(&name(place), label(storage.label_key.as_deref().unwrap()));
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
    let desired = Desired {
        annotations: [("a".to_owned(), Some("idle".to_owned())), ("old".to_owned(), None)].into(),
        condition: Some(Condition {
            name: "x/y".into(),
            status: "True".into(),
            reason: "R".into(),
            message: String::new(),
        }),
        fields: Some((game_server(), [("/spec/opsState".to_owned(), json!("idle"))].into())),
        ..Desired::default()
    };
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
    ledger.set("other", Desired { labels: [("l".to_owned(), Some("x".to_owned()))].into(), ..Desired::default() });
    assert_eq!(answer(&mut ledger, &changed, &server, at(1900)), [format!("{POD}: label l")]);
    assert_eq!(answer(&mut ledger, &pod, &server, at(1900)), expected[..2]);
    assert_eq!(ledger.next_due(at(1900)), None);
}

#[test]
fn what_a_configuration_names_no_more_is_removed_once() {
    let mut ledger = ledger();
    let two = Desired {
        labels: [("l".to_owned(), Some("x".to_owned()))].into(),
        condition: Some(Condition {
            name: "x/y".into(),
            status: "True".into(),
            reason: "R".into(),
            message: String::new(),
        }),
        ..annotation(Some("idle"))
    };
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
    ledger.set("probe", Desired { labels: [("l".to_owned(), None)].into(), ..annotation(Some("idle")) });
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
    let fields = Some((game_server(), [("/spec/opsState".to_owned(), json!("idle"))].into()));
    ledger.set("probe", Desired { fields, ..Desired::default() });
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
    let fields = Some((game_server(), [("/spec/pruned".to_owned(), json!("x"))].into()));
    ledger.set("probe", Desired { fields, ..Desired::default() });
    let results = Target { group: String::new(), name: RESULTS.to_owned(), ..game_server() };
    let fields = Some((results, [("/data/web-1".to_owned(), json!("x"))].into()));
    ledger.set("record", Desired { fields, ..Desired::default() });
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
        let values = [(pointer.to_owned(), json!("x"))].into();
        ledger.set("probe", Desired { fields: Some((target.clone(), values)), ..Desired::default() });
        let write = ledger.due(at(0)).remove(0);
        let path = "/apis/game.kruise.io/v1alpha1/namespaces/games/gameservers/web-1";
        assert_eq!((write.path, write.media, write.body), (format!("{path}{suffix}"), media, body));
    }
}
