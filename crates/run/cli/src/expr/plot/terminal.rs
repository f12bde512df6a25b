//! A chart in the characters of a terminal: eight dots to a cell.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::Chart;

const ROWS: usize = 16;
const CURVE: Style = AnsiColor::Blue.on_default().bold();
const REFUSED: Style = AnsiColor::Red.on_default();
const AXIS: Style = Style::new().dimmed();
const TITLE: Style = Style::new().bold();

/// The width of the terminal, or 80 where there is none.
pub(in crate::expr) fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)).clamp(40, 120)
}

/// The chart, `width` characters wide.
pub(in crate::expr) fn terminal(chart: &Chart, width: usize) -> String {
    let labels: Vec<(usize, String)> =
        chart.y.ticks().into_iter().map(|(value, text)| (row_of(1.0 - chart.y.share(value)), text)).collect();
    let margin = labels.iter().map(|(_, text)| text.chars().count()).max().unwrap_or_default();
    let columns = width.saturating_sub(margin + 4).max(20);
    let mut text = format!("{TITLE}{}{TITLE:#}\n{AXIS}{}{AXIS:#}\n", chart.title, chart.y.name);
    for (row, cells) in canvas(chart, columns).iter().enumerate() {
        let label = labels.iter().find(|(at, _)| *at == row).map_or("", |(_, text)| text);
        let tick = if label.is_empty() { '│' } else { '┤' };
        let _ = writeln!(text, "{label:>margin$} {AXIS}{tick}{AXIS:#}{CURVE}{}{CURVE:#}", cells.trim_end());
    }
    push_x_axis(&mut text, chart, margin, columns);
    let bends: Vec<String> = chart.curve.bends.iter().map(|(bend, _)| chart.describe(*bend)).collect();
    if !bends.is_empty() {
        let _ = writeln!(text, "bends at {}", bends.join(", "));
    }
    text
}

/// One string of braille for each row.
fn canvas(chart: &Chart, columns: usize) -> Vec<String> {
    let mut cells = vec![vec![0u8; columns]; ROWS];
    let (width, height) = (columns * 2, ROWS * 4);
    let mut previous: Option<usize> = None;
    for dot in 0..width {
        let x = chart.x.low + (chart.x.high - chart.x.low) * ratio(dot, width - 1);
        let Some(y) = chart.curve.at(x) else {
            previous = None;
            continue;
        };
        let at = index(1.0 - chart.y.share(y), height - 1);
        // A steep line has several dots above each other.
        let from = match previous {
            Some(previous) if previous + 1 < at => previous + 1,
            Some(previous) if previous > at + 1 => previous - 1,
            _ => at,
        };
        for dot_row in from.min(at)..=from.max(at) {
            if let Some(cell) = cells.get_mut(dot_row / 4).and_then(|row| row.get_mut(dot / 2)) {
                *cell |= DOTS[dot % 2][dot_row % 4];
            }
        }
        previous = Some(at);
    }
    cells.iter().map(|row| row.iter().map(|dots| braille(*dots)).collect()).collect()
}

fn braille(dots: u8) -> char {
    if dots == 0 { ' ' } else { char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ') }
}

/// The bits of a braille character, by column and row of the dot.
const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

fn push_x_axis(text: &mut String, chart: &Chart, margin: usize, columns: usize) {
    let mut line: Vec<char> = vec!['─'; columns];
    let mut labels: Vec<char> = vec![' '; columns + margin + 4];
    let mut free_from = 0;
    for (value, label) in chart.x.ticks() {
        let at = index(chart.x.share(value), columns - 1);
        if let Some(cell) = line.get_mut(at) {
            *cell = '┬';
        }
        let length = label.chars().count();
        let begin = (at + margin + 2).saturating_sub(length / 2).min(labels.len().saturating_sub(length));
        if begin < free_from {
            continue;
        }
        for (offset, character) in label.chars().enumerate() {
            if let Some(cell) = labels.get_mut(begin + offset) {
                *cell = character;
            }
        }
        free_from = begin + length + 1;
    }
    let line: String = line.into_iter().collect();
    let labels: String = labels.into_iter().collect();
    let _ = writeln!(text, "{:margin$} {AXIS}└{line}{AXIS:#}\n{}", "", labels.trim_end());
    let _ = writeln!(text, "{AXIS}{:>width$}{AXIS:#}", chart.x.name, width = margin + 2 + columns);
    for (begin, end) in &chart.curve.negative {
        let unit = chart.x.unit;
        let _ = writeln!(
            text,
            "{REFUSED}negative, and so refused, from {} to {}{REFUSED:#}",
            unit.exact(*begin),
            unit.exact(*end)
        );
    }
}

/// The row of a share of the height, in cells.
fn row_of(share: f64) -> usize {
    index(share, ROWS * 4 - 1) / 4
}

/// The nearest of the indices from 0 to `last`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a small index"
)]
fn index(share: f64, last: usize) -> usize {
    (share.clamp(0.0, 1.0) * last as f64).round() as usize
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
