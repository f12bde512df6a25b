//! Environment variables with the addresses of Services.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

/// The variables of the service `kubernetes`, which every pod has, and, with `links`, of all services of the namespace.
pub(super) fn variables(services: &[Service], namespace: &str, links: bool) -> BTreeMap<String, String> {
    let mut chosen: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let home = service.metadata.namespace.as_deref().unwrap_or_default();
        if home == "default" && name == "kubernetes" {
            chosen.entry(name).or_insert(service);
        } else if home == namespace && links {
            chosen.insert(name, service);
        }
    }
    chosen.into_iter().flat_map(|(name, service)| of_service(name, service)).collect()
}

fn of_service(name: &str, service: &Service) -> Vec<(String, String)> {
    let spec = service.spec.as_ref();
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let Some(first) = ports.first().filter(|_| !matches!(address, "" | "None")) else { return Vec::new() };
    let prefix = variable_name(name);
    let mut variables = vec![
        (format!("{prefix}_SERVICE_HOST"), address.to_owned()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
    ];
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            variables.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), port.port.to_string()));
        }
    }
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let (upper, lower) = (protocol.to_uppercase(), protocol.to_lowercase());
        let url = format!("{lower}://{host}:{}", port.port);
        if index == 0 {
            variables.push((format!("{prefix}_PORT"), url.clone()));
        }
        let prefix = format!("{prefix}_PORT_{}_{upper}", port.port);
        variables.push((prefix.clone(), url));
        variables.push((format!("{prefix}_PROTO"), lower));
        variables.push((format!("{prefix}_PORT"), port.port.to_string()));
        variables.push((format!("{prefix}_ADDR"), address.to_owned()));
    }
    variables
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
