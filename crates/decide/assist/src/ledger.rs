//! What is wanted, what the API server has acknowledged, and the writes that are left.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::config::{Key, Storage};
use crate::marker::{Desired, REMOVED, condition};

use self::group::{Group, MERGE, Object};

mod group;

/// The pod that the agent runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

/// One request that is left to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Of the URL.
    pub path: String,
    /// `Content-Type`.
    pub media: &'static str,
    /// The patch.
    pub body: Value,
    slot: Slot,
    sets: Vec<(Key, Option<Value>)>,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The API server has it.
    Written,
    /// Trying again soon may help.
    Failed,
    /// The API server refuses it: only a change of rights or configuration helps.
    Refused,
}

/// What goes into one request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    group: Group,
    /// A key that is sent alone, since the API server has refused it together with others.
    alone: Option<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Timestamp,
    failures: u32,
}

/// What is wanted and what is written.
///
/// - A write holds only what differs from what was acknowledged; if nothing differs, there is none.
/// - A value that one source sets is not removed by another; of two sources that set it, the first by name counts.
/// - What is refused does not keep the rest from being written.
/// - A value that another client has changed since is written again. The ledger asks for each object that it has not seen for [`UNSEEN`].
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pod: PodName,
    sources: BTreeMap<String, Desired>,
    written: BTreeMap<Key, Option<Value>>,
    /// What each source had and its configuration does not name any more: it is removed once, and what others make of it then is theirs.
    given_up: BTreeSet<(String, Key)>,
    /// What the API server has made of values that were written, where it has answered with the object.
    stored: BTreeMap<Key, Option<Value>>,
    /// When each object was seen last.
    seen: BTreeMap<Object, Timestamp>,
    transitions: BTreeMap<String, (String, Timestamp)>,
    retries: BTreeMap<Slot, Retry>,
    /// Keys of writes that were refused as a whole.
    apart: BTreeSet<Key>,
}

/// An object of which the API server has to be asked how it is now: by a patch that changes nothing, and as a dry run. To read its pod the agent has
/// no right, and the answer to a patch is the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Of the URL, with its query.
    pub path: String,
    /// `Content-Type`.
    pub media: &'static str,
    /// The patch.
    pub body: &'static str,
    object: Object,
}

/// An object is looked at when it was not seen for this time.
pub const UNSEEN: SignedDuration = SignedDuration::from_mins(10);

impl Ledger {
    /// Nothing is known of what the pod has.
    pub fn new(pod: PodName) -> Ledger {
        Ledger { pod, ..Ledger::default() }
    }

    /// Sets what a source wants. Returns whether it is something else than before.
    pub fn set(&mut self, source: &str, mut desired: Desired) -> bool {
        for key in desired.values.keys() {
            self.given_up.remove(&(source.to_owned(), key.clone()));
        }
        let last = self.sources.get(source).into_iter().flat_map(|last| last.values.keys());
        // What its configuration named before and does not name any more.
        for key in last.filter(|key| !desired.values.contains_key(*key)).cloned().collect::<Vec<_>>() {
            self.give_up(source, key, &mut desired);
        }
        if self.sources.get(source) == Some(&desired) {
            return false;
        }
        self.sources.insert(source.to_owned(), desired);
        true
    }

    /// Takes a key from a source that does not name it any more, and leaves what is still to be written of it: a label or an annotation is removed, the
    /// condition is not known any more, and the field of a target stays as it is.
    fn give_up(&mut self, source: &str, key: Key, left: &mut Desired) {
        let owner = match &key {
            Key::Annotation(_) | Key::Label(_) => {
                left.values.insert(key.clone(), None);
                source.to_owned()
            }
            Key::Condition(name) => {
                // A condition cannot be removed. Its source sorts last, so that any source that has the condition counts more.
                let owner = format!("~{name}");
                let unknown = condition(name, "Unknown", REMOVED, "the agent does not probe this any more");
                self.sources.insert(owner.clone(), Desired::one(key.clone(), unknown));
                owner
            }
            Key::Field(..) => return,
        };
        self.given_up.insert((owner, key));
    }

    /// Removes the sources whose names begin so, and what they have written.
    pub fn retire(&mut self, prefix: &str) -> bool {
        let names: Vec<String> = self.sources.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        for name in &names {
            self.remove(name);
        }
        !names.is_empty()
    }

    /// Removes one source, and what it has written.
    pub fn remove(&mut self, source: &str) -> bool {
        let Some(last) = self.sources.remove(source) else { return false };
        let mut left = Desired::default();
        for key in last.values.into_keys() {
            self.give_up(source, key, &mut left);
        }
        self.sources.insert(source.to_owned(), left);
        true
    }

