use jiff::SignedDuration;
use pillion_expr::Resource;

use super::*;

const NATIVE: Gates = Gates { native_sidecar: true, ..Gates::NONE };

fn web() -> Workload {
    Workload { namespace: "shop".into(), kind: "Deployment".into(), name: "web".into() }
}

fn days(count: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * count)
}

fn usage() -> Usage {
    Usage::new(SampleSettings::default(), NATIVE)
}

fn regular<'a>(names: &[&'a str]) -> Vec<(&'a str, ContainerKind)> {
    names.iter().map(|name| (*name, ContainerKind::Regular)).collect()
}

fn names(usage: &Usage) -> Vec<&str> {
    usage.containers(&web()).map(ContainerUsage::name).collect()
}

/// Upstream's `TestAggregateStateByContainerName`: the samples of all pods of a workload are one history.
#[test]
fn samples_of_all_pods_are_one_history() {
    let mut it = usage();
    it.add_pod("pod-1", &web(), regular(&["a", "b"]), days(0));
    it.add_pod("pod-2", &web(), regular(&["a", "c"]), days(0));
    for (pod, container) in [("pod-1", "a"), ("pod-1", "b"), ("pod-2", "a"), ("pod-2", "c")] {
        it.add_cpu(pod, container, 100, days(1)).unwrap();
    }
    let samples: Vec<_> = it.containers(&web()).map(|it| (it.name(), it.aggregate().samples())).collect();
    assert_eq!(samples, [("a", 2), ("b", 1), ("c", 1)]);
    assert_eq!(it.add_cpu("pod-1", "c", 1, days(2)), Err(Rejected::UnknownContainer));
    assert_eq!(it.add_cpu("pod-3", "a", 1, days(2)), Err(Rejected::UnknownContainer));
}

#[test]
fn a_hundred_rollouts_do_not_grow_memory() {
    let mut it = usage();
    let mut rollout = |number: i64| {
        for pod in 0..10 {
            it.remove_pod(&format!("web-{}-{pod}", number - 1));
            let name = format!("web-{number}-{pod}");
            it.add_pod(&name, &web(), regular(&["app"]), days(0));
            it.add_cpu(&name, "app", 100, days(0) + SignedDuration::from_mins(number)).unwrap();
            it.add_memory(&name, "app", 100 << 20, days(0) + SignedDuration::from_mins(number)).unwrap();
        }
        it.size()
    };
    let first = rollout(100);
    let sizes: Vec<usize> = (101..200).map(rollout).collect();
    assert_eq!(sizes.last(), Some(&first));
    assert_eq!(it.containers(&web()).next().unwrap().aggregate().samples(), 1000);
}

/// Two containers in a pod, ten pods in a workload, a day of samples that vary by a factor of four.
#[test]
fn a_running_container_takes_a_few_hundred_bytes() {
    let mut it = usage();
    let (workloads, pods) = (5, 10);
    for i in 0..workloads * pods {
        let workload = Workload { name: format!("web-{}", i / pods), ..web() };
        let pod = format!("shop/web-{}-{i}", i / pods);
        it.add_pod(&pod, &workload, [("app", ContainerKind::Regular), ("mesh", ContainerKind::NativeSidecar)], days(0));
        for minute in 0..24 * 60 / 5 {
            let at = days(0) + SignedDuration::from_mins(minute * 5);
            for container in ["app", "mesh"] {
                let wave = (minute * 7919 + i * 104_729) % 300;
                it.add_cpu(&pod, container, 100 + wave, at).unwrap();
                it.add_memory(&pod, container, (200 + wave) << 20, at).unwrap();
            }
        }
    }
    let each = it.size() / usize::try_from(workloads * pods * 2).unwrap();
    assert!(each < 256, "{each} bytes");
}

#[test]
fn a_container_that_no_pod_has_any_more_is_left_out_unless_nothing_runs() {
    let mut it = usage();
    it.add_pod("old", &web(), regular(&["app", "legacy"]), days(0));
    it.add_pod("new", &web(), regular(&["app"]), days(0));
    assert_eq!(names(&it), ["app", "legacy"]);
    it.remove_pod("old");
    assert_eq!(names(&it), ["app"]);
    it.remove_pod("new");
    assert_eq!(names(&it), ["app", "legacy"]);
}

#[test]
fn native_sidecars_are_sampled_only_with_the_gate_and_init_containers_never() {
    let containers =
        || [("app", ContainerKind::Regular), ("mesh", ContainerKind::NativeSidecar), ("setup", ContainerKind::Init)];
    let mut on = usage();
    on.add_pod("pod", &web(), containers(), days(0));
    assert_eq!(names(&on), ["app", "mesh"]);
    assert_eq!(on.add_cpu("pod", "setup", 1, days(0)), Err(Rejected::UnknownContainer));

    let mut off = Usage::new(SampleSettings::default(), Gates::default());
    off.add_pod("pod", &web(), containers(), days(0));
    assert_eq!(names(&off), ["app"]);
    assert_eq!(off.add_cpu("pod", "mesh", 1, days(0)), Err(Rejected::UnknownContainer));
}

