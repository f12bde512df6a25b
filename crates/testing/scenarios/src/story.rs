//! What happened to the workloads and pods of a namespace, as text that is the same on every cluster.
//!
//! ```text
//!  watches, from before the scenario begins ─▶ recording ─┐
//!                                                         ├─▶ text ─▶ placeholders (for what differs between runs) ─┐
//!  events ────────────────────────────────────────────────┘                                                         ▼
//!                             scenario ─▶ expected: lines, and what may differ among them ─▶ comparison ─▶ outcome
//!                                ▲                                                               │
//!                                └────── source (`cargo xtask test real --accept`) ◀─────────────┘
//! ```

mod comparison;
mod expected;
mod outcome;
mod placeholders;
mod record;
mod recording;
mod source;
mod text;

use std::panic::Location;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;

use self::comparison::{Comparison, End};
use self::expected::Expected;
use self::outcome::Mismatch;
use self::placeholders::Placeholders;
use self::record::Record;
use self::recording::Recording;
use crate::{Namespace, wait};

/// The story of a namespace, from when its recording began.
///
/// A story is compared line by line. What may differ between two runs is declared in the text that the scenario expects, below the reason:
///
/// | written | means |
/// |---|---|
/// | `maybe LINE` | the line may be missing |
/// | `Pending, {maybe Running, }Succeeded` | a part of the line may be missing |
/// | `any order`, with lines indented below it | these lines come in any order |
/// | `# REASON` | why the declaration in the next line may differ; each declaration needs a reason |
///
/// Everything else must be equal. Each object has a part of its own, so the order of events of different objects is not compared.
pub struct Story {
    namespace: Namespace,
    recording: Recording,
}

impl Story {
    pub(crate) async fn begin(namespace: &Namespace) -> anyhow::Result<Story> {
        let recording = Recording::begin(&namespace.client(), namespace.name()).await?;
        Ok(Story { namespace: namespace.clone(), recording })
    }

    /// Waits until the whole story is as expected, and checks that it stays so.
    #[track_caller]
    pub fn matches(&self, expected: &str) -> impl Future<Output = anyhow::Result<()>> {
        self.matches_for(&recording::KINDS, expected)
    }

    /// Does the same for some kinds only. Use it where Kubernetes does not specify which of several equal pods is chosen.
    #[track_caller]
    pub fn matches_for(&self, kinds: &[&str], expected: &str) -> impl Future<Output = anyhow::Result<()>> {
        let place = Location::caller();
        async move {
            let story = parse(place, expected)?;
            let ask = async || self.text(kinds).await;
            let Some(mismatch) = outcome::becomes_and_stays(&story, ask).await? else { return Ok(()) };
            if !self.is_accepted() {
                return Err(mismatch.into());
            }
            let actual = outcome::settled(ask).await?;
            accept(place, expected, &story, &actual.lines().collect::<Vec<_>>())
        }
    }

    /// Waits until the statuses of a container, in their order, begin as expected.
    #[track_caller]
    pub fn container_begins(&self, container: &str, expected: &str) -> impl Future<Output = anyhow::Result<()>> {
        let place = Location::caller();
        async move {
            let story = parse(place, expected)?;
            let last =
                story.groups.last().and_then(|group| group.lines.first()).context("the story has a last line")?;
            let mut actual = String::new();
            let waited = wait::until("the statuses of the container", async || {
                actual = self.container_states(container);
                let lines: Vec<&str> = actual.lines().collect();
                let agrees = |end| Comparison::new(&story, &lines, end).agrees();
                // A status that was reported stays in the list. Statuses are accepted up to the last expected one.
                let is_over = if self.is_accepted() {
                    lines.iter().any(|line| last.matches(line))
                } else {
                    !agrees(End::ExpectedMayContinue)
                };
                Ok((is_over || agrees(End::ActualMayContinue)).then_some(()))
            });
            let waited = waited.await;
            let mut lines: Vec<&str> = actual.lines().collect();
            let comparison = Comparison::new(&story, &lines, End::ActualMayContinue);
            if comparison.agrees() {
                return Ok(());
            }
            if !self.is_accepted() || waited.is_err() {
                let mismatch = Mismatch::new("of the container differs", &comparison, &actual);
                return Err(anyhow::Error::from(mismatch).context(format!("the statuses of {container}")));
            }
            let end = lines.iter().position(|line| last.matches(line)).map_or(0, |last| last + 1);
            lines.truncate(end);
            accept(place, expected, &story, &lines)
        }
    }

    /// Waits until a pod is deleted, and returns its last state.
    pub async fn end_of(&self, pod: &str) -> anyhow::Result<Pod> {
        let what = format!("the end of {pod}");
        let is_it = |record: &Record| record.is_gone && record.kind == "Pod" && record.text("/metadata/name") == pod;
        let ended = wait::until(&what, async || Ok(self.recording.records().into_iter().find(is_it)));
        Ok(serde_json::from_value(ended.await?.object)?)
    }

    async fn text(&self, kinds: &[&str]) -> anyhow::Result<String> {
        let events: Vec<Event> = self.namespace.api().list(&ListParams::default()).await?.items;
        Ok(text::render(self.namespace.name(), &self.recording.records(), events, kinds))
    }

    /// The statuses that were reported of a container.
    fn container_states(&self, container: &str) -> String {
        let records = self.recording.records();
        let placeholders = Placeholders::new(self.namespace.name(), &records);
        let states = records.iter().filter_map(|record| record.container_states.get(container)).flatten();
        states.flat_map(|state| [placeholders.replace(state), "\n".to_owned()]).collect()
    }

    /// Whether a story that differs is rewritten. Only the real cluster rewrites stories; the embedded cluster must match them.
    fn is_accepted(&self) -> bool {
        self.namespace.is_real() && std::env::var_os("UPDATE_STORIES").is_some()
    }
}

fn parse(place: &Location<'_>, expected: &str) -> anyhow::Result<Expected> {
    Expected::parse(&unindent(expected)).with_context(|| format!("the story at {place}"))
}

/// Writes the actual story in place of the expected one.
fn accept(place: &Location<'_>, expected: &str, story: &Expected, actual: &[&str]) -> anyhow::Result<()> {
    let comparison = Comparison::new(story, actual, End::Same);
    source::rewrite(place, expected, &comparison.accepted())?;
    eprintln!("rewrote the story at {place}:\n{}", comparison.difference());
    Ok(())
}

/// Removes the indentation that a text has in source code.
fn unindent(text: &str) -> String {
    let lines = || text.lines().skip_while(|line| line.trim().is_empty());
    let indentation = lines().next().map_or(0, |line| line.len() - line.trim_start().len());
    let whole: Vec<&str> = lines().map(|line| line.get(indentation..).unwrap_or_default()).collect();
    format!("{}\n", whole.join("\n").trim_end())
}

#[cfg(test)]
mod tests {
    use super::unindent;

    #[test]
    fn the_indentation_of_source_code_is_removed() {
        assert_eq!(unindent("\n    Pod app\n      Pending\n    Pod other\n    "), "Pod app\n  Pending\nPod other\n");
    }
}
