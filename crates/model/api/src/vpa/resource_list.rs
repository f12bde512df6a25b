//! Amounts by resource name, as in `requests` and `limits`.

use std::collections::BTreeMap;

use pillion_quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Amounts by resource name. Equality goes by value: `1Gi` equals `1024Mi`.
///
/// A list has two amounts as a rule, and an autoscaler that is watched has four lists for each container: a map would take several times
/// as much memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(Box<[(Box<str>, Quantity)]>);

impl ResourceList {
    /// The amount of a resource.
    pub fn get(&self, resource: &str) -> Option<Quantity> {
        self.0.iter().find(|(name, _)| **name == *resource).map(|(_, amount)| *amount)
    }

    /// Sets the amount of a resource.
    pub fn set(&mut self, resource: &str, amount: Quantity) {
        if let Some((_, old)) = self.0.iter_mut().find(|(name, _)| **name == *resource) {
            *old = amount;
            return;
        }
        let all = std::mem::take(&mut self.0).into_vec().into_iter().map(|(name, amount)| (name.into(), amount));
        *self = all.chain([(resource.to_owned(), amount)]).collect();
    }

    /// Removes a resource.
    pub fn remove(&mut self, resource: &str) {
        let rest = std::mem::take(&mut self.0).into_vec().into_iter().filter(|(name, _)| **name != *resource);
        self.0 = rest.collect();
    }

    /// Every resource and its amount, by name, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Quantity)> {
        self.0.iter_mut().map(|(resource, amount)| (&**resource, amount))
    }

    /// Every resource and its amount, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(resource, amount)| (&**resource, *amount))
    }

    /// Whether it lists no resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Quantity)> for ResourceList {
    /// Of several amounts of a resource the last one counts.
    fn from_iter<T: IntoIterator<Item = (String, Quantity)>>(amounts: T) -> Self {
        let by_name: BTreeMap<String, Quantity> = amounts.into_iter().collect();
        ResourceList(by_name.into_iter().map(|(name, amount)| (name.into_boxed_str(), amount)).collect())
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let by_name: BTreeMap<String, Quantity> = Deserialize::deserialize(deserializer)?;
        Ok(by_name.into_iter().collect())
    }
}

impl JsonSchema for ResourceList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ResourceList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let amount = quantity_schema(generator);
        json_schema!({"type": "object", "additionalProperties": amount})
    }
}

/// The schema of one quantity, as upstream's CRD has it.
pub(super) fn quantity_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_sorted_by_name_and_set_once() {
        let mut list: ResourceList = serde_json::from_value(json!({"memory": "1Gi", "cpu": "1"})).unwrap();
        list.set("example.com/gpu", "2".parse().unwrap());
        list.set("cpu", "500m".parse().unwrap());
        list.set("disk", "1".parse().unwrap());
        list.remove("disk");
        let shown = serde_json::to_string(&list).unwrap();
        assert_eq!(shown, r#"{"cpu":"500m","example.com/gpu":"2","memory":"1Gi"}"#);
        assert_eq!((list.get("memory"), list.get("disk")), (Some("1024Mi".parse().unwrap()), None));
    }
}
