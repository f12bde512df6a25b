//! Which containers of a living pod are to be started, stopped or resized.

use crate::facts::{Attempt, Hook, State, Unhealthy, Why};
use crate::resize::{self, Resize};
use crate::restart;
use crate::role::Role;
use crate::view::{Latest, Subject, View};

/// What is to happen, in the order of the spec. When starts are possible is decided elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Order<'a> {
    pub(crate) starts: Vec<View<'a>>,
    pub(crate) stops: Vec<(View<'a>, Why)>,
    pub(crate) resizes: Vec<View<'a>>,
    /// The work is done, or can never be: whatever still runs is stopped.
    pub(crate) is_over: bool,
}

pub(crate) fn order<'a>(subject: &Subject<'a>) -> Order<'a> {
    let mut order = Order::default();
    let new = |view: &&View<'a>| matches!(view.latest(), Latest::Never);
    order.starts.extend(subject.of(&[Role::Ephemeral]).filter(new).copied());
    if !initialize(subject, &mut order) {
        return order;
    }
    let mut kept = 0_usize;
    let mut starts = Vec::new();
    for view in subject.regular() {
        match view.latest() {
            Latest::Starting => kept += 1,
            Latest::Never => starts.push(*view),
            Latest::Exited(attempt, code) => {
                if restart::follows(view, subject, attempt, code) {
                    starts.push(*view);
                }
            }
            Latest::Running(attempt) => match condemned(view, attempt) {
                None => {
                    kept += 1;
                    resize(view, attempt, &mut order);
                }
                Some(why) => {
                    kept += usize::from(restart::intended(view, subject, &why));
                    stop(view, attempt, why, &mut order);
                }
            },
        }
    }
    if subject.work_done_at.is_some() || (kept == 0 && starts.is_empty()) {
        // Sidecars alone do not keep a pod alive.
        return Order { is_over: true, ..Order::default() };
    }
    order.starts.append(&mut starts);
    order
}

/// Decides over the init containers, and says whether regular ones may run.
///
/// The list is read from its end: the last container that has come into being says how far the pod is, even if the
/// facts of earlier ones were lost.
fn initialize<'a>(subject: &Subject<'a>, order: &mut Order<'a>) -> bool {
    let init: Vec<&View<'a>> = subject.init().collect();
    let Some(last) = init.len().checked_sub(1) else { return true };
    let mut initialized = subject.regular().any(|view| view.alive().is_some());
    // Whether the container looked at is known to have done its part.
    let mut passed = initialized;
    let mut starts = Vec::new();
    for (index, view) in init.iter().enumerate().rev() {
        let sidecar = view.role == Role::NativeSidecar;
        if matches!(view.latest(), Latest::Never) {
            if passed && sidecar {
                starts.push(**view);
            }
            continue;
        }
        if passed && !sidecar {
            continue;
        }
        let mut done = false;
        match view.latest() {
            Latest::Running(attempt) if sidecar => {
                let why = condemned(view, attempt);
                done = has_started(view, attempt) && !matches!(why, Some(Why::Probe(Unhealthy::Startup)));
                match why {
                    Some(why) => stop(view, attempt, why, order),
                    None => resize(view, attempt, order),
                }
            }
            Latest::Never | Latest::Starting | Latest::Running(_) => {}
            Latest::Exited(attempt, code) => {
                if sidecar || restart::follows(view, subject, attempt, code) {
                    starts.push(**view);
                } else if code == 0 {
                    done = true;
                } else {
                    *order = Order { is_over: true, ..Order::default() };
                    return false;
                }
            }
        }
        if done && index == last {
            initialized = true;
        } else if done && !passed {
            starts.extend(init.get(index + 1).map(|next| **next));
        }
        passed = true;
    }
    if !passed {
        starts.extend(init.first().map(|first| **first));
    }
    order.starts.extend(starts.into_iter().rev());
    order.stops.reverse();
    order.resizes.reverse();
    initialized
}

/// Whether what follows a running sidecar may start: its `postStart` hook and its startup probe are through.
fn has_started(view: &View<'_>, attempt: &Attempt) -> bool {
    let probed = view.spec.is_some_and(|spec| spec.startup_probe.is_some());
    !view.in_post_start() && matches!(attempt.state, State::Running { started, .. } if started || !probed)
}

/// Why a running container is to be stopped, or is being stopped already.
fn condemned(view: &View<'_>, attempt: &Attempt) -> Option<Why> {
    if let Some(stopping) = &attempt.stopping {
        return Some(stopping.why.clone());
    }
    let State::Running { post_start, unhealthy, .. } = &attempt.state else { return None };
    if let Hook::Failed { message, .. } = post_start {
        return Some(Why::PostStart { message: message.clone() });
    }
    if view.in_post_start() {
        return None;
    }
    if attempt.image != view.image {
        return Some(Why::DefinitionChanged);
    }
    if let Some(probe) = unhealthy {
        return Some(Why::Probe(*probe));
    }
    (resize::of(view, attempt) == Resize::Restart).then_some(Why::Resize)
}

fn stop<'a>(view: &View<'a>, attempt: &Attempt, why: Why, order: &mut Order<'a>) {
    if attempt.stopping.is_none() {
        order.stops.push((*view, why));
    }
}

fn resize<'a>(view: &View<'a>, attempt: &Attempt, order: &mut Order<'a>) {
    if resize::of(view, attempt) == Resize::InPlace {
        order.resizes.push(*view);
    }
}
