//! The scenarios of upstream's `pkg/updater/logic/updater_test.go` and `pkg/updater/restriction`, and those of the pull request
//! for native sidecars (autoscaler 8498).

use jiff::SignedDuration;
use pillion_api::pod::Pod;
use serde_json::{Value, json};

use super::*;
use crate::pod::{OomKill, Owner, PodContainer, ResizeState};

const ALL: Gates = Gates {
    native_sidecar: true,
    cpu_startup_boost: true,
    in_place: true,
    per_vpa_config: true,
    sidecar_set_target: true,
};

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

fn autoscaler(mode: &str) -> VerticalPodAutoscaler {
    let recommend = |name: &str| json!({"containerName": name, "target": {"cpu": "2"}, "lowerBound": {"cpu": "2"}, "upperBound": {"cpu": "4"}});
    pillion_api::vpa::decode(json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "spec": {"updatePolicy": {"updateMode": mode}},
        "status": {"recommendation": {"containerRecommendations": [recommend("app"), recommend("mesh"), recommend("setup")]}}
    }))
    .unwrap()
}

fn pod(name: &str, containers: Value, init_containers: Value) -> PodView {
    let owner = json!({"kind": "ReplicaSet", "name": "web", "controller": true});
    let metadata = json!({"name": name, "uid": name, "ownerReferences": [owner]});
    let spec = json!({"containers": containers, "initContainers": init_containers});
    let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
    PodView::new(&Pod::new(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap())
}

fn container(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

fn pods(count: usize) -> Vec<PodView> {
    (0..count).map(|i| pod(&format!("web-{i}"), json!([container("app", "1")]), json!([]))).collect()
}

fn replicas(count: i64) -> Replicas {
    Replicas::from([(Owner { kind: "ReplicaSet".into(), name: "web".into() }, count)])
}

struct World {
    autoscaler: VerticalPodAutoscaler,
    pods: Vec<PodView>,
    replicas: Replicas,
    infeasible: HashMap<String, RecommendedPodResources>,
    settings: UpdaterSettings,
    gates: Gates,
    is_admitted: bool,
    unbound: Vec<PodView>,
    brake: Brake,
    rules: Rules,
    ranges: LimitRanges,
    disrupted: Disrupted,
    budgets: Budgets,
}

/// A brake after an eviction of a group whose successor was Ready with the same recommendation.
fn proven() -> Brake {
    let mut brake = Brake::default();
    let app = |name: &str, cpu: &str| pod(name, json!([container("app", cpu)]), json!([]));
    let targets = running_targets(&autoscaler("Recreate"), &app("first", "1"), &LimitRanges::default(), ALL);
    brake.evicted(&app("first", "1"), &targets, &[], now());
    brake.look(&[app("second", "2")], &replicas(1), now());
    brake
}

impl World {
    fn new(mode: &str, pods: Vec<PodView>) -> World {
        let replicas = replicas(i64::try_from(pods.len()).unwrap());
        let settings = UpdaterSettings::default();
        let (autoscaler, infeasible) = (autoscaler(mode), HashMap::new());
        World {
            autoscaler,
            pods,
            replicas,
            infeasible,
            settings,
            gates: ALL,
            is_admitted: true,
            unbound: Vec::new(),
            brake: proven(),
            rules: Rules::default(),
            ranges: LimitRanges::default(),
            disrupted: Disrupted::new(),
            budgets: Budgets::new(),
        }
    }

    fn run<T>(&self, look: impl FnOnce(&mut Pass<'_>) -> T) -> T {
        let snapshot = Snapshot {
            autoscaler: &self.autoscaler,
            pods: &self.pods,
            replicas: &self.replicas,
            ranges: &self.ranges,
            infeasible: &self.infeasible,
            serves_resize: true,
            is_admitted: self.is_admitted,
            unbound: &self.unbound,
            brake: &self.brake,
            rules: &self.rules,
            disrupted: &self.disrupted,
            budgets: &self.budgets,
        };
        look(&mut Pass::new(snapshot, &self.settings, self.gates, now()))
    }

    fn steps(&self) -> Vec<Step> {
        self.run(|pass| std::iter::from_fn(|| pass.next_step()).collect())
    }

    fn skipped(&self) -> Vec<SkipReason> {
        self.run(|pass| {
            while pass.next_step().is_some() {}
            pass.skipped().iter().map(|(_, reason)| reason.clone()).collect()
        })
    }
}

fn is_eviction(step: &Step) -> bool {
    matches!(step.action, Action::Evict(_))
}

#[test]
fn the_mode_decides_how_pods_are_updated() {
    for (mode, evicted, resized) in [
        ("Off", 0, 0),
        ("Initial", 0, 0),
        ("Auto", 2, 0),
        ("Recreate", 2, 0),
        ("InPlaceOrRecreate", 0, 2),
        ("InPlace", 0, 2),
        ("Unheard", 0, 0),
    ] {
        let steps = World::new(mode, pods(5)).steps();
        let count = steps.iter().filter(|step| is_eviction(step)).count();
        assert_eq!((count, steps.len() - count), (evicted, resized), "{mode}");
    }
    let off = World { gates: Gates::default(), ..World::new("InPlace", pods(5)) };
    assert_eq!(off.skipped(), vec![SkipReason::GateOff; 5]);
}

#[test]
fn a_failed_resize_ends_in_an_eviction_if_the_mode_evicts() {
    let evictions_after_failure = |mode: &str| {
        World::new(mode, pods(5)).run(|pass| {
            let mut evictions = 0;
            while let Some(step) = pass.next_step() {
                if is_eviction(&step) {
                    evictions += 1;
                } else {
                    pass.failed(&step);
                }
            }
            evictions
        })
    };
    // Each failure gives its place back, so all five are tried; then two may be evicted.
    assert_eq!(evictions_after_failure("InPlaceOrRecreate"), 2);
    assert_eq!(evictions_after_failure("InPlace"), 0);
}

#[test]
fn a_pod_with_resources_of_its_own_is_left_alone_in_every_mode() {
    for mode in ["Recreate", "InPlaceOrRecreate", "InPlace"] {
        let mut world = World::new(mode, pods(2));
        world.pods.iter_mut().for_each(|pod| pod.has_pod_resources = true);
        assert_eq!((world.steps().len(), world.skipped()), (0, vec![SkipReason::PodResources; 2]), "{mode}");
    }
}

#[test]
fn where_resizes_are_not_served_one_is_tried_and_the_mode_decides_on_the_rest() {
    let tried = |mode: &str| {
        World::new(mode, pods(5)).run(|pass| {
            let mut steps = Vec::new();
            while let Some(step) = pass.next_step() {
                match &step.action {
                    Action::Resize(_) => pass.not_served(&step),
                    Action::Evict(reason) => assert_eq!(*reason, EvictReason::NotServed),
                    Action::Unboost(_) => panic!("{step:?}"),
                }
                steps.push(is_eviction(&step));
            }
            (steps, pass.skipped().iter().filter(|(_, reason)| *reason == SkipReason::NotServed).count())
        })
    };
    assert_eq!(tried("InPlaceOrRecreate"), (vec![false, true, true], 0));
    assert_eq!(tried("InPlace"), (vec![false], 5));
}

#[test]
fn where_admission_is_not_called_pods_are_resized_but_never_evicted() {
    let there = |mode: &str, pods: Vec<PodView>| World { is_admitted: false, ..World::new(mode, pods) };
    let mut recreating = there("Recreate", pods(5));
    recreating.pods[0].is_pending = true;
    assert_eq!((recreating.steps(), recreating.skipped()), (vec![], vec![SkipReason::NotAdmitted; 5]));
    let steps = there("InPlaceOrRecreate", pods(5)).steps();
    assert!(steps.len() == 2 && !steps.iter().any(is_eviction), "{steps:?}");
    let best_effort = || pod("web", json!([{"name": "app"}]), json!([]));
    let other_class = there("InPlaceOrRecreate", vec![best_effort(), best_effort()]);
    assert_eq!((other_class.steps(), other_class.skipped()), (vec![], vec![SkipReason::NotAdmitted; 2]));
}

#[test]
fn a_failed_eviction_gives_its_place_to_the_next_pod() {
    World::new("Recreate", pods(3)).run(|pass| {
        let first = pass.next_step().unwrap();
        pass.failed(&first);
        let second = pass.next_step().unwrap();
        assert_ne!(first.pod, second.pod);
        assert_eq!(pass.next_step(), None);
    });
}

#[test]
fn groups_that_are_too_small_are_left_alone() {
    let single = World::new("Recreate", pods(1));
    assert_eq!(single.skipped(), [SkipReason::TooFewReplicas]);
    let mut allowed = World::new("Recreate", pods(1));
    allowed.autoscaler.spec.update_policy.as_mut().unwrap().min_replicas = Some(1);
    assert_eq!(allowed.steps().len(), 1);

    let mut in_place = World::new("InPlaceOrRecreate", pods(1));
    assert!(in_place.steps().is_empty());
    in_place.settings.in_place_skips_budget = true;
    assert!(matches!(in_place.steps()[0].action, Action::Resize(_)));
}

#[test]
fn pods_without_a_controller_or_with_an_unknown_one_are_left_alone() {
    let mut bare = World::new("Recreate", pods(2));
    bare.pods[0].owner = None;
    bare.replicas = Replicas::new();
    assert_eq!(bare.skipped(), [SkipReason::NoController, SkipReason::ReplicasUnknown]);
}

#[test]
fn pending_pods_may_always_be_evicted() {
    let mut world = World::new("Recreate", pods(3));
    world.pods[0].is_pending = true;
    world.pods[1].is_pending = true;
    let evicted: Vec<usize> = world.steps().iter().map(|step| step.pod).collect();
    assert_eq!(evicted, [0, 1]);
}

/// Upstream resizes no pending pod. One whose native sidecar was OOM killed before the app could start would be pending for ever.
#[test]
fn a_pending_pod_is_resized_if_its_native_sidecar_was_oom_killed() {
    let mut sidecar = container("mesh", "1");
    sidecar["restartPolicy"] = json!("Always");
    let starting = || PodView {
        is_pending: true,
        ..pod("web", json!([container("app", "2")]), json!([container("setup", "1"), sidecar]))
    };
    let kill = OomKill { started: now() - SignedDuration::from_secs(1), finished: now() };
    let was_killed = |container: &PodContainer| PodContainer {
        last_oom: (container.name == "mesh").then_some(kill),
        ..container.clone()
    };
    let killed = PodView { containers: starting().containers.iter().map(was_killed).collect(), ..starting() };
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let world = World::new(mode, vec![starting(), killed.clone()]);
        let steps = world.steps();
        assert!(matches!(steps[..], [Step { pod: 1, action: Action::Resize(_) }]), "{steps:?}");
        let off = World { gates: Gates::default(), ..World::new(mode, vec![killed.clone(), killed.clone()]) };
        assert_eq!(off.steps(), []);
    }
}

#[test]
fn a_resize_that_is_stuck_ends_in_an_eviction_only_where_the_mode_evicts() {
    let stuck = |mode: &str| {
        let mut world = World::new(mode, pods(3));
        world.pods[0].resize = ResizeState::Deferred;
        world.pods[0].resize_since = Some(now() - SignedDuration::from_mins(6));
        world.pods.iter_mut().skip(1).for_each(|pod| pod.containers = [].into());
        world.steps()
    };
    assert_eq!(stuck("InPlaceOrRecreate"), [Step { pod: 0, action: Action::Evict(EvictReason::DeferredTooLong) }]);
    assert_eq!(stuck("InPlace"), []);
}

#[test]
fn only_the_containers_that_differ_are_resized() {
    let mut sidecar = container("mesh", "1");
    sidecar["restartPolicy"] = json!("Always");
    let two = || pod("web", json!([container("app", "2")]), json!([container("setup", "1"), sidecar]));
    let world = World::new("InPlaceOrRecreate", vec![two(), two()]);
    let steps = world.steps();
    let Action::Resize(targets) = &steps[0].action else { panic!("{steps:?}") };
    assert_eq!(targets.iter().map(|target| target.container.as_str()).collect::<Vec<_>>(), ["mesh"]);
    let patch = crate::patch::resource_patch(&world.pods[0], targets);
    assert_eq!(patch, [json!({"op": "add", "path": "/spec/initContainers/1/resources/requests/cpu", "value": "2"})]);

    let off = World { gates: Gates::default(), ..World::new("InPlaceOrRecreate", vec![two(), two()]) };
    assert_eq!(off.steps(), []);
}

#[test]
fn a_sidecar_alone_is_reason_enough_for_an_eviction() {
    let mut sidecar = container("mesh", "1");
    sidecar["restartPolicy"] = json!("Always");
    let two = || pod("web", json!([container("app", "2")]), json!([sidecar]));
    let world = World::new("Recreate", vec![two(), two()]);
    assert_eq!(world.steps().len(), 1);
}

#[test]
fn a_resize_that_would_change_the_qos_class_ends_in_an_eviction_or_waits() {
    let best_effort = || pod("web", json!([{"name": "app"}]), json!([]));
    let pods = || vec![best_effort(), best_effort()];
    let evicting = World::new("InPlaceOrRecreate", pods());
    assert_eq!(evicting.steps()[0].action, Action::Evict(EvictReason::QosClass));
    assert_eq!(World::new("InPlace", pods()).skipped(), vec![SkipReason::QosClass; 2]);
}

#[test]
fn an_infeasible_resize_is_not_tried_again_until_something_is_lower() {
    let mut world = World::new("InPlace", pods(2));
    world.infeasible.insert("web-0".into(), world.autoscaler.status.recommendation.clone().unwrap());
    assert_eq!(world.steps().iter().map(|step| step.pod).collect::<Vec<_>>(), [1]);
    assert!(world.skipped().contains(&SkipReason::InfeasibleBefore));
}

/// `TestInPlaceSkipDisruptionBudget`: five pods at a tolerance of a tenth.
#[test]
fn resizes_that_restart_nothing_need_no_budget_if_the_flag_says_so() {
    let resized = |restarts: bool, skips: bool| {
        let mut world = World::new("InPlaceOrRecreate", pods(5));
        world.settings.eviction_tolerance = 0.1;
        world.settings.in_place_skips_budget = skips;
        for pod in &mut world.pods {
            std::sync::Arc::make_mut(&mut pod.containers)[0].restarts_on_resize = restarts;
        }
        world.steps().len()
    };
    assert_eq!((resized(false, true), resized(true, true), resized(false, false)), (5, 1, 1));
}

#[test]
fn requirements_hold_updates_back() {
    let mut world = World::new("Recreate", pods(2));
    let lower = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    for pod in &mut world.pods {
        std::sync::Arc::make_mut(&mut pod.containers)[0].requests.memory = Some("1Gi".parse().unwrap());
    }
    let policy = world.autoscaler.spec.update_policy.as_mut().unwrap();
    policy.eviction_requirements = serde_json::from_value(lower).unwrap();
    assert_eq!(world.skipped(), vec![SkipReason::EvictionRequirements; 2]);
}

#[test]
fn boosted_pods_are_only_unboosted_and_never_evicted_for_it() {
    let mut world = World::new("InPlaceOrRecreate", pods(2));
    world.autoscaler.spec.startup_boost =
        Some(serde_json::from_value(json!({"cpu": {"type": "Factor", "factor": 2}})).unwrap());
    for pod in &mut world.pods {
        pod.boosted = vec![("app".to_owned(), json!({"requests": {"cpu": "1"}, "limits": {}}))];
    }
    assert_eq!(world.steps(), []);
    for pod in &mut world.pods {
        pod.ready_since = Some(now());
    }
    let steps = world.steps();
    let [Step { action: Action::Unboost(ended), .. }] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(ended.annotations, ["vpaCpuStartupBoost/app"]);
    assert_eq!(ended.targets[0].requests.cpu.unwrap().to_string(), "2");
    world.run(|pass| {
        while let Some(step) = pass.next_step() {
            assert!(!is_eviction(&step));
            pass.failed(&step);
        }
    });
}

#[test]
fn the_first_pod_of_a_group_is_evicted_alone() {
    let mut world = World { brake: Brake::default(), ..World::new("Recreate", pods(5)) };
    assert_eq!((world.steps().len(), world.skipped()), (1, vec![SkipReason::AwaitsSuccessor; 4]));
    // A pod that cannot be evicted is no canary.
    world.run(|pass| {
        let first = pass.next_step().unwrap();
        pass.refused(&first, SkipReason::DisruptionBudget("web".to_owned()));
        assert_ne!(pass.next_step().unwrap().pod, first.pod);
        assert_eq!(pass.next_step(), None);
    });
    let evicted = world.pods.remove(0);
    let targets = running_targets(&world.autoscaler, &evicted, &world.ranges, ALL);
    world.brake.evicted(&evicted, &targets, &world.pods, now());
    world.disrupted = Disrupted::from([(Owner { kind: "ReplicaSet".into(), name: "web".into() }, 1)]);
    assert_eq!(world.steps(), [], "its successor is awaited");
    world.pods.push(pod("successor", json!([container("app", "2")]), json!([])));
    world.brake.look(&world.pods, &world.replicas, now());
    assert_eq!(world.steps().len(), 1, "two of five may go in one pass, and one has gone");
    world.disrupted.clear();
    assert_eq!(world.steps().len(), 2);
}

/// What was evicted before a restart is known only by its successor.
#[test]
fn a_successor_that_still_starts_holds_its_group_back() {
    let ready = |pod: PodView| PodView { ready_since: Some(now()), ..pod };
    let with = |successor: PodView| {
        let mut world =
            World { brake: Brake::default(), ..World::new("Recreate", pods(4).into_iter().map(ready).collect()) };
        world.unbound.push(successor);
        world.replicas = replicas(5);
        world.steps().len()
    };
    let successor = || pod("successor", json!([container("app", "2")]), json!([]));
    assert_eq!(with(PodView { start_time: None, ..successor() }), 0);
    assert_eq!(with(ready(successor())), 1);
    assert_eq!(with(PodView { start_time: Some(now() - SignedDuration::from_hours(2)), ..successor() }), 1);
    let created = |hours: i64| Some(now() - SignedDuration::from_hours(hours));
    assert_eq!(with(PodView { start_time: None, created: created(0), ..successor() }), 0);
    assert_eq!(with(PodView { start_time: None, created: created(2), ..successor() }), 1, "no node has room for it");
    assert_eq!(with(PodView { start_time: None, ..pod("other", json!([container("app", "1")]), json!([])) }), 1);
}

/// What was recommended is too little: the successor is OOM killed before it is Ready. By now more is recommended.
#[test]
fn a_successor_that_is_not_ready_is_evicted_for_another_recommendation_and_the_others_wait() {
    let app = |name: &str, cpu: &str| pod(name, json!([container("app", cpu)]), json!([]));
    let old: Vec<PodView> = pods(4).into_iter().map(|pod| PodView { ready_since: Some(now()), ..pod }).collect();
    for is_pending in [false, true] {
        for (minutes, expected) in
            [(1, SkipReason::AwaitsSuccessor), (10, SkipReason::Stopped(super::super::StopCause::NotReady))]
        {
            let mut world = World { brake: Brake::default(), ..World::new("Recreate", old.clone()) };
            let before = now() - SignedDuration::from_mins(minutes);
            let few = ContainerTarget {
                container: "app".into(),
                requests: crate::pod::Amounts::of(&json!({"cpu": "500m"})),
                ..ContainerTarget::default()
            };
            world.brake.evicted(&old[0], std::slice::from_ref(&few), &old, before);
            world.pods[0] = PodView { is_pending, ..app("successor", "500m") };
            world.brake.look(&world.pods, &world.replicas, now());
            assert_eq!(world.steps().iter().map(|step| step.pod).collect::<Vec<_>>(), [0], "{minutes} {is_pending}");
            assert_eq!(world.skipped(), vec![expected.clone(); 3]);
            // A second pod that came meanwhile is as good a successor; one goes all the same, unless nothing is stopped and it is pending.
            let mut two =
                World { replicas: replicas(5), brake: world.brake.clone(), ..World::new("Recreate", old.clone()) };
            two.pods[0] = world.pods[0].clone();
            two.pods.push(PodView { is_pending, ..app("scaled-up", "500m") });
            if minutes == 10 || !is_pending {
                assert_eq!(two.steps().len(), 1, "{minutes} {is_pending}");
            }

            let targets = running_targets(&world.autoscaler, &world.pods[0], &world.ranges, ALL);
            world.brake.evicted(&world.pods[0], &targets, &world.pods, now());
            world.pods[0] = app("next", "2");
            world.brake.look(&world.pods, &world.replicas, now());
            assert_eq!((world.steps(), world.skipped().contains(&expected)), (vec![], true), "it is the canary now");
            world.pods[0].ready_since = Some(now());
            world.brake.look(&world.pods, &world.replicas, now());
            assert_eq!(world.steps().len(), 2);
        }
    }
}

/// The template has the proportion of limit and request exactly; the pod has both rounded.
fn comes_back_the_same(kind: &str, resource: &str, (request, limit, max): (&str, &str, &str)) -> Result<(), String> {
    let list = |amount: String| json!({resource: amount});
    let app = |request: String, limit: String| {
        let resources = json!({"requests": list(request), "limits": list(limit)});
        pod("web", json!([{"name": "app", "resources": resources}]), json!([]))
    };
    let mut autoscaler = autoscaler("Recreate");
    let more = if resource == "cpu" { "20" } else { "100Gi" };
    let (target, upper) = (list(more.to_owned()), list("1000Gi".to_owned()));
    let recommended = json!([{"containerName": "app", "target": target, "lowerBound": target, "upperBound": upper}]);
    autoscaler.status.recommendation.as_mut().unwrap().container_recommendations =
        serde_json::from_value(recommended).unwrap();
    let ranges = LimitRanges::merge([&json!({"spec": {"limits": [{"type": kind, "max": {resource: max}}]}})]);
    let created = |pod: &PodView| {
        let targets = crate::target::container_targets(&autoscaler, pod, &ranges, ALL);
        let text = |amounts: crate::pod::Amounts| match resource {
            "cpu" => amounts.cpu.map(|it| it.to_string()).unwrap_or_default(),
            _ => amounts.memory.map(|it| it.to_string()).unwrap_or_default(),
        };
        app(text(targets[0].requests), text(targets[0].limits))
    };
    let running = created(&app(request.to_owned(), limit.to_owned()));
    let mut world = World::new("Recreate", vec![running.clone(), running]);
    (world.autoscaler, world.ranges) = (autoscaler.clone(), ranges);
    let steps = world.steps();
    if steps.is_empty() {
        return Ok(());
    }
    let (is, would_be) = (&world.pods[0].containers[0], &running_targets(&autoscaler, &world.pods[0], &ranges, ALL)[0]);
    Err(format!("{kind} {request}/{limit} max {max}: {:?} {:?} and then {would_be:?}", is.requests, is.limits))
}

#[test]
fn pods_that_a_limit_range_bounds_are_settled_in_spite_of_rounding() {
    for (kind, resource, amounts) in [
        ("Container", "memory", ("128Mi", "200Mi", "512Mi")),
        ("Container", "cpu", ("400m", "700m", "2")),
        ("Pod", "cpu", ("250m", "700m", "2500m")),
        ("Pod", "memory", ("128Mi", "200Mi", "512Mi")),
    ] {
        assert_eq!(comes_back_the_same(kind, resource, amounts), Ok(()));
    }
    // A pod that would get more than rounding explains is not settled.
    let item = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}});
    for (cpu, evicted) in [("1999m", 0), ("1998m", 1)] {
        let limited = json!([{"name": "app", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]);
        let running = pod("web", limited, json!([]));
        let world = World {
            ranges: LimitRanges::merge([&item]),
            brake: Brake::default(),
            ..World::new("Recreate", vec![running.clone(), running])
        };
        assert_eq!(world.steps().len(), evicted, "{cpu}");
    }
}

