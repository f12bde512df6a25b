//! The points of a curve. Expressions are piecewise linear, so a few are enough: where it begins, bends and ends.

use pillion_expr::{Amount, Expr, Outcome, Resource};
use pillion_quantity::{Format, Quantity};

/// How many intervals are looked at. A bend is seen where there are at least two of them on both sides of it.
const INTERVALS: usize = 2048;

/// By how much cpu is enlarged before it is rounded to 1m, so that rounding is not seen in the curve. Memory is rounded
/// to a byte, which no picture shows.
const ENLARGED: u32 = 1_000_000;

/// A point of the curve, in cores or bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// What is to be drawn.
#[derive(Debug, Default)]
pub(super) struct Curve {
    /// The lines: one, or several with gaps where the value is negative.
    pub(super) lines: Vec<Vec<Point>>,
    /// Where a line changes its slope, with the slope after it.
    pub(super) bends: Vec<(Point, f64)>,
    /// From where to where the value is negative.
    pub(super) negative: Vec<(f64, f64)>,
}

impl Curve {
    pub(super) fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.lines.iter().flatten().copied()
    }

    /// The height at `x`; none where it is negative.
    pub(super) fn at(&self, x: f64) -> Option<f64> {
        self.lines.iter().flat_map(|line| line.windows(2)).find_map(|ends| match ends {
            [a, b] if a.x <= x && x <= b.x => Some(a.y + (b.y - a.y) * ((x - a.x) / (b.x - a.x))),
            _ => None,
        })
    }
}

/// A quantity in cores or bytes, for drawing.
#[expect(clippy::cast_precision_loss, reason = "a picture is not exact")]
pub(super) fn units(quantity: Quantity) -> f64 {
    quantity.nanos() as f64 / 1e9
}

/// Follows `expr` from one value of its variable to another.
pub(super) fn trace(expr: &Expr, resource: Resource, from: Quantity, to: Quantity) -> Curve {
    let enlarged =
        (resource == Resource::Cpu).then(|| Expr::parse(&format!("{ENLARGED}*({})", expr.source()), resource));
    let (expr, scale) = match &enlarged {
        Some(Ok(enlarged)) => (enlarged, f64::from(ENLARGED)),
        // An expression that is already as long, as deep or as full of digits as one may be cannot be enlarged.
        Some(Err(_)) | None => (expr, 1.0),
    };
    let samples: Vec<(f64, Option<f64>)> = (0..=INTERVALS)
        .map(|step| {
            let x = between(from, to, step);
            let y = match expr.evaluate(Amount::Finite(x), resource) {
                Outcome::Value(y) => Some(units(y) / scale),
                Outcome::Negative(_) | Outcome::Unlimited => None,
            };
            (units(x), y)
        })
        .collect();
    connect(&samples)
}

fn between(from: Quantity, to: Quantity, step: usize) -> Quantity {
    let (low, high) = (from.nanos(), to.nanos());
    let (step, intervals) = (step as i128, INTERVALS as i128);
    // The whole intervals and the rest apart: the product of both could be too large.
    let (whole, rest) = ((high - low) / intervals, (high - low) % intervals);
    Quantity::from_nanos(low + whole * step + rest * step / intervals, Format::DecimalSi)
}

/// Makes lines of the samples that have a value, and gaps of the others.
fn connect(samples: &[(f64, Option<f64>)]) -> Curve {
    let mut curve = Curve::default();
    let runs: Vec<_> = samples.chunk_by(|(_, a), (_, b)| a.is_some() == b.is_some()).collect();
    for (i, run) in runs.iter().enumerate() {
        let points: Vec<Point> = run.iter().filter_map(|(x, y)| y.map(|y| Point { x: *x, y })).collect();
        let (mut line, bends) = straighten(&points);
        let before = i.checked_sub(1).and_then(|i| runs.get(i)).and_then(|run| run.last());
        let after = runs.get(i + 1).and_then(|run| run.first());
        if let ([end, inner, ..], Some((limit, _))) = (line.as_slice(), before) {
            line.splice(..0, zero(*inner, *end, *limit));
        }
        if let ([.., inner, end], Some((limit, _))) = (line.as_slice(), after) {
            line.extend(zero(*inner, *end, *limit));
        }
        curve.lines.extend(Some(line).filter(|line| !line.is_empty()));
        curve.bends.extend(bends);
    }
    let ends = curve.lines.iter().filter_map(|line| Some((line.first()?.x, line.last()?.x)));
    let (first, last) = (samples.first().map(|(x, _)| *x), samples.last().map(|(x, _)| *x));
    let mut begin = first;
    for (left, right) in ends.chain(last.map(|last| (last, last))) {
        curve.negative.extend(begin.filter(|begin| *begin < left).map(|begin| (begin, left)));
        begin = Some(right);
    }
    curve
}

/// Where the line from `inner` through `end` comes down to zero, if that is before `limit`.
fn zero(inner: Point, end: Point, limit: f64) -> Option<Point> {
    let x = end.x - end.y * (end.x - inner.x) / (end.y - inner.y);
    (end.x.min(limit) < x && x < end.x.max(limit)).then_some(Point { x, y: 0.0 })
}

/// A part of a line with one slope: from one point to another, by their indices.
struct Piece {
    first: usize,
    last: usize,
    slope: f64,
}

/// The same line with the points that are needed, and its bends.
fn straighten(points: &[Point]) -> (Vec<Point>, Vec<(Point, f64)>) {
    let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else {
        return Default::default();
    };
    let pieces = pieces(points);
    let mut line = vec![first];
    let mut bends = Vec::new();
    for pair in pieces.windows(2) {
        let [before, after] = pair else { continue };
        let (Some(a), Some(b)) = (points.get(before.last), points.get(after.first)) else { continue };
        // Where the two lines cross; it lies between their ends.
        let x = (b.y - a.y + before.slope * a.x - after.slope * b.x) / (before.slope - after.slope);
        let x = x.clamp(a.x, b.x);
        let bend = Point { x, y: a.y + before.slope * (x - a.x) };
        line.push(bend);
        bends.push((bend, after.slope));
    }
    line.push(last);
    (line, bends)
}

/// The pieces of two intervals or more; an interval with a bend inside is in none of them.
fn pieces(points: &[Point]) -> Vec<Piece> {
    let slopes: Vec<f64> = points
        .windows(2)
        .map(|ends| match ends {
            [a, b] if b.x > a.x => (b.y - a.y) / (b.x - a.x),
            _ => 0.0,
        })
        .collect();
    let steepest = slopes.iter().fold(0.0, |steepest: f64, slope| steepest.max(slope.abs()));
    let same = |a: f64, b: f64| (a - b).abs() <= steepest * 1e-5;
    let mut pieces: Vec<Piece> = Vec::new();
    let mut first = 0;
    while let Some(slope) = slopes.get(first).copied() {
        let length = slopes.iter().skip(first).take_while(|other| same(slope, **other)).count();
        let last = first + length;
        match pieces.last_mut() {
            Some(piece) if same(piece.slope, slope) => piece.last = last,
            _ if length > 1 => pieces.push(Piece { first, last, slope }),
            _ => {}
        }
        first = last;
    }
    pieces
}
