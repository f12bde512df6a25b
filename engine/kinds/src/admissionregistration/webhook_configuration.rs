//! `MutatingWebhookConfigurations` and `ValidatingWebhookConfigurations`.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::qualified_domain;
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::selector;
use pillion_rules::value::{fill, has, items_mut, list, object_mut, same, text};
use serde_json::Value;

use super::rule::{self, FAILURE_POLICIES, MATCH_POLICIES};
use crate::rules::{Rules, STORED};
use crate::webhook_client;
use crate::workload::{first_generation, next_generation};

const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];

/// Rules of `ValidatingWebhookConfigurations`.
pub(crate) const VALIDATING: Rules = Rules {
    default: |configuration| default(configuration, false),
    prepare_create: first_generation,
    validate,
    prepare_update,
    validate_update: |new, _| validate(new),
    unconditional_update: false,
    ..STORED
};

/// Rules of `MutatingWebhookConfigurations`, which may be called again.
pub(crate) const MUTATING: Rules = Rules { default: |configuration| default(configuration, true), ..VALIDATING };

fn default(configuration: &mut Value, mutating: bool) {
    for webhook in items_mut(configuration, "webhooks") {
        fill(webhook, "failurePolicy", "Fail");
        rule::default_selectors(webhook);
        fill(webhook, "timeoutSeconds", 10);
        if mutating {
            fill(webhook, "reinvocationPolicy", "Never");
        }
        rule::default_rules(webhook, "rules");
        webhook_client::default(object_mut(webhook, "clientConfig"));
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    if !same(&new["webhooks"], &old["webhooks"]) {
        next_generation(new, old);
    }
}

fn validate(configuration: &Value) -> Vec<Error> {
    let mut errors = metadata::validate(&configuration["metadata"], &Path::new("metadata"), false, subdomain_name);
    let webhooks = list(configuration, "webhooks");
    for (i, webhook) in webhooks.iter().enumerate() {
        let (name, path) = (text(webhook, "name"), Path::new("webhooks").index(i));
        validate_webhook(webhook, &path, &mut errors);
        webhook_client::validate_review_versions(
            list(webhook, "admissionReviewVersions"),
            "must specify one of v1, v1beta1",
            &path.child("admissionReviewVersions"),
            &mut errors,
        );
        if !name.is_empty() && webhooks.iter().take(i).any(|earlier| text(earlier, "name") == name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
    }
    errors
}

fn validate_webhook(webhook: &Value, path: &Path, errors: &mut Vec<Error>) {
    qualified_domain(text(webhook, "name"), &path.child("name"), 3, errors);
    for (i, rule) in list(webhook, "rules").iter().enumerate() {
        rule::validate(rule, &path.child("rules").index(i), errors);
    }
    let one_of = |field: &str, supported: &[&str], errors: &mut Vec<Error>| {
        if let Some(value) = webhook[field].as_str().filter(|value| !supported.contains(value)) {
            errors.push(Error::not_supported(&path.child(field), value, supported));
        }
    };
    one_of("failurePolicy", &FAILURE_POLICIES, errors);
    one_of("matchPolicy", &MATCH_POLICIES, errors);
    if !has(webhook, "sideEffects") {
        let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.push(Error::required(&path.child("sideEffects"), detail));
    }
    one_of("sideEffects", &SIDE_EFFECTS, errors);
    if let Some(timeout) = webhook["timeoutSeconds"].as_i64().filter(|timeout| !(1..=30).contains(timeout)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(Error::invalid(&path.child("timeoutSeconds"), timeout, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector::validate(&webhook[field], &path.child(field), errors);
    }
    one_of("reinvocationPolicy", &REINVOCATION_POLICIES, errors);
    webhook_client::validate(&webhook["clientConfig"], &path.child("clientConfig"), errors);
    rule::validate_conditions(list(webhook, "matchConditions"), &path.child("matchConditions"), errors);
}
