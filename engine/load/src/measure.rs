//! What was measured, and the table that compares it.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};

/// One number of one server.
#[derive(Clone, Debug)]
pub struct Measure {
    what: String,
    value: f64,
    unit: Unit,
    more_is_better: bool,
}

/// What a number counts.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    PerSecond,
    Seconds,
    Bytes,
}

impl Measure {
    /// A number that should be large.
    pub fn more(what: String, value: f64, unit: Unit) -> Measure {
        Measure { what, value, unit, more_is_better: true }
    }

    /// A number that should be small.
    pub fn less(what: String, value: f64, unit: Unit) -> Measure {
        Measure { what, value, unit, more_is_better: false }
    }

    #[expect(clippy::cast_precision_loss, reason = "no count here comes near 2⁵²")]
    pub fn number(count: usize) -> f64 {
        count as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
    pub fn bytes(count: u64) -> f64 {
        count as f64
    }

    /// How many times better than another.
    fn over(&self, other: &Measure) -> f64 {
        if self.more_is_better { self.value / other.value } else { other.value / self.value }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.unit {
            Unit::PerSecond => write!(f, "{value:.0}/s"),
            Unit::Seconds if value < 0.01 => write!(f, "{:.0} µs", value * 1e6),
            Unit::Seconds => write!(f, "{value:.2} s"),
            Unit::Bytes if value >= 1_048_576.0 => write!(f, "{:.1} MiB", value / 1_048_576.0),
            Unit::Bytes => write!(f, "{:.2} KiB", value / 1024.0),
        }
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A row for each measure, a column for each server; all but the first with their ratio to the first.
pub fn table(columns: &[(&'static str, Vec<Measure>)]) -> Table {
    let mut table = Table::new();
    let Some(((name, first), others)) = columns.split_first() else { return table };
    let header = std::iter::once(*name).chain(others.iter().flat_map(|(name, _)| [*name, "ratio"]));
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(std::iter::once("work").chain(header));
    for (row, measure) in first.iter().enumerate() {
        let mut cells = vec![measure.what.clone(), measure.to_string()];
        for other in others.iter().filter_map(|(_, measures)| measures.get(row)) {
            cells.extend([other.to_string(), format!("{:.1}", other.over(measure))]);
        }
        table.add_row(cells);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_whichever_way_the_number_goes() {
        let (fast, slow) = (
            |value| Measure::more(String::new(), value, Unit::PerSecond),
            |value| Measure::less(String::new(), value, Unit::Seconds),
        );
        assert!((fast(20.0).over(&fast(10.0)) - 2.0).abs() < f64::EPSILON);
        assert!((slow(5.0).over(&slow(10.0)) - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
