//! LimitRanges of a namespace, merged.

use pillion_expr::Resource;
use pillion_quantity::Quantity;
use serde_json::Value;

use crate::amount::RESOURCES;
use crate::pod::Amounts;

/// The LimitRanges of a namespace for containers and for pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitRanges {
    /// Items of type Container.
    pub container: Option<LimitRangeItem>,
    /// Items of type Pod.
    pub pod: Option<LimitRangeItem>,
}

/// What several LimitRanges want together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitRangeItem {
    /// The largest of all minimums.
    pub min: Amounts,
    /// The smallest of all maximums.
    pub max: Amounts,
    /// The limit of containers that have none: that of the last item that has any.
    pub default: Amounts,
}

impl LimitRanges {
    /// Merges the LimitRange objects of a namespace.
    pub fn merge<'a>(ranges: impl IntoIterator<Item = &'a Value>) -> LimitRanges {
        let mut merged = LimitRanges::default();
        let items = ranges.into_iter().flat_map(|range| range["spec"]["limits"].as_array().into_iter().flatten());
        for item in items {
            let target = match item["type"].as_str() {
                Some("Container") => &mut merged.container,
                Some("Pod") => &mut merged.pod,
                _ => continue,
            };
            target.get_or_insert_default().add(item);
        }
        merged
    }
}

impl LimitRangeItem {
    fn add(&mut self, item: &Value) {
        let (min, max, default) = (Amounts::of(&item["min"]), Amounts::of(&item["max"]), Amounts::of(&item["default"]));
        for resource in RESOURCES {
            tighten(&mut self.min, resource, min, Quantity::max);
            tighten(&mut self.max, resource, max, Quantity::min);
        }
        if !default.is_empty() {
            self.default = default;
        }
    }
}

fn tighten(into: &mut Amounts, resource: Resource, from: Amounts, pick: fn(Quantity, Quantity) -> Quantity) {
    let amount = match (into.get(resource), from.get(resource)) {
        (Some(a), Some(b)) => Some(pick(a, b)),
        (a, b) => a.or(b),
    };
    into.set(resource, amount);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `limit_range_calculator_test.go`.
    #[test]
    fn the_tightest_bounds_win_and_the_last_default() {
        let one = json!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}, "default": {"cpu": "1"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
        ]}});
        let two = json!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}, "min": {"cpu": "50m"}, "default": {"memory": "1Gi"}}
        ]}});
        let merged = LimitRanges::merge([&one, &two]);
        let item = merged.container.unwrap();
        assert_eq!(item.max, Amounts::of(&json!({"cpu": "1", "memory": "1Gi"})));
        assert_eq!(item.min, Amounts::of(&json!({"cpu": "100m"})));
        assert_eq!(item.default, Amounts::of(&json!({"memory": "1Gi"})));
        assert_eq!(merged.pod, None);
    }
}
