//! The phase of a pod, from the statuses of its containers.

use std::fmt;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus};

use crate::ending;
use crate::restart;
use crate::role::Role;
use crate::view::{Latest, Subject, View};

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub(crate) fn read(phase: Option<&str>) -> Self {
        match phase {
            Some("Running") => Self::Running,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            _ => Self::Pending,
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// What a status says, as far as the phase is concerned.
enum Seen<'a> {
    Running,
    Ended(&'a ContainerStateTerminated),
    /// It waits for its next start.
    Between(&'a ContainerStateTerminated),
    /// It waits for its first start.
    Waiting,
}

#[derive(Default)]
// Each is a fact of its own about the containers.
#[allow(clippy::struct_excessive_bools)]
struct Count {
    /// A container has yet to be run for the first time, or has to end before others can be.
    waiting: bool,
    unstarted_sidecar: bool,
    running: bool,
    stopped: usize,
    succeeded: usize,
    /// Of the stopped ones, those that are not run again.
    over: usize,
    /// A marked sidecar ended with an error before the work was done.
    failed_early: bool,
}

/// The phase. `ended` says that nothing runs and nothing will, whatever the restart policy is.
pub(crate) fn phase(subject: &Subject<'_>, statuses: &[ContainerStatus], ended: bool) -> Phase {
    let mut count = Count::default();
    let mut initialized = false;
    for (view, status) in subject.views.iter().zip(statuses) {
        let seen = seen(status);
        match view.role {
            Role::Init => match seen {
                Seen::Ended(exit) | Seen::Between(exit) if exit.exit_code != 0 => {
                    if !restarts(subject, view, exit.exit_code) {
                        return Phase::Failed;
                    }
                }
                Seen::Ended(_) | Seen::Between(_) => {}
                Seen::Running | Seen::Waiting => count.waiting = true,
            },
            // How a sidecar ended never matters.
            Role::NativeSidecar => match seen {
                Seen::Running => {
                    count.running = true;
                    count.unstarted_sidecar |= status.started != Some(true);
                }
                Seen::Waiting => {
                    count.waiting = true;
                    count.unstarted_sidecar = true;
                }
                Seen::Ended(_) | Seen::Between(_) => {}
            },
            // How a marked sidecar ends after the work does not matter, and what has never run is not waited for.
            Role::MarkedSidecar if subject.work_done_at.is_some() => {
                count.running |= matches!(seen, Seen::Running);
                count.failed_early |= subject.work_done_at.is_some_and(|done_at| ending::failed_early(view, done_at));
            }
            Role::Work | Role::MarkedSidecar => {
                initialized |= has_run(view);
                match seen {
                    Seen::Running => count.running = true,
                    Seen::Waiting => count.waiting = true,
                    Seen::Ended(exit) | Seen::Between(exit) => {
                        count.stopped += 1;
                        count.over += usize::from(!restarts(subject, view, exit.exit_code));
                        // One that waits for its next start has not succeeded, whatever its last exit code was.
                        count.succeeded += usize::from(matches!(seen, Seen::Ended(_)) && exit.exit_code == 0);
                    }
                }
            }
            Role::Ephemeral => {}
        }
    }
    decide(&count, initialized, ended)
}

fn decide(count: &Count, initialized: bool, ended: bool) -> Phase {
    if count.waiting || (count.unstarted_sidecar && !initialized) {
        Phase::Pending
    } else if count.running {
        Phase::Running
    } else if count.stopped == 0 {
        Phase::Pending
    } else if !ended && count.over < count.stopped {
        Phase::Running
    } else if count.succeeded == count.stopped && !count.failed_early {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

fn seen(status: &ContainerStatus) -> Seen<'_> {
    match &status.state {
        Some(ContainerState { running: Some(_), .. }) => Seen::Running,
        Some(ContainerState { terminated: Some(exit), .. }) => Seen::Ended(exit),
        _ => match &status.last_state {
            Some(ContainerState { terminated: Some(exit), .. }) => Seen::Between(exit),
            _ => Seen::Waiting,
        },
    }
}

fn has_run(view: &View<'_>) -> bool {
    view.previous().is_some() || matches!(view.latest(), Latest::Running(_) | Latest::Exited(..))
}

/// Whether a container is, or will be, run again.
fn restarts(subject: &Subject<'_>, view: &View<'_>, code: i32) -> bool {
    match view.latest() {
        Latest::Starting | Latest::Running(_) => true,
        Latest::Exited(attempt, _) => restart::follows(view, subject, attempt, code),
        Latest::Never => view.spec.is_some_and(|spec| restart::by_policy(spec, restart::pod_policy(subject), code)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::simulation::{container, facts, pod, sidecar};
    use crate::status::draft;
    use crate::{Marked, NodeFacts, Snapshot};

    /// The phase of a pod whose containers have come so far, as long as it lives and when it has ended. The signs are
    /// those of [`facts`].
    fn phases(policy: &str, signs: [char; 3]) -> [Phase; 2] {
        let pod = pod(json!({
            "restartPolicy": policy,
            "initContainers": [container("init"), sidecar("side")],
            "containers": [container("main")],
        }));
        let names = ["init", "side", "main"].into_iter().zip(signs);
        let containers: BTreeMap<_, _> =
            names.filter_map(|(name, sign)| Some((name.to_owned(), facts(sign)?))).collect();
        let node = NodeFacts::default();
        let now = Timestamp::UNIX_EPOCH;
        let snapshot =
            Snapshot { pod: &pod, marked: &Marked::NONE, containers: &containers, node: &node, stop: None, now };
        let subject = Subject::new(&snapshot);
        [false, true].map(|ended| draft(&subject, ended).phase)
    }

    #[test]
    fn the_phase_follows_from_how_far_the_containers_are() {
        use Phase::{Failed, Pending, Running, Succeeded};
        // Init container, sidecar, regular container; then under Always, OnFailure and Never; then when the pod has ended.
        let table = [
            ("---", [Pending; 3], Pending),
            ("r--", [Pending; 3], Pending),
            ("1--", [Pending, Pending, Failed], Pending),
            ("0--", [Pending; 3], Pending),
            ("0u-", [Pending; 3], Pending),
            ("0r-", [Pending; 3], Pending),
            ("0rr", [Running; 3], Running),
            // A sidecar that is not there, or not started, holds no pod back that has run already.
            ("01r", [Running; 3], Running),
            ("0ur", [Running; 3], Running),
            ("0br", [Running; 3], Running),
            // One that never came into being does.
            ("0-0", [Pending; 3], Pending),
            // While sidecars run the pod does too.
            ("0r0", [Running; 3], Running),
            ("0r1", [Running; 3], Running),
            // How they end does not matter.
            ("000", [Running, Succeeded, Succeeded], Succeeded),
            ("010", [Running, Succeeded, Succeeded], Succeeded),
            ("0b0", [Running, Succeeded, Succeeded], Succeeded),
            ("001", [Running, Running, Failed], Failed),
            ("011", [Running, Running, Failed], Failed),
            ("00b", [Running, Running, Failed], Failed),
        ];
        for (signs, expected, ended) in table {
            let signs: Vec<char> = signs.chars().collect();
            let signs = [signs[0], signs[1], signs[2]];
            for (policy, expected) in ["Always", "OnFailure", "Never"].into_iter().zip(expected) {
                let [living, last] = phases(policy, signs);
                assert_eq!(living, expected, "{signs:?} under {policy}");
                // What failed for good has failed, whether the pod has ended or not.
                let last_expected = if living == Failed { Failed } else { ended };
                assert_eq!(last, last_expected, "{signs:?} ended, under {policy}");
            }
        }
    }
}