proptest::proptest! {
    /// Limits from the request itself to ten times as much, and maximums that leave at least some millicores.
    #[test]
    fn a_pod_that_a_limit_range_bounds_is_settled_for_every_ratio(
        request in 10_u32..2000,
        tenths in 10_u32..100,
        more in 0_u32..10,
        max in 200_u32..4000,
        is_pod in proptest::bool::ANY,
    ) {
        let limit = request * tenths / 10 + more;
        let kind = if is_pod { "Pod" } else { "Container" };
        let (request, limit, max) = (format!("{request}m"), format!("{limit}m"), format!("{max}m"));
        let outcome = comes_back_the_same(kind, "cpu", (&request, &limit, &max));
        proptest::prop_assert_eq!(outcome, Ok(()));
    }
}

#[test]
fn a_pending_pod_that_cannot_be_evicted_does_not_let_another_one_go() {
    let mut world = World { brake: Brake::default(), ..World::new("Recreate", pods(6)) };
    world.pods[1].is_pending = true;
    world.replicas = replicas(5);
    world.run(|pass| {
        assert_eq!(pass.next_step().unwrap().pod, 0);
        let pending = pass.next_step().unwrap();
        assert_eq!(pending.pod, 1);
        pass.failed(&pending);
        assert_eq!(pass.next_step(), None, "the successor of the first one is awaited");
        assert_eq!(pass.skipped().iter().filter(|(_, it)| *it == SkipReason::AwaitsSuccessor).count(), 4);
    });
}

