//! What has changed between two views, as lines for a log: one per object, newest state only.

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use super::view::{Container, Job, Key, Pod, Role, State, View, short};
use crate::terminal::clean_line;

/// The lines that lead from the old view to the new one.
pub(crate) fn changes(old: &View, new: &View) -> Vec<String> {
    let mut lines = Vec::new();
    let (sets, gone) = difference(&old.sets, &new.sets);
    for (name, _, set) in sets {
        let verb = if new.is_without_webhooks { "has" } else { "injects" };
        lines.push(line("SidecarSet", name, &format!("{verb} {}", set.containers.join(", "))));
    }
    lines.extend(gone.into_iter().map(|name| line("SidecarSet", name, "gone")));
    let (workloads, gone) = difference(&old.workloads, &new.workloads);
    for ((kind, key), _, workload) in workloads {
        lines.push(line(kind, &short(key), &format!("{} ready", workload.ready)));
    }
    lines.extend(gone.into_iter().map(|(kind, key)| line(kind, &short(key), "gone")));
    let (pods, gone) = difference(&old.pods, &new.pods);
    for (key, before, pod) in pods {
        if before.is_none_or(|before| !is_same(before, pod)) {
            lines.push(line("Pod", &short(key), &describe_pod(before, pod)));
        }
    }
    lines.extend(gone.into_iter().map(|key| line("Pod", &short(key), "gone")));
    let (jobs, gone) = difference(&old.jobs, &new.jobs);
    for (key, before, job) in jobs {
        if before.is_none_or(|before| (&before.status, &before.completions) != (&job.status, &job.completions)) {
            lines.push(line("Job", &short(key), &describe_job(job)));
        }
    }
    lines.extend(gone.into_iter().map(|key| line("Job", &short(key), "gone")));
    for warning in new.warnings.iter() {
        let before = old.warnings.iter().find(|other| other.says_the_same(warning)).map_or(0, |before| before.count);
        // The same words again are worth a line only when there are twice as many of them.
        if before == 0 || warning.count.max(1).ilog2() > before.max(1).ilog2() {
            let text = format!("{}{}: {}", warning.reason, times(warning.count), warning.message);
            lines.push(line("Warning", &warning.object, &text));
        }
    }
    lines
}

