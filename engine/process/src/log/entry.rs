//! One line of a log file: `2026-01-01T00:00:00.000000000Z stdout F text`.

use jiff::Timestamp;

/// A longer line is written in parts.
pub(super) const LONGEST: usize = 16 * 1024;

/// Cuts what comes from a stream into lines, and these into parts.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    rest: Vec<u8>,
}

/// A line or a part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: Vec<u8>,
    /// Whether the line goes on, or ended without an end of line.
    pub(super) partial: bool,
}

impl Cutter {
    /// What is complete with these bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (index, part) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                pieces.push(Piece { text: std::mem::take(&mut self.rest), partial: false });
            }
            self.rest.extend(part);
            while self.rest.len() > LONGEST {
                let rest = self.rest.split_off(LONGEST);
                pieces.push(Piece { text: std::mem::replace(&mut self.rest, rest), partial: true });
            }
        }
        pieces
    }

    /// What is left at the end of the stream.
    pub(super) fn finish(&mut self) -> Option<Piece> {
        let text = std::mem::take(&mut self.rest);
        (!text.is_empty()).then_some(Piece { text, partial: true })
    }
}

/// A line of a log file.
pub(super) fn format(at: Timestamp, stream: &str, piece: &Piece) -> Vec<u8> {
    let tag = if piece.partial { 'P' } else { 'F' };
    let mut line = format!("{at:.9} {stream} {tag} ").into_bytes();
    line.extend(&piece.text);
    line.push(b'\n');
    line
}

/// What a line of a log file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) at: Timestamp,
    /// The text, with an end of line unless the line goes on.
    pub(super) text: &'a [u8],
}

/// Reads a line of a log file, which may have its end of line or not. `None` for anything else.
pub(super) fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let at = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    if !matches!(fields.next()?, b"stdout" | b"stderr") {
        return None;
    }
    let partial = fields.next()?.split(|byte| *byte == b':').next() == Some(b"P");
    let text = fields.next()?;
    Some(Entry { at, text: if partial { text.strip_suffix(b"\n").unwrap_or(text) } else { text } })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(text: &str, partial: bool) -> Piece {
        Piece { text: text.into(), partial }
    }

    #[test]
    fn lines_are_whole_whatever_way_they_come() {
        let mut cutter = Cutter::default();
        assert_eq!(cutter.push(b"one\ntw"), [piece("one", false)]);
        assert_eq!(cutter.push(b"o\n\nthree"), [piece("two", false), piece("", false)]);
        assert_eq!(cutter.finish(), Some(piece("three", true)));
        assert_eq!(cutter.finish(), None);
    }

    #[test]
    fn a_long_line_is_cut_only_when_it_is_too_long() {
        let mut cutter = Cutter::default();
        let long = "x".repeat(LONGEST);
        assert_eq!(cutter.push(format!("{long}\n").as_bytes()), [piece(&long, false)]);
        assert_eq!(cutter.push(format!("{long}y\n").as_bytes()), [piece(&long, true), piece("y", false)]);
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let line = format(at, "stdout", &piece("hello  world", false));
        assert_eq!(String::from_utf8_lossy(&line), "2026-01-01T00:00:00.000000000Z stdout F hello  world\n");
        assert_eq!(parse(&line), Some(Entry { at, text: b"hello  world\n" }));
        let line = format(at, "stderr", &piece("", true));
        assert_eq!(parse(&line), Some(Entry { at, text: b"" }));
    }

    #[test]
    fn what_is_no_entry_is_none() {
        for line in ["", "hello", "2026-01-01T00:00:00Z stdin F x", "now stdout F x", "2026-01-01T00:00:00Z stdout F"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_added(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let mut cutter = Cutter::default();
            let mut pieces: Vec<Piece> = chunks.iter().flat_map(|chunk| cutter.push(chunk)).collect();
            pieces.extend(cutter.finish());
            let mut text: Vec<u8> = Vec::new();
            for piece in pieces {
                let line = format(Timestamp::UNIX_EPOCH, "stdout", &piece);
                text.extend(parse(&line).unwrap().text);
            }
            prop_assert_eq!(text, chunks.concat());
        }
    }
}
