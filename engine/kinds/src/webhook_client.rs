//! How a webhook is reached: a URL, or a Service.

use serde_json::Value;

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, dns_subdomain, dns1035_label, port_number};
use pillion_rules::value::{fill, has, int, pointer_mut, text};

pub(crate) fn default(client: &mut Value) {
    if let Some(service) = pointer_mut(client, "service") {
        fill(service, "port", 443);
    }
}

/// Checks a client configuration.
pub(crate) fn validate(client: &Value, path: &Path, errors: &mut Vec<Error>) {
    match (client["url"].as_str(), has(client, "service")) {
        (Some(url), false) => validate_url(url, &path.child("url"), errors),
        (None, true) => validate_service(&client["service"], &path.child("service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
}

fn validate_url(url: &str, path: &Path, errors: &mut Vec<Error>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let mut refuse = |value: &str, detail: String| errors.push(Error::invalid(path, value, detail));
    if scheme != "https" {
        refuse(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        refuse(host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !query.is_empty() {
        refuse(query, "query parameters are not permitted in the URL".to_owned());
    }
}

fn validate_service(service: &Value, path: &Path, errors: &mut Vec<Error>) {
    // The API server takes one for the other here, and so says it of the other.
    for (field, blamed) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, field).is_empty() {
            errors.push(Error::required(&path.child(blamed), ""));
        }
    }
    let port = int(service, "port");
    let complaints = port_number(port);
    if !complaints.is_empty() {
        let detail = format!("port is not valid: {}", complaints.join(", "));
        errors.push(Error::invalid(&path.child("port"), port, detail));
    }
    let url_path = text(service, "path");
    let mut refuse = |detail: String| errors.push(Error::invalid(&path.child("path"), url_path, detail));
    match url_path {
        "" | "/" => return,
        "//" => return refuse("segment[0] may not be empty".to_owned()),
        _ if !url_path.starts_with('/') => refuse("must start with a '/'".to_owned()),
        _ => {}
    }
    // The first character goes, whatever it is.
    let rest = url_path.get(1..).unwrap_or_default();
    for (i, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            refuse(format!("segment[{i}] may not be empty"));
        } else {
            for complaint in dns_subdomain(step) {
                refuse(format!("segment[{i}]: {complaint}"));
            }
        }
    }
}

/// Checks the versions of a review that a webhook understands. `required` is what to say of an empty list.
pub(crate) fn validate_review_versions(versions: &[Value], required: &str, path: &Path, errors: &mut Vec<Error>) {
    if versions.is_empty() {
        return errors.push(Error::required(path, required));
    }
    for (i, version) in versions.iter().filter_map(Value::as_str).enumerate() {
        let path = path.index(i);
        if versions.iter().take(i).any(|earlier| earlier == version) {
            errors.push(Error::invalid(&path, version, "duplicate version"));
        } else {
            check(dns1035_label(version), version, &path, errors);
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        errors.push(Error::invalid(path, versions.to_vec(), "must include at least one of v1, v1beta1"));
    }
}
