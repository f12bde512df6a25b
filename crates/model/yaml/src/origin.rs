//! Where a part of a text begins.

use crate::node::Position;

/// Where a part of a text begins in the whole.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin {
    lines: usize,
    columns: usize,
}

impl Origin {
    pub(crate) fn at(text: &str, offset: usize) -> Origin {
        let before = text.get(..offset).unwrap_or_default().trim_start_matches('\u{feff}');
        let lines = before.bytes().filter(|byte| *byte == b'\n').count();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin { lines, columns: before[line_start..].chars().count() }
    }

    /// Where the text behind `part` begins. Only the part is looked at: a stream may have very many of them.
    pub(crate) fn behind(self, part: &str) -> Origin {
        let Origin { lines, columns } = Origin::at(part, part.len());
        Origin { lines: self.lines + lines, columns: if lines == 0 { self.columns + columns } else { columns } }
    }

    /// The place in the whole of a line (from 1) and a column (from 0) of the part.
    pub(crate) fn place(self, line: usize, column: usize) -> Position {
        let columns = if line <= 1 { self.columns } else { 0 };
        Position::new(self.lines + line, columns + column + 1)
    }
}
