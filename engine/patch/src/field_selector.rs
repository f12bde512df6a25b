//! Field selectors, with the semantics of `k8s.io/apimachinery/pkg/fields`: `metadata.name=a,status.phase!=Running`.

use std::fmt;

/// Terms that must all hold. A selector without terms matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// In the order of their text.
    pub terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field: `metadata.name`
    pub field: String,
    /// Its value must be this, or must not.
    pub value: String,
    /// It must be.
    pub equal: bool,
}

/// Why a text is not a field selector, in the words of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole.
        selector: String,
        term: String,
    },
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A sign that needs a backslash. Go prints its number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

impl FieldSelector {
    /// Reads a selector: `a=b`, `a==b` and `a!=b`, with commas between. Backslashes escape `\`, `,` and `=` in values.
    ///
    /// # Errors
    /// The first term that is malformed, in the order of their text.
    pub fn parse(selector: &str) -> Result<FieldSelector, FieldSelectorError> {
        let mut parts = split(selector);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let term = term(part)
                .ok_or_else(|| FieldSelectorError::Term { selector: selector.to_owned(), term: part.to_owned() })??;
            if !term.field.is_empty() || !term.value.is_empty() {
                terms.push(term);
            }
        }
        Ok(FieldSelector { terms })
    }

    /// Whether fields, given as a look-up, satisfy every term. A field that is not there is empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| (field(&term.field).unwrap_or_default() == term.value) == term.equal)
    }

    /// The one value that the field must have, if some term asks for it.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Whether it has no terms, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Term { field, value, equal }) in self.terms.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let value = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            write!(f, "{comma}{field}{}{value}", if *equal { "=" } else { "!=" })?;
        }
        Ok(())
    }
}

/// At commas that are not escaped.
fn split(selector: &str) -> Vec<&str> {
    let mut escaped = false;
    selector
        .split(|character| {
            let separates = character == ',' && !escaped;
            escaped = character == '\\' && !escaped;
            separates
        })
        .collect()
}

/// `None` without an operator.
fn term(text: &str) -> Option<Result<Term, FieldSelectorError>> {
    let at = text.find("!=").into_iter().chain(text.find('=')).min()?;
    let (field, rest) = text.split_at(at);
    let operator = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator))?;
    let value = rest.strip_prefix(operator)?;
    let equal = operator != "!=";
    Some(unescape(value).map(|value| Term { field: field.to_owned(), value, equal }))
}

fn unescape(value: &str) -> Result<String, FieldSelectorError> {
    let mut unescaped = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(character @ ('\\' | ',' | '=')) => unescaped.push(character),
                other => {
                    return Err(FieldSelectorError::Escape(format!("\\{}", other.map_or(String::new(), String::from))));
                }
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(character)),
            other => unescaped.push(other),
        }
    }
    Ok(unescaped)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn selectors_print_as_they_were_written_but_sorted() {
        for (text, printed) in [
            ("", ""),
            (",", ""),
            ("=", ""),
            ("x=a,y=b", "x=a,y=b"),
            ("y!=b,x==a", "x=a,y!=b"),
            (r"x=a\=b\,c\\", r"x=a\=b\,c\\"),
            ("metadata.name=", "metadata.name="),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn every_term_must_hold() {
        let selector = FieldSelector::parse("metadata.name=a,status.phase!=Running").unwrap();
        let fields = |phase| move |field: &str| Some(if field == "metadata.name" { "a" } else { phase });
        assert!(selector.matches(fields("Pending")));
        assert!(!selector.matches(fields("Running")));
        assert!(!selector.matches(|_| None));
        assert_eq!(selector.required("metadata.name"), Some("a"));
        assert_eq!(selector.required("status.phase"), None);
    }

    #[test]
    fn errors_are_those_of_kube_apiserver() {
        for (text, message) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=c,a", "invalid selector: 'b=c,a'; can't understand 'a'"),
            ("!a", "invalid selector: '!a'; can't understand '!a'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=b\x", r"invalid field selector: invalid escape sequence: \x"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same(text in r"[ab=!,\\]{0,12}") {
            // Terms are in the order of their texts, where `==` stands for `=` no more once it is printed.
            let sorted = |mut selector: FieldSelector| {
                selector.terms.sort_by_key(|term| (term.field.clone(), term.value.clone(), term.equal));
                selector
            };
            if let Ok(selector) = FieldSelector::parse(&text) {
                prop_assert_eq!(FieldSelector::parse(&selector.to_string()).map(sorted), Ok(sorted(selector)));
            }
        }
    }
}
