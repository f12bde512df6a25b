//! The options in a query string, decoded and checked as the API server does.

use pillion_rules::field::{Error, Path};
use serde_json::{Value, json};

use crate::status::{Refusal, Result};

/// The parameters of a query, in order, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        };
        Query(text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The value, or empty.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    pub(crate) fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect()
    }

    /// As Kubernetes reads booleans: there and neither `false` nor `0` is true.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>> {
        match self.get(key) {
            None => Ok(None),
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(error) => {
                    let what = match error.kind() {
                        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                            "value out of range"
                        }
                        _ => "invalid syntax",
                    };
                    Err(Refusal::bad_request(format!("strconv.ParseInt: parsing {text:?}: {what}")))
                }
            },
        }
    }
}

fn decode(text: &str) -> String {
    let spaces = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaces).decode_utf8_lossy().into_owned()
}

/// What to do about fields that the kind does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    /// Of apply.
    pub(crate) force: bool,
    /// As admission reviews show it, without kind.
    pub(crate) shown: Value,
}

/// The name of the options object in messages and admission reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch { apply: bool },
}

impl WriteOptions {
    pub(crate) fn decode(query: &Query, verb: Verb) -> Result<WriteOptions> {
        let mut errors = Vec::new();
        let field_manager = query.text("fieldManager");
        let force = query.flag("force");
        match verb {
            Verb::Patch { apply: true } if field_manager.is_empty() => {
                errors.push(Error::required(&Path::new("fieldManager"), "is required for apply patch"));
            }
            Verb::Patch { apply: false } if force.is_some() => {
                errors.push(Error::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
            }
            _ => {}
        }
        check_field_manager(field_manager, &mut errors);
        let dry_run = check_dry_run(&query.all("dryRun"), &mut errors);
        let validation = query.text("fieldValidation");
        let field_validation = match validation {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(Error::not_supported(
                    &Path::new("fieldValidation"),
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        let kind = match verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch { .. } => "PatchOptions",
        };
        if !errors.is_empty() {
            return Err(Refusal::invalid("meta.k8s.io", kind, "", &errors));
        }
        let mut shown = json!({});
        if dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        if let (Verb::Patch { .. }, Some(force)) = (verb, force) {
            shown["force"] = force.into();
        }
        if !field_manager.is_empty() {
            shown["fieldManager"] = field_manager.into();
        }
        if !validation.is_empty() {
            shown["fieldValidation"] = validation.into();
        }
        Ok(WriteOptions {
            dry_run,
            field_manager: field_manager.to_owned(),
            field_validation,
            force: force.unwrap_or(false),
            shown,
        })
    }
}

fn check_field_manager(manager: &str, errors: &mut Vec<Error>) {
    let path = Path::new("fieldManager");
    if manager.len() > 128 {
        errors.push(Error::too_long(&path, 128));
    }
    for (position, character) in manager.char_indices() {
        if character.is_control() {
            let shown = format!("U+{:04X}", u32::from(character));
            errors.push(Error::invalid(&path, manager, format!("invalid character {shown} (at position {position})")));
        }
    }
}

fn check_dry_run(values: &[&str], errors: &mut Vec<Error>) -> bool {
    if values.iter().any(|value| *value != "All") {
        errors.push(Error::not_supported(&Path::new("dryRun"), json!(values), &["All"]));
    }
    !values.is_empty()
}

/// Options of delete, from the query or from a `DeleteOptions` body.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// As admission reviews show it, without kind.
    pub(crate) shown: Value,
}

impl DeleteOptions {
    pub(crate) fn from_query(query: &Query) -> Result<DeleteOptions> {
        let mut body = json!({});
        if let Some(seconds) = query.number("gracePeriodSeconds")? {
            body["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(orphan) = query.flag("orphanDependents") {
            body["orphanDependents"] = orphan.into();
        }
        if let Some(policy) = query.get("propagationPolicy") {
            body["propagationPolicy"] = policy.into();
        }
        let dry_run = query.all("dryRun");
        if !dry_run.is_empty() {
            body["dryRun"] = json!(dry_run);
        }
        DeleteOptions::from_body(&body)
    }

    /// From a body that has been decoded against the type.
    pub(crate) fn from_body(body: &Value) -> Result<DeleteOptions> {
        let mut errors = Vec::new();
        let orphan_dependents = body["orphanDependents"].as_bool();
        let propagation_policy = body["propagationPolicy"].as_str().map(str::to_owned);
        if let Some(policy) = &propagation_policy {
            let path = Path::new("propagationPolicy");
            if orphan_dependents.is_some() {
                errors.push(Error::invalid(
                    &path,
                    policy.as_str(),
                    "orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                errors.push(Error::not_supported(
                    &path,
                    policy.as_str(),
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
            }
        }
        let dry_run: Vec<&str> = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let dry_run = check_dry_run(&dry_run, &mut errors);
        if !errors.is_empty() {
            return Err(Refusal::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut shown = body.clone();
        if let Value::Object(shown) = &mut shown {
            shown.shift_remove("kind");
            shown.shift_remove("apiVersion");
        }
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
            orphan_dependents,
            propagation_policy,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            shown,
        })
    }
}

/// Options of list and watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) watch: bool,
    pub(crate) allow_bookmarks: bool,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) limit: i64,
    pub(crate) continue_token: String,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn decode(query: &Query, force_watch: bool) -> Result<ListOptions> {
        let mut options = ListOptions {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            watch: force_watch || query.flag("watch").unwrap_or(false),
            allow_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: query.text("resourceVersion").to_owned(),
            resource_version_match: query.text("resourceVersionMatch").to_owned(),
            timeout_seconds: query.number("timeoutSeconds")?,
            limit: query.number("limit")?.unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
            send_initial_events: query.flag("sendInitialEvents"),
        };
        // A watch from nowhere has always begun with what is there; the newer option says so in words.
        let legacy = options.watch && matches!(options.resource_version.as_str(), "" | "0");
        if legacy && options.send_initial_events.is_none() && options.resource_version_match.is_empty() {
            options.send_initial_events = Some(true);
            "NotOlderThan".clone_into(&mut options.resource_version_match);
        }
        let errors = if options.watch { options.watch_errors() } else { options.list_errors() };
        if errors.is_empty() { Ok(options) } else { Err(Refusal::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
    }

    fn list_errors(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        let path = Path::new("resourceVersionMatch");
        let wanted = self.resource_version_match.as_str();
        if !wanted.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
            }
            if !matches!(wanted, "Exact" | "NotOlderThan") {
                errors.push(Error::not_supported(&path, wanted, &["Exact", "NotOlderThan", ""]));
            }
            if wanted == "Exact" && self.resource_version == "0" {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(Error::forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        let path = Path::new("resourceVersionMatch");
        let wanted = self.resource_version_match.as_str();
        if self.send_initial_events.is_some() && wanted != "NotOlderThan" {
            errors.push(Error::forbidden(
                &path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !wanted.is_empty() {
            if self.send_initial_events.is_none() {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if wanted != "NotOlderThan" {
                errors.push(Error::not_supported(&path, wanted, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_is_refused_in_gos_words() {
        let refusal = ListOptions::decode(&Query::parse("limit=abc"), false).unwrap_err();
        assert_eq!(refusal.message, r#"strconv.ParseInt: parsing "abc": invalid syntax"#);
    }

    #[test]
    fn apply_wants_a_field_manager() {
        let refusal = WriteOptions::decode(&Query::parse(""), Verb::Patch { apply: true }).unwrap_err();
        assert_eq!(
            refusal.message,
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#
        );
    }

    #[test]
    fn encoded_parameters_are_decoded() {
        let query = Query::parse("labelSelector=app%3Dweb%2Cx+in+%28a%29&watch");
        assert_eq!(query.text("labelSelector"), "app=web,x in (a)");
        assert_eq!(query.flag("watch"), Some(true));
    }
}
