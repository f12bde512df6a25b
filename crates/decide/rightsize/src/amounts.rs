//! Amounts of CPU and memory, as a list of resources has them.

use pillion_api::vpa::ResourceList;
use pillion_expr::Resource;
use pillion_quantity::Quantity;
use serde_json::Value;

/// CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Cores.
    pub cpu: Option<Quantity>,
    /// Bytes.
    pub memory: Option<Quantity>,
}

impl Amounts {
    /// The amount of a resource.
    pub fn get(&self, resource: Resource) -> Option<Quantity> {
        match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        }
    }

    pub fn set(&mut self, resource: Resource, amount: Option<Quantity>) {
        match resource {
            Resource::Cpu => self.cpu = amount,
            Resource::Memory => self.memory = amount,
        }
    }

    /// Whether neither is set.
    pub fn is_empty(&self) -> bool {
        *self == Amounts::default()
    }

    pub(crate) fn of(list: &Value) -> Amounts {
        let amount = |resource: Resource| serde_json::from_value(list.get(resource.name())?.clone()).ok();
        Amounts { cpu: amount(Resource::Cpu), memory: amount(Resource::Memory) }
    }
}

impl From<&ResourceList> for Amounts {
    fn from(list: &ResourceList) -> Self {
        Amounts { cpu: list.get("cpu"), memory: list.get("memory") }
    }
}

impl From<Amounts> for ResourceList {
    fn from(amounts: Amounts) -> Self {
        let named = [("cpu", amounts.cpu), ("memory", amounts.memory)];
        named.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?))).collect()
    }
}

/// The resources that are written in a spec.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpecResources {
    /// `resources.requests`; `None` if there is no such object.
    pub requests: Option<Amounts>,
    /// `resources.limits`; `None` if there is no such object.
    pub limits: Option<Amounts>,
}
