//! The decision as a whole.

use jiff::Timestamp;

use crate::action::{Action, Note, Plan, Stage};
use crate::back_off::{Gate, gate, is_pull_failure};
use crate::container_status::changes_at;
use crate::facts::{Hook, Snapshot, State, Stopping, Unhealthy, Why};
use crate::order::{Order, order};
use crate::restart;
use crate::role::Role;
use crate::status::{self, DEADLINE, draft, pod_status};
use crate::termination::{Step, begin, container_grace, pod_grace, step};
use crate::view::{Subject, View};
use crate::work;

/// Decides what happens next to the containers of a pod, and what the pod says of itself.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let mut subject = Subject::new(snapshot);
    subject.work_done_at = work::done_at(&subject);
    let subject = &subject;
    let mut builder = PlanBuilder::default();
    let mut said = draft(subject, false);
    let stage = if is_ending(subject) || said.phase.is_terminal() {
        builder.end(subject, pod_grace(subject));
        if subject.any_alive() { Stage::Terminating } else { Stage::Ended }
    } else if subject.views.iter().any(|view| view.alive().is_some() && stops_with_pod(view)) {
        builder.end(subject, container_grace(subject, None, &Why::Pod));
        Stage::Terminating
    } else {
        let order = order(subject);
        if order.is_over && subject.any_alive() {
            builder.end(subject, container_grace(subject, None, &Why::Pod));
            Stage::Terminating
        } else {
            builder.keep_running(subject, order);
            Stage::Active
        }
    };
    let ended = stage == Stage::Ended;
    if ended {
        said = draft(subject, true);
    }
    for view in &subject.views {
        builder.wake(changes_at(view, snapshot.now));
    }
    Plan {
        status: pod_status(subject, said, ended),
        actions: builder.actions,
        wake_at: builder.wake_at,
        notes: builder.notes,
        stage,
    }
}

/// Someone has decided that the pod ends.
fn is_ending(subject: &Subject<'_>) -> bool {
    subject.deleted()
        || subject.snapshot.stop.is_some()
        || status::old_phase(subject).is_terminal()
        || status::is_past_deadline(subject)
        || restart::is_forbidden(subject)
}

/// The container is being stopped because the pod ends, or has ended so.
fn stops_with_pod(view: &View<'_>) -> bool {
    let stopping = view.current().and_then(|attempt| attempt.stopping.as_ref());
    stopping.is_some_and(|stopping| stopping.why == Why::Pod)
}

/// Collects the actions, notes and wake-up time of a plan.
#[derive(Default)]
struct PlanBuilder {
    actions: Vec<Action>,
    notes: Vec<Note>,
    wake_at: Option<Timestamp>,
}

