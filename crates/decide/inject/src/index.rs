//! Finds the sets that can match a pod without looking at those that cannot.
//!
//! Selectors are conjunctions, so each set is one path in a tree: a step for each label that it wants of the namespace,
//! then for each label that it wants of the pod, sorted by key. Looking a pod up follows only the steps that its labels
//! satisfy, by hash: sets whose next step is not satisfied are never seen, however many they are. What a path
//! cannot say (`NotIn`, `DoesNotExist`, very long `In` lists) is left to the full check of the few that are found.

use std::sync::Arc;

use pillion_api::sidecarset::NameSet;
use pillion_selector::{Condition, Requirement, Selector};

use crate::branches::Branches;

/// More terms of one set than this are left to the full check: a path is as deep as its set has terms, and a set may
/// have as many as it likes.
const MOST_TERMS: usize = 16;

/// `In` lists are spelt out as one path for each value up to this many paths for one set.
const MOST_PATHS: usize = 64;

/// Names of sets, by what they want of the labels of the namespace and of the pod. Clones share what they have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    root: Arc<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    here: NameSet,
    namespace: Branches<Step>,
    pod: Branches<Step>,
}

#[derive(Clone, Debug, Default)]
struct Step {
    value: Branches<Arc<Node>>,
    exists: Option<Arc<Node>>,
}

#[derive(Clone, Copy)]
enum Of {
    Namespace,
    Pod,
}

type Term<'a> = (Of, &'a Requirement);

impl Index {
    /// Files `set` under its selectors. Returns whether they say nothing that the index does not know: what is found then matches.
    pub(crate) fn insert(&mut self, set: &Arc<str>, namespace: Option<&Selector>, pod: &Selector) -> bool {
        let terms = terms(namespace, pod);
        insert_below(Arc::make_mut(&mut self.root), set, &terms);
        terms.len() == namespace.map_or(0, |selector| selector.requirements().len()) + pod.requirements().len()
    }

    /// Takes `set` out, which was filed under these selectors.
    pub(crate) fn remove(&mut self, set: &str, namespace: Option<&Selector>, pod: &Selector) {
        remove_below(Arc::make_mut(&mut self.root), set, &terms(namespace, pod));
    }

    /// The sets that may match, by name and each once.
    pub(crate) fn find<'a>(&'a self, namespace: &[(&str, &str)], pod: &[(&str, &str)]) -> Vec<&'a str> {
        let mut found = Vec::new();
        find_below(&self.root, namespace, pod, &mut found);
        // A key that a selector names twice leads to a set by two paths.
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The steps to a set: always the same for the same selectors.
fn terms<'a>(namespace: Option<&'a Selector>, pod: &'a Selector) -> Vec<Term<'a>> {
    let mut paths = 1;
    let mut terms = Vec::new();
    for (of, requirement) in namespace
        .into_iter()
        .flat_map(Selector::requirements)
        .map(|requirement| (Of::Namespace, requirement))
        .chain(pod.requirements().iter().map(|requirement| (Of::Pod, requirement)))
    {
        let branches = match &requirement.condition {
            Condition::In(values) => values.len(),
            Condition::Exists => 1,
            Condition::NotIn(_) | Condition::DoesNotExist => continue,
        };
        if terms.len() < MOST_TERMS && paths * branches <= MOST_PATHS {
            paths *= branches;
            terms.push((of, requirement));
        }
    }
    terms
}

impl Node {
    fn steps(&mut self, of: Of) -> &mut Branches<Step> {
        match of {
            Of::Namespace => &mut self.namespace,
            Of::Pod => &mut self.pod,
        }
    }

    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.namespace.is_empty() && self.pod.is_empty()
    }
}