#[test]
fn no_pod_is_evicted_whose_successor_the_api_server_would_refuse() {
    let refused = |mode: &str, rules: Rules| {
        let mut world = World { rules, ..World::new(mode, pods(4)) };
        for pod in &mut world.pods {
            pod.is_pending = mode == "Recreate" && pod.name == "web-0";
        }
        let steps = world.steps();
        let reasons = world.skipped();
        let count = |reasons: &[SkipReason]| reasons.iter().filter(|it| matches!(it, SkipReason::Refused(_))).count();
        (steps.iter().filter(|step| is_eviction(step)).count(), count(&reasons))
    };
    let range = json!({"spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]}});
    let max = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
    for range in [range, max] {
        assert_eq!(refused("Recreate", Rules::new([&range], [])), (0, 4), "{range}");
    }
    // Two of four may be evicted in one pass; the quota has room for the successor of one.
    let quota = json!({"status": {"hard": {"requests.cpu": "5500m"}, "used": {"requests.cpu": "4"}}});
    let world = World { rules: Rules::new([], [&quota]), ..World::new("Recreate", pods(4)) };
    assert_eq!(world.steps().len(), 1);
    assert!(matches!(&world.skipped()[0], SkipReason::Refused(answer) if answer.contains("requests.cpu 6 of 5500m")));
}

#[test]
fn nothing_is_evicted_that_would_come_back_as_it_is() {
    let mut world = World::new("Recreate", pods(2));
    // Each of its bounds is above what it requests, and the LimitRange leaves no more than that.
    let limited = || json!([{"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]);
    world.pods = (0..2).map(|i| pod(&format!("web-{i}"), limited(), json!([]))).collect();
    assert_eq!(world.steps().len(), 1);
    let item = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    world.ranges = LimitRanges::merge([&item]);
    for pod in &mut world.pods {
        std::sync::Arc::make_mut(&mut pod.containers)[0].last_oom = Some(OomKill { started: now(), finished: now() });
    }
    assert_eq!((world.steps(), world.skipped()), (vec![], vec![SkipReason::NothingChanges; 2]));
    // A resize that does not come about is another matter: the spec says already what is wanted.
    world.autoscaler = autoscaler("InPlaceOrRecreate");
    world.pods[0].resize = ResizeState::Infeasible;
    let of_resized = |reasons: Vec<SkipReason>| reasons.contains(&SkipReason::NothingChanges);
    assert!(of_resized(world.skipped()));
}

/// The LimitRange has split what is left when the pods were created; the bounds were split on their own.
#[test]
fn pods_that_share_a_limit_range_are_settled_once_they_were_created_anew() {
    let limited =
        |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
    let running = |app: &str, log: &str| pod("web", json!([limited("app", app), limited("log", log)]), json!([]));
    let item = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
    let world = |app: &str, log: &str| World {
        ranges: LimitRanges::merge([&item]),
        rules: Rules::new([&item], []),
        brake: Brake::default(),
        ..World::new("Recreate", vec![running(app, log), running(app, log)])
    };
    // 2 for the app and 100m for the other one, scaled to 1 together.
    assert_eq!(world("100m", "100m").steps().len(), 1);
    assert_eq!(
        (world("952m", "47m").steps(), world("952m", "47m").skipped()),
        (vec![], vec![SkipReason::NothingChanges; 2])
    );
}

#[test]
fn while_evictions_are_stopped_pods_are_still_resized() {
    let stopped = || {
        let mut brake = proven();
        let app = |name: &str| pod(name, json!([container("app", "1")]), json!([]));
        brake.evicted(&app("third"), &[], &[], now());
        brake.look(&[app("fourth")], &replicas(1), now());
        brake
    };
    let world = World { brake: stopped(), ..World::new("Recreate", pods(2)) };
    assert_eq!(
        (world.steps(), world.skipped()),
        (vec![], vec![SkipReason::Stopped(super::super::StopCause::Unchanged); 2])
    );
    assert_eq!(World { brake: stopped(), ..World::new("InPlaceOrRecreate", pods(2)) }.steps().len(), 1);
}

#[test]
fn the_outlook_says_of_each_pod_what_becomes_of_it() {
    use super::super::outlook::{Outlook, outlook};
    let mut world = World::new("Recreate", pods(3));
    world.budgets = Budgets::from([("web-0".to_owned(), "web".to_owned())]);
    world.pods[2] = pod("web-2", json!([container("app", "2")]), json!([]));
    let snapshot = Snapshot {
        autoscaler: &world.autoscaler,
        pods: &world.pods,
        replicas: &world.replicas,
        ranges: &world.ranges,
        infeasible: &world.infeasible,
        serves_resize: true,
        is_admitted: true,
        unbound: &[],
        brake: &world.brake,
        rules: &world.rules,
        disrupted: &world.disrupted,
        budgets: &world.budgets,
    };
    let found = outlook(snapshot, &world.settings, ALL, now());
    assert_eq!(found[0], (0, Outlook::Left(SkipReason::DisruptionBudget("web".to_owned()))));
    assert_eq!(found[1], (1, Outlook::Next(Action::Evict(EvictReason::Mode))));
    assert!(matches!(&found[2], (2, Outlook::Left(reason)) if !reason.holds_back()), "{found:?}");
}

#[test]
fn what_no_time_was_left_for_is_held_back_by_the_rate_limit() {
    World::new("Recreate", pods(5)).run(|pass| {
        pass.next_step();
        let second = pass.next_step().unwrap();
        pass.out_of_time(&second);
        let late: Vec<&SkipReason> = pass.skipped().iter().map(|(_, reason)| reason).collect();
        assert_eq!(late, [&SkipReason::RateLimit; 4]);
    });
}
