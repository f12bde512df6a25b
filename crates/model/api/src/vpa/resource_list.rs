//! Amounts by resource name, as in `requests` and `limits`.

use std::collections::BTreeMap;

use pillion_quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Amounts by resource name. Equality goes by value: `1Gi` equals `1024Mi`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceList(pub BTreeMap<String, Quantity>);

impl ResourceList {
    /// The amount of a resource.
    pub fn get(&self, resource: &str) -> Option<Quantity> {
        self.0.get(resource).copied()
    }

    /// Sets the amount of a resource.
    pub fn set(&mut self, resource: &str, amount: Quantity) {
        self.0.insert(resource.to_owned(), amount);
    }

    /// Every resource and its amount, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(resource, amount)| (resource.as_str(), *amount))
    }

    /// Whether it lists no resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Quantity)> for ResourceList {
    fn from_iter<T: IntoIterator<Item = (String, Quantity)>>(amounts: T) -> Self {
        ResourceList(amounts.into_iter().collect())
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
