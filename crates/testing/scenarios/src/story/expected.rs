//! The expected story, and the differences between runs that it declares.
//!
//! [`Story`](super::Story) describes the notation.

use anyhow::{bail, ensure};

const MAYBE: &str = "maybe ";
const BEGIN_OF_PART: &str = "{maybe ";
const ANY_ORDER: &str = "any order";

/// A story as it is written in a scenario.
pub(super) struct Expected {
    pub(super) groups: Vec<Group>,
}

/// Lines whose order among each other is not compared: one line, unless the story declares more.
pub(super) struct Group {
    /// Why a difference is declared; empty where nothing is.
    pub(super) reason: Vec<String>,
    pub(super) lines: Vec<Line>,
}

/// A line, and what may be missing.
pub(super) struct Line {
    /// Without `maybe` at its beginning.
    pub(super) written: String,
    pub(super) may_be_missing: bool,
    pieces: Vec<Piece>,
}

enum Piece {
    Text(String),
    Maybe(String),
}

impl Expected {
    /// Parses a story without the indentation that it has in source code.
    ///
    /// # Errors
    /// A difference is declared without a reason, or a reason has no declaration below it.
    pub(super) fn parse(text: &str) -> anyhow::Result<Expected> {
        let (mut groups, mut reason) = (Vec::new(), Vec::new());
        let mut lines = text.lines().peekable();
        while let Some(written) = lines.next() {
            let (indentation, content) = split_indentation(written);
            if content.starts_with('#') {
                reason.push(written.to_owned());
                continue;
            }
            let mut group = Group { reason: std::mem::take(&mut reason), lines: Vec::new() };
            if content == ANY_ORDER {
                let deeper = format!("{indentation}  ");
                while let Some(member) = lines.next_if(|line| line.starts_with(&deeper)) {
                    group.lines.push(Line::parse(&member[2..])?);
                }
                ensure!(group.lines.len() > 1, "`{ANY_ORDER}` needs at least two lines that are indented below it");
            } else {
                group.lines.push(Line::parse(written)?);
            }
            ensure!(
                !group.declares() || !group.reason.is_empty(),
                "{content:?} declares a difference without a reason: write `# REASON` above it"
            );
            ensure!(
                group.declares() || group.reason.is_empty(),
                "{content:?} declares no difference: remove the reason above it, or write `maybe`"
            );
            groups.push(group);
        }
        ensure!(reason.is_empty(), "{:?} is at the end: a reason is above the line that may differ", reason.concat());
        Ok(Expected { groups })
    }
}

impl Group {
    fn declares(&self) -> bool {
        self.is_in_any_order() || self.lines.iter().any(Line::declares)
    }

    fn is_in_any_order(&self) -> bool {
        self.lines.len() > 1
    }

    /// Finds the line of the group that each actual line matches. `None` stands for a line that matches none.
    pub(super) fn find(&self, actual: &[&str]) -> Vec<Option<usize>> {
        let mut found: Vec<Option<usize>> = Vec::new();
        for actual in actual {
            let is_it = |(index, line): &(usize, &Line)| !found.contains(&Some(*index)) && line.matches(actual);
            found.push(self.lines.iter().enumerate().find(is_it).map(|(index, _)| index));
        }
        found
    }

    /// Writes the group with these of its lines only.
    pub(super) fn write(&self, is_kept: impl Fn(usize) -> bool) -> Vec<String> {
        let kept: Vec<&Line> =
            self.lines.iter().enumerate().filter(|(index, _)| is_kept(*index)).map(|(_, line)| line).collect();
        let Some(first) = kept.first() else { return Vec::new() };
        let mut written = Vec::new();
        if kept.len() > 1 {
            let indentation = split_indentation(&first.written).0;
            written.extend(self.reason.iter().cloned());
            written.push(format!("{indentation}{ANY_ORDER}"));
            written.extend(kept.iter().map(|line| format!("  {}", line.declared())));
        } else {
            if first.declares() {
                written.extend(self.reason.iter().cloned());
            }
            written.push(first.declared());
        }
        written
    }
}

impl Line {
    fn parse(declared: &str) -> anyhow::Result<Line> {
        let (indentation, content) = split_indentation(declared);
        ensure!(
            !content.starts_with('#'),
            "{content:?} is among lines in any order: their reason is above all of them"
        );
        let (may_be_missing, content) = match content.strip_prefix(MAYBE) {
            Some(content) => (true, content),
            None => (false, content),
        };
        let written = format!("{indentation}{content}");
        let (mut pieces, mut rest) = (Vec::new(), written.as_str());
        while let Some((text, after)) = rest.split_once(BEGIN_OF_PART) {
            let Some((part, after)) = after.split_once('}') else {
                bail!("{content:?} has no `}}` after `{BEGIN_OF_PART}`");
            };
            pieces.extend([Piece::Text(text.to_owned()), Piece::Maybe(part.to_owned())]);
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Line { written, may_be_missing, pieces })
    }

    fn declares(&self) -> bool {
        self.may_be_missing || self.pieces.len() > 1
    }

    pub(super) fn matches(&self, actual: &str) -> bool {
        matches(&self.pieces, actual)
    }

    /// As it is written in the scenario.
    pub(super) fn declared(&self) -> String {
        let (indentation, content) = split_indentation(&self.written);
        let maybe = if self.may_be_missing { MAYBE } else { "" };
        format!("{indentation}{maybe}{content}")
    }
}

fn matches(pieces: &[Piece], actual: &str) -> bool {
    let Some((first, others)) = pieces.split_first() else { return actual.is_empty() };
    let (Piece::Text(text) | Piece::Maybe(text)) = first;
    let is_there = actual.strip_prefix(text.as_str()).is_some_and(|rest| matches(others, rest));
    is_there || (matches!(first, Piece::Maybe(_)) && matches(others, actual))
}

fn split_indentation(line: &str) -> (&str, &str) {
    line.split_at(line.len() - line.trim_start().len())
}

#[cfg(test)]
mod tests {
    use super::Expected;

    #[test]
    fn every_declaration_has_a_reason_and_every_reason_a_declaration() {
        let table = [
            ("maybe a\n", "without a reason"),
            ("{maybe a, }b\n", "without a reason"),
            ("any order\n  a\n  b\n", "without a reason"),
            ("# why\na\n", "declares no difference"),
            ("a\n# why\n", "is at the end"),
            ("# why\nany order\n  a\n", "at least two lines"),
            ("# why\nany order\n  a\n  # why\n  maybe b\n", "their reason is above all of them"),
            ("# why\na {maybe b\n", "has no `}`"),
        ];
        for (text, expected) in table {
            let refused = Expected::parse(text).map(drop).unwrap_err().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }

    #[test]
    fn braces_of_events_declare_nothing() {
        let story = Expected::parse("kubelet Normal Killing spec.containers{main}: Stopping container main\n").unwrap();
        assert!(
            story.groups[0].lines[0].matches("kubelet Normal Killing spec.containers{main}: Stopping container main")
        );
    }

    #[test]
    fn a_declaration_is_written_as_it_was_read() {
        let text = "a\n# why\n  maybe b {maybe c}d\n# why\n# else\n  any order\n    e\n    maybe f\n";
        let story = Expected::parse(text).unwrap();
        let written: Vec<String> = story.groups.iter().flat_map(|group| group.write(|_| true)).collect();
        assert_eq!(format!("{}\n", written.join("\n")), text);
    }
}
