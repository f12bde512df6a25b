//! What a cluster honours the marks of sidecars with, as far as it shows: in the schema of its pods, and in the arguments of its manager.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_gates::{Gate, Gates, Settings};
use pillion_lifecycle::marks::Means;
use pillion_manager::{NAMESPACE, sidecar_field_is_served};
use serde_json::Value;

use super::read::{Parts, Reader};

/// The gates, with that of marks on if it is on in the cluster, and the means. What the user says comes first.
pub(crate) async fn marking(reader: &Reader, gates: Gates, wrap_image: Option<&str>) -> (Gates, Means) {
    let client = reader.client();
    let (field, arguments) = futures::join!(sidecar_field_is_served(&client), arguments(reader));
    // Whoever may not see either is asked to say it: the flags of the manager are flags of the command, too.
    let field = field.unwrap_or(false);
    let value = |flag: &str| arguments.iter().rev().find_map(|argument| argument.strip_prefix(flag)?.strip_prefix('='));
    let settings = value("--feature-gates").and_then(|text| text.parse::<Settings>().ok());
    let is_on = settings.is_some_and(|settings| Gates::default().with(&settings).is_enabled(Gate::SidecarField));
    let on: Option<Settings> = if field || is_on { "SidecarField=true".parse().ok() } else { None };
    let gates = on.map_or(gates, |on| gates.with(&on));
    let wrap_image = wrap_image.or_else(|| value("--wrap-image")).map(str::to_owned);
    (gates, Means { field, wrap_image })
}

/// The arguments of the manager that serves the webhook; empty if there is no manager, or if it may not be read.
async fn arguments(reader: &Reader) -> Vec<String> {
    let of_manager = |deployment: Value| -> Option<Vec<String>> {
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array()?;
        let mut all = containers.iter().filter_map(|container| container["args"].as_array());
        let arguments = all.find(|arguments| arguments.first().is_some_and(|first| first == "manager"))?;
        Some(arguments.iter().filter_map(|argument| argument.as_str().map(str::to_owned)).collect())
    };
    let resource = ApiResource::erase::<Deployment>(&());
    let all = reader.list(&resource, Some(NAMESPACE), Parts::All, &ListParams::default(), of_manager).await;
    all.unwrap_or_default().into_iter().flatten().collect()
}
