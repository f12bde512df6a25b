//! What a container may learn of its own pod: the downward API.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector, ResourceRequirements};
use pillion_quantity::Quantity;

use super::EnvironmentError;
use crate::config::Capacity;

/// A field of the pod as text.
pub(crate) fn field_of_pod(pod: &Pod, path: &str) -> Result<String, EnvironmentError> {
    let metadata = &pod.metadata;
    let text = |value: &Option<String>| Ok(value.clone().unwrap_or_default());
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map = match map {
            "metadata.annotations" => metadata.annotations.as_ref(),
            "metadata.labels" => metadata.labels.as_ref(),
            _ => return Err(EnvironmentError::UnsupportedField(path.to_owned())),
        };
        return Ok(map.and_then(|map| map.get(key).cloned()).unwrap_or_default());
    }
    match path {
        "metadata.annotations" => Ok(lines(metadata.annotations.iter().flatten())),
        "metadata.labels" => Ok(lines(metadata.labels.iter().flatten())),
        "metadata.name" => text(&metadata.name),
        "metadata.namespace" => text(&metadata.namespace),
        "metadata.uid" => text(&metadata.uid),
        _ => Err(EnvironmentError::UnsupportedField(path.to_owned())),
    }
}

/// `key="value"` lines, with the value quoted as Go quotes strings.
fn lines<'a>(map: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let lines: Vec<String> = map.map(|(key, value)| format!("{key}={}", quote(value))).collect();
    lines.join("\n")
}

fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for sign in text.chars() {
        match sign {
            '"' | '\\' => quoted.extend(['\\', sign]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            // A String takes whatever is written.
            _ if sign.is_ascii_control() => drop(write!(quoted, "\\x{:02x}", u32::from(sign))),
            _ => quoted.push(sign),
        }
    }
    quoted.push('"');
    quoted
}

/// A request or limit of a container in units of the divisor, rounded up. What has no limit can use the whole node.
pub(crate) fn resource_of_container(
    pod: &Pod,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
    capacity: &Capacity,
) -> Result<String, EnvironmentError> {
    let spec = pod.spec.as_ref();
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let container = match named {
        None => own,
        Some(name) => {
            let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
            let regular = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
            regular.iter().chain(init).find(|container| container.name == name)
        }
    };
    let Some(container) = container else {
        return Err(EnvironmentError::NoContainer(named.unwrap_or_default().to_owned()));
    };
    let unsupported = || EnvironmentError::UnsupportedResource(selector.resource.clone());
    let (kind, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let known = matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    let none = ResourceRequirements::default();
    let own = container.resources.as_ref().unwrap_or(&none);
    let amount = match kind {
        "requests" if known => quantity(own.requests.as_ref(), resource),
        "limits" if known => quantity(own.limits.as_ref(), resource).or_else(|| {
            let of_pod = spec.and_then(|spec| spec.resources.as_ref()).and_then(|resources| resources.limits.as_ref());
            of_node(capacity, resource).map(|all| quantity(of_pod, resource).unwrap_or(all))
        }),
        _ => return Err(unsupported()),
    };
    let divisor =
        selector.divisor.as_ref().and_then(|text| text.0.parse().ok()).filter(|divisor: &Quantity| !divisor.is_zero());
    let divisor = divisor.unwrap_or(ONE);
    let amount = amount.unwrap_or(Quantity::ZERO);
    let (amount, divisor) = if resource == "cpu" {
        (amount.milli_value(), divisor.milli_value())
    } else {
        (amount.value(), divisor.value())
    };
    Ok((amount / divisor + i128::from(amount % divisor != 0)).to_string())
}

fn of_node(capacity: &Capacity, resource: &str) -> Option<Quantity> {
    match resource {
        "cpu" => Some(capacity.cpu),
        "memory" => Some(capacity.memory),
        _ => None,
    }
}

const ONE: Quantity = Quantity::from_nanos(1_000_000_000, pillion_quantity::Format::DecimalSi);

type List = std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

fn quantity(list: Option<&List>, resource: &str) -> Option<Quantity> {
    list?.get(resource)?.0.parse().ok().filter(|quantity: &Quantity| !quantity.is_zero())
}
