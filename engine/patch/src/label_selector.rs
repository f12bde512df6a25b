//! Label selectors as text, with the semantics of `labels.Parse`: `app in (web,api),!canary,tier=front`.
//!
//! [`Selector`](pillion_selector::Selector) is the same of a `LabelSelector` object. This one also has `>` and `<`, and remembers how its
//! terms were written, which `status.selector` of a scale shows.

mod parse;

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1;

pub use parse::LabelSelectorError;

/// Terms that must all hold. A selector without terms matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// How a key and its values relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    GreaterThan,
    LessThan,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// Reads a selector.
    ///
    /// # Errors
    /// Where it is malformed, in the words of kube-apiserver.
    pub fn parse(text: &str) -> Result<LabelSelector, LabelSelectorError> {
        Ok(LabelSelector::new(parse::terms(text)?))
    }

    /// The selector of a `LabelSelector` object that is known to be valid. `None` if it has an operator that there is not.
    pub fn from_object(object: &v1::LabelSelector) -> Option<LabelSelector> {
        let labels = object.match_labels.iter().flatten().map(|(key, value)| {
            Some(Term { key: key.clone(), operator: Operator::Equals, values: BTreeSet::from([value.clone()]) })
        });
        let expressions = object.match_expressions.iter().flatten().map(|expression| {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let values = expression.values.iter().flatten().cloned().collect();
            Some(Term { key: expression.key.clone(), operator, values })
        });
        labels.chain(expressions).collect::<Option<Vec<Term>>>().map(LabelSelector::new)
    }

    fn new(mut terms: Vec<Term>) -> LabelSelector {
        terms.sort_by(|one, two| one.key.cmp(&two.key));
        LabelSelector { terms }
    }

    /// Whether it has no terms, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether labels, given as a look-up, satisfy every term.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| term.matches(label(&term.key)))
    }
}

impl Term {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let limit = || self.values.first().and_then(|limit| number(limit));
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                value.is_some_and(|value| self.values.contains(value))
            }
            Operator::NotEquals | Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => value.and_then(number).zip(limit()).is_some_and(|(value, limit)| value > limit),
            Operator::LessThan => value.and_then(number).zip(limit()).is_some_and(|(value, limit)| value < limit),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = self.values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_print_as_upstream_prints_them() {
        for (text, printed) in [
            ("", ""),
            ("x=a,y=b,z=c", "x=a,y=b,z=c"),
            ("x!=a,y=b", "x!=a,y=b"),
            ("x==a", "x==a"),
            (" x = a ", "x=a"),
            ("x=,z= ", "x=,z="),
            ("x", "x"),
            ("!x", "!x"),
            ("y notin (b,a),x in (c)", "x in (c),y notin (a,b)"),
            ("x in ()", "x in ()"),
            ("x in (,)", "x in ()"),
            ("x in (a,,de,)", "x in (,a,de)"),
            ("x>1,y<2", "x>1,y<2"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin=in", "notin=in"),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().to_string(), printed, "{text}");
        }
        let object =
            json!({"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]});
        let object = serde_json::from_value(object).unwrap();
        assert_eq!(LabelSelector::from_object(&object).unwrap().to_string(), "a in (x),b=1");
    }

    #[test]
    fn every_term_must_hold() {
        let holds = |text: &str, value: Option<&str>| LabelSelector::parse(text).unwrap().matches(|_| value);
        for (text, value, expected) in [
            ("a=1", Some("1"), true),
            ("a=1", None, false),
            ("a!=1", None, true),
            ("a in (1,2)", Some("2"), true),
            ("a notin (1,2)", Some("2"), false),
            ("a", Some(""), true),
            ("!a", Some(""), false),
            ("a>1", Some("2"), true),
            ("a>1", Some("1"), false),
            ("a<1", Some("x"), false),
            ("a<1,a", Some("0"), true),
            ("", None, true),
        ] {
            assert_eq!(holds(text, value), expected, "{text} of {value:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same(text in "[ab=!,()<>1 int]{0,16}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}
