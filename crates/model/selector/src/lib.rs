//! Label selectors, with the semantics of `k8s.io/apimachinery/pkg/labels`.
//!
//! ```text
//!  LabelSelector object ──▶ Selector ──matches, overlaps──▶ bool
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness.
//! - `Selector::overlaps` is exact: it is true if and only if some set of labels satisfies both selectors.
#![forbid(unsafe_code)]

pub mod name;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::name::{label_value, qualified_name};

/// Terms that must all hold. A selector without terms matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// One term: what must be true of the value of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What must be true of its value.
    pub condition: Condition,
}

/// What must be true of a label's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Condition {
    /// The label is there, with one of these values.
    In(BTreeSet<String>),
    /// The label is not there, or has none of these values.
    NotIn(BTreeSet<String>),
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

/// Why a `LabelSelector` is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// An operator other than the four.
    #[error("{operator:?} is not a label selector operator: use In, NotIn, Exists or DoesNotExist")]
    Operator {
        /// Which of `matchExpressions`.
        index: usize,
        /// What it says.
        operator: String,
    },
    /// `In` or `NotIn` without values.
    #[error("for 'in', 'notin' operators, values set can't be empty")]
    NoValues {
        /// Which of `matchExpressions`.
        index: usize,
    },
    /// `Exists` or `DoesNotExist` with values.
    #[error("values set must be empty for exists and does not exist")]
    Values {
        /// Which of `matchExpressions`.
        index: usize,
    },
    /// A key that no label can have.
    #[error("{key:?} is not a label key: {reason}")]
    Key {
        /// Which of `matchExpressions`; `None` for `matchLabels`.
        index: Option<usize>,
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A value that no label can have.
    #[error("{value:?} is not a label value: {reason}")]
    Value {
        /// Which of `matchExpressions`; `None` for `matchLabels`.
        index: Option<usize>,
        /// The key whose value it is.
        key: String,
        value: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Requirement {
    /// The label has one of `values`.
    pub fn is_in<S: Into<String>>(key: impl Into<String>, values: impl IntoIterator<Item = S>) -> Requirement {
        Requirement { key: key.into(), condition: Condition::In(values.into_iter().map(Into::into).collect()) }
    }

    fn matches(&self, value: Option<&str>) -> bool {
        match &self.condition {
            Condition::In(values) => value.is_some_and(|v| values.contains(v)),
            Condition::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Condition::Exists => value.is_some(),
            Condition::DoesNotExist => value.is_none(),
        }
    }
}

impl Selector {
    /// A selector of these terms.
    pub fn new(mut requirements: Vec<Requirement>) -> Selector {
        // Sorted, so that equal selectors are equal values and an index can share their common beginnings.
        requirements.sort();
        requirements.dedup();
        Selector { requirements }
    }

    /// Reads a `LabelSelector`; `matchLabels` and `matchExpressions` must all hold.
    ///
    /// # Errors
    /// The first term that is malformed.
    pub fn from_label_selector(selector: &LabelSelector) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            check_key(key, None)?;
            check_value(key, value, None)?;
            requirements.push(Requirement::is_in(key, [value]));
        }
        for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            let condition = match (expression.operator.as_str(), values.is_empty()) {
                ("In" | "NotIn", true) => return Err(SelectorError::NoValues { index }),
                ("In", _) => Condition::In(values),
                ("NotIn", _) => Condition::NotIn(values),
                ("Exists" | "DoesNotExist", false) => return Err(SelectorError::Values { index }),
                ("Exists", _) => Condition::Exists,
                ("DoesNotExist", _) => Condition::DoesNotExist,
                (operator, _) => return Err(SelectorError::Operator { index, operator: operator.to_owned() }),
            };
            check_key(&expression.key, Some(index))?;
            for value in expression.values.iter().flatten() {
                check_value(&expression.key, value, Some(index))?;
            }
            requirements.push(Requirement { key: expression.key.clone(), condition });
        }
        Ok(Selector::new(requirements))
    }

    /// Whether it has no terms, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The terms, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether labels, given as a look-up, satisfy every term.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// The first term that labels, given as a look-up, do not satisfy.
    pub fn first_unsatisfied<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> Option<&Requirement> {
        self.requirements.iter().find(|requirement| !requirement.matches(label(&requirement.key)))
    }

    /// Whether some labels satisfy both selectors.
    pub fn overlaps(&self, other: &Selector) -> bool {
        let mut by_key: BTreeMap<&str, Possible<'_>> = BTreeMap::new();
        for requirement in self.requirements.iter().chain(&other.requirements) {
            by_key.entry(&requirement.key).or_default().and(&requirement.condition);
        }
        by_key.values().all(Possible::is_satisfiable)
    }
}

/// What is left of the values of one key after some terms.
#[derive(Default)]
struct Possible<'a> {
    exists: bool,
    absent: bool,
    allowed: Option<BTreeSet<&'a str>>,
    denied: BTreeSet<&'a str>,
}

