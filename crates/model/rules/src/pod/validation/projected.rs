//! Volumes in which files of several sources are put together.

use std::collections::BTreeSet;

use serde_json::Value;

use super::paths::validate_unreserved;
use super::report::{Errors, Report};
use super::volume_file::{validate_downward_file, validate_key_to_path};
use crate::field::Path;
use crate::pod::read::{list, number, part, text};

/// Checks the sources of a projected volume. Those behind gates that are off were dropped before.
pub(super) fn validate(errors: &mut Errors, volume: &Value, path: &Path) {
    let mut files: BTreeSet<&str> = BTreeSet::new();
    for (i, source) in list(volume, "sources").iter().enumerate() {
        let source_path = path.child("sources").index(i);
        let mut sources = 0;
        for kind in ["secret", "configMap"] {
            let Some(projection) = part(source, kind) else { continue };
            sources += 1;
            let name = text(projection, "name");
            errors.non_empty(&source_path.child(kind).child("name"), name);
            for (i, item) in list(projection, "items").iter().enumerate() {
                validate_key_to_path(errors, item, &source_path.child(kind).child("items").index(i));
                claim_file(errors, &mut files, text(item, "path"), name, path);
            }
        }
        if let Some(projection) = part(source, "downwardAPI") {
            sources += 1;
            for file in list(projection, "items") {
                validate_downward_file(errors, file, &source_path.child("downwardAPI"));
                claim_file(errors, &mut files, text(file, "path"), text(file, "path"), path);
            }
        }
        if let Some(token) = part(source, "serviceAccountToken") {
            sources += 1;
            validate_token(errors, token, &source_path.child("serviceAccountToken"), path);
        }
        if sources > 1 {
            errors.forbidden(&source_path, "may not specify more than 1 volume type per source");
        }
    }
}

fn claim_file<'a>(errors: &mut Errors, files: &mut BTreeSet<&'a str>, file: &'a str, shown: &str, path: &Path) {
    if !file.is_empty() && !files.insert(file) {
        errors.invalid(path, shown, "conflicting duplicate paths");
    }
}

fn validate_token(errors: &mut Errors, token: &Value, path: &Path, volume_path: &Path) {
    let seconds = number(token, "expirationSeconds");
    let seconds_path = path.child("expirationSeconds");
    if seconds < 600 {
        errors.invalid(&seconds_path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        errors.invalid(&seconds_path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    match text(token, "path") {
        "" => errors.required(&volume_path.child("path"), ""),
        file => validate_unreserved(errors, file, &volume_path.child("path")),
    }
}
