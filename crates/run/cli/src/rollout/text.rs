//! How far a rollout is, for people: tables once, a tree again and again, or lines.

use std::fmt::Write as _;

use jiff::Timestamp;
use pillion_embedded::table::human;
use pillion_rollout::counted;

use super::status::{Outcome, PodStatus, RevisionStatus, Status};
use crate::render::table;
use crate::terminal::clean_line;

/// As many rows of one table as a person reads; `-o json` has all of them.
const ROWS: usize = 30;
/// As many pods of a workload as the tree shows.
const PODS: usize = 5;
/// How many columns a bar has.
const BAR: usize = 20;

pub(crate) fn tables(status: &Status, now: Timestamp) -> String {
    let mut text = format!("{}\n", headline(status));
    if !status.conditions.is_empty() {
        let rows = status.conditions.iter().map(|condition| {
            let since = human(now.duration_since(condition.last_transition_time.0));
            vec![
                condition.type_.clone(),
                condition.status.clone(),
                condition.reason.clone(),
                since,
                clean_line(&condition.message),
            ]
        });
        let _ = write!(text, "\n{}", table(&["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"], rows));
    }
    let rows = status.revisions.iter().take(ROWS).map(|revision| {
        let number = revision.revision.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (pods, ready) = (revision.pods.matched.to_string(), revision.pods.ready.to_string());
        vec![named(revision), number, pods, ready, clean_line(&revision.images.join(", "))]
    });
    let _ = write!(text, "\n{}", table(&["REVISION", "NUMBER", "PODS", "READY", "IMAGES"], rows));
    push_more(&mut text, status.revisions.len(), "revisions");
    if !status.workloads.is_empty() {
        let rows = status.workloads.iter().take(ROWS).map(|workload| {
            let pods = &workload.pods;
            let updated = format!("{} {}/{}", bar(pods.updated, pods.matched), pods.updated, pods.matched);
            vec![clean_line(&workload.workload.to_string()), updated, format!("{}/{}", pods.ready, pods.matched)]
        });
        let _ = write!(text, "\n{}", table(&["WORKLOAD", "UPDATED", "READY"], rows));
        push_more(&mut text, status.workloads.len(), "workloads");
    }
    if !status.waiting_for.is_empty() {
        let row = |pod: &PodStatus| {
            let waited = pod.since.map(|since| human(now.duration_since(since))).unwrap_or_default();
            vec![format!("{}/{}", pod.namespace, pod.name), clean_line(&pod.state), waited]
        };
        let rows = status.waiting_for.iter().take(ROWS).map(row);
        let _ = write!(text, "\n{}", table(&["WAITING FOR", "STATE", "SINCE"], rows));
        push_more(&mut text, status.waiting_for.len(), "pods");
    }
    let mends: Vec<&String> = status.waiting_for.iter().filter_map(|pod| pod.mend.as_ref()).collect();
    if !mends.is_empty() {
        text.push_str("\n  A pod whose record cannot be read is left alone. These commands mend it, if its workload recreates pods:\n");
        for mend in mends.iter().take(ROWS) {
            let _ = writeln!(text, "  {}", clean_line(mend));
        }
        push_more(&mut text, mends.len(), "pods");
    }
    if status.has_paused_itself {
        let name = &status.sidecar_set;
        let _ = writeln!(text, "\n  `pillion rollout undo {name}` goes back, `pillion rollout resume {name}` goes on");
    }
    text
}

/// One line for a log. It changes when something has happened, not with time.
pub(crate) fn line(status: &Status) -> String {
    let counts = &status.pods;
    let mut text = headline(status);
    if status.outcome == Outcome::NotObserved {
        let _ =
            write!(text, " ({} of {} updated, {} of them ready)", counts.updated, counts.matched, counts.updated_ready);
    }
    text
}

fn headline(status: &Status) -> String {
    let outcome = match status.outcome {
        Outcome::NotObserved => "waiting",
        Outcome::Updating => "updating",
        Outcome::Paused => "paused",
        Outcome::NotUpdate => "not updated",
        Outcome::Complete => "complete",
        Outcome::Failed => "stopped",
    };
    format!("SidecarSet {}: {outcome}: {}", status.sidecar_set, clean_line(&status.message))
}

/// The tree: set ▸ revisions ▸ workloads ▸ pods, in at most so many rows.
pub(crate) fn tree(status: &Status, now: Timestamp, rows: usize) -> Vec<String> {
    let counts = &status.pods;
    let mut lines = vec![format!(
        "{}  {} {}/{} updated, {} ready",
        status.sidecar_set,
        bar(counts.updated, counts.matched),
        counts.updated,
        counts.matched,
        counts.ready
    )];
    lines.push(format!("  {}", clean_line(&status.message)));
    let last = status.revisions.len().saturating_sub(1);
    for (i, revision) in status.revisions.iter().enumerate() {
        push_revision(&mut lines, revision, i == last, now);
    }
    if lines.len() > rows {
        let hidden = lines.len() - rows.saturating_sub(1);
        lines.truncate(rows.saturating_sub(1));
        lines.push(format!("… and {hidden} more lines"));
    }
    lines
}

fn push_revision(lines: &mut Vec<String>, revision: &RevisionStatus, is_last: bool, now: Timestamp) {
    let (branch, trunk) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
    let pods = &revision.pods;
    let images = clean_line(&revision.images.join(", "));
    lines.push(format!("{branch} {}  {}, {} ready  {images}", named(revision), counted(pods.matched), pods.ready));
    let last = revision.workloads.len().saturating_sub(1);
    for (i, workload) in revision.workloads.iter().enumerate() {
        let (branch, inner) = if i == last { ("└─", "  ") } else { ("├─", "│ ") };
        let ready = workload.pods.iter().filter(|pod| pod.is_ready).count();
        let all = workload.pods.len();
        let name = clean_line(&workload.workload.to_string());
        lines.push(format!("{trunk} {branch} {name}  {} {ready}/{all} ready", bar(ready, all)));
        for pod in workload.pods.iter().take(PODS) {
            let waited = pod.since.filter(|_| !pod.is_ready).map(|since| human(now.duration_since(since)));
            let waited = waited.map(|waited| format!("  {waited}")).unwrap_or_default();
            let recreate = if pod.must_be_recreated { ", must be recreated" } else { "" };
            let mark = if pod.is_ready { '●' } else { '○' };
            lines.push(format!("{trunk} {inner} {mark} {}  {}{recreate}{waited}", pod.name, clean_line(&pod.state)));
        }
        if all > PODS {
            lines.push(format!("{trunk} {inner} … and {} more pods", all - PODS));
        }
    }
}

fn named(revision: &RevisionStatus) -> String {
    let name = if revision.name.is_empty() { "(none recorded)".to_owned() } else { clean_line(&revision.name) };
    if revision.is_latest { format!("{name} (latest)") } else { name }
}

/// A bar that is full when all is done; nothing of nothing is done.
fn bar(done: usize, all: usize) -> String {
    let full = (done * BAR).checked_div(all).unwrap_or(BAR).min(BAR);
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

fn push_more(text: &mut String, count: usize, what: &str) {
    if count > ROWS {
        let _ = writeln!(text, "  … and {} more {what}; -o json lists all", count - ROWS);
    }
}
