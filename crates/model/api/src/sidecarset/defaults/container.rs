//! The defaults of a Kubernetes container that Kruise's webhook writes.

use pillion_kinds::pod::pull_policy;
use pillion_quantity::{Quantity, Scale};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{object, objects, set_field_ref_version, set_if_zero};

pub(super) fn apply_defaults(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let pull_policy = pull_policy(image);
    set_if_zero(container, "imagePullPolicy", pull_policy);
    set_if_zero(container, "terminationMessagePath", "/dev/termination-log");
    set_if_zero(container, "terminationMessagePolicy", "File");

    for port in objects(container, "ports") {
        set_if_zero(port, "protocol", "TCP");
    }
    for source in objects(container, "env").filter_map(|env| object(env, "valueFrom")) {
        set_field_ref_version(source);
    }
    if let Some(resources) = object(container, "resources") {
        for list in ["limits", "requests"] {
            object(resources, list).map(round_up_to_milli);
        }
    }
    // Not `startupProbe`: see the module above.
    for probe in ["livenessProbe", "readinessProbe"] {
        if let Some(probe) = object(container, probe) {
            set_if_zero(probe, "timeoutSeconds", 1);
            set_if_zero(probe, "periodSeconds", 10);
            set_if_zero(probe, "successThreshold", 1);
            set_if_zero(probe, "failureThreshold", 3);
            apply_handler_defaults(probe);
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for handler in ["postStart", "preStop"] {
            object(lifecycle, handler).map(apply_handler_defaults);
        }
    }
}

fn apply_handler_defaults(handler: &mut Map<String, Value>) {
    if let Some(get) = object(handler, "httpGet") {
        set_if_zero(get, "path", "/");
        set_if_zero(get, "scheme", "HTTP");
    }
}

/// Kubernetes keeps no quantity finer than a thousandth. One that is not is left as it was written.
fn round_up_to_milli(resources: &mut Map<String, Value>) {
    for value in resources.values_mut() {
        let Ok(quantity) = Quantity::deserialize(&*value) else { continue };
        let rounded = quantity.round_up(Scale::Milli);
        if rounded != quantity {
            *value = Value::String(rounded.to_string());
        }
    }
}
