//! What is wanted, what the API server has acknowledged, and the writes that are left.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::config::{Storage, Target};
use crate::marker::{Condition, Desired, retired};
use crate::update::RESULTS;

/// The pod that the agent runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Annotation(String),
    Label(String),
    Condition(String),
    Field(Target, String),
}

/// What goes into one request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    group: Group,
    /// A key that is sent alone, since the API server has refused it together with others.
    alone: Option<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Metadata,
    Conditions,
    /// With whether it is the status.
    Target(Target, bool),
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

/// An object that is written to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Pod,
    Target(Target),
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";

impl Ledger {
    /// Nothing is known of what the pod has.
    pub fn new(pod: PodName) -> Ledger {
        Ledger { pod, ..Ledger::default() }
    }

    /// Sets what a source wants. Returns whether it is something else than before.
    pub fn set(&mut self, source: &str, mut desired: Desired) -> bool {
        let mut gone = None;
        for (key, _) in keys(&desired) {
            self.given_up.remove(&(source.to_owned(), key));
        }
        if let Some(last) = self.sources.get(source) {
            // What its configuration named before and does not name any more is removed.
            type ToKey = fn(String) -> Key;
            let keys = [
                (&mut desired.annotations, &last.annotations, Key::Annotation as ToKey),
                (&mut desired.labels, &last.labels, Key::Label as ToKey),
            ];
            for (keys, last, to_key) in keys {
                for key in last.keys().filter(|key| !keys.contains_key(*key)).cloned().collect::<Vec<_>>() {
                    self.given_up.insert((source.to_owned(), to_key(key.clone())));
                    keys.insert(key, None);
                }
            }
            if let Some(old) = &last.condition
                && desired.condition.as_ref().is_none_or(|new| new.name != old.name)
            {
                let retired = retired(&Desired { condition: Some(old.clone()), ..Desired::default() });
                self.given_up.insert((after_all(old), Key::Condition(old.name.clone())));
                gone = Some((after_all(old), retired));
            }
        }
        self.sources.extend(gone);
        if self.sources.get(source) == Some(&desired) {
            return false;
        }
        self.sources.insert(source.to_owned(), desired);
        true
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
        let Some(last) = self.sources.get_mut(source) else { return false };
        *last = retired(last);
        let condition = last.condition.take();
        let condition_key = condition.iter().map(|it| (after_all(it), Key::Condition(it.name.clone())));
        let others = keys(last).into_iter().map(|(key, _)| (source.to_owned(), key));
        self.given_up.extend(others.chain(condition_key));
        // As in `set`: nobody who has the condition is outdone by one who had it.
        let gone = condition.map(|gone| (after_all(&gone), Desired { condition: Some(gone), ..Desired::default() }));
        self.sources.extend(gone);
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

    /// The writes that are due.
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
        let all =
            self.sources.iter().flat_map(|(source, desired)| keys(desired).into_iter().map(move |it| (source, it.0)));
        let named: BTreeSet<Key> = all
            .filter(|(source, key)| !self.given_up.contains(&((*source).clone(), key.clone())))
            .map(|it| it.1)
            .collect();
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
        let mut wanted: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        for desired in self.sources.values() {
            for (key, value) in keys(desired) {
                let slot = wanted.entry(key).or_default();
                if slot.is_none() {
                    *slot = value;
                }
            }
        }
        let mut pending: BTreeMap<Slot, Vec<_>> = BTreeMap::new();
        for (key, value) in wanted {
            if self.written.get(&key) != Some(&value) {
                let alone = self.apart.contains(&key).then(|| key.clone());
                pending.entry(Slot { group: key.group(), alone }).or_default().push((key, value));
            }
        }
        pending
    }

    fn path(&self, group: &Group) -> String {
        let PodName { namespace, name } = &self.pod;
        let pod = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        match group {
            Group::Metadata => pod,
            Group::Conditions => format!("{pod}/status"),
            Group::Target(target, status) => target.path(status.then_some("status")),
        }
    }

