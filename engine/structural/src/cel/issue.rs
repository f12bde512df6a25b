//! What is wrong in an expression, displayed with its place as cel-go does it.

/// One mistake, at a character of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Issue {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Issue {
        Issue { at, message: message.into() }
    }
}

/// cel-go reports no more.
const MOST: usize = 100;
/// Longer lines are not shown.
const MAX_SNIPPET: usize = 16_384;

/// The mistakes in the order of the text.
pub(super) fn display(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|issue| issue.at);
    issues.truncate(MOST);
    let shown: Vec<String> = issues.iter().map(|issue| display_one(source, issue)).collect();
    shown.join("\n")
}

fn display_one(source: &str, issue: &Issue) -> String {
    let (line, column, text) = locate(source, issue.at);
    let head = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
    if text.len() > MAX_SNIPPET {
        return head;
    }
    let text = text.replace('\t', " ");
    // Characters that are wider than a byte get a wide dot.
    let mut marks: String = text.chars().take(column).map(|c| if c.is_ascii() { '.' } else { '．' }).collect();
    marks.push(if text.chars().nth(column).is_some_and(|c| !c.is_ascii()) { '＾' } else { '^' });
    format!("{head}\n | {text}\n | {marks}")
}

/// Line (from 1), column (from 0) and text of the line of a character.
fn locate(source: &str, at: usize) -> (usize, usize, &str) {
    let mut start = 0;
    let mut last = (1, at, source);
    for (index, line) in source.split('\n').enumerate() {
        let length = line.chars().count();
        last = (index + 1, at.saturating_sub(start), line);
        if at <= start + length {
            break;
        }
        start += length + 1;
    }
    last
}
