//! The annotations that a set writes on pods, and whether the cluster lets it.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_regexp::Regexp;
use pillion_selector::{Selector, SelectorError};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::metadata::validate_annotations;
use super::refuse_unknown;
use crate::field::{Error, Path};
use crate::sidecarset::{PatchPolicy, SidecarSet};

pub(super) fn validate(set: &SidecarSet, whitelist: Option<&Whitelist>, path: &Path, errors: &mut Vec<Error>) {
    let mut seen = BTreeSet::new();
    for (i, patch) in set.spec.patch_pod_metadata.iter().enumerate() {
        let path = path.index(i);
        refuse_unknown!(errors, path.child("patchPolicy"), &patch.patch_policy, PatchPolicy);
        let annotations = path.child("annotations");
        if patch.annotations.is_empty() {
            errors.push(Error::required(&annotations, "no annotations defined for SidecarSet"));
        }
        validate_annotations(patch.annotations.iter(), &annotations, errors);
        if patch.patch_policy == Some(PatchPolicy::MergePatchJson) {
            for (key, text) in &patch.annotations {
                if let Err(error) = serde_json::from_str::<Map<String, Value>>(text) {
                    let detail = format!("MergePatchJson merges JSON objects, and this is none: {error}");
                    errors.push(Error::invalid(&annotations.key(key), text.as_str(), detail));
                }
            }
        }
        for key in patch.annotations.keys() {
            if !seen.insert(key) {
                errors.push(Error::invalid(
                    &annotations,
                    key.as_str(),
                    format!("patch annotation[{key}] already exist"),
                ));
            }
        }
    }
    if let Some(Err(reason)) = whitelist.map(|whitelist| whitelist.check(set)) {
        errors.push(Error::forbidden(path, reason));
    }
}

/// The annotations that SidecarSets may write on pods, as the cluster's administrator has listed them.
#[derive(Clone, Debug)]
pub struct Whitelist {
    /// `None` where there is no list.
    rules: Option<Vec<Rule>>,
    /// Whether a set for which nothing is listed may write what it likes.
    allowed_by_default: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    /// The SidecarSets that the rule is for, by their labels; `None` means all.
    selector: Option<Selector>,
    keys: Vec<Regexp>,
}

/// Why a whitelist cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WhitelistError {
    /// It is not the JSON that it should be.
    #[error("the whitelist is not {{\"rules\": [{{\"selector\": …, \"allowedAnnotationKeyExprs\": […]}}]}}")]
    Json(#[from] serde_json::Error),
    /// One of its selectors is malformed.
    #[error("rules[{rule}].selector is malformed")]
    Selector {
        rule: usize,
        /// What is wrong with it.
        source: SelectorError,
    },
    /// One of its regular expressions is malformed.
    #[error("rules[{rule}].allowedAnnotationKeyExprs has a malformed regular expression")]
    Regex {
        rule: usize,
        /// What is wrong with it.
        source: pillion_regexp::Error,
    },
}

impl Whitelist {
    /// Reads the value of [`PATCH_POD_METADATA_WHITELIST`](crate::names::PATCH_POD_METADATA_WHITELIST), or its absence.
    /// `allowed_by_default` is what Kruise's gate `SidecarSetPatchPodMetadataDefaultsAllowed` says.
    ///
    /// # Errors
    /// Malformed JSON, selectors or regular expressions.
    pub fn parse(json: Option<&str>, allowed_by_default: bool) -> Result<Whitelist, WhitelistError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct List {
            rules: Vec<ListedRule>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ListedRule {
            selector: Option<LabelSelector>,
            allowed_annotation_key_exprs: Vec<String>,
        }

        let Some(json) = json else { return Ok(Whitelist { rules: None, allowed_by_default }) };
        let list: List = serde_json::from_str(json)?;
        let rules = list.rules.iter().enumerate().map(|(rule, listed)| {
            let selector = listed.selector.as_ref().map(Selector::from_label_selector).transpose();
            let keys: Result<_, _> = listed.allowed_annotation_key_exprs.iter().map(|key| Regexp::new(key)).collect();
            Ok(Rule {
                selector: selector.map_err(|source| WhitelistError::Selector { rule, source })?,
                keys: keys.map_err(|source| WhitelistError::Regex { rule, source })?,
            })
        });
        Ok(Whitelist { rules: Some(rules.collect::<Result<_, WhitelistError>>()?), allowed_by_default })
    }

