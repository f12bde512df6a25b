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
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn ledger() -> Ledger {
        Ledger::new(PodName { namespace: "games".into(), name: "web-1".into() })
    }

    fn annotation(value: Option<&str>) -> Desired {
        Desired { annotations: [("a".to_owned(), value.map(str::to_owned))].into(), ..Desired::default() }
    }

    fn flush(ledger: &mut Ledger, now: Timestamp) -> Vec<Value> {
        let writes = ledger.due(now);
        for write in &writes {
            ledger.sent(write, Sent::Written, now);
        }
        writes.into_iter().map(|write| write.body).collect()
    }

    #[test]
    fn only_changes_are_written() {
        let mut ledger = ledger();
        assert!(ledger.set("probe", annotation(Some("idle"))));
        assert_eq!(flush(&mut ledger, at(0)), [json!({"metadata": {"annotations": {"a": "idle"}}})]);
        assert!(!ledger.set("probe", annotation(Some("idle"))));
        assert_eq!((ledger.due(at(1)).len(), ledger.next_due(at(1))), (0, None));
        ledger.set("probe", annotation(None));
        assert_eq!(flush(&mut ledger, at(2)), [json!({"metadata": {"annotations": {"a": null}}})]);
    }

    #[test]
    fn a_change_that_is_taken_back_before_it_was_written_is_no_write() {
        let mut ledger = ledger();
        ledger.set("probe", annotation(Some("idle")));
        flush(&mut ledger, at(0));
        ledger.set("probe", annotation(Some("busy")));
        ledger.set("probe", annotation(Some("idle")));
        assert!(ledger.due(at(1)).is_empty());
    }

    #[test]
    fn failures_wait_ever_longer_and_refusals_longer_still() {
        let mut ledger = ledger();
        ledger.set("probe", annotation(Some("idle")));
        let mut waits = Vec::new();
        let mut now = at(0);
        for _ in 0..9 {
            let write = ledger.due(now).remove(0);
            ledger.sent(&write, Sent::Failed, now);
            assert!(ledger.due(now).is_empty());
            let next = ledger.next_due(now).unwrap();
            waits.push(next.duration_since(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        let write = ledger.due(now).remove(0);
        ledger.sent(&write, Sent::Written, now);
        ledger.set("probe", annotation(Some("busy")));
        let write = ledger.due(now).remove(0);
        ledger.sent(&write, Sent::Refused, now);
        assert_eq!(ledger.next_due(now), Some(now + SignedDuration::from_secs(30)));
    }

    #[test]
    fn what_one_source_sets_another_does_not_remove() {
        let mut ledger = ledger();
        ledger.set("a", annotation(None));
        ledger.set("b", annotation(Some("idle")));
        assert_eq!(flush(&mut ledger, at(0)), [json!({"metadata": {"annotations": {"a": "idle"}}})]);
        ledger.retire("b");
        assert_eq!(flush(&mut ledger, at(1)), [json!({"metadata": {"annotations": {"a": null}}})]);
    }

    #[test]
    fn a_condition_keeps_its_time_while_only_its_message_changes() {
        let condition = |status: &str, message: &str| Desired {
            condition: Some(Condition {
                name: "x/y".into(),
                status: status.into(),
                reason: "R".into(),
                message: message.into(),
            }),
            ..Desired::default()
        };
        let mut ledger = ledger();
        let mut times = Vec::new();
        for (second, status, message) in [(0, "True", "one"), (10, "True", "two"), (20, "False", "two")] {
            ledger.set("probe", condition(status, message));
            let written = flush(&mut ledger, at(second));
            times.push(written[0]["status"]["conditions"][0]["lastTransitionTime"].as_str().unwrap().to_owned());
        }
        assert_eq!(times, ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z"]);
    }

    #[test]
    fn what_is_refused_holds_nothing_else_back() {
        let condition = |name: &str| Condition {
            name: name.into(),
            status: "True".into(),
            reason: "R".into(),
            message: String::new(),
        };
        let mut ledger = ledger();
        for name in ["x/good", "x/refused"] {
            ledger.set(name, Desired { condition: Some(condition(name)), ..Desired::default() });
        }
        // An API server that refuses every write with one of the conditions.
        let send = |ledger: &mut Ledger, now: Timestamp| {
            let writes = ledger.due(now);
            for write in &writes {
                let is_refused = write.subject().contains("x/refused");
                ledger.sent(write, if is_refused { Sent::Refused } else { Sent::Written }, now);
            }
            writes.iter().map(Write::subject).collect::<Vec<_>>()
        };
        let status = "/api/v1/namespaces/games/pods/web-1/status: condition";
        assert_eq!(send(&mut ledger, at(0)), [format!("{status} x/good, condition x/refused")]);
        assert_eq!(send(&mut ledger, at(0)), [format!("{status} x/good"), format!("{status} x/refused")]);
        assert_eq!(ledger.next_due(at(1)), Some(at(30)), "only what is refused is left, and it waits");
        let mut changed = condition("x/good");
        changed.status = "False".into();
        ledger.set("x/good", Desired { condition: Some(changed), ..Desired::default() });
        assert_eq!(send(&mut ledger, at(1)), [format!("{status} x/good")]);
    }

    #[test]
    fn a_condition_that_a_source_does_not_have_any_more_is_unknown() {
        let condition = |name: &str| Desired {
            condition: Some(Condition {
                name: name.into(),
                status: "True".into(),
                reason: "R".into(),
                message: String::new(),
            }),
            ..Desired::default()
        };
        let mut ledger = ledger();
        ledger.set("probe", condition("x/a"));
        flush(&mut ledger, at(0));
        ledger.retire("probe");
        ledger.set("probe", condition("x/b"));
        let written = flush(&mut ledger, at(1));
        let statuses: Vec<(&Value, &Value)> = written[0]["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|condition| (&condition["type"], &condition["status"]))
            .collect();
        assert_eq!(statuses, [(&json!("x/a"), &json!("Unknown")), (&json!("x/b"), &json!("True"))]);
        ledger.set("other", condition("x/a"));
        let written = flush(&mut ledger, at(2));
        assert_eq!(written[0]["status"]["conditions"][0]["status"], "True", "somebody else has it");
    }

    #[test]
    fn a_condition_that_was_retired_is_that_of_whoever_has_it_still() {
        let condition = |status: &str| Desired {
            condition: Some(Condition {
                name: "x/a".into(),
                status: status.into(),
                reason: "R".into(),
                message: String::new(),
            }),
            ..Desired::default()
        };
        let mut ledger = ledger();
        ledger.set("a/probe", condition("False"));
        ledger.set("b/probe", condition("True"));
        flush(&mut ledger, at(0));
        assert!(ledger.retire("a/") && !ledger.remove("a/none"));
        let written = flush(&mut ledger, at(1));
        assert_eq!(written[0]["status"]["conditions"][0]["status"], "True");
    }

    #[test]
    fn results_go_with_their_storage_when_a_list_changes() {
        let storage = |key: &str| Storage { label_key: Some(key.to_owned()), ..Storage::default() };
        let label =
            |key: &str| Desired { labels: [(key.to_owned(), Some("yes".to_owned()))].into(), ..Desired::default() };
        let (a, b, c) = (storage("a"), storage("b"), storage("c"));
        // What is written at once, and what when each of the list has a result again.
        let table = [
            (vec![&a], json!({"b": null}), json!(null)),
            (vec![&b], json!({"a": null}), json!(null)),
            (vec![&b, &a], json!(null), json!(null)),
            (vec![&c], json!({"b": null}), json!({"a": null, "c": "yes"})),
            (vec![&c, &a, &b], json!(null), json!({"c": "yes"})),
            (vec![], json!({"a": null, "b": null}), json!(null)),
        ];
        for (after, at_once, later) in table {
            let mut ledger = ledger();
            let name = |place: usize| format!("probe/{place:04}");
            ledger.set(&name(0), label("a"));
            ledger.set(&name(1), label("b"));
            flush(&mut ledger, at(0));
            ledger.relist(name, &[&a, &b], &after);
            let labels = |ledger: &mut Ledger, now| {
                let written = flush(ledger, now);
                written.first().map_or(Value::Null, |body| body["metadata"]["labels"].clone())
            };
            assert_eq!(labels(&mut ledger, at(1)), at_once, "{after:?}");
            for (place, storage) in after.iter().enumerate() {
                ledger.set(&name(place), label(storage.label_key.as_deref().unwrap()));
            }
            assert_eq!(labels(&mut ledger, at(2)), later, "{after:?}");
        }
    }

    fn game_server() -> Target {
        Target {
            group: "game.kruise.io".into(),
            version: "v1alpha1".into(),
            resource: "gameservers".into(),
            namespace: "games".into(),
            name: "web-1".into(),
        }
    }

    /// Sends what is due, and answers with these objects: the pod, and the target.
    fn answer(ledger: &mut Ledger, pod: &Value, server: &Value, now: Timestamp) -> Vec<String> {
        let writes = ledger.due(now);
        for write in &writes {
            ledger.sent(write, Sent::Written, now);
            ledger.answered(write, if write.path.contains("/pods/") { pod } else { server }, now);
        }
        writes.iter().map(Write::subject).collect()
    }

    /// Looks at what is due, with the same objects.
    fn look(ledger: &mut Ledger, pod: &Value, server: Option<&Value>, now: Timestamp) -> Vec<String> {
        let looks = ledger.looks(now);
        for look in &looks {
            ledger.looked(look, if look.path.contains("/pods/") { Some(pod) } else { server }, now);
        }
        looks.into_iter().map(|look| look.path).collect()
    }

    #[test]
    fn what_somebody_else_has_changed_is_written_again_and_nothing_while_nothing_differs() {
        const POD: &str = "/api/v1/namespaces/games/pods/web-1";
        const SERVER: &str = "/apis/game.kruise.io/v1alpha1/namespaces/games/gameservers/web-1";
        let mut ledger = ledger();
        let desired = Desired {
            annotations: [("a".to_owned(), Some("idle".to_owned())), ("old".to_owned(), None)].into(),
            condition: Some(Condition {
                name: "x/y".into(),
                status: "True".into(),
                reason: "R".into(),
                message: String::new(),
            }),
            fields: Some((game_server(), [("/spec/opsState".to_owned(), json!("idle"))].into())),
            ..Desired::default()
        };
        ledger.set("probe", desired);
        let condition =
            json!({"type": "x/y", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let pod =
            json!({"metadata": {"name": "web-1", "annotations": {"a": "idle"}}, "status": {"conditions": [condition]}});
        let server = json!({"metadata": {"name": "web-1"}, "spec": {"opsState": "idle"}});
        assert_eq!(answer(&mut ledger, &pod, &server, at(0)).len(), 3);
        assert_eq!((ledger.next_due(at(1)), ledger.next_look()), (None, Some(at(600))));
        assert!(ledger.looks(at(599)).is_empty());
        let looks = look(&mut ledger, &pod, Some(&server), at(600));
        assert_eq!(looks, [format!("{POD}?dryRun=All"), format!("{SERVER}?dryRun=All")]);
        assert_eq!((ledger.next_due(at(600)), ledger.next_look()), (None, Some(at(1200))));

        let mut changed = pod.clone();
        changed["metadata"]["annotations"] = json!({"a": "mine", "old": "mine"});
        changed["status"]["conditions"][0]["status"] = json!("False");
        let recreated = json!({"metadata": {"name": "web-1"}, "spec": {}});
        look(&mut ledger, &changed, Some(&recreated), at(1200));
        let expected = [
            format!("{POD}: annotation a, annotation old"),
            format!("{POD}/status: condition x/y"),
            format!("{SERVER}: /spec/opsState"),
        ];
        assert_eq!(answer(&mut ledger, &pod, &server, at(1200)), expected);
        look(&mut ledger, &pod, None, at(1800));
        assert_eq!(answer(&mut ledger, &pod, &server, at(1800)), expected[2..], "it is gone, and may come back");

        // The answer to a write tells of the rest of the object as well.
        ledger.set("other", Desired { labels: [("l".to_owned(), Some("x".to_owned()))].into(), ..Desired::default() });
        assert_eq!(answer(&mut ledger, &changed, &server, at(1900)), [format!("{POD}: label l")]);
        assert_eq!(answer(&mut ledger, &pod, &server, at(1900)), expected[..2]);
        assert_eq!(ledger.next_due(at(1900)), None);
    }

    #[test]
    fn what_a_configuration_names_no_more_is_removed_once() {
        let mut ledger = ledger();
        let two = Desired {
            labels: [("l".to_owned(), Some("x".to_owned()))].into(),
            condition: Some(Condition {
                name: "x/y".into(),
                status: "True".into(),
                reason: "R".into(),
                message: String::new(),
            }),
            ..annotation(Some("idle"))
        };
        let of = |annotations: Value, labels: Value, status: &str| {
            let condition = json!({"type": "x/y", "status": status, "reason": "Other", "message": ""});
            let metadata = json!({"name": "web-1", "annotations": annotations, "labels": labels});
            json!({"metadata": metadata, "status": {"conditions": [condition]}})
        };
        ledger.set("probe", two);
        answer(&mut ledger, &json!({}), &json!({}), at(0));
        ledger.set("probe", annotation(Some("idle")));
        assert_eq!(answer(&mut ledger, &json!({}), &json!({}), at(1)).len(), 2);
        let theirs = of(json!({"a": "idle"}), json!({"l": "theirs"}), "True");
        look(&mut ledger, &theirs, None, at(700));
        assert_eq!(ledger.next_due(at(700)), None);

        // It is the agent's again where it is named again.
        ledger.set("probe", Desired { labels: [("l".to_owned(), None)].into(), ..annotation(Some("idle")) });
        look(&mut ledger, &theirs, None, at(1400));
        assert_eq!(answer(&mut ledger, &json!({}), &json!({}), at(1400)).len(), 1);

        ledger.retire("probe");
        assert_eq!(answer(&mut ledger, &json!({}), &json!({}), at(1500)).len(), 1);
        look(&mut ledger, &of(json!({"a": "theirs"}), json!({"l": "theirs"}), "False"), None, at(2200));
        assert_eq!(ledger.next_due(at(2200)), None);
    }

    #[test]
    fn an_object_that_is_gone_is_not_looked_at_until_it_is_written_to_again() {
        let mut ledger = ledger();
        let fields = Some((game_server(), [("/spec/opsState".to_owned(), json!("idle"))].into()));
        ledger.set("probe", Desired { fields, ..Desired::default() });
        let server = json!({"metadata": {"name": "web-1"}, "spec": {"opsState": "idle"}});
        answer(&mut ledger, &json!({}), &server, at(0));
        assert_eq!(look(&mut ledger, &json!({}), None, at(600)).len(), 1);
        assert_eq!((ledger.next_look(), ledger.next_due(at(601))), (None, Some(at(601))));
        let write = ledger.due(at(601)).remove(0);
        ledger.sent(&write, Sent::Refused, at(601));
        assert_eq!((ledger.next_look(), ledger.next_due(at(2000))), (None, Some(at(2000))));
        assert_eq!(answer(&mut ledger, &json!({}), &server, at(2000)).len(), 1);
        assert_eq!(ledger.next_look(), Some(at(2600)));
    }

    #[test]
    fn what_the_api_server_makes_of_a_value_is_not_fought_and_results_of_updates_are_not_looked_at() {
        let mut ledger = ledger();
        let fields = Some((game_server(), [("/spec/pruned".to_owned(), json!("x"))].into()));
        ledger.set("probe", Desired { fields, ..Desired::default() });
        let results = Target { group: String::new(), name: RESULTS.to_owned(), ..game_server() };
        let fields = Some((results, [("/data/web-1".to_owned(), json!("x"))].into()));
        ledger.set("record", Desired { fields, ..Desired::default() });
        let server = json!({"metadata": {"name": "web-1"}, "spec": {}});
        assert_eq!(answer(&mut ledger, &server, &server, at(0)).len(), 2);
        assert_eq!(look(&mut ledger, &server, Some(&server), at(600)).len(), 1);
        assert_eq!(ledger.next_due(at(600)), None);
        // What is not an object says nothing.
        look(&mut ledger, &json!({}), Some(&json!({})), at(1200));
        assert_eq!(ledger.next_due(at(1200)), None);
    }

    #[test]
    fn fields_of_targets_are_patched_by_pointer() {
        let target = game_server();
        let table = [
            ("/spec/opsState", "", MERGE, json!({"spec": {"opsState": "x"}})),
            ("/metadata/annotations/a~1b", "", MERGE, json!({"metadata": {"annotations": {"a/b": "x"}}})),
            ("/status/state", "/status", MERGE, json!({"status": {"state": "x"}})),
            ("/spec/list/0", "", JSON, json!([{"op": "replace", "path": "/spec/list/0", "value": "x"}])),
        ];
        for (pointer, suffix, media, body) in table {
            let mut ledger = ledger();
            let values = [(pointer.to_owned(), json!("x"))].into();
            ledger.set("probe", Desired { fields: Some((target.clone(), values)), ..Desired::default() });
            let write = ledger.due(at(0)).remove(0);
            let path = "/apis/game.kruise.io/v1alpha1/namespaces/games/gameservers/web-1";
            assert_eq!((write.path, write.media, write.body), (format!("{path}{suffix}"), media, body));
        }
    }
}
