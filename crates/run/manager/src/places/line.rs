//! The admissions and confirmations that wait for the places of one set. All that can be answered is answered with one write.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use pillion_rollout::{Confirmation, Grant, Places};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use super::object::{PlacesObject, Stored};
use super::{Arrival, Ask, LONGEST};
use crate::config::Config;
use crate::lock::lock;
use crate::registration;

/// What could not be answered is looked at again after this time.
const RETRY: Duration = Duration::from_millis(50);
/// A pod for which no place is free waits this long and looks again: the successor of a pod that was deleted may come before the leader has counted.
const SETTLE: Duration = Duration::from_millis(100);
/// How long a pod waits until a place of its creator is confirmed. It gets the latest revision then, before its admission gives up.
const TRUST: Duration = Duration::from_millis(800);

/// What a caller waits for.
pub(super) enum Wish {
    Ask(Ask, oneshot::Sender<Grant>),
    Confirm(Arrival, oneshot::Sender<Confirmation>),
    GiveBack(String),
}

/// The admissions and confirmations that wait for the places of one set.
pub(super) struct Line {
    config: Config,
    object: PlacesObject,
    state: Mutex<State>,
    /// A caller has joined the line.
    joined: Notify,
}

#[derive(Default)]
struct State {
    joined: Vec<Waiting>,
    /// Whether the line is served.
    is_served: bool,
    /// What was stored last.
    known: Option<Stored>,
}

/// A wish that was not answered yet.
struct Waiting {
    wish: Wish,
    since: Instant,
    /// Since when no place is free.
    full_since: Option<Instant>,
}

enum Answer {
    Grant(Grant),
    Confirmation(Confirmation),
    Done,
}

impl Line {
    pub(super) fn new(config: &Config, object: PlacesObject) -> Line {
        Line { config: config.clone(), object, state: Mutex::default(), joined: Notify::new() }
    }

    pub(super) fn add(self: Arc<Self>, wish: Wish) {
        let mut state = lock(&self.state);
        state.joined.push(Waiting { wish, since: Instant::now(), full_since: None });
        if std::mem::replace(&mut state.is_served, true) {
            self.joined.notify_one();
        } else {
            // A task of its own: an admission that is given up must not take the others with it.
            tokio::spawn(Arc::clone(&self).serve());
        }
    }

    /// Serves the line until it is empty.
    async fn serve(self: Arc<Self>) {
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut known = lock(&self.state).known.take();
        loop {
            {
                let mut state = lock(&self.state);
                waiting.append(&mut state.joined);
                waiting.retain(Waiting::is_wanted);
                if waiting.is_empty() {
                    state.is_served = false;
                    state.known = known;
                    return;
                }
            }
            known = self.answer(&mut waiting, known).await;
            if !waiting.is_empty() {
                tokio::select! {
                    // Another replica does what they wait for: the places have to be read.
                    () = tokio::time::sleep(RETRY) => known = None,
                    () = self.joined.notified() => {}
                }
            }
        }
    }

    /// Answers with one write all that can be answered, and keeps the others. Returns what is stored then, if that is known.
    async fn answer(&self, waiting: &mut Vec<Waiting>, mut known: Option<Stored>) -> Option<Stored> {
        // By a confirmation others may be answered as well.
        waiting.sort_by_key(|waiting| matches!(waiting.wish, Wish::Ask(..)));
        let mut is_fresh = false;
        loop {
            // A caller that has given up must not get a place.
            waiting.retain(Waiting::is_wanted);
            if waiting.is_empty() {
                return known;
            }
            let before = if let Some(known) = known.take() {
                known
            } else {
                is_fresh = true;
                self.read(waiting).await?
            };
            let mut places = before.places.clone();
            let withdrawn = self.withdraw(&mut places).await;
            let now = (self.config.now)();
            let answers: Vec<_> = waiting.iter_mut().map(|it| it.answer(&mut places, is_fresh, now)).collect();
            if !is_fresh && answers.iter().any(Option::is_none) {
                // What is known may be old.
                continue;
            }
            let stored = if places.is_same(&before.places) {
                before
            } else {
                match timeout(LONGEST, self.object.swap(Some(&before), places)).await {
                    Ok(Ok(Some(stored))) => stored,
                    Ok(Ok(None)) => continue,
                    Ok(Err(error)) => {
                        // It may have been stored. Asking or confirming again with the same id changes nothing more.
                        tracing::debug!(%error, "places cannot be stored; trying again");
                        return None;
                    }
                    Err(_) => return None,
                }
            };
            if withdrawn > 0 {
                self.config.metrics.places_withdrawn(self.object.set(), withdrawn);
                tracing::info!(
                    sidecarset = self.object.set(),
                    withdrawn,
                    "pods with a place were refused after their admission"
                );
            }
            let all = std::mem::take(waiting);
            for (one, answer) in all.into_iter().zip(answers) {
                match answer {
                    Some(answer) => one.wish.send(answer),
                    None => waiting.push(one),
                }
            }
            return Some(stored);
        }
    }

