//! One list of a draft: what of it the pod came with, and what it is now.

use std::borrow::Cow;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use pillion_api::pod::{Object, Pod};
use serde_json::Value;

use super::{Position, add, pointer};

/// A list below `spec`.
///
/// Entries that the pod came with are in their original order: they are removed, never reordered. That is what makes the
/// patch a single walk.
#[derive(Clone, Debug)]
pub(super) struct List<'a> {
    pub(super) name: &'static str,
    /// As it came; `None` if absent or null.
    original: Option<&'a Vec<Value>>,
    pub(super) entries: Vec<Entry<'a>>,
    /// How many entries were inserted at the front.
    inserted_first: usize,
}

/// One object of a list.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: usize,
    /// Where in this list it came; `None` if it was inserted.
    pub(super) origin: Option<usize>,
    /// Whether it is what the pod came with, changed or not.
    pub(super) is_own: bool,
    /// As it is now; borrowed while it is unchanged.
    pub(super) object: Cow<'a, Object>,
}

impl Entry<'_> {
    pub(super) fn inserted(key: usize, object: Object) -> Self {
        Entry { key, origin: None, is_own: false, object: Cow::Owned(object) }
    }
}

impl<'a> List<'a> {
    pub(super) fn new(name: &'static str, pod: &'a Pod, next_key: &mut usize) -> List<'a> {
        let original = pod.as_value()["spec"][name].as_array();
        // `Pod::new` accepts only lists of objects.
        let objects = original.into_iter().flatten().enumerate();
        let entries = objects.filter_map(|(origin, value)| Some((origin, value.as_object()?)));
        let entries = entries.map(|(origin, object)| {
            let key = *next_key;
            *next_key += 1;
            Entry { key, origin: Some(origin), is_own: true, object: Cow::Borrowed(object) }
        });
        List { name, original, entries: entries.collect(), inserted_first: 0 }
    }

    /// An object as it came.
    pub(super) fn original(&self, origin: usize) -> Option<&'a Object> {
        self.original?.get(origin)?.as_object()
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.entries.iter().map(|entry| entry.object.as_ref())
    }

    pub(super) fn entry_mut(&mut self, key: usize) -> Option<&mut Entry<'a>> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    pub(super) fn insert(&mut self, position: Position, entry: Entry<'a>) {
        match position {
            Position::First => {
                self.entries.insert(self.inserted_first, entry);
                self.inserted_first += 1;
            }
            Position::Last => self.entries.push(entry),
        }
    }

    pub(super) fn remove(&mut self, key: usize) -> Option<Entry<'a>> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        if index < self.inserted_first {
            self.inserted_first -= 1;
        }
        Some(self.entries.remove(index))
    }

    fn original_len(&self) -> usize {
        self.original.map_or(0, Vec::len)
    }

    /// Whether it is different from what the pod came with.
    pub(super) fn is_changed(&self) -> bool {
        let is_as_it_came = |(index, entry): (usize, &Entry<'a>)| match &entry.object {
            Cow::Borrowed(_) if entry.origin == Some(index) => true,
            now => self.original(index) == Some(now.as_ref()),
        };
        self.entries.len() != self.original_len() || !self.entries.iter().enumerate().all(is_as_it_came)
    }

    pub(super) fn to_value(&self) -> Value {
        self.objects().cloned().map(Value::Object).collect()
    }

    /// Appends the operations that turn the list as it came into what it is now.
    pub(super) fn into_patch(self, operations: &mut Vec<PatchOperation>) {
        if !self.is_changed() {
            return;
        }
        let Some(original) = self.original else {
            let objects = self.entries.into_iter().map(|entry| Value::Object(entry.object.into_owned()));
            operations.push(add(pointer(["spec", self.name]), objects.collect()));
            return;
        };
        let at = |index: usize| pointer(["spec", self.name, &index.to_string()]);
        let mut kept = self.entries.iter().filter_map(|entry| entry.origin).peekable();
        let is_removed = |origin: &usize| kept.next_if_eq(origin).is_none();
        let removed: Vec<usize> = (0..original.len()).filter(is_removed).collect();
        let mut length = original.len() - removed.len();
        // From the back, so that the positions of the others stay true.
        operations
            .extend(removed.into_iter().rev().map(|index| PatchOperation::Remove(RemoveOperation { path: at(index) })));
        for (index, entry) in self.entries.into_iter().enumerate() {
            if let Some(origin) = entry.origin {
                if let (Cow::Owned(now), Some(Value::Object(before))) = (entry.object, original.get(origin))
                    && *before != now
                {
                    patch_entry(&at(index), before, now, entry.is_own, operations);
                }
            } else {
                let path = if index == length { pointer(["spec", self.name, "-"]) } else { at(index) };
                operations.push(add(path, Value::Object(entry.object.into_owned())));
                length += 1;
            }
        }
    }
}

/// A container that was replaced is replaced as a whole; of one that was changed only what changed is touched.
fn patch_entry(at: &PointerBuf, before: &Object, now: Object, is_own: bool, operations: &mut Vec<PatchOperation>) {
    let now = Value::Object(now);
    if !is_own {
        operations.push(PatchOperation::Replace(ReplaceOperation { path: at.clone(), value: now }));
        return;
    }
    for mut operation in json_patch::diff(&Value::Object(before.clone()), &now).0 {
        let (PatchOperation::Add(AddOperation { path, .. })
        | PatchOperation::Replace(ReplaceOperation { path, .. })
        | PatchOperation::Remove(RemoveOperation { path })) = &mut operation
        else {
            continue; // A difference consists of nothing else.
        };
        let mut below = at.clone();
        below.append(&*path);
        *path = below;
        operations.push(operation);
    }
}