    fn check(&self, set: &SidecarSet) -> Result<(), String> {
        let mut keys = set.spec.patch_pod_metadata.iter().flat_map(|patch| patch.annotations.keys());
        if set.spec.patch_pod_metadata.is_empty() {
            return Ok(());
        }
        let Some(rules) = &self.rules else {
            return self.default_or("SidecarSet patch metadata whitelist not found");
        };
        let labels = set.metadata.labels.as_ref();
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
        let applies = |rule: &&Rule| rule.selector.as_ref().is_none_or(|selector| selector.matches(label));
        let allowed: Vec<&Regexp> = rules.iter().filter(applies).flat_map(|rule| &rule.keys).collect();
        if allowed.is_empty() {
            return self.default_or("sidecarSet patch metadata annotation is not allowed");
        }
        match keys.find(|key| !allowed.iter().any(|regex| regex.is_match(key))) {
            Some(key) => Err(format!("sidecarSet patch metadata annotation({key}) is not allowed")),
            None => Ok(()),
        }
    }

    fn default_or(&self, reason: &str) -> Result<(), String> {
        if self.allowed_by_default { Ok(()) } else { Err(reason.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use serde_json::{Value, json};

    use super::super::testing::{errors, lines, set};
    use super::super::{Context, validate};
    use super::*;

    #[test]
    fn each_annotation_is_written_once_and_in_a_known_way() {
        insta::assert_snapshot!(
            errors(json!({"patchPodMetadata": [
                {"annotations": {"key1": "a", "a b": "c"}},
                {"annotations": {"key1": "b"}, "patchPolicy": "Replace"},
                {"patchPolicy": "Retain"},
            ]})),
            @r#"
        spec.patchPodMetadata[0].annotations: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        spec.patchPodMetadata[1].patchPolicy: Unsupported value: "Replace": supported values: "Retain", "Overwrite", "MergePatchJson"
        spec.patchPodMetadata[1].annotations: Invalid value: "key1": patch annotation[key1] already exist
        spec.patchPodMetadata[2].annotations: Required value: no annotations defined for SidecarSet
        "#
        );
    }

    fn check(whitelist: &Whitelist, key: &str, label: &str) -> String {
        let mut set =
            set("test", json!({"patchPodMetadata": [{"annotations": {key: "value"}, "patchPolicy": "Retain"}]}));
        set.metadata.labels = Some([("app".to_owned(), label.to_owned())].into());
        lines(&validate(&set, &Context { whitelist: Some(whitelist), ..Context::default() }))
    }

    #[test]
    fn without_a_whitelist_the_gate_decides() {
        let none = |allowed| Whitelist::parse(None, allowed).unwrap();
        insta::assert_snapshot!(check(&none(false), "key1", "sidecar"), @"spec.patchPodMetadata: Forbidden: SidecarSet patch metadata whitelist not found");
        assert_eq!(check(&none(true), "key1", "sidecar"), "");
        let no_patch = set("test", json!({}));
        assert_eq!(validate(&no_patch, &Context { whitelist: Some(&none(false)), ..Context::default() }), []);
    }

    #[test]
    fn a_rule_that_applies_lists_the_keys() {
        let list = |rules: Value| Whitelist::parse(Some(&json!({"rules": rules}).to_string()), true).unwrap();
        let keys = list(json!([{"allowedAnnotationKeyExprs": ["^other$", "key.*"]}]));
        assert_eq!(check(&keys, "key1", "sidecar"), "");
        insta::assert_snapshot!(check(&keys, "other2", "sidecar"), @"spec.patchPodMetadata: Forbidden: sidecarSet patch metadata annotation(other2) is not allowed");

        let rule = json!({"selector": {"matchLabels": {"app": "sidecar"}}, "allowedAnnotationKeyExprs": ["key1"]});
        let selected = list(json!([rule]));
        assert_eq!(check(&selected, "key1", "sidecar"), "");
        insta::assert_snapshot!(check(&selected, "key2", "sidecar"), @"spec.patchPodMetadata: Forbidden: sidecarSet patch metadata annotation(key2) is not allowed");
        assert_eq!(check(&selected, "key2", "other"), "", "nothing is listed for it, and the gate is open");
        let strict = Whitelist { allowed_by_default: false, ..selected };
        insta::assert_snapshot!(check(&strict, "key1", "other"), @"spec.patchPodMetadata: Forbidden: sidecarSet patch metadata annotation is not allowed");
    }

    #[test]
    fn a_malformed_whitelist_says_where() {
        let error = |json: &str| {
            let error = Whitelist::parse(Some(json), false).unwrap_err();
            format!("{error}: {}", error.source().unwrap().to_string().lines().last().unwrap())
        };
        insta::assert_snapshot!(error("{"), @r#"the whitelist is not {"rules": [{"selector": …, "allowedAnnotationKeyExprs": […]}]}: EOF while parsing an object at line 1 column 1"#);
        insta::assert_snapshot!(error(r#"{"rules": [{}, {"allowedAnnotationKeyExprs": ["["]}]}"#), @"rules[1].allowedAnnotationKeyExprs has a malformed regular expression: error parsing regexp: missing closing ]: `[`");
        insta::assert_snapshot!(error(r#"{"rules": [{"selector": {"matchLabels": {"a b": ""}}}]}"#), @r#"rules[0].selector is malformed: "a b" is not a label key: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"#);
    }
}
