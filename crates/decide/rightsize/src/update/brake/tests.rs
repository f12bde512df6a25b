use pillion_api::pod::Pod;
use serde_json::json;

use super::*;

fn at(minutes: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

/// A pod of a ReplicaSet, which has a node and is Ready.
fn pod(name: &str, cpu: &str) -> PodView {
    let container = json!({"name": "app", "resources": {"requests": {"cpu": cpu}}});
    let owner = json!({"kind": "ReplicaSet", "name": "web", "controller": true});
    let metadata = json!({"name": name, "uid": name, "ownerReferences": [owner]});
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at(0).to_string()});
    let status = json!({"phase": "Running", "startTime": at(0).to_string(), "conditions": [ready]});
    PodView::new(
        &Pod::new(json!({"metadata": metadata, "spec": {"containers": [container]}, "status": status})).unwrap(),
    )
}

fn starting(name: &str, cpu: &str) -> PodView {
    PodView { is_pending: true, start_time: None, ready_since: None, ..pod(name, cpu) }
}

fn web() -> Owner {
    Owner { kind: "ReplicaSet".into(), name: "web".into() }
}

fn replicas(count: i64) -> Replicas {
    Replicas::from([(web(), count)])
}

fn target(cpu: &str) -> Vec<ContainerTarget> {
    let requests = Amounts::of(&json!({"cpu": cpu}));
    vec![ContainerTarget { container: "app".into(), requests, ..ContainerTarget::default() }]
}

/// A brake after `a` of two pods was evicted, so that its successor gets 2 CPUs.
fn evicting() -> Brake {
    let mut brake = Brake::default();
    brake.evicted(&pod("a", "1"), &target("2"), &[pod("a", "1"), pod("b", "1")], at(10));
    brake
}

fn look(brake: &mut Brake, pods: &[PodView], minute: i64) -> Option<StopCause> {
    brake.look(pods, &replicas(2), at(minute));
    brake.cause()
}

#[test]
fn a_group_waits_until_the_successor_of_its_first_pod_is_ready_and_then_goes_on_with_the_same_recommendation() {
    let mut brake = evicting();
    assert!(brake.is_awaited(&web()) && !brake.is_proven(&web(), &target("2")));
    look(&mut brake, &[pod("b", "1"), starting("c", "2")], 11);
    assert!(brake.is_awaited(&web()), "its successor has only started");
    look(&mut brake, &[pod("b", "1"), pod("c", "2")], 12);
    assert!(brake.is_proven(&web(), &target("2")) && !brake.is_awaited(&web()));
    assert!(!brake.is_proven(&web(), &target("3")), "another recommendation is tried with one pod again");
    brake.evicted(&pod("b", "1"), &target("2"), &[pod("b", "1"), pod("c", "2")], at(13));
    assert!(brake.is_proven(&web(), &target("2")), "what is proven stays so");
    look(&mut brake, &[], 14);
    assert_eq!(look(&mut brake, &[pod("c", "2")], 30), Some(StopCause::NoSuccessor), "but it is watched all the same");
}

#[test]
fn a_successor_that_has_the_same_stops_evictions_for_an_hour() {
    let mut brake = evicting();
    assert_eq!(look(&mut brake, &[pod("b", "1")], 11), None, "the other is as old as it was");
    assert_eq!(look(&mut brake, &[pod("b", "1"), starting("c", "1")], 12), Some(StopCause::Unchanged));
    assert_eq!(look(&mut brake, &[pod("b", "1"), pod("c", "1")], 71), Some(StopCause::Unchanged));
    assert_eq!(look(&mut brake, &[pod("b", "1"), pod("c", "1")], 72), None, "one more is tried");
    brake.evicted(&pod("b", "1"), &target("2"), &[pod("b", "1"), pod("c", "1")], at(72));
    assert_eq!(look(&mut brake, &[pod("c", "1"), pod("d", "1")], 73), Some(StopCause::Unchanged));
}

#[test]
fn pods_that_do_not_come_back_stop_evictions_until_they_do() {
    let mut missing = evicting();
    assert_eq!(look(&mut missing, &[pod("b", "1")], 19), None);
    assert_eq!(look(&mut missing, &[pod("b", "1")], 20), Some(StopCause::NoSuccessor));
    assert_eq!(look(&mut missing, &[pod("b", "1")], 600), Some(StopCause::NoSuccessor), "no hour changes that");
    assert_eq!(look(&mut missing, &[pod("b", "1"), starting("c", "2")], 601), Some(StopCause::NotReady));
    assert_eq!(look(&mut missing, &[pod("b", "1"), pod("c", "2")], 602), None);
    assert!(missing.is_proven(&web(), &target("2")));

    let mut was_not_ready = Brake::default();
    was_not_ready.evicted(&PodView { ready_since: None, ..pod("a", "1") }, &target("2"), &[], at(10));
    let running = PodView { ready_since: None, ..pod("c", "2") };
    assert_eq!(look(&mut was_not_ready, &[running], 30), None, "what was not Ready before need not be Ready after");
}