impl PlanBuilder {
    fn wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = self.wake_at.into_iter().chain(at).min();
    }

    fn note(&mut self, view: &View<'_>, warning: bool, reason: &'static str, message: String) {
        self.notes.push(Note { warning, reason, message, field_path: Some(view.field_path()) });
    }

    /// Stops all that runs.
    fn end(&mut self, subject: &Subject<'_>, grace: i64) {
        let overdue = status::is_past_deadline(subject) && !status::old_phase(subject).is_terminal();
        if overdue && !subject.views.iter().any(stops_with_pod) {
            let (reason, message) = DEADLINE;
            self.notes.push(Note { warning: false, reason, message: message.to_owned(), field_path: None });
        }
        for view in &subject.views {
            if view.alive().is_some_and(|attempt| attempt.stopping.is_none()) {
                self.stop(subject, view, begin(Why::Pod, grace, subject.now()));
            }
        }
        self.keep_stopping(subject);
    }

    /// What a living pod needs.
    fn keep_running(&mut self, subject: &Subject<'_>, order: Order<'_>) {
        self.wake(status::deadline(subject));
        for (view, why) in order.stops {
            let grace = container_grace(subject, view.spec, &why);
            self.stop(subject, &view, begin(why, grace, subject.now()));
        }
        self.keep_stopping(subject);
        for view in order.resizes {
            self.actions.push(Action::Resize { container: view.name.to_owned(), resources: view.resources() });
        }
        for view in &subject.views {
            let begun = |state: &State| !matches!(state, State::Running { post_start: Hook::NotBegun, .. });
            if view.in_post_start() && view.current().is_some_and(|attempt| !begun(&attempt.state)) {
                self.actions.push(Action::PostStart { container: view.name.to_owned() });
            }
        }
        let occupied = self.actions.iter().any(|action| matches!(action, Action::Stop { .. }))
            || subject.views.iter().any(View::occupies_the_node);
        if subject.snapshot.node.sandbox && !occupied {
            self.start(subject, &order.starts);
        }
    }

    /// Starts one container; the next follows when this one runs and its `postStart` hook is through, or when it was refused.
    fn start(&mut self, subject: &Subject<'_>, views: &[View<'_>]) {
        for view in views {
            match gate(view, subject.now()) {
                Gate::Open(back_off) => {
                    let (container, image) = (view.name.to_owned(), view.image.to_owned());
                    self.actions.push(Action::Start { container, attempt: next_attempt(view), image, back_off });
                    return;
                }
                Gate::Shut { until, seconds } => {
                    self.wake(Some(until));
                    self.back_off(subject, view, seconds);
                    if view.role == Role::Init {
                        return;
                    }
                }
            }
        }
    }

    fn back_off(&mut self, subject: &Subject<'_>, view: &View<'_>, seconds: i64) {
        let Some(attempt) = view.current().filter(|attempt| attempt.held.is_none()) else { return };
        self.actions.push(Action::Hold { container: view.name.to_owned(), seconds });
        match &attempt.state {
            State::Refused { reason, .. } if is_pull_failure(reason) => {
                self.note(view, false, "BackOff", format!("Back-off pulling image {:?}", view.image));
                self.note(view, true, "Failed", "Error: ImagePullBackOff".to_owned());
            }
            State::Refused { .. } => {}
            _ => {
                let pod = subject.full_name();
                let message = format!("Back-off restarting failed container {} in pod {pod}", view.name);
                self.note(view, true, "BackOff", message);
            }
        }
    }

    fn stop(&mut self, subject: &Subject<'_>, view: &View<'_>, stopping: Stopping) {
        let Some(attempt) = view.alive() else { return };
        let container = view.name.to_owned();
        if matches!(attempt.state, State::Starting) {
            self.actions.push(Action::Cancel { container, stopping });
            return;
        }
        self.note(view, false, "Killing", killing(subject, view, &stopping.why));
        self.actions.push(Action::Stop { container, stopping: stopping.clone() });
        self.push(step(subject, view, attempt, &stopping));
    }

    fn keep_stopping(&mut self, subject: &Subject<'_>) {
        for view in &subject.views {
            let Some(attempt) = view.alive() else { continue };
            if let Some(stopping) = &attempt.stopping {
                self.push(step(subject, view, attempt, stopping));
            }
        }
    }

    fn push(&mut self, step: Step) {
        match step {
            Step::Do(action) => {
                if let Action::PreStop { until, .. } | Action::Terminate { kill_at: until, .. } = &action {
                    self.wake(Some(*until));
                }
                self.actions.push(action);
            }
            Step::Wait(until) => self.wake(Some(until)),
            Step::Nothing => {}
        }
    }
}

/// A refused start is tried again as the same attempt.
fn next_attempt(view: &View<'_>) -> u32 {
    match view.current() {
        Some(attempt) if matches!(attempt.state, State::Refused { .. }) => attempt.number,
        Some(attempt) => attempt.number.saturating_add(1),
        None => view.old.map_or(0, |old| {
            let ran = old.state.as_ref().is_some_and(|state| state.waiting.is_none());
            u32::try_from(old.restart_count).unwrap_or_default().saturating_add(u32::from(ran))
        }),
    }
}

/// What the `Killing` event says.
fn killing(subject: &Subject<'_>, view: &View<'_>, why: &Why) -> String {
    let name = view.name;
    let container = if view.role == Role::NativeSidecar { "Init container" } else { "Container" };
    let message = match why {
        Why::Pod => return format!("Stopping container {name}"),
        Why::PostStart { .. } => return "FailedPostStartHook".to_owned(),
        Why::Resize => return format!("Container {name} resize requires restart"),
        Why::DefinitionChanged => format!("{container} {name} definition changed"),
        Why::Probe(Unhealthy::Liveness) => format!("{container} {name} failed liveness probe"),
        Why::Probe(Unhealthy::Startup) => format!("{container} {name} failed startup probe"),
    };
    let again = view.role.is_regular() && restart::intended(view, subject, why);
    if again { format!("{message}, will be restarted") } else { message }
}