    fn write(&self, slot: Slot, sets: Vec<(Key, Option<Value>)>, now: Timestamp) -> Write {
        let path = self.path(&slot.group);
        let (media, body) = match &slot.group {
            Group::Metadata => {
                let (mut annotations, mut labels) = (Map::new(), Map::new());
                for (key, value) in &sets {
                    let value = value.clone().unwrap_or_default();
                    match key {
                        Key::Annotation(key) => drop(annotations.insert(key.clone(), value)),
                        Key::Label(key) => drop(labels.insert(key.clone(), value)),
                        _ => {}
                    }
                }
                let parts = [("annotations", annotations), ("labels", labels)];
                let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
                let metadata: Map<_, _> = parts.map(|(name, part)| (name.to_owned(), Value::Object(part))).collect();
                (MERGE, json!({"metadata": metadata}))
            }
            Group::Conditions => {
                let conditions = sets.iter().filter_map(|(key, value)| match (key, value.clone()) {
                    (Key::Condition(name), Some(mut value)) => {
                        let since = self.transition(name, value["status"].as_str().unwrap_or_default(), now);
                        value["lastTransitionTime"] = whole_seconds(since).into();
                        Some(value)
                    }
                    _ => None,
                });
                (STRATEGIC, json!({"status": {"conditions": conditions.collect::<Vec<_>>()}}))
            }
            Group::Target(..) => {
                let values = sets.iter().filter_map(|(key, value)| match key {
                    Key::Field(_, pointer) => Some((pointer.as_str(), value.clone()?)),
                    _ => None,
                });
                fields(values.collect())
            }
        };
        Write { path, media, body, slot, sets }
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
        let keys = self.sets.iter().map(|(key, _)| match key {
            Key::Annotation(name) => format!("annotation {name}"),
            Key::Label(name) => format!("label {name}"),
            Key::Condition(name) => format!("condition {name}"),
            Key::Field(_, pointer) => pointer.clone(),
        });
        format!("{}: {}", self.path, keys.collect::<Vec<_>>().join(", "))
    }
}

impl Key {
    fn group(&self) -> Group {
        match self {
            Key::Annotation(_) | Key::Label(_) => Group::Metadata,
            Key::Condition(_) => Group::Conditions,
            Key::Field(target, pointer) => Group::Target(target.clone(), pointer.starts_with("/status/")),
        }
    }

    /// Whether the object shows that another client has changed it. The manager removes results of updates when there are too many.
    fn is_comparable(&self) -> bool {
        match self {
            Key::Field(target, pointer) => target.name != RESULTS && !pointer.split('/').any(|part| part == "-"),
            _ => true,
        }
    }

    /// Its value in an object, in the form in which it is written.
    fn value_in(&self, object: &Value) -> Option<Value> {
        let metadata = |field: &str, key: &str| object["metadata"][field].get(key).cloned();
        match self {
            Key::Annotation(key) => metadata("annotations", key),
            Key::Label(key) => metadata("labels", key),
            Key::Condition(name) => {
                let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let found = conditions.find(|condition| condition["type"] == name.as_str())?;
                let text = |field: &str| found[field].as_str().unwrap_or_default();
                Some(
                    json!({"type": name, "status": text("status"), "reason": text("reason"), "message": text("message")}),
                )
            }
            Key::Field(_, pointer) => object.pointer(pointer).cloned(),
        }
    }
}

impl Group {
    fn object(&self) -> Object {
        match self {
            Group::Metadata | Group::Conditions => Object::Pod,
            Group::Target(target, _) => Object::Target(target.clone()),
        }
    }
}

/// Whether an answer is an object of Kubernetes, and not something that a proxy has made of it.
fn is_object(value: &Value) -> bool {
    value["metadata"]["name"].is_string()
}

/// The source of a condition that nobody has any more, since it cannot be removed. It sorts last, so that any source that has the condition counts more.
fn after_all(condition: &Condition) -> String {
    format!("~{}", condition.name)
}

fn keys(desired: &Desired) -> Vec<(Key, Option<Value>)> {
    let mut keys = Vec::new();
    let text = |value: &Option<String>| value.clone().map(Value::String);
    keys.extend(desired.annotations.iter().map(|(key, value)| (Key::Annotation(key.clone()), text(value))));
    keys.extend(desired.labels.iter().map(|(key, value)| (Key::Label(key.clone()), text(value))));
    if let Some(Condition { name, status, reason, message }) = &desired.condition {
        let value = json!({"type": name, "status": status, "reason": reason, "message": message});
        keys.push((Key::Condition(name.clone()), Some(value)));
    }
    if let Some((target, values)) = &desired.fields {
        let values = values.iter();
        keys.extend(values.map(|(pointer, value)| (Key::Field(target.clone(), pointer.clone()), Some(value.clone()))));
    }
    keys
}

/// A merge patch creates what is missing on the way; elements of lists need a JSON patch.
fn fields(values: Vec<(&str, Value)>) -> (&'static str, Value) {
    let indexed = |pointer: &str| pointer.split('/').any(|part| part == "-" || part.parse::<usize>().is_ok());
    if values.iter().any(|(pointer, _)| indexed(pointer)) {
        let operations = values.into_iter().map(|(pointer, value)| {
            let operation = if pointer.ends_with("/-") { "add" } else { "replace" };
            json!({"op": operation, "path": pointer, "value": value})
        });
        return (JSON, Value::Array(operations.collect()));
    }
    let mut body = Value::Object(Map::new());
    for (pointer, value) in values {
        let mut at = &mut body;
        for part in pointer.split('/').skip(1) {
            let name = part.replace("~1", "/").replace("~0", "~");
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[name];
        }
        *at = value;
    }
    (MERGE, body)
}

/// As Kubernetes writes times.
fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests;
