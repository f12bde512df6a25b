//! Which part of an old object belongs to a part of the new one, and whether the two are the same. An update is not refused for what was
//! wrong before and has not changed (`CRDValidationRatcheting`).

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::Schema;

/// A part of the new object, the part of the old one that it came from, and the schema of both.
#[derive(Clone, Copy)]
pub(crate) struct Correlated<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
}

impl<'a> Correlated<'a> {
    /// The field `key` of both; `None` where one of them has none, or the schema does not know it.
    pub(crate) fn key(self, key: &str) -> Option<Correlated<'a>> {
        let (new, old) = (self.new.as_object()?.get(key)?, self.old.as_object()?.get(key)?);
        Some(Correlated { schema: self.schema.field(key)?, new, old })
    }

    /// The items of both; `None` where the old value has none, or its items have no keys.
    pub(crate) fn items(self) -> Option<CorrelatedItems<'a>> {
        let schema = self.schema.items.as_deref()?;
        Some(CorrelatedItems { schema, old: OldItems::of(self.schema, self.old)? })
    }

    /// Whether nothing changed. Fields that the schema does not know count as a change, as in the API server.
    pub(crate) fn unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|key| self.key(key).is_some_and(Correlated::unchanged))
            }
            (Value::Array(new), Value::Array(old)) if self.schema.is_list_type("map") => {
                let Some(items) = self.items() else { return false };
                new.len() == old.len() && new.iter().all(|new| items.get(new).is_some_and(Correlated::unchanged))
            }
            (new, old) => new == old,
        }
    }
}

/// Items of a list, each with the old one of the same keys.
pub(crate) struct CorrelatedItems<'a> {
    schema: &'a Schema,
    old: OldItems<'a>,
}

impl<'a> CorrelatedItems<'a> {
    /// An item of the new list, and the old one with the same keys.
    pub(crate) fn get(&self, new: &'a Value) -> Option<Correlated<'a>> {
        Some(Correlated { schema: self.schema, new, old: self.old.get(new)? })
    }
}

/// The items of an old list by their keys. Only a list of type `map` has keys.
pub(crate) struct OldItems<'a> {
    list: &'a Schema,
    by_keys: HashMap<Vec<&'a Value>, &'a Value>,
}

impl<'a> OldItems<'a> {
    /// `None` where `old` is not such a list.
    pub(crate) fn of(list: &'a Schema, old: &'a Value) -> Option<OldItems<'a>> {
        if !list.is_list_type("map") {
            return None;
        }
        let mut by_keys = HashMap::new();
        for item in old.as_array()? {
            if let Some(keys) = keys(list, item) {
                by_keys.entry(keys).or_insert(item);
            }
        }
        Some(OldItems { list, by_keys })
    }

    /// The first one that has the keys of `item`.
    pub(crate) fn get(&self, item: &Value) -> Option<&'a Value> {
        self.by_keys.get(&keys(self.list, item)?).copied()
    }
}

fn keys<'v>(list: &Schema, item: &'v Value) -> Option<Vec<&'v Value>> {
    list.list_map_keys.iter().map(|key| item.get(key)).collect()
}
