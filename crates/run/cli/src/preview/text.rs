//! A preview for people.

use std::fmt::{Display, Write as _};

use pillion_preview::{Change, Compared, NamespaceTotals, PodUpdate, Preview, Resources, WorkloadChange};
use pillion_quantity::Quantity;

use crate::render::table;

/// As many rows of one table as a person reads; `-o json` has all of them.
const ROWS: usize = 50;

pub(crate) fn text(preview: &Preview) -> String {
    let mut text = String::new();
    push_sets(&mut text, preview);
    if preview.namespaces.is_empty() {
        text.push_str("\n  no workload is matched, now or then\n");
    } else {
        push_namespaces(&mut text, &preview.namespaces);
        push_workloads(&mut text, &preview.workloads);
        push_refused(&mut text, preview);
    }
    push_pods(&mut text, preview);
    text
}

fn push_sets(text: &mut String, preview: &Preview) {
    let rows = preview.sidecar_sets.iter().map(|set| {
        let change = match set.change {
            Some(Change::Added) => "created",
            Some(Change::Changed) => "changed",
            Some(Change::Removed) => "removed",
            None => "unchanged",
        };
        vec![set.sidecar_set.clone(), change.to_owned(), arrow(&set.workloads), arrow(&set.pods)]
    });
    text.push_str(&table(&["SIDECARSET", "CHANGE", "WORKLOADS", "PODS"], rows));
}

fn push_namespaces(text: &mut String, namespaces: &[NamespaceTotals]) {
    let row = |totals: &NamespaceTotals| {
        let amounts = ["cpu", "memory"]
            .into_iter()
            .flat_map(|name| [amount(&totals.requests, name), amount(&totals.limits, name)]);
        [totals.namespace.clone(), totals.pods.to_string()].into_iter().chain(amounts).collect()
    };
    text.push('\n');
    let header = ["NAMESPACE", "PODS", "CPU REQUESTS", "CPU LIMITS", "MEMORY REQUESTS", "MEMORY LIMITS"];
    text.push_str(&table(&header, namespaces.iter().take(ROWS).map(row)));
    push_more(text, namespaces.len(), "namespaces");
}

fn push_workloads(text: &mut String, workloads: &[WorkloadChange]) {
    let mut changed = workloads.iter().filter(|workload| workload.refused.is_none()).peekable();
    if changed.peek().is_none() {
        if workloads.is_empty() {
            text.push_str("\n  new pods get what they get now\n");
        }
        return;
    }
    let mut rows = Vec::new();
    let mut count = 0;
    for workload in changed {
        count += 1;
        if count > ROWS {
            continue;
        }
        for (i, line) in changes(workload).into_iter().enumerate() {
            let first = |text: String| if i == 0 { text } else { String::new() };
            rows.push(vec![
                first(workload.namespace.clone()),
                first(format!("{}/{}", workload.kind, workload.name)),
                first(workload.replicas.to_string()),
                line,
            ]);
        }
    }
    text.push('\n');
    text.push_str(&table(&["NAMESPACE", "WORKLOAD", "PODS", "NEW PODS GET"], rows));
    push_more(text, count, "workloads");
}

/// What differs in the pods of a workload, a line each.
fn changes(workload: &WorkloadChange) -> Vec<String> {
    let mut lines = Vec::new();
    for container in &workload.containers {
        let name = &container.container;
        let what = if container.is_init { "init container" } else { "container" };
        match container.change {
            Change::Added => lines.push(format!("+ {what} {name}")),
            Change::Removed => lines.push(format!("- {what} {name}")),
            Change::Changed => {
                lines.extend(container.differences.iter().map(|difference| format!("~ {name}: {difference}")));
            }
        }
    }
    lines.extend(workload.pod.iter().map(|difference| format!("~ pod: {difference}")));
    lines.extend(workload.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines
}

fn push_refused(text: &mut String, preview: &Preview) {
    let refused: Vec<_> = preview.refused().collect();
    if refused.is_empty() {
        return;
    }
    text.push_str("\n  PODS OF THESE WORKLOADS WOULD BE REFUSED\n");
    for (workload, refusal) in refused.iter().take(ROWS) {
        let also = if refusal.also_now { " (they are refused now, too)" } else { "" };
        let _ = writeln!(
            text,
            "  {}/{} in namespace {}{also}: {}",
            workload.kind, workload.name, workload.namespace, refusal.message
        );
    }
    push_more(text, refused.len(), "workloads");
}

fn push_pods(text: &mut String, preview: &Preview) {
    let pods = &preview.pods;
    if pods.up_to_date == 0 && pods.in_place.is_empty() && pods.recreate.is_empty() {
        return;
    }
    text.push_str("\n  RUNNING PODS\n");
    let have = if pods.up_to_date == 1 { "has" } else { "have" };
    let _ = writeln!(text, "  {} {have} what the SidecarSets inject", pods.up_to_date);
    push_updates(text, "could be updated in place", &pods.in_place);
    let is_one = pods.recreate.len() == 1;
    let keep = if is_one { "keeps what it has until it is" } else { "keep what they have until they are" };
    push_updates(text, &format!("{keep} recreated"), &pods.recreate);
}

fn push_updates(text: &mut String, what: &str, pods: &[PodUpdate]) {
    /// Names are only examples beside the number.
    const NAMES: usize = 10;
    let colon = if pods.is_empty() { "" } else { ":" };
    let _ = writeln!(text, "  {} {what}{colon}", pods.len());
    for pod in pods.iter().take(NAMES) {
        let _ = writeln!(text, "    {}/{}: {}", pod.namespace, pod.name, pod.reasons.join("; "));
    }
    if pods.len() > NAMES {
        let _ = writeln!(text, "    … and {} more; -o json lists all", pods.len() - NAMES);
    }
}

fn push_more(text: &mut String, count: usize, what: &str) {
    if count > ROWS {
        let _ = writeln!(text, "  … and {} more {what}; -o json lists all", count - ROWS);
    }
}

fn arrow<T: Display + PartialEq>(compared: &Compared<T>) -> String {
    if compared.now == compared.then {
        compared.now.to_string()
    } else {
        format!("{} -> {}", compared.now, compared.then)
    }
}

fn amount(resources: &Compared<Resources>, name: &str) -> String {
    let of = |resources: &Resources| resources.get(name).copied().unwrap_or(Quantity::ZERO);
    arrow(&Compared { now: of(&resources.now), then: of(&resources.then) })
}