    /// Reads the places. Where none are kept there is nothing to confirm.
    async fn read(&self, waiting: &mut Vec<Waiting>) -> Option<Stored> {
        match timeout(LONGEST, self.object.read()).await {
            Ok(Ok(Some(read))) => return Some(read),
            Ok(Ok(None)) => {
                let is_confirmation = |it: &Waiting| matches!(it.wish, Wish::Confirm(..));
                let (confirmations, others): (Vec<_>, Vec<_>) =
                    std::mem::take(waiting).into_iter().partition(is_confirmation);
                *waiting = others;
                for confirmation in confirmations {
                    confirmation.wish.send(Answer::Confirmation(Confirmation::Unknown));
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "places cannot be read; trying again"),
            Err(_) => {}
        }
        None
    }

    /// Withdraws places that should have been confirmed by now. The registration is read: it says whether API servers have asked all the time.
    async fn withdraw(&self, places: &mut Places) -> usize {
        let now = (self.config.now)();
        if !places.is_overdue(now) {
            return 0;
        }
        match timeout(LONGEST, registration::confirming(&self.config)).await {
            Ok(Ok(confirming)) => places.withdraw(confirming.map(|it| it.version), now),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the registration cannot be read; places are not withdrawn");
                0
            }
            Err(_) => 0,
        }
    }
}

impl Wish {
    fn send(self, answer: Answer) {
        // A caller that has given up meanwhile does not use the place, and it expires.
        match (self, answer) {
            (Wish::Ask(_, sender), Answer::Grant(grant)) => drop(sender.send(grant)),
            (Wish::Confirm(_, sender), Answer::Confirmation(confirmation)) => drop(sender.send(confirmation)),
            _ => {}
        }
    }
}

impl Waiting {
    fn is_wanted(&self) -> bool {
        match &self.wish {
            Wish::Ask(_, answer) => !answer.is_closed(),
            Wish::Confirm(_, answer) => !answer.is_closed(),
            Wish::GiveBack(_) => self.since.elapsed() < LONGEST,
        }
    }

    /// The answer by what is stored, or `None` if it may be another one soon.
    fn answer(&mut self, places: &mut Places, is_fresh: bool, now: Timestamp) -> Option<Answer> {
        match &self.wish {
            Wish::GiveBack(id) => {
                places.give_back(id);
                Some(Answer::Done)
            }
            Wish::Confirm(arrival, _) => {
                let confirmation = places.confirm(&arrival.id, &arrival.revision, &arrival.limit, now);
                let is_known = confirmation != Confirmation::Unknown;
                (is_known || is_fresh).then_some(Answer::Confirmation(confirmation))
            }
            Wish::Ask(ask, _) if places.revision() != ask.revision || !places.is_counted(&ask.limit) => None,
            Wish::Ask(ask, _) => {
                let must_wait = must_wait(ask, places);
                let is_free = !must_wait && places.peek(&ask.id, ask.origin.as_ref(), &ask.limit) == Grant::Place;
                if is_free {
                    return Some(Answer::Grant(take(ask, places, now)));
                }
                let full_since = *self.full_since.get_or_insert_with(Instant::now);
                let patience = if must_wait { TRUST } else { SETTLE };
                if !is_fresh || full_since.elapsed() < patience {
                    return None;
                }
                pass(ask, places, now);
                Some(Answer::Grant(Grant::Full))
            }
        }
    }
}

/// Whether a place of the pod's creator has to be confirmed first. A dry run takes no place from anybody.
fn must_wait(ask: &Ask, places: &Places) -> bool {
    let applicant = ask.applicant.as_ref().filter(|_| !ask.is_dry_run && !places.is_granted(&ask.id));
    applicant.is_some_and(|applicant| places.must_wait(&applicant.creator, &ask.limit))
}

fn take(ask: &Ask, places: &mut Places, now: Timestamp) -> Grant {
    match &ask.applicant {
        _ if ask.is_dry_run => Grant::Place,
        Some(applicant) => places.grant_unconfirmed(&ask.id, ask.origin.as_ref(), applicant, &ask.limit, now),
        None => places.grant(&ask.id, ask.origin.as_ref(), &ask.limit, now),
    }
}

/// Lets the pod pass without a place.
fn pass(ask: &Ask, places: &mut Places, now: Timestamp) {
    if !ask.is_dry_run {
        places.pass(&ask.id, ask.applicant.as_ref(), &ask.limit, now);
    }
}
