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

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::LimitRange;
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_api::vpa::{self, VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint};
use pillion_embedded::resource;
use pillion_gates::{Gates, Settings};
use pillion_rightsize::{LimitRanges, controlling, target_of};
use pillion_rightsizer::{autoscalers, checkpoints};
use serde_json::{Map, Value, json};

use self::rows::{ContainerPatch, Line, Row, Target, rows};
use crate::args::{RecommendArgs, RecommendOrder, RecommendOutput};
use crate::cluster::fleet::pods_of;
use crate::cluster::marking::marking;
use crate::cluster::read::{Parts, Reader, api_resource};
use crate::cluster::updates::{self, Circumstances};
use crate::{Failure, block_on, connect, print, print_text, render, say_warnings, terminal};

/// Runs the command.
pub(crate) fn run(args: &RecommendArgs) -> Result<(), Failure> {
    if args.output == RecommendOutput::Svg && (args.name.is_none() || args.all_namespaces) {
        return Err(Failure::misuse("-o svg draws the usage that one autoscaler has seen: name it"));
    }
    block_on(async {
        let connection = connect::connect(&args.cluster).await?;
        let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
        let reader = Reader::new(connection.client.clone());
        let found = read(&reader, namespace, args.name.as_deref()).await?;
        if args.histogram || args.output == RecommendOutput::Svg {
            return print(&drawn(args, &found.checkpoints)?);
        }
        if args.explain {
            let mut text = String::new();
            for autoscaler in &found.autoscalers {
                let target = target(&reader, autoscaler).await?;
                text.push_str(
                    &explain::text(autoscaler, &found.checkpoints, &target.containers()).map_err(Failure::no)?,
                );
            }
            return print_text(&text);
        }
        let (gates, _) = marking(&reader, Gates::default(), &Settings::default(), None).await;
        let gates = gates.into();
        let mut listed = Vec::new();
        let (mut autoscalers, mut warnings) = (found.autoscalers.iter().collect(), Vec::new());
        if args.output == RecommendOutput::Patch {
            (autoscalers, warnings) = without_rivals(autoscalers);
        }
        for autoscaler in autoscalers {
            let mut target = target(&reader, autoscaler).await?;
            let circumstances = Circumstances { gates, is_admitted: true, now: Timestamp::now() };
            target.updates =
                updates::lines(&updates::updates(&reader, autoscaler, &target.pods, &circumstances).await?);
            listed.extend(rows(autoscaler, &found.checkpoints, &target));
        }
        if args.output == RecommendOutput::Patch {
            warnings.extend(left_out(&listed));
            say_warnings(&warnings);
        }
        print(&shown(&listed, args.output, args.sort_by)?)
    })?
}

/// The usage that an autoscaler has seen, in the terminal or as a picture.
fn drawn(args: &RecommendArgs, checkpoints: &[VerticalPodAutoscalerCheckpoint]) -> Result<String, Failure> {
    let drawn = match args.output {
        RecommendOutput::Svg => histogram::read(checkpoints).map(|read| picture::svg(&histogram::histograms(&read))),
        RecommendOutput::Table => histogram::text(checkpoints).map(|text| terminal::clean(&text).into_owned()),
        _ => return Err(Failure::misuse("--histogram is drawn in the terminal, or as a picture with -o svg")),
    };
    drawn.map_err(Failure::no)
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

/// The workload of an autoscaler, its pods, and the LimitRanges that hold for them. Nothing of a target that is no workload of Kubernetes.
async fn target(reader: &Reader, autoscaler: &VerticalPodAutoscaler) -> Result<Target, Failure> {
    let Some(reference) = &autoscaler.spec.target_ref else { return Ok(Target::default()) };
    let namespace = autoscaler.namespace();
    let group = reference.api_version.as_deref().unwrap_or_default().split_once('/').map_or("", |(group, _)| group);
    let known = resource::all().iter().find(|known| {
        known.kind == reference.kind
            && known.group == group
            && pillion_rightsize::WELL_KNOWN_CONTROLLERS.contains(&known.kind)
    });
    let Some(known) = known else { return Ok(Target::default()) };
    let workload = reader.get(&api_resource(known), Some(namespace), &reference.name).await?.unwrap_or_default();
    let is_live = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Running" | "Pending"));
    let pods = pods_of(reader, &workload).await?.into_iter().filter(is_live).collect();
    let ranges = ApiResource::erase::<LimitRange>(&());
    let ranges = reader.list(&ranges, Some(namespace), Parts::All, &ListParams::default(), Some).await;
    // Who may not read them sees what is recommended without them.
    let ranges = ranges.or_else(|error| if error.is_forbidden() { Ok(Vec::new()) } else { Err(error) })?;
    Ok(Target { workload, pods, ranges: LimitRanges::merge(&ranges), updates: Vec::new() })
}

fn shown(rows: &[Row], output: RecommendOutput, order: RecommendOrder) -> Result<String, Failure> {
    Ok(match output {
        RecommendOutput::Table => {
            let lines = lines(rows, order).into_iter().map(|line| line.cells.to_vec());
            // Names of containers in a status are whatever somebody has written there.
            terminal::clean(&render::table(&rows::HEADER, lines)).into_owned()
        }
        RecommendOutput::Json => render::json_text(&serde_json::to_value(rows).map_err(io::Error::from)?),
        RecommendOutput::Csv => csv(&lines(rows, order)),
        RecommendOutput::Patch => render::yaml_stream(&patches(rows))?,
        // Drawn before anything is listed.
        RecommendOutput::Svg => String::new(),
    })
}

/// The lines of all rows. By savings, the lines of each resource are together, and what saves nothing known comes last.
fn lines(rows: &[Row], order: RecommendOrder) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = rows.iter().flat_map(Row::lines).collect();
    if order == RecommendOrder::Saves {
        lines.sort_by_key(|line| (line.resource, Reverse(line.saves)));
    }
    lines
}