#[test]
fn a_checkpoint_that_is_loaded_late_is_added_to_what_was_sampled() {
    let mut before = usage();
    before.add_pod("pod", &web(), regular(&["app"]), days(0));
    for minute in 0..5 {
        before.add_cpu("pod", "app", 100, days(0) + SignedDuration::from_mins(minute)).unwrap();
    }
    let stored = before.containers(&web()).next().unwrap().to_checkpoint(days(0));

    let mut after = usage();
    after.add_pod("pod", &web(), regular(&["app"]), days(1));
    after.add_cpu("pod", "app", 100, days(1)).unwrap();
    after.load_checkpoint(&web(), "app", &stored).unwrap();
    let container = after.containers(&web()).next().unwrap();
    assert_eq!(container.aggregate().samples(), 6);
    assert_eq!(container.aggregate().first_sample(), Some(days(0)));
}

/// A checkpoint says neither that its container is a native sidecar nor that the template still has it.
#[test]
fn a_container_that_is_only_in_a_checkpoint_is_not_sized() {
    let mut before = usage();
    before.add_pod("pod", &web(), [("app", ContainerKind::Regular), ("mesh", ContainerKind::NativeSidecar)], days(0));
    before.add_cpu("pod", "app", 100, days(0)).unwrap();
    let stored = before.containers(&web()).next().unwrap().to_checkpoint(days(0));
    for gates in [NATIVE, Gates::NONE] {
        let mut after = Usage::new(SampleSettings::default(), gates);
        for name in ["app", "mesh", "legacy"] {
            after.load_checkpoint(&web(), name, &stored).unwrap();
        }
        assert_eq!(names(&after), [""; 0]);
        assert!(after.is_unseen(&web()) && after.find(&web(), "mesh").is_some());
        after.set_kinds(&web(), |name| match name {
            "app" => Some(ContainerKind::Regular),
            "mesh" => Some(ContainerKind::NativeSidecar),
            _ => None,
        });
        let sized: &[&str] = if gates.native_sidecar { &["app", "mesh"] } else { &["app"] };
        assert_eq!(names(&after), sized);
        assert!(!after.is_unseen(&web()));
    }
}

#[test]
fn history_expires_when_nothing_runs_for_eight_days() {
    let mut it = usage();
    it.add_pod("pod", &web(), regular(&["app"]), days(0));
    it.add_cpu("pod", "app", 100, days(0)).unwrap();
    it.expire(days(9));
    assert_eq!(names(&it), ["app"], "it still runs");
    it.remove_pod("pod");
    it.expire(days(7));
    assert_eq!(names(&it), ["app"]);
    it.expire(days(8));
    assert_eq!(it.workloads().count(), 0);
}

#[test]
fn the_place_of_an_expired_workload_is_used_again() {
    let mut it = usage();
    let named = |name: &str| Workload { name: name.into(), ..web() };
    it.add_pod("idle", &named("idle"), [], days(0));
    it.add_pod("pod", &web(), regular(&["app"]), days(0));
    it.remove_pod("pod");
    it.expire(days(8));
    assert_eq!(it.workloads().collect::<Vec<_>>(), [&named("idle")]);
    it.add_pod("other", &named("other"), regular(&["app"]), days(8));
    it.add_sample("other", "app", 100, 1 << 30, days(9)).unwrap();
    assert_eq!(it.workloads.len(), 2);
    assert_eq!(it.containers(&named("other")).next().unwrap().aggregate().samples(), 1);
    assert_eq!(it.containers(&named("idle")).count(), 0);
}

#[test]
fn an_override_of_the_policy_ends_with_it() {
    let gates = Gates { per_vpa_config: true, ..Gates::default() };
    let mut it = Usage::new(SampleSettings::default(), gates);
    it.add_pod("pod", &web(), regular(&["app"]), days(0));
    let policy: PodResourcePolicy = serde_json::from_value(serde_json::json!({
        "containerPolicies": [{"containerName": "app", "oomBumpUpRatio": "3"}]
    }))
    .unwrap();
    it.set_policy(&web(), Some(&policy));
    it.set_policy(&web(), None);
    it.record_oom("pod", "app", 1 << 30, days(0)).unwrap();
    let memory = it.containers(&web()).next().unwrap().aggregate().percentile(Resource::Memory, 1.0);
    assert!(memory < 2 << 30, "{memory}");
}

#[test]
fn a_policy_that_is_set_before_the_first_pod_counts_for_it() {
    let gates = Gates { per_vpa_config: true, ..Gates::default() };
    let mut it = Usage::new(SampleSettings::default(), gates);
    let policy: PodResourcePolicy = serde_json::from_value(serde_json::json!({
        "containerPolicies": [{"containerName": "app", "oomBumpUpRatio": "3"}]
    }))
    .unwrap();
    it.set_policy(&web(), None);
    assert_eq!(it.workloads().count(), 0, "there is nothing to remember");
    it.set_policy(&web(), Some(&policy));
    it.add_pod("pod", &web(), regular(&["app"]), days(0));
    it.record_oom("pod", "app", 1 << 30, days(0)).unwrap();
    let memory = it.containers(&web()).next().unwrap().aggregate().percentile(Resource::Memory, 1.0);
    assert!(memory > 3 << 30, "{memory}");
}
