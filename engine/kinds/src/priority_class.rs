//! `PriorityClasses`.

use pillion_rules::field::{Error, Path};
use pillion_rules::metadata::{self, subdomain_name, validate_immutable};
use pillion_rules::value::{fill, int, text};
use serde_json::Value;

use crate::rules::{Rules, STORED};
use crate::workload::first_generation;

const HIGHEST_OF_USERS: i64 = 1_000_000_000;
/// The two classes that the system has, and their values.
const SYSTEM: [(&str, i64); 2] = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];

pub(crate) const RULES: Rules = Rules {
    default: |class| fill(class, "preemptionPolicy", "PreemptLowerPriority"),
    prepare_create: first_generation,
    validate,
    validate_update,
    ..STORED
};

fn validate(class: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&class["metadata"], &Path::new("metadata"), false, subdomain_name);
    let (name, value) = (text(&class["metadata"], "name"), int(class, "value"));
    if name.starts_with("system-") {
        if let Some(complaint) = system_complaint(name, class) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {complaint}"
            );
            errors.push(Error::forbidden(&Path::new("metadata").child("name"), detail));
        }
    } else if value > HIGHEST_OF_USERS {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        errors.push(Error::forbidden(&Path::new("value"), detail));
    }
    let path = Path::new("preemptionPolicy");
    match class["preemptionPolicy"].as_str() {
        Some("") => errors.push(Error::required(&path, "")),
        Some(policy) if !POLICIES.contains(&policy) => {
            errors.push(Error::not_supported(&path, policy, &POLICIES));
        }
        _ => {}
    }
    errors
}

fn system_complaint(name: &str, class: &Value) -> Option<String> {
    let Some((_, value)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if int(class, "value") != *value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    (class["globalDefault"] == true).then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    if int(new, "value") != int(old, "value") {
        errors.push(Error::forbidden(&Path::new("value"), "may not be changed in an update."));
    }
    let field = "preemptionPolicy";
    validate_immutable(&new[field], &old[field], &Path::new(field), &mut errors);
    errors
}
