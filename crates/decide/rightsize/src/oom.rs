//! OOM kills, as the status of a pod reports them.

use jiff::Timestamp;
use pillion_api::vpa::Gates;
use pillion_quantity::Quantity;
use serde_json::Value;

use crate::pod::{PodContainer, PodView};

/// An OOM kill that was not reported before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOom {
    pub container: String,
    /// Bytes of memory that it requested when it was killed.
    pub requested: i64,
    /// When it was killed.
    pub at: Timestamp,
}

/// The OOM kills that a pod reports and did not report before. Of a pod that is seen for the first time, `since` gives for each
/// container up to when kills are known already.
pub fn new_ooms(
    before: Option<&PodView>,
    pod: &PodView,
    gates: Gates,
    since: impl Fn(&str) -> Option<Timestamp>,
) -> Vec<NewOom> {
    let before = before.filter(|before| before.uid == pod.uid);
    let kill = |container: &PodContainer| {
        let newest = container.newest_oom()?;
        let old = before.and_then(|before| before.containers.iter().find(|old| old.name == container.name));
        let known = match before {
            Some(_) => old.and_then(PodContainer::newest_oom).map(|kill| kill.finished),
            None => since(&container.name),
        };
        // As upstream: an end for which no reason was given is known already. One that was an error at first counts: a container runtime
        // can learn of the kill after the end.
        let is_same_end = container.ended_by_oom.is_some()
            && old.is_some_and(|old| old.has_ended_without_reason && old.restarts >= container.restarts);
        if is_same_end || known.is_some_and(|known| newest.finished <= known) {
            return None;
        }
        // A container that runs again had what the pod had before: a resize may have come since.
        let killed = if container.ended_by_oom.is_some() { container } else { old.unwrap_or(container) };
        let memory = killed.requests.memory;
        let requested = memory.map_or(0, |memory| i64::try_from(memory.value()).unwrap_or(i64::MAX));
        Some(NewOom { container: container.name.clone(), requested, at: newest.finished })
    };
    pod.sized(gates).filter_map(kill).collect()
}

/// A pod that the kubelet evicted for the memory that one of its containers used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEviction {
    /// The namespace of the pod.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    pub container: String,
    /// Bytes of memory that it used.
    pub used: i64,
    /// When.
    pub at: Timestamp,
}

