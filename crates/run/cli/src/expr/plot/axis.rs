//! Axes: their range and the round numbers on them.

use super::{Unit, quantity};
use pillion_quantity::Format;

/// No more than this many intervals between ticks.
const MOST_INTERVALS: f64 = 8.0;

/// A range with ticks at round numbers.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) unit: Unit,
    /// What the numbers are of.
    pub(super) name: String,
    step: f64,
}

impl Axis {
    /// An axis with given ends.
    pub(super) fn between(low: f64, high: f64, unit: Unit, name: &str) -> Axis {
        let name = format!("{name} ({})", unit.name());
        Axis { low, high, unit, name, step: step(high - low, unit) }
    }

    /// An axis from zero to a tick above `highest`.
    pub(super) fn from_zero(highest: f64, unit: Unit, name: &str) -> Axis {
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let step = step(highest, unit);
        let high = (highest / step * (1.0 - 1e-9)).floor() * step + step;
        Axis { step, ..Axis::between(0.0, high, unit, name) }
    }

    /// How far along the axis a value is, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// The values and texts of the ticks.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let first = (self.low / self.step - 1e-9).ceil();
        let count = ((self.high / self.step + 1e-9).floor() - first).clamp(0.0, 2.0 * MOST_INTERVALS);
        let mut ticks = Vec::new();
        let mut n = 0.0;
        while n <= count {
            let value = (first + n) * self.step;
            ticks.push((value, self.text(value)));
            n += 1.0;
        }
        ticks
    }

    /// Cores are written in one way along an axis: `0.5 1 1.5`, or `100m 200m` where all are below one.
    fn text(&self, value: f64) -> String {
        match self.unit {
            Unit::Cores if self.high > 1.0 => ((value * 1e3).round() / 1e3).to_string(),
            Unit::BinaryBytes => quantity(value, Format::BinarySi),
            Unit::Cores | Unit::DecimalBytes => quantity(value, Format::DecimalSi),
        }
    }
}

/// The smallest round number that divides `range` into few enough intervals: a power of two for binary bytes, otherwise
/// 1, 2 or 5 times a power of ten.
fn step(range: f64, unit: Unit) -> f64 {
    let least = range / MOST_INTERVALS;
    if unit == Unit::BinaryBytes {
        return least.log2().ceil().exp2().max(1.0);
    }
    let power = 10f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= least * (1.0 - 1e-9));
    round.unwrap_or(10.0 * power)
}
