//! The curve of an expression, in the terminal and as a picture.
//!
//! ```text
//!  Expr ──curve──▶ pieces, bends ──┐
//!  from, to ──axis──▶ ticks ───────┴─▶ Chart ─┬─ terminal ──▶ braille
//!                                             └─ scene ──▶ shapes ─┬─ svg
//!                                                                  └─ png
//! ```
//!
//! This is the one place with floating point: a picture is not exact. Values that are printed are rounded to what a
//! quantity can say.

mod axis;
mod curve;
mod png;
mod scene;
mod svg;
mod terminal;
#[cfg(test)]
mod tests;

use pillion_expr::{Expr, Resource};
use pillion_quantity::{Format, Quantity};

use self::axis::Axis;
use self::curve::{Curve, Point};
pub(super) use self::png::png;
pub(super) use self::svg::svg;
pub(super) use self::terminal::{terminal, terminal_width};

/// A curve between two axes.
pub(super) struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    curve: Curve,
}

impl Chart {
    /// The chart of `expr` from one value of its variable to a greater one.
    pub(super) fn new(expr: &Expr, resource: Resource, from: Quantity, to: Quantity) -> Chart {
        let unit = Unit::of(resource, to.format());
        let curve = curve::trace(expr, resource, from, to);
        let highest = curve.points().map(|point| point.y).fold(0.0, f64::max);
        let variable = expr.variable().unwrap_or(resource);
        Chart {
            title: expr.source().split_whitespace().collect::<Vec<_>>().join(" "),
            x: Axis::between(curve::units(from), curve::units(to), unit, &format!("{variable} of the application")),
            y: Axis::from_zero(highest, unit, &format!("{resource} of the sidecar")),
            curve,
        }
    }

    /// `4 → 2800m`
    fn describe(&self, point: Point) -> String {
        format!("{} → {}", self.x.unit.exact(point.x), self.y.unit.exact(point.y))
    }
}

/// How numbers on an axis are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Cores,
    BinaryBytes,
    DecimalBytes,
}

impl Unit {
    fn of(resource: Resource, format: Format) -> Unit {
        match (resource, format) {
            (Resource::Cpu, _) => Unit::Cores,
            (Resource::Memory, Format::BinarySi) => Unit::BinaryBytes,
            (Resource::Memory, _) => Unit::DecimalBytes,
        }
    }

    /// What the numbers count, for the name of the axis.
    fn name(self) -> &'static str {
        match self {
            Unit::Cores => "cores",
            Unit::BinaryBytes | Unit::DecimalBytes => "bytes",
        }
    }

    /// The value as the quantity that a container would have, rounded to 1m or 1 byte; bytes that are no round number of
    /// anything are rounded to a tenth of their unit.
    fn exact(self, value: f64) -> String {
        match self {
            Unit::Cores => quantity((value * 1e3).round() / 1e3, Format::DecimalSi),
            Unit::BinaryBytes => shortened(value, 1024.0, ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], Format::BinarySi),
            Unit::DecimalBytes => shortened(value, 1e3, ["k", "M", "G", "T", "P", "E"], Format::DecimalSi),
        }
    }
}

fn shortened(value: f64, base: f64, suffixes: [&str; 6], format: Format) -> String {
    let exact = quantity(value.round(), format);
    if exact.len() <= 7 {
        return exact;
    }
    let (mut scaled, mut unit) = (value, "");
    for suffix in suffixes {
        if scaled < base {
            break;
        }
        (scaled, unit) = (scaled / base, suffix);
    }
    format!("≈{scaled:.1}{unit}")
}

fn quantity(value: f64, format: Format) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and only a label would show it")]
    Quantity::from_nanos((value * 1e9).round() as i128, format).to_string()
}