/// What was added or changed, with what was there before, and what is gone. What both share is not looked at.
#[expect(clippy::type_complexity, reason = "a pair of lists")]
fn difference<'m, K: Ord, V: PartialEq>(
    old: &'m OrdMap<K, V>,
    new: &'m OrdMap<K, V>,
) -> (Vec<(&'m K, Option<&'m V>, &'m V)>, Vec<&'m K>) {
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for item in old.diff(new) {
        match item {
            DiffItem::Add(key, value) => there.push((key, None, value)),
            DiffItem::Update { old: (_, before), new: (key, value) } => there.push((key, Some(before), value)),
            DiffItem::Remove(key, _) => gone.push(key),
        }
    }
    (there, gone)
}

/// How often something was said, if more than once.
pub(crate) fn times(count: i64) -> String {
    if count > 1 { format!(" (×{count})") } else { String::new() }
}

/// What it says may come from a container, by way of an event or a status.
fn line(kind: &str, name: &str, text: &str) -> String {
    clean_line(&format!("{kind:<11} {name:<28} {text}"))
}

/// Ages and durations move on by themselves; nobody wants a line for that.
fn is_same(old: &Pod, new: &Pod) -> bool {
    (&old.status, &old.ready, &old.containers) == (&new.status, &new.ready, &new.containers)
}

pub(crate) fn describe_job(job: &Job) -> String {
    let mut text = format!("{} {}", job.status, job.completions);
    if job.ended() && !job.duration.is_empty() {
        text = format!("{text} in {}", job.duration);
    }
    if !job.message.is_empty() {
        text = format!("{text}: {}", job.message);
    }
    text
}

/// The first line of a pod says what its sidecars are given; the others say only what moves.
fn describe_pod(old: Option<&Pod>, pod: &Pod) -> String {
    let containers: Vec<String> =
        pod.containers.iter().map(|container| describe_container(container, old.is_none())).collect();
    format!("{:<18} {:<4} {}", pod.status, pod.ready, containers.join(" · "))
}

fn describe_container(container: &Container, with_resources: bool) -> String {
    let mut text = format!("{} {}", container.name, state(&container.state));
    if container.restarts > 0 {
        text = format!("{text} ×{}", container.restarts + 1);
    }
    if with_resources && container.role == Role::Sidecar && !container.resources.is_empty() {
        text = format!("{text} ({})", container.resources);
    }
    text
}

/// One or two words for a container's state.
pub(crate) fn state(state: &State) -> String {
    match state {
        State::Waiting(reason) if reason.is_empty() => "waiting".to_owned(),
        State::Waiting(reason) => reason.clone(),
        State::Running(true) => "ready".to_owned(),
        State::Running(false) => "running".to_owned(),
        State::Ended(0, _) => "done".to_owned(),
        State::Ended(code, reason) if reason == "Error" || reason.is_empty() => format!("exit {code}"),
        State::Ended(code, reason) => format!("{reason} {code}"),
    }
}

/// Everything at the end: one line per Job, and the keys of those that did not complete.
pub(crate) fn summary(view: &View) -> (Vec<String>, Vec<Key>) {
    let reported = |(key, job): (&Key, &Option<Job>)| {
        let text = job.as_ref().map_or_else(|| "deleted before its end".to_owned(), describe_job);
        line("Job", &short(key), &text)
    };
    let lines = view.ended.iter().map(reported).collect();
    let has_failed = |job: &Option<Job>| job.as_ref().is_none_or(Job::failed);
    let failed = view.ended.iter().filter(|(_, job)| has_failed(job)).map(|(key, _)| key.clone()).collect();
    (lines, failed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn view(objects: &[Value]) -> View {
        let mut view = View::default();
        for object in objects {
            view.apply(object, Timestamp::UNIX_EPOCH);
        }
        view
    }

    fn warning(namespace: &str, count: i64) -> Value {
        json!({"kind": "Event", "type": "Warning", "reason": "BackOff", "message": "it fails", "count": count,
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "a"}})
    }

    /// The lines, with single blanks.
    fn reported(old: &View, new: &View) -> Vec<String> {
        changes(old, new).iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_copy_of_a_view_shares_everything_but_what_changes_afterwards() {
        let pod = |name: String| json!({"kind": "Pod", "metadata": {"name": name}, "spec": {}, "status": {"phase": "Running"}});
        let mut view = View::default();
        for number in 0..10_000 {
            view.apply(&pod(format!("web-{number}")), Timestamp::UNIX_EPOCH);
        }
        let copy = view.clone();
        assert!(copy.pods.ptr_eq(&view.pods) && Arc::ptr_eq(&copy.warnings, &view.warnings));
        view.remove(&pod("web-7".to_owned()));
        assert_eq!(changes(&copy, &view).len(), 1);
        assert_eq!((copy.pods.len(), view.pods.len()), (10_000, 9_999));
    }

    #[test]
    fn what_was_deleted_is_gone() {
        let object = |kind: &str| json!({"kind": kind, "metadata": {"namespace": "shop", "name": "a"}});
        let mut objects = ["Pod", "Job", "Deployment", "StatefulSet"].map(object).to_vec();
        objects.push(json!({"kind": "SidecarSet", "metadata": {"name": "mesh"}}));
        let gone = reported(&view(&objects), &View::default());
        let expected = [
            "SidecarSet mesh gone",
            "Deployment shop/a gone",
            "StatefulSet shop/a gone",
            "Pod shop/a gone",
            "Job shop/a gone",
        ];
        assert_eq!(gone, expected);
    }

    #[test]
    fn a_warning_that_comes_again_is_reported_when_its_count_has_doubled() {
        let mut old = View::default();
        let mut lines = Vec::new();
        for count in 1..=9 {
            let new = view(&[warning("default", count)]);
            lines.extend(reported(&old, &new));
            old = new;
        }
        let expected = ["", " (×2)", " (×4)", " (×8)"].map(|times| format!("Warning Pod/a BackOff{times}: it fails"));
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_a_terminal_would_act_on_is_not_written() {
        let mut event = warning("default", 1);
        event["message"] = json!("Readiness probe failed: \u{1b}[2J\u{1b}]0;owned\u{7}\nmore");
        let lines = reported(&View::default(), &view(&[event]));
        assert_eq!(lines, ["Warning Pod/a BackOff: Readiness probe failed: ^[[2J^[]0;owned^G more"]);
    }

    #[test]
    fn warnings_of_two_namespaces_are_two() {
        let lines = reported(&View::default(), &view(&[warning("default", 1), warning("shop", 1)]));
        assert_eq!(lines, ["Warning Pod/a BackOff: it fails", "Warning Pod/shop/a BackOff: it fails"]);
    }

    #[test]
    fn warnings_of_an_earlier_run_are_not_news() {
        let began = "2026-01-01T00:00:10.7Z".parse().unwrap();
        let rows = [("2026-01-01T00:00:09Z", 0), ("2026-01-01T00:00:10Z", 1), ("2026-01-01T00:01:00Z", 1)];
        for (seen, expected) in rows {
            let mut view = View { began: Some(began), ..View::default() };
            let mut event = warning("default", 1);
            event["metadata"] = json!({"creationTimestamp": "2026-01-01T00:00:00Z"});
            event["lastTimestamp"] = json!(seen);
            view.apply(&event, Timestamp::UNIX_EPOCH);
            assert_eq!(reported(&View::default(), &view).len(), expected, "{seen}");
        }
    }

    #[test]
    fn nothing_is_said_to_be_injected_where_the_webhooks_do_not_run() {
        let set =
            json!({"kind": "SidecarSet", "metadata": {"name": "mesh"}, "spec": {"containers": [{"name": "proxy"}]}});
        for (is_without_webhooks, expected) in
            [(false, "SidecarSet mesh injects proxy"), (true, "SidecarSet mesh has proxy")]
        {
            let mut view = View { is_without_webhooks, ..View::default() };
            view.apply(&set, Timestamp::UNIX_EPOCH);
            assert_eq!(reported(&View::default(), &view), [expected]);
        }
    }

    #[test]
    fn a_job_that_is_about_to_end_is_running() {
        for condition in ["SuccessCriteriaMet", "FailureTarget"] {
            let job = json!({"kind": "Job", "metadata": {"namespace": "default", "name": "a"}, "spec": {"completions": 1},
                "status": {"conditions": [{"type": condition, "status": "True"}]}});
            assert_eq!(reported(&View::default(), &view(&[job])), ["Job a Running 0/1"]);
        }
    }
}