#[test]
fn where_nothing_is_missing_nothing_is_awaited() {
    let mut scaled_down = evicting();
    scaled_down.look(&[pod("b", "1")], &replicas(1), at(11));
    assert!(scaled_down.is_awaited(&web()), "the evicted pod may still count for its controller");
    scaled_down.look(&[pod("b", "1")], &replicas(1), at(20));
    assert_eq!((scaled_down.cause(), scaled_down.is_awaited(&web())), (None, false));
    let mut deleted = evicting();
    deleted.look(&[], &Replicas::new(), at(20));
    assert_eq!(deleted, Brake::default());
}

#[test]
fn a_condition_says_so_and_survives_a_restart() {
    let mut brake = evicting();
    look(&mut brake, &[pod("b", "1"), pod("c", "1")], 12);
    assert_eq!(stop_conditions(&[], None, at(12)), None);
    let conditions = stop_conditions(&[], brake.cause(), at(12)).unwrap();
    assert_eq!((conditions[0].status.as_str(), conditions[0].reason.as_str()), ("True", "PodsUnchanged"));
    assert_eq!(stop_conditions(&conditions, brake.cause(), at(13)), None, "it is not written again");

    let mut autoscaler = VerticalPodAutoscaler::default();
    autoscaler.status.conditions = conditions.clone();
    assert_eq!(stopped(&autoscaler), Some(StopCause::Unchanged));
    let mut restarted = Brake::of(&autoscaler);
    assert_eq!(look(&mut restarted, &[pod("c", "1")], 71), Some(StopCause::Unchanged));
    assert_eq!(look(&mut restarted, &[pod("c", "1")], 72), None);
    let after = stop_conditions(&conditions, restarted.cause(), at(72)).unwrap();
    assert_eq!(after[0].status, "False");
    autoscaler.status.conditions = after;
    assert_eq!(stopped(&autoscaler), None);
}

#[test]
fn a_successor_that_is_not_ready_may_be_replaced_by_one_that_requests_something_else() {
    let mut brake = evicting();
    let unready = |name: &str, cpu: &str| PodView { ready_since: None, ..pod(name, cpu) };
    let (old, successor) = (pod("b", "1"), unready("c", "2"));
    look(&mut brake, &[old.clone(), successor.clone()], 11);
    assert!(brake.may_retry(&successor, &target("3")));
    assert!(!brake.may_retry(&successor, &target("2")), "the next one would be the same");
    assert!(!brake.may_retry(&pod("c", "2"), &target("3")), "it serves");
    assert!(!brake.may_retry(&PodView { ready_since: None, ..old.clone() }, &target("3")), "it was there before");

    brake.evicted(&old, &target("3"), &[old.clone(), successor.clone()], at(12));
    assert!(brake.may_retry(&successor, &target("3")), "any other pod changes nothing");
    brake.evicted(&successor, &target("3"), &[old.clone(), successor.clone()], at(12));
    assert!(!brake.may_retry(&successor, &target("4")), "it has been evicted");
    assert_eq!(look(&mut brake, &[old.clone(), unready("d", "3")], 13), None);
    assert!(brake.is_awaited(&web()), "the first pod of all was Ready: a successor that only runs is not enough");
    assert_eq!(look(&mut brake, &[old.clone(), unready("d", "3")], 21), None, "it has ten minutes of its own");
    look(&mut brake, &[old, pod("d", "3")], 21);
    assert!(brake.is_proven(&web(), &target("3")));
}

#[test]
fn evictions_stay_stopped_until_some_successor_is_ready() {
    let mut brake = evicting();
    let unready = |name: &str, cpu: &str| PodView { ready_since: None, ..pod(name, cpu) };
    let (old, successor) = (pod("b", "1"), unready("c", "2"));
    assert_eq!(look(&mut brake, &[old.clone(), successor.clone()], 20), Some(StopCause::NotReady));
    brake.evicted(&successor, &target("3"), &[old.clone(), successor.clone()], at(21));
    for pods in [vec![old.clone()], vec![old.clone(), unready("d", "3")]] {
        assert_eq!(look(&mut brake, &pods, 22), Some(StopCause::NotReady));
    }
    brake.evicted(&unready("d", "3"), &target("4"), &[old.clone(), unready("d", "3")], at(23));
    assert_eq!(look(&mut brake, &[old.clone(), unready("e", "4")], 24), Some(StopCause::NotReady));
    assert_eq!(look(&mut brake, &[old, pod("e", "4")], 25), None);
}

#[test]
fn conditions_in_another_order_say_the_same() {
    let condition = |kind: &str| -> Condition {
        let of_kind = json!({"type": kind, "status": "False", "reason": "", "message": ""});
        serde_json::from_value(of_kind).unwrap()
    };
    let unsorted = [condition("RecommendationProvided"), condition("EvictionsStopped"), condition("LowConfidence")];
    assert_eq!(stop_conditions(&unsorted, None, at(1)), None);
    assert_eq!(stop_conditions(&unsorted[..1], None, at(1)), None);
    assert!(stop_conditions(&unsorted, Some(StopCause::NotReady), at(1)).is_some());
}
