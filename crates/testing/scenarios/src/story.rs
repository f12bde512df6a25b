//! What happened to the workloads and pods of a namespace, as text that is the same on every cluster.
//!
//! ```text
//!  watches, from before the scenario begins ─▶ chronicle ─┐
//!                                                         ├─▶ text ─▶ words (what differs from run to run) ─┐
//!  events ────────────────────────────────────────────────┘                                                 ▼
//!                             scenario ─▶ expected: lines, and what may differ among them ─▶ comparison ─▶ outcome
//!                                ▲                                                               │
//!                                └────── source (`cargo xtask test real --accept`) ◀─────────────┘
//! ```

mod chronicle;
mod comparison;
mod expected;
mod outcome;
mod source;
mod text;
mod words;

use std::panic::Location;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;

use self::chronicle::{Chronicle, Subject};
use self::comparison::{Comparison, End};
use self::expected::Expected;
use self::outcome::Differs;
use self::words::Words;
use crate::{Namespace, wait};

/// The story of a namespace, from when it was begun.
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
    chronicle: Chronicle,
}

impl Story {
    pub(crate) async fn begin(namespace: &Namespace) -> anyhow::Result<Story> {
        let chronicle = Chronicle::begin(&namespace.client(), namespace.name()).await?;
        Ok(Story { namespace: namespace.clone(), chronicle })
    }

    /// Wants the whole story to be as expected before long, and to stay so.
    #[track_caller]
    pub fn tells(&self, expected: &str) -> impl Future<Output = anyhow::Result<()>> {
        self.tells_of(&chronicle::TOLD, expected)
    }

    /// The same, of some kinds only: where it is not said which of several equal pods is chosen.
    #[track_caller]
    pub fn tells_of(&self, kinds: &[&str], expected: &str) -> impl Future<Output = anyhow::Result<()>> {
        let place = Location::caller();
        async move {
            let story = Expected::parse(&unindent(expected)).with_context(|| format!("the story at {place}"))?;
            let ask = async || self.text(kinds).await;
            let Some(differs) = outcome::becomes_and_stays(&story, ask).await? else { return Ok(()) };
            if !self.is_accepted() {
                return Err(differs.into());
            }
            let told = outcome::settles(ask).await?;
            accept(place, expected, &story, &told.lines().collect::<Vec<_>>())
        }
    }

    /// Wants all that a container of the pod said of itself, in its order, to begin as expected, before long.
    #[track_caller]
    pub fn life_begins(&self, container: &str, expected: &str) -> impl Future<Output = anyhow::Result<()>> {
        let place = Location::caller();
        async move {
            let story = Expected::parse(&unindent(expected)).with_context(|| format!("the story at {place}"))?;
            let last =
                story.groups.last().and_then(|group| group.lines.first()).context("the story has a last line")?;
            let mut told = String::new();
            let waited = wait::until("the container's life", async || {
                told = self.life(container);
                let lines: Vec<&str> = told.lines().collect();
                let agrees = |end| Comparison::new(&story, &lines, end).agrees();
                // What a container has said stays said. A life that is accepted goes as far as the expected one.
                let is_over = if self.is_accepted() {
                    lines.iter().any(|line| last.matches(line))
                } else {
                    !agrees(End::ExpectedMayGoOn)
                };
                Ok((is_over || agrees(End::ToldMayGoOn)).then_some(()))
            });
            let waited = waited.await;
            let mut lines: Vec<&str> = told.lines().collect();
            let comparison = Comparison::new(&story, &lines, End::ToldMayGoOn);
            if comparison.agrees() {
                return Ok(());
            }
            let differs = Differs::new("of the container is another", &comparison, &told);
            if !self.is_accepted() || waited.is_err() {
                return Err(anyhow::Error::from(differs).context(format!("the life of {container}")));
            }
            let end = lines.iter().position(|line| last.matches(line)).map_or(0, |last| last + 1);
            lines.truncate(end);
            accept(place, expected, &story, &lines)
        }
    }

    /// Waits until a pod is gone, and gives it as it was seen last.
    pub async fn end_of(&self, pod: &str) -> anyhow::Result<Pod> {
        let what = format!("the end of {pod}");
        let ended = wait::until(&what, async || {
            let is_it =
                |subject: &Subject| subject.is_gone && subject.kind == "Pod" && subject.text("/metadata/name") == pod;
            Ok(self.chronicle.subjects().into_iter().find(is_it))
        });
        Ok(serde_json::from_value(ended.await?.object)?)
    }

    async fn text(&self, kinds: &[&str]) -> anyhow::Result<String> {
        let events: Vec<Event> = self.namespace.api().list(&ListParams::default()).await?.items;
        let subjects = self.chronicle.subjects();
        Ok(text::tell(self.namespace.name(), &subjects, events, kinds))
    }

    /// What a container said of itself until now.
    fn life(&self, container: &str) -> String {
        let subjects = self.chronicle.subjects();
        let words = Words::new(self.namespace.name(), &subjects);
        let lives = subjects.iter().filter_map(|subject| subject.lives.get(container)).flatten();
        lives.flat_map(|said| [words.replace(said), "\n".to_owned()]).collect()
    }

    /// Whether a story is rewritten if it is another. The embedded cluster has to tell what the real one tells.
    fn is_accepted(&self) -> bool {
        self.namespace.is_real() && std::env::var_os("UPDATE_STORIES").is_some()
    }
}

/// Writes a story that was told in place of the expected one.
fn accept(place: &Location<'_>, expected: &str, story: &Expected, told: &[&str]) -> anyhow::Result<()> {
    let comparison = Comparison::new(story, told, End::Same);
    source::rewrite(place, expected, &comparison.accepted())?;
    eprintln!("rewrote the story at {place}:\n{}", comparison.difference());
    Ok(())
}

/// Takes away the indentation that a text has in source code.
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
    fn a_text_is_as_if_it_were_not_in_source_code() {
        assert_eq!(unindent("\n    Pod app\n      Pending\n    Pod other\n    "), "Pod app\n  Pending\nPod other\n");
    }
}