    /// Follows a change of a list of storages, each of which is a source that `name` calls by its place. What a storage has written goes with it to
    /// its new place; a storage that was changed has what it wrote before until it has a result; what is left then is removed.
    pub fn relist(&mut self, name: impl Fn(usize) -> String, before: &[&Storage], after: &[&Storage]) -> bool {
        let mut left: Vec<usize> = (0..before.len()).collect();
        let same = |storage: &&Storage| left.iter().position(|old| before[*old] == *storage).map(|at| left.remove(at));
        let mut places: Vec<Option<usize>> = after.iter().map(same).collect();
        let mut left = left.into_iter();
        for place in places.iter_mut().filter(|place| place.is_none()) {
            *place = left.next();
        }
        places.extend(left.map(Some));
        let moved: Vec<_> = places.into_iter().map(|old| self.sources.remove(&name(old?))).collect();
        let is_moved = |source: &String| (0..before.len()).any(|old| name(old) == *source);
        self.given_up.retain(|(source, _)| !is_moved(source));
        let mut found = false;
        for (place, desired) in moved.into_iter().enumerate() {
            let Some(desired) = desired else { continue };
            self.set(&name(place), desired);
            if place >= after.len() {
                self.remove(&name(place));
            }
            found = true;
        }
        found
    }

