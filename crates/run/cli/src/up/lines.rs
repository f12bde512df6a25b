//! What has changed between two views, as lines for a log: one per object, newest state only.

use super::view::{Container, Job, Key, Pod, Role, State, View, short};

/// The lines that lead from the old view to the new one.
pub(crate) fn changes(old: &View, new: &View) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, set) in &new.sets {
        if old.sets.get(name) != Some(set) {
            lines.push(line("SidecarSet", name, &format!("injects {}", set.containers.join(", "))));
        }
    }
    for ((kind, key), workload) in &new.workloads {
        if old.workloads.get(&(kind.clone(), key.clone())) != Some(workload) {
            lines.push(line(kind, &short(key), &format!("{} ready", workload.ready)));
        }
    }
    for (key, pod) in &new.pods {
        if old.pods.get(key).is_none_or(|before| !is_same(before, pod)) {
            lines.push(line("Pod", &short(key), &describe_pod(old.pods.get(key), pod)));
        }
    }
    for (key, _) in old.pods.iter().filter(|(key, _)| !new.pods.contains_key(*key)) {
        lines.push(line("Pod", &short(key), "gone"));
    }
    for (key, job) in &new.jobs {
        if old
            .jobs
            .get(key)
            .is_none_or(|before| (&before.status, &before.completions) != (&job.status, &job.completions))
        {
            lines.push(line("Job", &short(key), &describe_job(job)));
        }
    }
    for warning in new.warnings.iter().filter(|warning| !old.warnings.contains(warning)) {
        lines.push(line("Warning", &warning.object, &format!("{}: {}", warning.reason, warning.message)));
    }
    lines
}

fn line(kind: &str, name: &str, text: &str) -> String {
    format!("{kind:<11} {name:<28} {text}")
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
    let told = |(key, job): (&Key, &Option<Job>)| {
        let text = job.as_ref().map_or_else(|| "deleted before its end".to_owned(), describe_job);
        line("Job", &short(key), &text)
    };
    let lines = view.ended.iter().map(told).collect();
    let has_failed = |job: &Option<Job>| job.as_ref().is_none_or(Job::failed);
    let failed = view.ended.iter().filter(|(_, job)| has_failed(job)).map(|(key, _)| key.clone()).collect();
    (lines, failed)
}
