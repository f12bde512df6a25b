//! The kinds of `networking.k8s.io/v1`. They are kept, and no traffic follows them.

pub(crate) mod ingress;
pub(crate) mod ingress_class;
pub(crate) mod network_policy;

use serde_json::Value;

use crate::field::{Error, Path};
use crate::format::{check, dns_subdomain, path_segment};
use crate::value::text;

/// A reference to an object of some group in the same namespace.
fn validate_reference(reference: &Value, path: &Path, errors: &mut Vec<Error>) {
    if let Some(group) = reference["apiGroup"].as_str() {
        check(dns_subdomain(group), group, &path.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        match text(reference, field) {
            "" => errors.push(Error::required(&path.child(field), "")),
            value => check(path_segment(value), value, &path.child(field), errors),
        }
    }
}