impl<'a> Possible<'a> {
    fn and(&mut self, condition: &'a Condition) {
        match condition {
            Condition::In(values) => {
                self.exists = true;
                let values: BTreeSet<&str> = values.iter().map(String::as_str).collect();
                self.allowed = Some(match self.allowed.take() {
                    Some(allowed) => allowed.intersection(&values).copied().collect(),
                    None => values,
                });
            }
            Condition::NotIn(values) => self.denied.extend(values.iter().map(String::as_str)),
            Condition::Exists => self.exists = true,
            Condition::DoesNotExist => self.absent = true,
        }
    }

    fn is_satisfiable(&self) -> bool {
        // Without a list of allowed values there is always one more value that nothing denies.
        let value_left = self.allowed.as_ref().is_none_or(|allowed| !allowed.is_subset(&self.denied));
        if self.absent { !self.exists } else { value_left }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    /// As `kubectl --selector` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.condition {
            Condition::In(values) if values.len() == 1 => write!(f, "{}={}", self.key, list(values)),
            Condition::In(values) => write!(f, "{} in ({})", self.key, list(values)),
            Condition::NotIn(values) if values.len() == 1 => write!(f, "{}!={}", self.key, list(values)),
            Condition::NotIn(values) => write!(f, "{} notin ({})", self.key, list(values)),
            Condition::Exists => write!(f, "{}", self.key),
            Condition::DoesNotExist => write!(f, "!{}", self.key),
        }
    }
}

fn check_key(key: &str, index: Option<usize>) -> Result<(), SelectorError> {
    qualified_name(key).map_err(|reason| SelectorError::Key { index, key: key.to_owned(), reason })
}

fn check_value(key: &str, value: &str, index: Option<usize>) -> Result<(), SelectorError> {
    label_value(value).map_err(|reason| SelectorError::Value {
        index,
        key: key.to_owned(),
        value: value.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn selector(json: serde_json::Value) -> Result<Selector, SelectorError> {
        Selector::from_label_selector(&serde_json::from_value(json).expect("a LabelSelector"))
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn matches(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
        selector.matches(|key| labels.get(key).map(String::as_str))
    }

    #[test]
    fn match_labels_and_match_expressions_must_all_hold() {
        let s = selector(serde_json::json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}, {"key": "x", "operator": "DoesNotExist"}]
        }))
        .unwrap();
        assert!(matches(&s, &labels(&[("app", "web")])), "NotIn holds for a label that is not there");
        assert!(matches(&s, &labels(&[("app", "web"), ("tier", "fe")])));
        assert!(!matches(&s, &labels(&[("app", "web"), ("tier", "db")])));
        assert!(!matches(&s, &labels(&[("app", "web"), ("x", "")])));
        assert_eq!(s.to_string(), "app=web,tier!=db,!x");
    }

    #[test]
    fn malformed_terms_say_which_and_why() {
        let bad = |operator: &str, values: serde_json::Value| {
            selector(serde_json::json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}))
                .unwrap_err()
        };
        assert_eq!(bad("badOp", serde_json::json!([])), SelectorError::Operator { index: 0, operator: "badOp".into() });
        assert_eq!(bad("In", serde_json::json!([])), SelectorError::NoValues { index: 0 });
        assert_eq!(bad("Exists", serde_json::json!(["v"])), SelectorError::Values { index: 0 });
        assert!(matches!(bad("In", serde_json::json!(["a b"])), SelectorError::Value { index: Some(0), .. }));
        assert!(matches!(
            selector(serde_json::json!({"matchLabels": {"/x": "y"}})),
            Err(SelectorError::Key { index: None, .. })
        ));
    }

    #[test]
    fn a_key_that_only_one_selector_mentions_does_not_separate_them() {
        let exists = selector(serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]})).unwrap();
        let other = selector(serde_json::json!({"matchLabels": {"b": "1"}})).unwrap();
        assert!(exists.overlaps(&other));
    }

    fn any_selector() -> impl Strategy<Value = Selector> {
        let key = prop::sample::select(vec!["a", "b"]);
        let values =
            prop::collection::btree_set(prop::sample::select(vec!["1", "2", "3"]).prop_map(String::from), 1..3);
        let condition = prop_oneof![
            values.clone().prop_map(Condition::In),
            values.prop_map(Condition::NotIn),
            Just(Condition::Exists),
            Just(Condition::DoesNotExist),
        ];
        let requirement = (key, condition).prop_map(|(key, condition)| Requirement { key: key.into(), condition });
        prop::collection::vec(requirement, 0..4).prop_map(Selector::new)
    }

    proptest! {
        /// Over these keys and values (and one value that no selector names) every possible set of labels is tried.
        #[test]
        fn selectors_overlap_exactly_when_some_labels_satisfy_both(one in any_selector(), two in any_selector()) {
            let values = [None, Some("1"), Some("2"), Some("3"), Some("other")];
            let witness = values.iter().any(|a| values.iter().any(|b| {
                let label = |key: &str| if key == "a" { *a } else { *b };
                one.matches(label) && two.matches(label)
            }));
            prop_assert_eq!(one.overlaps(&two), witness);
            prop_assert_eq!(two.overlaps(&one), witness);
        }
    }
}
