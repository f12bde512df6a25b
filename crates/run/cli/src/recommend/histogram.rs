//! A usage histogram in the terminal, from the checkpoints of an autoscaler.

use std::fmt::Write as _;

use pillion_api::vpa::VerticalPodAutoscalerCheckpoint;
use pillion_expr::Resource;
use pillion_quantity::{Format, Quantity};
use pillion_rightsize::{Aggregate, SampleSettings};

/// Columns of the longest bar.
const WIDTH: f64 = 48.0;
/// The percentiles of lower bound, target and upper bound, unless flags say otherwise.
pub(super) const PERCENTILES: [(f64, &str); 3] = [(0.5, "lower bound"), (0.9, "target"), (0.95, "upper bound")];

/// The usage of one resource by one container.
pub(super) struct Histogram<'a> {
    pub(super) title: String,
    pub(super) aggregate: &'a Aggregate,
    pub(super) resource: Resource,
}

/// What checkpoints have in them, with the names of their containers.
pub(super) fn read(checkpoints: &[VerticalPodAutoscalerCheckpoint]) -> Result<Vec<(String, Aggregate)>, String> {
    if checkpoints.is_empty() {
        return Err(
            "there is no checkpoint yet: the recommender writes the first one after a minute of samples".to_owned()
        );
    }
    let read = |checkpoint: &VerticalPodAutoscalerCheckpoint| {
        let name = checkpoint.metadata.name.as_deref().unwrap_or_default();
        let aggregate = Aggregate::from_checkpoint(&checkpoint.status, &SampleSettings::default())
            .map_err(|error| format!("checkpoint {name:?} cannot be read: {error}"))?;
        Ok((checkpoint.spec.container_name.clone(), aggregate))
    };
    checkpoints.iter().map(read).collect()
}

/// The histograms of containers: of CPU and of memory, where anything is known.
pub(super) fn histograms(read: &[(String, Aggregate)]) -> Vec<Histogram<'_>> {
    let resources = [(Resource::Cpu, "cpu usage"), (Resource::Memory, "memory peaks")];
    let each = read.iter().flat_map(|(container, aggregate)| {
        let known = resources.into_iter().filter(|(resource, _)| !aggregate.is_empty(*resource));
        known.map(move |(resource, what)| {
            let title = format!("{container}: {what} ({} samples, newer ones count more)", aggregate.samples());
            Histogram { title, aggregate, resource }
        })
    });
    each.collect()
}

/// The histograms of all containers.
pub(super) fn text(checkpoints: &[VerticalPodAutoscalerCheckpoint]) -> Result<String, String> {
    let mut text = String::new();
    for Histogram { title, aggregate, resource } in histograms(&read(checkpoints)?) {
        // A String takes whatever is written.
        let _ = writeln!(text, "{title}");
        bars(&mut text, aggregate, resource);
        text.push('\n');
    }
    Ok(text)
}

fn bars(text: &mut String, aggregate: &Aggregate, resource: Resource) {
    let shares = aggregate.shares(resource);
    let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let marks: Vec<(i64, String)> = PERCENTILES
        .iter()
        .map(|(percentile, bound)| {
            let amount = aggregate.percentile(resource, *percentile);
            (amount, format!("{:.0}% ({bound})", percentile * 100.0))
        })
        .collect();
    for (end, share) in shares {
        let end = amount(resource, end);
        let here: Vec<&str> = marks.iter().filter(|(at, _)| *at == end).map(|(_, name)| name.as_str()).collect();
        let mark = if here.is_empty() { String::new() } else { format!("  ◀ {}", here.join(", ")) };
        let _ = writeln!(
            text,
            "  {:>10}  {:<48} {:>5.1}%{mark}",
            quantity(resource, end),
            bar(share / most * WIDTH),
            share * 100.0
        );
    }
}

fn bar(columns: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "columns of a terminal")]
    let eighths = (columns * 8.0).round().max(1.0) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Cores become millicores, as percentiles have them.
pub(super) fn amount(resource: Resource, end: f64) -> i64 {
    let scale = if resource == Resource::Cpu { 1000.0 } else { 1.0 };
    #[expect(clippy::cast_possible_truncation, reason = "as percentiles are")]
    let amount = (end * scale) as i64;
    amount
}

/// For people: memory in whole mebibytes.
pub(super) fn quantity(resource: Resource, amount: i64) -> String {
    match resource {
        Resource::Cpu => Quantity::from_nanos(i128::from(amount) * 1_000_000, Format::DecimalSi).to_string(),
        Resource::Memory => format!("{}Mi", amount / (1 << 20)),
    }
}
