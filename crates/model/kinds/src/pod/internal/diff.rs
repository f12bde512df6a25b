//! A unified diff of lines, found as Python's `difflib` finds it: the longest common run first, then what is before and after it.
//!
//! Other algorithms give other (and shorter) diffs; the API server's is this one, so that its messages are.

use std::collections::BTreeMap;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// A run of equal lines: where it starts on either side, and how long it is.
#[derive(Clone, Copy)]
struct Run {
    old: usize,
    new: usize,
    length: usize,
}

/// Ranges of lines on either side that are equal, or that replace each other.
#[derive(Clone, Copy)]
struct Piece {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// The diff, without file names. Every line ends with a line feed.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut text = String::new();
    for group in groups(&pieces(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (old_range, new_range) = (range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        text.extend(["@@ -", &old_range, " +", &new_range, " @@\n"]);
        for piece in &group {
            let mut write = |sign: char, lines: &[&str], (from, to): (usize, usize)| {
                for line in lines.get(from..to).unwrap_or_default() {
                    text.push(sign);
                    text.push_str(line);
                    text.push('\n');
                }
            };
            if piece.equal {
                write(' ', &old, piece.old);
            } else {
                write('-', &old, piece.old);
                write('+', &new, piece.new);
            }
        }
    }
    text
}

fn range(from: usize, to: usize) -> String {
    match to - from {
        0 => format!("{from},0"),
        1 => format!("{}", from + 1),
        length => format!("{},{length}", from + 1),
    }
}

fn pieces(old: &[&str], new: &[&str]) -> Vec<Piece> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(i);
    }
    // Lines that are everywhere in a long text tell nothing.
    if new.len() >= 200 {
        let most = new.len() / 100 + 1;
        places.retain(|_, places| places.len() <= most);
    }
    let mut runs = Vec::new();
    // What is still to be searched, the earliest on top. A run is put there too, with no lines to search.
    let mut open = vec![Ok(((0, old.len()), (0, new.len())))];
    while let Some(next) = open.pop() {
        let ((old_from, old_to), (new_from, new_to)) = match next {
            Ok(ranges) => ranges,
            Err(run) => {
                runs.push(run);
                continue;
            }
        };
        let run = longest(old, new, &places, (old_from, old_to), (new_from, new_to));
        if run.length == 0 {
            continue;
        }
        let (old_end, new_end) = (run.old + run.length, run.new + run.length);
        if old_end < old_to && new_end < new_to {
            open.push(Ok(((old_end, old_to), (new_end, new_to))));
        }
        open.push(Err(run));
        if old_from < run.old && new_from < run.new {
            open.push(Ok(((old_from, run.old), (new_from, run.new))));
        }
    }
    runs.push(Run { old: old.len(), new: new.len(), length: 0 });
    between(&runs)
}

/// The runs, and what is between them. Runs that touch are one.
fn between(runs: &[Run]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for run in runs {
        if i < run.old || j < run.new {
            pieces.push(Piece { equal: false, old: (i, run.old), new: (j, run.new) });
        }
        (i, j) = (run.old + run.length, run.new + run.length);
        if run.length > 0 {
            match pieces.last_mut().filter(|last| last.equal) {
                Some(last) => (last.old.1, last.new.1) = (i, j),
                None => pieces.push(Piece { equal: true, old: (run.old, i), new: (run.new, j) }),
            }
        }
    }
    pieces
}

fn longest(
    old: &[&str],
    new: &[&str],
    places: &BTreeMap<&str, Vec<usize>>,
    (old_from, old_to): (usize, usize),
    (new_from, new_to): (usize, usize),
) -> Run {
    let mut best = Run { old: old_from, new: new_from, length: 0 };
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, line) in old.iter().enumerate().take(old_to).skip(old_from) {
        let mut next = BTreeMap::new();
        for &j in places.get(line).into_iter().flatten().filter(|j| (new_from..new_to).contains(j)) {
            let length = j.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or_default() + 1;
            next.insert(j, length);
            if length > best.length {
                best = Run { old: i + 1 - length, new: j + 1 - length, length };
            }
        }
        lengths = next;
    }
    // Lines that were not looked for can still make the run longer.
    while best.old > old_from && best.new > new_from && old.get(best.old - 1) == new.get(best.new - 1) {
        best = Run { old: best.old - 1, new: best.new - 1, length: best.length + 1 };
    }
    while best.old + best.length < old_to
        && best.new + best.length < new_to
        && old.get(best.old + best.length) == new.get(best.new + best.length)
    {
        best.length += 1;
    }
    best
}

/// The pieces in groups that are far enough apart, with no more context than is wanted.
fn groups(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let mut groups = Vec::new();
    let mut group: Vec<Piece> = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        let mut piece = *piece;
        let tail = |piece: Piece| Piece {
            old: (piece.old.0.max(piece.old.1.saturating_sub(CONTEXT)), piece.old.1),
            new: (piece.new.0.max(piece.new.1.saturating_sub(CONTEXT)), piece.new.1),
            ..piece
        };
        let head = |piece: Piece| Piece {
            old: (piece.old.0, piece.old.1.min(piece.old.0 + CONTEXT)),
            new: (piece.new.0, piece.new.1.min(piece.new.0 + CONTEXT)),
            ..piece
        };
        if piece.equal && i == 0 {
            piece = tail(piece);
        }
        if piece.equal && i + 1 == pieces.len() {
            piece = head(piece);
        }
        if piece.equal && piece.old.1 - piece.old.0 > 2 * CONTEXT {
            group.push(head(piece));
            groups.push(std::mem::take(&mut group));
            piece = tail(piece);
        }
        group.push(piece);
    }
    if group.iter().any(|piece| !piece.equal) {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_three_lines_around_them() {
        let old: Vec<String> = (1..=20).map(|i| i.to_string()).collect();
        let mut new = old.clone();
        new[9] = "ten".to_owned();
        assert_eq!(
            unified(&old.join("\n"), &new.join("\n")),
            "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
        );
        new[0] = "one".to_owned();
        new.pop();
        assert_eq!(
            unified(&old.join("\n"), &new.join("\n")),
            "@@ -1,4 +1,4 @@\n-1\n+one\n 2\n 3\n 4\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n@@ -17,4 +17,3 @@\n 17\n 18\n 19\n-20\n"
        );
        assert_eq!(unified("a", "a"), "");
        assert_eq!(unified("a\nb", "a"), "@@ -1,2 +1 @@\n a\n-b\n");
    }
}
