//! Addresses and node ports of Services.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use pillion_kinds::service;
use pillion_rules::field::{Error, Path};
use serde_json::{Value, json};

use crate::call::Call;
use crate::status::{Refusal, Result};
use crate::{meta, stored};

/// The range of cluster addresses is 10.96.0.0/16; its first is the `kubernetes` Service's.
pub(crate) const FIRST: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// Gives a new or changed Service the addresses and ports that it lacks. Nothing listens there; other objects only need them to be set.
pub(crate) fn allocate(call: &Call<'_>, service: &mut Value, old: Option<&Value>) -> Result<()> {
    if !call.endpoint.is("", "services") || service["spec"]["type"] == "ExternalName" {
        return Ok(());
    }
    let needs_address = service::complete_addresses(service, old);
    let others = others(call, meta::name(service))?;
    cluster_address(call, service, old, &others, needs_address)?;
    node_ports(call, service, old, &others)
}

fn others(call: &Call<'_>, name: &str) -> Result<Vec<Value>> {
    let mut services = Vec::new();
    for (namespace, other, stored) in call.inner().store.list("services", None).iter() {
        if !(**namespace == *call.namespace() && **other == *name) {
            services.push(stored::parse(stored)?);
        }
    }
    Ok(services)
}

fn cluster_address(
    call: &Call<'_>,
    service: &mut Value,
    old: Option<&Value>,
    others: &[Value],
    needs_address: bool,
) -> Result<()> {
    let name = meta::name(service).to_owned();
    let spec = &mut service["spec"];
    let taken: HashSet<&str> = others.iter().filter_map(|other| other["spec"]["clusterIP"].as_str()).collect();
    if needs_address {
        let address = free_address(call, &taken);
        spec["clusterIP"] = address.as_str().into();
        spec["clusterIPs"] = json!([address]);
        return Ok(());
    }
    let given = spec["clusterIP"].as_str().unwrap_or_default();
    let kept = old.is_some_and(|old| old["spec"]["clusterIP"] == given);
    // What is no address at all is for validation to refuse.
    if given == "None" || kept || given.parse::<IpAddr>().is_err() {
        return Ok(());
    }
    let in_range = given.parse::<Ipv4Addr>().is_ok_and(|address| address.octets().get(..2) == FIRST.octets().get(..2));
    let why = if !in_range {
        "the provided network does not match the current range"
    } else if taken.contains(given) {
        "provided IP is already allocated"
    } else {
        return Ok(());
    };
    let path = Path::new("spec").child("clusterIPs");
    let error = Error::invalid(&path, json!([given]), format!("failed to allocate IP {given}: {why}"));
    Err(Refusal::invalid("", "Service", &name, &[error]))
}

fn free_address(call: &Call<'_>, taken: &HashSet<&str>) -> String {
    loop {
        let [first, second, ..] = FIRST.octets();
        let pick = call.inner().number(2..0xfffe).to_be_bytes();
        let address = Ipv4Addr::new(first, second, pick[2], pick[3]).to_string();
        if !taken.contains(address.as_str()) {
            return address;
        }
    }
}

fn node_ports(call: &Call<'_>, service: &mut Value, old: Option<&Value>, others: &[Value]) -> Result<()> {
    let kind = service["spec"]["type"].as_str().unwrap_or_default();
    let wanted =
        kind == "NodePort" || (kind == "LoadBalancer" && service["spec"]["allocateLoadBalancerNodePorts"] != false);
    let ports_of = |service: &Value| -> Vec<(String, i64, i64)> {
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let number = |port: &Value, key: &str| port[key].as_i64().unwrap_or(0);
        ports
            .map(|port| {
                (port["protocol"].as_str().unwrap_or("TCP").to_owned(), number(port, "port"), number(port, "nodePort"))
            })
            .collect()
    };
    let mut taken: HashSet<i64> = others.iter().flat_map(&ports_of).map(|(_, _, node_port)| node_port).collect();
    let before = old.map(ports_of).unwrap_or_default();
    let name = meta::name(service).to_owned();
    let checked = kind == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local";
    if checked && service["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        let port = free_port(call, &mut taken);
        service["spec"]["healthCheckNodePort"] = port.into();
    }
    let ports = service["spec"]["ports"].as_array_mut().into_iter().flatten();
    for (index, port) in ports.enumerate() {
        if !wanted {
            // Leaving the type gives back the ports that came with it.
            let unchanged = before.iter().any(|(_, _, old)| *old != 0 && port["nodePort"] == *old);
            if let (true, Value::Object(port)) = (unchanged, port) {
                port.shift_remove("nodePort");
            }
            continue;
        }
        let given = port["nodePort"].as_i64().unwrap_or(0);
        let path = Path::new("spec").child("ports").index(index).child("nodePort");
        let refuse = |why: &str| Err(Refusal::invalid("", "Service", &name, &[Error::invalid(&path, given, why)]));
        if given != 0 {
            let mine = before.iter().any(|(_, _, old)| *old == given);
            if !NODE_PORTS.contains(&given) {
                return refuse("provided port is not in the valid range. The range of valid ports is 30000-32767");
            }
            if !mine && !taken.insert(given) {
                return refuse("provided port is already allocated");
            }
            continue;
        }
        let same = |(_, number, _): &&(String, i64, i64)| port["port"] == *number;
        let chosen = match before.iter().find(same).filter(|(_, _, node_port)| *node_port != 0) {
            Some((_, _, node_port)) => *node_port,
            None => free_port(call, &mut taken),
        };
        port["nodePort"] = chosen.into();
    }
    Ok(())
}

fn free_port(call: &Call<'_>, taken: &mut HashSet<i64>) -> i64 {
    loop {
        let pick = i64::from(call.inner().number(30000..32768));
        if taken.insert(pick) {
            return pick;
        }
    }
}
