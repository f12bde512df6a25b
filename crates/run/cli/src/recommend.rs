//! `pillion recommend`: what VerticalPodAutoscalers recommend, beside what containers request.
//!
//! ```text
//!  autoscalers, checkpoints, workloads, pods ─▶ rows ─▶ table, json, csv, patch
//!  checkpoints of one autoscaler ─▶ histogram, explain
//! ```

pub(crate) mod explain;
mod histogram;
mod picture;
mod rows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_api::vpa::{self, VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint};
use pillion_kinds::resource;
use pillion_rightsizer::{autoscalers, checkpoints};
use serde_json::{Value, json};

use self::rows::{Row, Target, rows};
use crate::args::{RecommendArgs, RecommendOutput};
use crate::cluster::read::{Parts, Reader, api_resource};
use crate::{Failure, block_on, connect, print, render};

/// Runs the command.
pub(crate) fn run(args: &RecommendArgs) -> Result<(), Failure> {
    block_on(async {
        let connection = connect::connect(&args.cluster).await?;
        let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
        let reader = Reader::new(connection.client.clone());
        let found = read(&reader, namespace, args.name.as_deref()).await?;
        if args.histogram {
            let drawn = match args.output {
                RecommendOutput::Svg => {
                    histogram::read(&found.checkpoints).map(|read| picture::svg(&histogram::histograms(&read)))
                }
                RecommendOutput::Table => histogram::text(&found.checkpoints),
                _ => return Err(Failure::misuse("--histogram is drawn in the terminal, or as a picture with -o svg")),
            };
            return print(&drawn.map_err(Failure::no)?);
        }
        if args.explain {
            let mut text = String::new();
            for autoscaler in &found.autoscalers {
                let target = target(&reader, autoscaler).await?;
                text.push_str(
                    &explain::text(autoscaler, &found.checkpoints, &target.containers()).map_err(Failure::no)?,
                );
            }
            return print(&text);
        }
        let mut listed = Vec::new();
        for autoscaler in &found.autoscalers {
            let target = target(&reader, autoscaler).await?;
            listed.extend(rows(autoscaler, &found.checkpoints, &target));
        }
        print(&shown(&listed, args.output)?)
    })?
}

/// What was read of the cluster.
struct Found {
    autoscalers: Vec<VerticalPodAutoscaler>,
    checkpoints: Vec<VerticalPodAutoscalerCheckpoint>,
}

async fn read(reader: &Reader, namespace: Option<&str>, name: Option<&str>) -> Result<Found, Failure> {
    let every = ListParams::default();
    let is_meant = |object: &Value| name.is_none_or(|name| object["metadata"]["name"] == name);
    let decode = |object: Value| is_meant(&object).then(|| vpa::decode(object).ok()).flatten();
    let listed = reader.list(&autoscalers(), namespace, Parts::All, &every, decode).await;
    let listed = match listed {
        Err(error) if error.is_not_found() => {
            return Err(Failure::no(
                "VerticalPodAutoscalers are not served here; `pillion crds | kubectl apply --server-side -f -` defines them",
            ));
        }
        listed => listed?,
    };
    if listed.is_empty() {
        let place = namespace.map_or("any namespace".to_owned(), |namespace| format!("namespace {namespace:?}"));
        let what =
            name.map_or("no VerticalPodAutoscaler".to_owned(), |name| format!("no VerticalPodAutoscaler {name:?}"));
        return Err(Failure::no(format!("there is {what} in {place}")));
    }
    let is_of =
        |checkpoint: &VerticalPodAutoscalerCheckpoint| name.is_none_or(|name| checkpoint.spec.vpa_object_name == name);
    let decode = |object: Value| vpa::decode_checkpoint(object).ok().filter(is_of);
    let stored = reader.list(&checkpoints(), namespace, Parts::All, &every, decode).await;
    // Without checkpoints there is no number of samples, and that is all.
    let checkpoints = stored.or_else(|error| if error.is_not_found() { Ok(Vec::new()) } else { Err(error) })?;
    Ok(Found { autoscalers: listed, checkpoints })
}

/// The workload of an autoscaler, and its pods.
async fn target(reader: &Reader, autoscaler: &VerticalPodAutoscaler) -> Result<Target, Failure> {
    let Some(reference) = &autoscaler.spec.target_ref else { return Ok(Target::default()) };
    let namespace = autoscaler.namespace();
    let known = resource::all().iter().find(|known| {
        known.kind == reference.kind
            && matches!(known.group, "apps" | "batch" | "")
            && pillion_rightsize::WELL_KNOWN_CONTROLLERS.contains(&known.kind)
    });
    let Some(known) = known else { return Ok(Target::default()) };
    let workload = reader.get(&api_resource(known), Some(namespace), &reference.name).await?.unwrap_or_default();
    let labels: Vec<String> = workload["spec"]["selector"]["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    if labels.is_empty() {
        return Ok(Target { workload, pods: Vec::new() });
    }
    let selected = ListParams::default().labels(&labels.join(","));
    let pods = ApiResource::erase::<Pod>(&());
    let is_live = |pod: Value| matches!(pod["status"]["phase"].as_str(), Some("Running" | "Pending")).then_some(pod);
    let pods = reader.list(&pods, Some(namespace), Parts::All, &selected, is_live).await?;
    Ok(Target { workload, pods })
}

fn shown(rows: &[Row], output: RecommendOutput) -> Result<String, Failure> {
    Ok(match output {
        RecommendOutput::Table => {
            let lines = rows.iter().flat_map(Row::lines).map(|line| line.to_vec());
            render::table(&rows::HEADER, lines)
        }
        RecommendOutput::Json => render::json_text(&serde_json::to_value(rows).map_err(io::Error::from)?),
        RecommendOutput::Csv => csv(rows),
        RecommendOutput::Patch => render::yaml_stream(&patches(rows))?,
        RecommendOutput::Svg => return Err(Failure::misuse("-o svg draws a histogram: add --histogram")),
    })
}

fn csv(rows: &[Row]) -> String {
    let mut text = rows::HEADER.join(",").to_ascii_lowercase();
    text.push('\n');
    for line in rows.iter().flat_map(Row::lines) {
        let cells = line.iter().map(|cell| {
            if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
        });
        // A String takes whatever is written.
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(","));
    }
    text
}

/// One partial workload for each target, with the requests that are recommended.
fn patches(rows: &[Row]) -> Vec<Value> {
    let mut by_workload: BTreeMap<(&str, &str, &str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = (row.namespace.as_str(), row.api_version.as_str(), row.kind.as_str(), row.workload.as_str());
        by_workload.entry(key).or_default().push(row);
    }
    let patch = |((namespace, api_version, kind, name), rows): ((&str, &str, &str, &str), Vec<&Row>)| {
        let list = |is_sidecar: bool| -> Vec<Value> {
            let of = rows.iter().filter(|row| row.is_sidecar == is_sidecar);
            of.map(|row| json!({"name": row.container, "resources": {"requests": row.target}})).collect()
        };
        let mut pod = json!({"containers": list(false)});
        let sidecars = list(true);
        if !sidecars.is_empty() {
            pod["initContainers"] = json!(sidecars);
        }
        let template = json!({"template": {"spec": pod}});
        let spec = if kind == "CronJob" { json!({"jobTemplate": {"spec": template}}) } else { template };
        json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec
        })
    };
    by_workload.into_iter().map(patch).collect()
}

#[cfg(test)]
mod tests;
