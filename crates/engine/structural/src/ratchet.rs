//! Which part of an old object belongs to a part of the new one, and whether the two are the same. An update is not refused for what was
//! wrong before and has not changed (`CRDValidationRatcheting`).

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

    /// The new item at `index`, and the old one with the same keys. Only items of a list of type `map` can be told apart.
    pub(crate) fn index(self, index: usize) -> Option<Correlated<'a>> {
        let new = self.new.as_array()?.get(index)?;
        if !self.schema.is_list_type("map") {
            return None;
        }
        let old = same_item(self.schema, self.old.as_array()?, new)?;
        Some(Correlated { schema: self.schema.items.as_deref()?, new, old })
    }

    /// Whether nothing changed. Fields that the schema does not know count as a change, as in the API server.
    pub(crate) fn unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|key| self.key(key).is_some_and(Correlated::unchanged))
            }
            (Value::Array(new), Value::Array(old)) if self.schema.is_list_type("map") => {
                new.len() == old.len() && (0..new.len()).all(|i| self.index(i).is_some_and(Correlated::unchanged))
            }
            (new, old) => new == old,
        }
    }
}

/// The first of `items` that has the keys of `item`.
pub(crate) fn same_item<'a>(list: &Schema, items: &'a [Value], item: &Value) -> Option<&'a Value> {
    let keys: Option<Vec<&Value>> = list.list_map_keys.iter().map(|key| item.get(key)).collect();
    let keys = keys?;
    items.iter().find(|old| list.list_map_keys.iter().zip(&keys).all(|(name, key)| old.get(name) == Some(*key)))
}