fn insert_below(node: &mut Node, set: &Arc<str>, terms: &[Term<'_>]) {
    let Some(((of, requirement), rest)) = terms.split_first() else {
        node.here.insert(set);
        return;
    };
    let step = node.steps(*of).get_or_default(&requirement.key);
    if let Condition::In(values) = &requirement.condition {
        for value in values {
            insert_below(Arc::make_mut(step.value.get_or_default(value)), set, rest);
        }
    } else {
        insert_below(Arc::make_mut(step.exists.get_or_insert_default()), set, rest);
    }
}

/// What is empty afterwards goes as well.
fn remove_below(node: &mut Node, set: &str, terms: &[Term<'_>]) {
    let Some(((of, requirement), rest)) = terms.split_first() else {
        node.here.remove(set);
        return;
    };
    let steps = node.steps(*of);
    let Some(step) = steps.get_mut(&requirement.key) else { return };
    if let Condition::In(values) = &requirement.condition {
        for value in values {
            let Some(next) = step.value.get_mut(value) else { continue };
            let next = Arc::make_mut(next);
            remove_below(next, set, rest);
            if next.is_empty() {
                step.value.remove(value);
            }
        }
    } else if let Some(next) = &mut step.exists {
        remove_below(Arc::make_mut(next), set, rest);
        step.exists.take_if(|next| next.is_empty());
    }
    if step.value.is_empty() && step.exists.is_none() {
        steps.remove(&requirement.key);
    }
}

fn find_below<'a>(node: &'a Node, namespace: &[(&str, &str)], pod: &[(&str, &str)], found: &mut Vec<&'a str>) {
    found.extend(node.here.iter());
    for (steps, labels) in [(&node.namespace, namespace), (&node.pod, pod)] {
        if steps.is_empty() {
            continue;
        }
        for (key, value) in labels {
            let Some(step) = steps.get(key) else { continue };
            if let Some(next) = step.value.get(value) {
                find_below(next, namespace, pod, found);
            }
            if let Some(next) = &step.exists {
                find_below(next, namespace, pod, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_that_cannot_match_are_not_visited() {
        let mut index = Index::default();
        for i in 0..1000 {
            let namespace = Selector::new(vec![Requirement::is_in("kubernetes.io/metadata.name", [format!("ns-{i}")])]);
            index.insert(
                &format!("set-{i}").into(),
                Some(&namespace),
                &Selector::new(vec![Requirement::is_in("app", ["web"])]),
            );
        }
        assert_eq!(index.find(&[("kubernetes.io/metadata.name", "ns-7")], &[("app", "web")]), ["set-7"]);
        assert!(index.find(&[("kubernetes.io/metadata.name", "other")], &[("app", "web")]).is_empty());
    }

    #[test]
    fn a_set_with_very_many_terms_does_not_make_the_tree_deep() {
        let exists = |i| Requirement { key: format!("key-{i}"), condition: Condition::Exists };
        let mut index = Index::default();
        index.insert(&"set".into(), None, &Selector::new((0..50_000).map(exists).collect()));
        let keys: Vec<String> = (0..50_000).map(|i| format!("key-{i}")).collect();
        let labels: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "")).collect();
        assert_eq!(index.find(&[], &labels), ["set"]);
    }

    fn any_selector() -> impl Strategy<Value = Selector> {
        let values =
            || prop::collection::btree_set(prop::sample::select(vec!["1", "2", "3"]).prop_map(String::from), 1..4);
        let condition = prop_oneof![
            values().prop_map(Condition::In),
            values().prop_map(Condition::NotIn),
            Just(Condition::Exists),
            Just(Condition::DoesNotExist)
        ];
        let requirement = (prop::sample::select(vec!["a", "b", "c"]), condition)
            .prop_map(|(key, condition)| Requirement { key: key.into(), condition });
        prop::collection::vec(requirement, 0..5).prop_map(Selector::new)
    }

    fn any_labels() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
        let pair = (prop::sample::select(vec!["a", "b", "c", "d"]), prop::sample::select(vec!["1", "2", "3", "4"]));
        prop::collection::btree_map(pair.0, pair.1, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn every_set_that_matches_is_found(
            sets in prop::collection::vec((prop::option::of(any_selector()), any_selector()), 0..20),
            namespace in any_labels(),
            pod in any_labels(),
        ) {
            let mut index = Index::default();
            let mut is_exact = Vec::new();
            for (i, (ns, selector)) in sets.iter().enumerate() {
                is_exact.push(index.insert(&i.to_string().into(), ns.as_ref(), selector));
            }
            let found = index.find(&namespace, &pod);
            let label = |labels: &[(&'static str, &'static str)], key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
            for (i, (ns, selector)) in sets.iter().enumerate() {
                let matches = ns.as_ref().is_none_or(|ns| ns.matches(|k| label(&namespace, k))) && selector.matches(|k| label(&pod, k));
                let is_found = found.contains(&i.to_string().as_str());
                prop_assert!(!matches || is_found, "set {} matches and was not found", i);
                prop_assert!(!is_found || !is_exact[i] || matches, "set {} was found and does not match", i);
            }
        }

        #[test]
        fn what_is_taken_out_leaves_nothing_and_its_clone_everything(
            sets in prop::collection::vec((prop::option::of(any_selector()), any_selector()), 0..20),
            namespace in any_labels(),
            pod in any_labels(),
        ) {
            let mut index = Index::default();
            for (i, (ns, selector)) in sets.iter().enumerate() {
                index.insert(&i.to_string().into(), ns.as_ref(), selector);
            }
            let before = index.clone();
            let found: Vec<String> = index.find(&namespace, &pod).into_iter().map(str::to_owned).collect();
            for (i, (ns, selector)) in sets.iter().enumerate() {
                index.remove(&i.to_string(), ns.as_ref(), selector);
                prop_assert!(!index.find(&namespace, &pod).contains(&i.to_string().as_str()));
            }
            prop_assert!(index.root.is_empty());
            prop_assert_eq!(before.find(&namespace, &pod), found);
        }
    }
}
