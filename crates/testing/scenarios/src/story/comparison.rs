//! Compares the actual story with the expected one.
//!
//! Both are aligned with as few differences as possible. The alignment is used to decide whether they agree, to show what differs, and to rewrite
//! a story without losing its declarations.

use std::fmt::Write as _;

use super::expected::{Expected, Group};

/// What may follow after the end of one of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing.
    Same,
    /// The actual story may continue after all that is expected.
    ActualMayContinue,
    /// Expected lines may still follow.
    ExpectedMayContinue,
}

/// The expected story, aligned with the actual one.
pub(super) struct Comparison<'a> {
    rows: Vec<Row<'a>>,
    differences: usize,
}

enum Row<'a> {
    /// A group, and the actual lines in its place.
    Group(&'a Group, &'a [&'a str]),
    /// An actual line that is not expected.
    Extra(&'a str),
}

/// The best way to align groups and lines from some place on.
#[derive(Clone, Copy)]
struct Best {
    differences: usize,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    /// The next group takes so many lines.
    Group(usize),
    /// The next line is not expected.
    Extra,
    /// Nothing is left, or what is left does not matter.
    End,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(expected: &'a Expected, actual: &'a [&'a str], end: End) -> Comparison<'a> {
        let groups = expected.groups.as_slice();
        let best = align(groups, actual, end);
        let (mut i, mut j, mut rows) = (0, 0, Vec::new());
        loop {
            match best[i][j].step {
                Step::Group(length) => {
                    rows.push(Row::Group(&groups[i], &actual[j..j + length]));
                    (i, j) = (i + 1, j + length);
                }
                Step::Extra => {
                    rows.push(Row::Extra(actual[j]));
                    j += 1;
                }
                Step::End => break,
            }
        }
        Comparison { rows, differences: best[0][0].differences }
    }

    /// Whether nothing differs but what is declared.
    pub(super) fn agrees(&self) -> bool {
        self.differences == 0
    }

    /// Shows what differs, each difference with the line before, the line after and the object that it is about.
    pub(super) fn difference(&self) -> String {
        let lines = self.marked();
        let is_change = |index: usize| lines.get(index).is_some_and(|(mark, _)| *mark != ' ');
        let mut text = String::new();
        let (mut object, mut shown) = (None, None);
        for (index, (mark, line)) in lines.iter().enumerate() {
            if !line.starts_with(' ') {
                object = Some(index);
            }
            if !(index.saturating_sub(1)..=index + 1).any(is_change) {
                continue;
            }
            if let Some(object) = object.filter(|object| *object < index && shown < Some(*object)) {
                let _ = writeln!(text, "  {}", lines[object].1);
                shown = Some(object);
            }
            if shown.is_some_and(|shown| shown + 1 < index) {
                text.push_str("  …\n");
            }
            let _ = writeln!(text, "{mark} {line}");
            shown = Some(index);
        }
        text
    }

    /// All lines: `-` is missing, `+` is not expected.
    fn marked(&self) -> Vec<(char, String)> {
        let mut lines = Vec::new();
        for row in &self.rows {
            match row {
                Row::Group(group, actual) => {
                    let found = group.find(actual);
                    let missing = group.lines.iter().enumerate().filter(|(index, _)| !found.contains(&Some(*index)));
                    lines.extend(
                        missing.map(|(_, line)| (if line.may_be_missing { ' ' } else { '-' }, line.declared())),
                    );
                    for (found, actual) in found.iter().zip(*actual) {
                        lines.push((if found.is_some() { ' ' } else { '+' }, (*actual).to_owned()));
                    }
                }
                Row::Extra(actual) => lines.push(('+', (*actual).to_owned())),
            }
        }
        lines
    }

    /// The actual story, with the declarations that still hold.
    pub(super) fn accepted(&self) -> Vec<String> {
        let mut accepted = Vec::new();
        for row in &self.rows {
            match row {
                Row::Group(group, actual) => {
                    let found = group.find(actual);
                    accepted
                        .extend(group.write(|index| group.lines[index].may_be_missing || found.contains(&Some(index))));
                    let extra = found.iter().zip(*actual).filter(|(found, _)| found.is_none());
                    accepted.extend(extra.map(|(_, actual)| (*actual).to_owned()));
                }
                Row::Extra(actual) => accepted.push((*actual).to_owned()),
            }
        }
        accepted
    }
}

/// Aligns all groups from `i` on with all lines from `j` on, for each `i` and `j`, beginning with the last ones.
fn align(groups: &[Group], actual: &[&str], end: End) -> Vec<Vec<Best>> {
    let nothing = Best { differences: 0, step: Step::End };
    let mut best = vec![vec![nothing; actual.len() + 1]; groups.len() + 1];
    for i in (0..=groups.len()).rev() {
        for j in (0..=actual.len()).rev() {
            let is_over = (i == groups.len() && end == End::ActualMayContinue)
                || (j == actual.len() && end == End::ExpectedMayContinue);
            if is_over {
                continue;
            }
            let with_group = groups.get(i).into_iter().flat_map(|group| {
                let longest = group.lines.len().min(actual.len() - j);
                (0..=longest).rev().map(move |length| (length, differences(group, &actual[j..j + length])))
            });
            let with_group = with_group.map(|(length, differences)| Best {
                differences: best[i + 1][j + length].differences + differences,
                step: Step::Group(length),
            });
            let without =
                (j < actual.len()).then(|| Best { differences: best[i][j + 1].differences + 1, step: Step::Extra });
            // Of equals the first: what is missing is shown before what is there instead.
            let found = with_group.chain(without).min_by_key(|best| best.differences);
            best[i][j] = found.unwrap_or(nothing);
        }
    }
    best
}

/// How many lines are missing, and how many are there instead.
fn differences(group: &Group, actual: &[&str]) -> usize {
    let found = group.find(actual);
    let is_missing = |index: usize| !group.lines[index].may_be_missing && !found.contains(&Some(index));
    (0..group.lines.len()).filter(|index| is_missing(*index)).count()
        + found.iter().filter(|found| found.is_none()).count()
}

#[cfg(test)]
mod tests;