/// What an event says of containers that used too much memory for their node. Events with another reason, or whose lists do not fit
/// together, say nothing.
pub fn memory_evictions(event: &Value) -> Vec<MemoryEviction> {
    let (object, annotations) = (&event["involvedObject"], &event["metadata"]["annotations"]);
    let at = event["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
    let list =
        |key: &str| -> Vec<&str> { annotations[key].as_str().map(|it| it.split(',').collect()).unwrap_or_default() };
    let (containers, used, starved) =
        (list("offending_containers"), list("offending_containers_usage"), list("starved_resource"));
    let fits = containers.len() == used.len() && used.len() == starved.len();
    let (Some(at), true) = (at, event["reason"] == "Evicted" && object["kind"] == "Pod" && fits) else {
        return Vec::new();
    };
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let all = containers.into_iter().zip(used).zip(starved);
    let of_memory = all.filter(|(_, starved)| *starved == "memory").filter_map(|((container, used), _)| {
        let used: Quantity = used.parse().ok()?;
        let used = i64::try_from(used.value()).unwrap_or(i64::MAX);
        Some(MemoryEviction {
            namespace: text("namespace"),
            pod: text("name"),
            container: container.to_owned(),
            used,
            at,
        })
    });
    of_memory.collect()
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::json;

    use super::*;

    const NATIVE: Gates = Gates { native_sidecar: true, ..Gates::NONE };

    fn pod(status: &Value, sidecar_status: &Value) -> PodView {
        let resources = json!({"requests": {"memory": "1Ki"}});
        PodView::new(
            &Pod::new(json!({
                "metadata": {"uid": "1"},
                "spec": {
                    "containers": [{"name": "app", "resources": resources}],
                    "initContainers": [{"name": "mesh", "restartPolicy": "Always", "resources": resources}]
                },
                "status": {"containerStatuses": [status], "initContainerStatuses": [sidecar_status]}
            }))
            .unwrap(),
        )
    }

    fn killed(name: &str, list: &str, second: u32) -> Value {
        let terminated = json!({
            "reason": "OOMKilled", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": format!("2026-01-01T00:01:{second:02}Z")
        });
        json!({"name": name, list: {"terminated": terminated}})
    }

    fn shown(kills: Vec<NewOom>) -> Vec<String> {
        kills.into_iter().map(|kill| format!("{} {} {}", kill.container, kill.requested, kill.at)).collect()
    }

    /// `TestOOMObserverOnUpdate` in upstream's `pkg/recommender/input/oom/observer_test.go`.
    #[test]
    fn a_kill_counts_once_with_the_memory_that_the_container_had() {
        let killed = || json!({"finishedAt": "2018-02-23T13:38:48Z", "reason": "OOMKilled"});
        let ended =
            |restarts: u32, terminated: Value| json!({"restartCount": restarts, "state": {"terminated": terminated}});
        let error = |at: &str| json!({"finishedAt": at, "reason": "Error"});
        let again = |restarts: u32, last: Value| json!({"restartCount": restarts, "state": {"running": {}}, "lastState": {"terminated": last}});
        let running = || json!({"restartCount": 0, "state": {"running": {}}});
        let waiting = || {
            let reason = json!({"waiting": {"reason": "CrashLoopBackOff"}});
            json!({"restartCount": 3, "state": reason, "lastState": {"terminated": killed()}})
        };
        let sized = |mut status: Value, memory: &str| {
            status["resources"] = json!({"requests": {"memory": memory}});
            status
        };
        let of = |requests: Value, mut status: Value| {
            status["name"] = json!("app");
            let app = json!({"name": "app", "resources": {"requests": requests}});
            let value = json!({"metadata": {"uid": "1"}, "spec": {"containers": [app]}, "status": {"containerStatuses": [status]}});
            PodView::new(&Pod::new(value).unwrap())
        };
        let spec = || json!({"memory": "1024"});
        for (what, old, new, memory) in [
            ("it ended", of(spec(), json!({})), of(spec(), ended(0, killed())), Some(1024)),
            ("nothing is requested", of(spec(), json!({})), of(json!({}), ended(0, killed())), Some(0)),
            (
                "the kubelet knows better",
                of(spec(), json!({})),
                of(spec(), sized(ended(0, killed()), "2048")),
                Some(2048),
            ),
            ("it runs again", of(spec(), running()), of(spec(), again(1, killed())), Some(1024)),
            (
                "it runs again, and was resized",
                of(spec(), sized(running(), "2048")),
                of(spec(), sized(again(1, killed()), "4096")),
                Some(2048),
            ),
            (
                "it ended twice",
                of(spec(), ended(0, error("2018-02-23T13:00:00Z"))),
                of(spec(), ended(1, killed())),
                Some(1024),
            ),
            ("it failed", of(spec(), json!({})), of(spec(), ended(0, error("2018-02-23T13:38:48Z"))), None),
            (
                "it failed, and runs again",
                of(spec(), json!({})),
                of(spec(), again(1, error("2018-02-23T13:38:48Z"))),
                None,
            ),
            ("it waited, and runs again", of(spec(), waiting()), of(spec(), again(4, killed())), None),
            ("nothing happened", of(spec(), again(1, killed())), of(spec(), again(1, killed())), None),
            (
                "the reason changed",
                of(spec(), ended(0, error("2018-02-23T13:38:48Z"))),
                of(spec(), ended(0, killed())),
                Some(1024),
            ),
            (
                "the same end",
                of(spec(), ended(0, json!({"finishedAt": "2018-02-23T13:38:48Z"}))),
                of(spec(), ended(0, killed())),
                None,
            ),
        ] {
            let kills = new_ooms(Some(&old), &new, Gates::default(), |_| None);
            let shown: Vec<(i64, String)> = kills.iter().map(|it| (it.requested, it.at.to_string())).collect();
            let wanted = memory.map(|memory| (memory, "2018-02-23T13:38:48Z".to_owned()));
            assert_eq!(shown, wanted.into_iter().collect::<Vec<_>>(), "{what}");
        }
    }

    #[test]
    fn a_kill_counts_once_whether_the_container_restarted_or_not() {
        let calm = pod(&json!({"name": "app"}), &json!({"name": "mesh"}));
        let ended = pod(&killed("app", "state", 1), &json!({"name": "mesh"}));
        let restarted = pod(&killed("app", "lastState", 1), &json!({"name": "mesh"}));
        let again = pod(&killed("app", "lastState", 9), &json!({"name": "mesh"}));
        let of = |before: &PodView, now: &PodView| shown(new_ooms(Some(before), now, NATIVE, |_| None));
        assert_eq!(of(&calm, &ended), ["app 1024 2026-01-01T00:01:01Z"]);
        assert_eq!(of(&ended, &restarted), [""; 0]);
        assert_eq!(of(&calm, &restarted), ["app 1024 2026-01-01T00:01:01Z"]);
        assert_eq!(of(&restarted, &again), ["app 1024 2026-01-01T00:01:09Z"]);
        assert_eq!(of(&again, &again), [""; 0]);
    }

    #[test]
    fn a_native_sidecar_counts_with_the_gate_only() {
        let calm = pod(&json!({"name": "app"}), &json!({"name": "mesh"}));
        let now = pod(&json!({"name": "app"}), &killed("mesh", "state", 1));
        assert_eq!(new_ooms(Some(&calm), &now, NATIVE, |_| None).len(), 1);
        assert_eq!(new_ooms(Some(&calm), &now, Gates::default(), |_| None).len(), 0);
    }

    #[test]
    fn what_a_checkpoint_has_seen_does_not_count_again() {
        let now = pod(&killed("app", "lastState", 5), &json!({"name": "mesh"}));
        let of =
            |since: Option<&str>| new_ooms(None, &now, NATIVE, |_| since.map(|since| since.parse().unwrap())).len();
        assert_eq!(of(None), 1);
        assert_eq!(of(Some("2026-01-01T00:01:04Z")), 1);
        assert_eq!(of(Some("2026-01-01T00:01:05Z")), 0);
    }

    /// `TestParseEvictionEvent` in upstream's `observer_test.go`.
    #[test]
    fn an_eviction_for_memory_names_containers_and_what_they_used() {
        let event = |containers: &str, used: &str, starved: &str| {
            let event = json!({
                "reason": "Evicted", "involvedObject": {"kind": "Pod", "namespace": "test-namespace", "name": "pod1"},
                "metadata": {"creationTimestamp": "2017-02-23T15:04:05Z", "annotations": {
                    "offending_containers": containers, "offending_containers_usage": used, "starved_resource": starved
                }}
            });
            let found = memory_evictions(&event);
            found
                .iter()
                .map(|it| format!("{}/{}/{} {}", it.namespace, it.pod, it.container, it.used))
                .collect::<Vec<_>>()
        };
        assert_eq!(event("test-container", "1024Ki", "memory"), ["test-namespace/pod1/test-container 1048576"]);
        assert_eq!(
            event("test-container,other-container", "1024Ki,2048Ki", "memory,memory"),
            ["test-namespace/pod1/test-container 1048576", "test-namespace/pod1/other-container 2097152"]
        );
        assert_eq!(event("test-container,other-container", "1024Ki,2048Ki", "memory,evictable").len(), 1);
        assert_eq!(event("test-container,other-container", "1024Ki", "memory,memory").len(), 0);
        assert_eq!(event("test-container", "much", "memory").len(), 0);
        assert_eq!(memory_evictions(&json!({"reason": "Killing"})).len(), 0);
    }
}
