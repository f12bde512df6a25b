//! Asks for places of a partition: with `policy: Quota` a new pod gets the pinned revision if a place is free.
//!
//! ```text
//!  admissions of this replica ─▶ a line for each set ─▶ one write for all that wait ─▶ ConfigMap (compare and swap)
//!                                                                                        ▲
//!  the leader of rollouts: how many pods have the revision, which places were seen ──────┘
//! ```

mod object;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillion_api::sidecarset::SidecarSet;
use pillion_rollout::{Grant, Limit, Origin, Places};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use object::{PlacesObject, Stored, Swapped};

use crate::config::{Config, Now};

/// How long an admission waits for its place. The API server waits three seconds for a pod.
const LONGEST: Duration = Duration::from_secs(1);
/// What failed is tried again after this time.
const RETRY: Duration = Duration::from_millis(50);
/// Whoever finds no place waits this long and looks again: the successor of a pod that was deleted may come before the leader has counted.
const SETTLE: Duration = Duration::from_millis(100);

/// The lines of all sets, by the name of their objects.
#[derive(Default)]
pub(crate) struct Lines {
    by_object: Mutex<HashMap<String, Arc<Line>>>,
}

/// What an admission wants.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The place, by the id that is written on the pod.
    pub(crate) id: String,
    /// Whose successor the pod may be.
    pub(crate) origin: Option<Origin>,
    /// The revision that is pinned.
    pub(crate) revision: String,
    /// How many places there are.
    pub(crate) limit: Limit,
    /// A dry run takes no place.
    pub(crate) is_dry_run: bool,
}

enum Wish {
    Ask(Ask, oneshot::Sender<Grant>),
    GiveBack(String),
}

/// The admissions that wait for the places of one set.
struct Line {
    object: PlacesObject,
    now: Now,
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    wishes: Vec<Wish>,
    /// Whether somebody serves the line.
    is_served: bool,
    /// What was stored last.
    known: Option<Stored>,
}

impl Lines {
    /// Asks for a place. `None` if there was no answer in time.
    pub(crate) async fn ask(&self, config: &Config, set: &SidecarSet, ask: Ask) -> Option<Grant> {
        let (sender, answer) = oneshot::channel();
        self.line(config, set).add(Wish::Ask(ask, sender));
        tokio::time::timeout(LONGEST, answer).await.ok()?.ok()
    }

    /// Gives a place back whose pod was refused. If that fails, the place expires.
    pub(crate) fn give_back(&self, config: &Config, set: &SidecarSet, id: &str) {
        self.line(config, set).add(Wish::GiveBack(id.to_owned()));
    }

    fn line(&self, config: &Config, set: &SidecarSet) -> Arc<Line> {
        let object = PlacesObject::new(config, set);
        let mut lines = lock(&self.by_object);
        // A line that nobody waits in is made anew when it is needed.
        lines.retain(|name, line| name == object.name() || Arc::strong_count(line) > 1);
        let new = || Arc::new(Line { object: object.clone(), now: config.now.clone(), state: Mutex::default() });
        Arc::clone(lines.entry(object.name().to_owned()).or_insert_with(new))
    }
}

impl Line {
    fn add(self: Arc<Self>, wish: Wish) {
        let mut state = lock(&self.state);
        state.wishes.push(wish);
        if !std::mem::replace(&mut state.is_served, true) {
            // A task of its own: an admission that is given up must not take the others with it.
            tokio::spawn(Arc::clone(&self).serve());
        }
    }

    /// Serves all that wait, again and again, until nobody does.
    async fn serve(self: Arc<Self>) {
        loop {
            let (wishes, known) = {
                let mut state = lock(&self.state);
                if state.wishes.is_empty() {
                    state.is_served = false;
                    return;
                }
                (std::mem::take(&mut state.wishes), state.known.take())
            };
            let known = self.commit(wishes, known).await;
            lock(&self.state).known = known;
        }
    }

    /// Answers wishes with one write. Those that cannot be answered in time are dropped, which their admissions notice.
    async fn commit(&self, mut wishes: Vec<Wish>, mut known: Option<Stored>) -> Option<Stored> {
        let until = Instant::now() + LONGEST;
        let (mut is_fresh, mut has_settled) = (false, false);
        loop {
            // Whoever has given up must not get a place.
            wishes.retain(|wish| !matches!(wish, Wish::Ask(_, answer) if answer.is_closed()));
            if wishes.is_empty() || Instant::now() >= until {
                return known;
            }
            if known.is_none() {
                is_fresh = true;
                // Anything may go wrong on the way, an answer that never comes included.
                match tokio::time::timeout_at(until, self.object.read()).await {
                    Ok(Ok(read)) => known = read,
                    Ok(Err(error)) => tracing::debug!(%error, "places cannot be read; trying again"),
                    Err(_) => return None,
                }
            }
            let Some(before) = known.take() else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            let mut places = before.places.clone();
            let answers: Vec<Option<Grant>> =
                wishes.iter().map(|wish| granted(wish, &mut places, (self.now)())).collect();
            let mut asks = wishes.iter().zip(&answers).filter(|(wish, _)| matches!(wish, Wish::Ask(..)));
            let is_refused = asks.any(|(_, answer)| *answer != Some(Grant::Place));
            if wishes.iter().any(|wish| !is_counted_for(wish, &places)) || is_refused && !is_fresh {
                // What is known may be old; and the leader may be about to count.
                if is_fresh {
                    tokio::time::sleep(RETRY).await;
                }
                continue;
            }
            if is_refused && !std::mem::replace(&mut has_settled, true) {
                tokio::time::sleep(SETTLE).await;
                continue;
            }
            let stored = if places.is_same(&before.places) {
                before
            } else {
                match tokio::time::timeout_at(until, self.object.swap(Some(&before), places)).await {
                    Ok(Ok(Swapped::Done(stored))) => stored,
                    Ok(Ok(Swapped::Changed)) => continue,
                    Ok(Err(error)) => {
                        // It may have been stored. Asking again with the same id takes no second place.
                        tracing::debug!(%error, "places cannot be stored; trying again");
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                    Err(_) => return None,
                }
            };
            for (wish, answer) in wishes.into_iter().zip(answers) {
                if let (Wish::Ask(_, sender), Some(grant)) = (wish, answer) {
                    // Whoever has given up meanwhile does not use the place, and it expires.
                    let _ = sender.send(grant);
                }
            }
            return Some(stored);
        }
    }
}

fn granted(wish: &Wish, places: &mut Places, now: jiff::Timestamp) -> Option<Grant> {
    match wish {
        Wish::Ask(ask, _) if places.revision() != ask.revision => None,
        Wish::Ask(ask, _) if ask.is_dry_run => Some(places.peek(&ask.id, ask.origin.as_ref(), &ask.limit)),
        Wish::Ask(ask, _) => Some(places.grant(&ask.id, ask.origin.as_ref(), &ask.limit, now)),
        Wish::GiveBack(id) => {
            places.give_back(id);
            None
        }
    }
}

/// Whether what is asked for was counted.
fn is_counted_for(wish: &Wish, places: &Places) -> bool {
    match wish {
        Wish::Ask(ask, _) => places.revision() == ask.revision && places.is_counted(&ask.limit),
        Wish::GiveBack(_) => true,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