    /// What could not be made a write, by source.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sources
            .iter()
            .flat_map(|(name, desired)| desired.problems.iter().map(move |problem| (name.as_str(), problem.as_str())))
    }

    /// The gauges of all sources.
    pub fn gauges(&self) -> BTreeMap<&str, f64> {
        let gauges = self.sources.values().filter_map(|desired| desired.gauge.as_ref());
        gauges.map(|(name, value)| (name.as_str(), *value)).collect()
    }

    pub fn due(&self, now: Timestamp) -> Vec<Write> {
        let ready = |slot: &Slot| self.retries.get(slot).is_none_or(|retry| retry.at <= now);
        let pending = self.pending().into_iter().filter(|(slot, _)| ready(slot));
        pending.map(|(slot, sets)| self.write(slot, sets, now)).collect()
    }

    /// When the next write is due; `None` if nothing is left to write.
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        let due = |slot: Slot| self.retries.get(&slot).map_or(now, |retry| retry.at.max(now));
        self.pending().into_keys().map(due).min()
    }

    /// The objects that have to be looked at.
    pub fn looks(&self, now: Timestamp) -> Vec<Look> {
        let unseen = self.seen.iter().filter(|(_, seen)| now.duration_since(**seen) >= UNSEEN);
        unseen.filter_map(|(object, _)| self.look(object)).collect()
    }

    /// When the next look is due; `None` if nothing is written.
    pub fn next_look(&self) -> Option<Timestamp> {
        let seen = self.seen.iter().filter(|(object, _)| self.look(object).is_some()).map(|(_, seen)| seen);
        seen.min().map(|seen| seen.checked_add(UNSEEN).unwrap_or(Timestamp::MAX))
    }

    /// By a path that the agent has the right to patch: it has written there before.
    fn look(&self, object: &Object) -> Option<Look> {
        let mut groups = self.written.keys().map(Key::group).filter(|group| group.object() == *object);
        let path = self.path(&groups.next()?);
        Some(Look { path: format!("{path}?dryRun=All"), media: MERGE, body: "{}", object: object.clone() })
    }

    /// Records the object as it was read; `None` if it does not exist. Values that differ from those written are written again.
    pub fn looked(&mut self, look: &Look, found: Option<&Value>, now: Timestamp) {
        self.see(&look.object, found, now);
    }

    /// Records a look that has failed: the next one is as far away as after any other.
    pub fn not_looked(&mut self, look: &Look, now: Timestamp) {
        self.seen.insert(look.object.clone(), now);
    }

    /// Records the object that a write has returned, and which values of earlier writes another client has changed.
    pub fn answered(&mut self, write: &Write, object: &Value, now: Timestamp) {
        if !write.is_followed() || !is_object(object) {
            return;
        }
        for (key, _) in &write.sets {
            // Compared with this from now on: an API server may prune a value, or default it, and would be written to for ever.
            self.stored.insert(key.clone(), key.value_in(object));
        }
        self.see(&write.slot.group.object(), Some(object), now);
    }

    fn see(&mut self, object: &Object, found: Option<&Value>, now: Timestamp) {
        self.seen.insert(object.clone(), now);
        let stored = &self.stored;
        let all = self.sources.iter().flat_map(|(source, desired)| desired.values.keys().map(move |key| (source, key)));
        let is_named = |(source, key): &(&String, &Key)| !self.given_up.contains(&((*source).clone(), (*key).clone()));
        let named: BTreeSet<&Key> = all.filter(is_named).map(|(_, key)| key).collect();
        let is_as_written = |key: &Key, written: &Option<Value>| match found {
            _ if key.group().object() != *object || !key.is_comparable() || !named.contains(key) => true,
            None => false,
            Some(found) if is_object(found) => key.value_in(found) == *stored.get(key).unwrap_or(written),
            Some(_) => true,
        };
        self.written.retain(|key, written| is_as_written(key, written));
    }

    /// Records how a write ended.
    pub fn sent(&mut self, write: &Write, sent: Sent, now: Timestamp) {
        if sent == Sent::Written {
            for (key, value) in &write.sets {
                self.apart.remove(key);
                if let (Key::Condition(name), Some(value)) = (key, value) {
                    let status = value["status"].as_str().unwrap_or_default().to_owned();
                    let since = self.transition(name, &status, now);
                    self.transitions.insert(name.clone(), (status, since));
                }
                self.stored.remove(key);
                self.written.insert(key.clone(), value.clone());
            }
            if write.is_followed() {
                self.seen.insert(write.slot.group.object(), now);
            }
            self.retries.remove(&write.slot);
            return;
        }
        if sent == Sent::Refused && write.is_divisible() {
            self.apart.extend(write.sets.iter().map(|(key, _)| key.clone()));
            self.retries.remove(&write.slot);
            return;
        }
        let failures = self.retries.get(&write.slot).map_or(0, |retry| retry.failures).saturating_add(1);
        let (first, most) = if sent == Sent::Refused { (30, 300) } else { (1, 60) };
        let seconds = (first << failures.saturating_sub(1).min(8)).min(most);
        let at = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        self.retries.insert(write.slot.clone(), Retry { at, failures });
    }

    /// When a condition got the status that it has.
    fn transition(&self, name: &str, status: &str, now: Timestamp) -> Timestamp {
        self.transitions.get(name).filter(|(before, _)| before == status).map_or(now, |(_, since)| *since)
    }

    fn pending(&self) -> BTreeMap<Slot, Vec<(Key, Option<Value>)>> {
        let mut wanted: BTreeMap<&Key, &Option<Value>> = BTreeMap::new();
        for (key, value) in self.sources.values().flat_map(|desired| &desired.values) {
            let first = wanted.entry(key).or_insert(value);
            if first.is_none() {
                *first = value;
            }
        }
        let mut pending: BTreeMap<Slot, Vec<_>> = BTreeMap::new();
        for (key, value) in wanted {
            if self.written.get(key) != Some(value) {
                let alone = self.apart.contains(key).then(|| key.clone());
                pending.entry(Slot { group: key.group(), alone }).or_default().push((key.clone(), value.clone()));
            }
        }
        pending
    }

    fn path(&self, group: &Group) -> String {
        let PodName { namespace, name } = &self.pod;
        group.path(format!("/api/v1/namespaces/{namespace}/pods/{name}"))
    }

    fn write(&self, slot: Slot, sets: Vec<(Key, Option<Value>)>, now: Timestamp) -> Write {
        let since = |name: &str, condition: &Value| {
            let since = self.transition(name, condition["status"].as_str().unwrap_or_default(), now);
            // As Kubernetes writes times.
            Timestamp::from_second(since.as_second()).unwrap_or(since).to_string()
        };
        let (media, body) = slot.group.patch(&sets, since);
        Write { path: self.path(&slot.group), media, body, slot, sets }
    }
}

impl Write {
    /// Whether its parts are sent one by one if it is refused.
    pub fn is_divisible(&self) -> bool {
        self.sets.len() > 1
    }

    /// Whether changes of the object by other clients are followed, so that the answer to a write is needed.
    pub fn is_followed(&self) -> bool {
        self.sets.iter().any(|(key, _)| key.is_comparable())
    }

    /// What it changes, for people.
    pub fn subject(&self) -> String {
        let keys: Vec<String> = self.sets.iter().map(|(key, _)| key.subject()).collect();
        format!("{}: {}", self.path, keys.join(", "))
    }
}

/// Whether an answer is an object of Kubernetes, and not something that a proxy has made of it.
fn is_object(value: &Value) -> bool {
    value["metadata"]["name"].is_string()
}

#[cfg(test)]
mod tests;
