//! Rewrites the stories that are written in scenarios.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

/// Files that this process has rewritten. Places in a program are those of the text that it was compiled from.
static REWRITTEN: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

struct File {
    compiled: String,
    /// What stands in place of parts of it, by where they begin.
    replaced: BTreeMap<usize, (usize, String)>,
}

/// Writes lines in place of a story in the source code: the last literal `expected` before the call at `place`.
pub(super) fn rewrite(place: &Location<'_>, expected: &str, lines: &[String]) -> anyhow::Result<()> {
    // As cargo says it now: a target folder that several clones share may hold a program that another of them compiled.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let path = Path::new(&package).join("../../..").join(place.file());
    let mut rewritten = REWRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !rewritten.contains_key(&path) {
        let compiled = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", place.file()))?;
        rewritten.insert(path.clone(), File { compiled, replaced: BTreeMap::new() });
    }
    let file = rewritten.get_mut(&path).context("the file was just read")?;
    file.replace(place.line(), expected, lines).with_context(|| {
        format!(
            "cannot find the story of {place}: write it as one literal before the call, without escapes, and compile again"
        )
    })?;
    std::fs::write(&path, file.text()).with_context(|| format!("cannot write {}", place.file()))
}

impl File {
    /// Replaces the last literal before the end of a line that is `expected`. Returns `None` if no such literal is found.
    fn replace(&mut self, line: u32, expected: &str, lines: &[String]) -> Option<()> {
        let call: usize = self.compiled.split_inclusive('\n').take(usize::try_from(line).ok()?).map(str::len).sum();
        let quoted = format!("\"{expected}\"");
        let begin = self.compiled.get(..call)?.rfind(&quoted)?;
        let end = begin + quoted.len();
        let is_raw = self.compiled[..begin].ends_with("r#") && self.compiled[end..].starts_with('#');
        let place = if is_raw { begin - 2..end + 1 } else { begin..end };
        let text = as_literal(expected, lines);
        let literal =
            if is_raw || text.contains(['"', '\\']) { format!("r#\"{text}\"#") } else { format!("\"{text}\"") };
        self.replaced.insert(place.start, (place.end, literal));
        Some(())
    }

    fn text(&self) -> String {
        let (mut text, mut copied) = (String::new(), 0);
        for (begin, (end, literal)) in &self.replaced {
            text.push_str(&self.compiled[copied..*begin]);
            text.push_str(literal);
            copied = *end;
        }
        text.push_str(&self.compiled[copied..]);
        text
    }
}

/// Lines with the indentation of the literal that they replace.
fn as_literal(replaced: &str, lines: &[String]) -> String {
    let Range { start, end } = first_line(replaced);
    let indentation = &replaced[start..end];
    let lines: Vec<String> = lines.iter().map(|line| format!("{indentation}{line}")).collect();
    format!("{}{}{}", &replaced[..start], lines.join("\n"), &replaced[replaced.trim_end().len()..])
}

/// Where the indentation of the first line with text is.
fn first_line(text: &str) -> Range<usize> {
    let end = text.len() - text.trim_start().len();
    let start = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
    start..end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::File;

    const SOURCE: &str = "
fn one() {
    let expected = \"
        Pod app
          Pending
        \";
    story.matches(expected)
}
fn two() {
    let expected = \"
        Pod app
          Pending
        \";
    story.matches(expected);
    let expected = r#\"
        Pod \"app\"
        \"#;
    story.matches(expected)
}
";
    const STORY: &str = "\n        Pod app\n          Pending\n        ";

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_story_is_rewritten_in_its_place() {
        let mut file = File { compiled: SOURCE.to_owned(), replaced: BTreeMap::new() };
        file.replace(14, STORY, &lines("Pod app\n  Running")).unwrap();
        // The first has become longer; the places are those of the text that was compiled.
        file.replace(7, STORY, &lines("Pod app\n  Pending\n  gone")).unwrap();
        file.replace(18, "\n        Pod \"app\"\n        ", &lines("Pod app")).unwrap();
        let expected = SOURCE
            .replacen("          Pending\n", "          Pending\n          gone\n", 1)
            .replace(
                "          Pending\n        \";\n    story.matches(expected);",
                "          Running\n        \";\n    story.matches(expected);",
            )
            .replace("Pod \"app\"", "Pod app");
        assert_eq!(file.text(), expected);
    }

    #[test]
    fn a_story_with_quotes_becomes_a_raw_literal() {
        let mut file = File { compiled: SOURCE.to_owned(), replaced: BTreeMap::new() };
        file.replace(7, STORY, &lines("Pod app: \"late\"")).unwrap();
        let expected = format!("r#\"{}\"#", STORY.replace("app\n          Pending", "app: \"late\""));
        assert_eq!(file.text(), SOURCE.replacen(&format!("\"{STORY}\""), &expected, 1));
    }

    #[test]
    fn a_story_that_is_not_there_is_not_written() {
        let mut file = File { compiled: SOURCE.to_owned(), replaced: BTreeMap::new() };
        assert!(file.replace(7, "\n        Pod other\n        ", &lines("Pod app")).is_none());
        assert!(file.replace(3, STORY, &lines("Pod app")).is_none(), "it is after the call");
        assert_eq!(file.text(), SOURCE);
    }
}