fn csv(lines: &[Line<'_>]) -> String {
    let mut text = rows::HEADER.join(",").to_ascii_lowercase();
    text.push('\n');
    for line in lines {
        let cells = line.cells.iter().map(|cell| {
            if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
        });
        // A String takes whatever is written.
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(","));
    }
    text
}

/// One partial workload for each target, with the resources that are recommended. Containers that a template does not have are left out,
/// since applying them would add them: they are injected, or the target has no template that is known.
///
/// Containers are listed in the order of the template, because server-side apply gives the containers of a patch the order of the patch.
fn patches(rows: &[Row]) -> Vec<Value> {
    let mut by_workload = BTreeMap::<_, Vec<&ContainerPatch>>::new();
    for row in rows {
        let key = (row.namespace.as_str(), row.api_version.as_str(), row.kind.as_str(), row.workload.as_str());
        if let Some(patch) = &row.patch {
            by_workload.entry(key).or_default().push(patch);
        }
    }
    let patch = |((namespace, api_version, kind, name), mut containers): (
        (&str, &str, &str, &str),
        Vec<&ContainerPatch>,
    )| {
        containers.sort_by_key(|patch| patch.place);
        let mut pod = Map::new();
        for patch in containers {
            let list = pod.entry(patch.list).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(patch.container.clone());
            }
        }
        let template = json!({"template": {"spec": pod}});
        let spec = if kind == "CronJob" { json!({"jobTemplate": {"spec": template}}) } else { template };
        json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec
        })
    };
    by_workload.into_iter().map(patch).collect()
}

/// The autoscalers that control their targets, and a warning for each of the others: a target has one patch.
fn without_rivals(autoscalers: Vec<&VerticalPodAutoscaler>) -> (Vec<&VerticalPodAutoscaler>, Vec<String>) {
    let mut by_target = BTreeMap::<_, Vec<&VerticalPodAutoscaler>>::new();
    for autoscaler in &autoscalers {
        by_target.entry(target_of(autoscaler)).or_default().push(autoscaler);
    }
    let mut warnings = Vec::new();
    let mut is_kept = |autoscaler: &&VerticalPodAutoscaler| {
        let Some(target) = target_of(autoscaler) else { return true };
        let same = by_target.get(&Some(target)).into_iter().flatten().copied();
        let Some(other) = controlling(same).map(VerticalPodAutoscaler::name) else { return true };
        if other != autoscaler.name() {
            let name = autoscaler.name();
            warnings.push(format!("{name:?} is left out: {other:?} is older and sizes the same target"));
        }
        other == autoscaler.name()
    };
    let kept = autoscalers.iter().copied().filter(|autoscaler| is_kept(autoscaler)).collect();
    (kept, warnings)
}

/// What a patch leaves out, and why.
fn left_out(rows: &[Row]) -> Vec<String> {
    let out = rows.iter().filter(|row| row.patch.is_none());
    out.map(|row| {
        let (container, kind, workload) = (&row.container, &row.kind, &row.workload);
        format!(
            "container {container:?} is left out: the template of {kind} {workload:?} does not have it, or is not known"
        )
    })
    .collect()
}

#[cfg(test)]
mod tests;
