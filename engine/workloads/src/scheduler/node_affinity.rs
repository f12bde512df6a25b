//! Which nodes a pod wants by their labels and names.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

use crate::pod::PodView;

/// What a node must be like.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    labels: BTreeMap<String, String>,
    affinity: Option<NodeSelector>,
}

impl Wanted {
    pub(crate) fn of(pod: &PodView) -> Wanted {
        // What cannot be read was not checked by anybody, and asks for nothing.
        let affinity = pod.spec.affinity.clone().and_then(|affinity| serde_json::from_value::<Affinity>(affinity).ok());
        Wanted {
            labels: pod.spec.node_selector.clone(),
            affinity: affinity
                .and_then(|affinity| affinity.node_affinity)
                .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution),
        }
    }

    /// Whether the node is like that.
    pub(crate) fn matches(&self, node: &Node) -> bool {
        let none = BTreeMap::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        let selected = self.labels.iter().all(|(name, value)| labels.get(name) == Some(value));
        let name = node.metadata.name.as_deref().unwrap_or_default();
        selected
            && self
                .affinity
                .as_ref()
                .is_none_or(|selector| selector.node_selector_terms.iter().any(|term| term_matches(term, labels, name)))
    }

    /// The only nodes that can be meant, if the pod names them.
    pub(crate) fn names(&self) -> Option<BTreeSet<&str>> {
        let terms = self.affinity.as_ref()?.node_selector_terms.iter();
        let names: Option<Vec<BTreeSet<&str>>> = terms.map(names_of).collect();
        names.filter(|names| !names.is_empty()).map(|names| names.into_iter().flatten().collect())
    }
}

fn names_of(term: &NodeSelectorTerm) -> Option<BTreeSet<&str>> {
    let fields =
        term.match_fields.iter().flatten().filter(|field| field.key == "metadata.name" && field.operator == "In");
    let sets = fields.map(|field| field.values.iter().flatten().map(String::as_str).collect::<BTreeSet<&str>>());
    sets.reduce(|one, other| one.intersection(&other).copied().collect())
}

/// A term without requirements matches nothing.
fn term_matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |requirement: &NodeSelectorRequirement| labels.get(&requirement.key).map(String::as_str);
    let field = |requirement: &NodeSelectorRequirement| (requirement.key == "metadata.name").then_some(name);
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|requirement| holds(requirement, label(requirement)))
        && fields.iter().all(|requirement| holds(requirement, field(requirement)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let numbers = || {
        let [limit] = values else { return None };
        Some((value?.parse::<i64>().ok()?, limit.parse::<i64>().ok()?))
    };
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, limit)| value > limit),
        "Lt" => numbers().is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wanted(spec: Value) -> Wanted {
        Wanted::of(&serde_json::from_value(json!({"spec": spec})).unwrap())
    }

    fn affinity(terms: Value) -> Wanted {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        wanted(json!({"affinity": {"nodeAffinity": required}}))
    }

    #[test]
    fn a_node_must_have_the_labels_and_match_one_term() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "one", "labels": {"disk": "ssd", "cores": "8"}}}))
                .unwrap();
        let expression = |key: &str, operator: &str, values: Value| {
            affinity(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        for (what, wanted, matches) in [
            ("nothing", wanted(json!({})), true),
            ("a label", wanted(json!({"nodeSelector": {"disk": "ssd"}})), true),
            ("another value", wanted(json!({"nodeSelector": {"disk": "hdd"}})), false),
            ("in", expression("disk", "In", json!(["hdd", "ssd"])), true),
            ("not in", expression("disk", "NotIn", json!(["ssd"])), false),
            ("not in, absent", expression("zone", "NotIn", json!(["a"])), true),
            ("exists", expression("zone", "Exists", json!([])), false),
            ("does not exist", expression("zone", "DoesNotExist", json!([])), true),
            ("greater", expression("cores", "Gt", json!(["4"])), true),
            ("less", expression("cores", "Lt", json!(["8"])), false),
            ("no number", expression("disk", "Gt", json!(["4"])), false),
            ("no terms", affinity(json!([])), false),
            ("an empty term", affinity(json!([{}])), false),
            (
                "the name",
                affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["one"]}]}])),
                true,
            ),
            (
                "one of two terms",
                affinity(json!([
                    {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
                    {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                ])),
                true,
            ),
        ] {
            assert_eq!(wanted.matches(&node), matches, "{what}");
        }
    }

    #[test]
    fn names_are_known_only_if_every_term_gives_them() {
        let named = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["one"]}]});
        assert_eq!(affinity(json!([named])).names(), Some(BTreeSet::from(["one"])));
        assert_eq!(affinity(json!([named, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}])).names(), None);
        assert_eq!(wanted(json!({})).names(), None);
    }
}
