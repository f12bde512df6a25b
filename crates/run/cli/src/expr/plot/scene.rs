//! A chart as shapes on a white page, for SVG and PNG alike.

use super::Chart;
use super::curve::Point;

pub(super) const WIDTH: f64 = 960.0;
pub(super) const HEIGHT: f64 = 540.0;

const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 44.0;
const TOP: f64 = 96.0;
const BOTTOM: f64 = HEIGHT - 76.0;

const INK: Color = Color(0x1f, 0x29, 0x37);
const FAINT_INK: Color = Color(0x6b, 0x72, 0x80);
const AXIS: Color = Color(0x9c, 0xa3, 0xaf);
const GRID: Color = Color(0xe5, 0xe7, 0xeb);
const BLUE: Color = Color(0x25, 0x63, 0xeb);
const BLUE_SHADE: Color = Color(0xee, 0xf3, 0xfe);
const RED: Color = Color(0xb9, 0x1c, 0x1c);
const RED_SHADE: Color = Color(0xfe, 0xf0, 0xf0);
pub(super) const WHITE: Color = Color(0xff, 0xff, 0xff);

/// More bends than this are marked without their values.
const MOST_VALUES: usize = 8;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Color(pub(super) u8, pub(super) u8, pub(super) u8);

/// Where a text is, relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What can be drawn.
#[derive(Debug)]
pub(super) enum Shape {
    /// A filled area.
    Area { points: Vec<(f64, f64)>, color: Color },
    /// A line of straight parts.
    Line { points: Vec<(f64, f64)>, color: Color, width: f64 },
    /// A ring around white.
    Ring { center: (f64, f64), radius: f64, color: Color, width: f64 },
    /// Text on its base line.
    Text { at: (f64, f64), text: String, size: f64, bold: bool, color: Color, anchor: Anchor },
}

/// The shapes of a chart, from back to front.
pub(super) fn shapes(chart: &Chart) -> Vec<Shape> {
    let mut shapes = Vec::new();
    push_negative(&mut shapes, chart);
    for line in &chart.curve.lines {
        let mut points: Vec<_> = line.iter().map(|point| place(chart, *point)).collect();
        if let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) {
            points.extend([(last.0, BOTTOM), (first.0, BOTTOM)]);
        }
        shapes.push(Shape::Area { points, color: BLUE_SHADE });
    }
    push_grid(&mut shapes, chart);
    for line in &chart.curve.lines {
        let points = line.iter().map(|point| place(chart, *point)).collect();
        shapes.push(Shape::Line { points, color: BLUE, width: 3.0 });
    }
    push_bends(&mut shapes, chart);
    push_words(&mut shapes, chart);
    shapes
}

/// Where a point is on the page.
fn place(chart: &Chart, point: Point) -> (f64, f64) {
    (LEFT + (RIGHT - LEFT) * chart.x.share(point.x), BOTTOM - (BOTTOM - TOP) * chart.y.share(point.y))
}

fn push_negative(shapes: &mut Vec<Shape>, chart: &Chart) {
    for (begin, end) in &chart.curve.negative {
        let left = place(chart, Point { x: *begin, y: 0.0 }).0;
        let right = place(chart, Point { x: *end, y: 0.0 }).0;
        let points = vec![(left, TOP), (right, TOP), (right, BOTTOM), (left, BOTTOM)];
        shapes.push(Shape::Area { points, color: RED_SHADE });
        if right - left > 120.0 {
            let at = (f64::midpoint(left, right), f64::midpoint(TOP, BOTTOM));
            shapes.push(words(at, "negative: refused", 14.0, RED, Anchor::Middle));
        }
    }
}

fn push_grid(shapes: &mut Vec<Shape>, chart: &Chart) {
    for (value, text) in chart.x.ticks() {
        let (x, _) = place(chart, Point { x: value, y: 0.0 });
        shapes.push(Shape::Line { points: vec![(x, TOP), (x, BOTTOM)], color: GRID, width: 1.0 });
        shapes.push(words((x, BOTTOM + 24.0), &text, 15.0, FAINT_INK, Anchor::Middle));
    }
    for (value, text) in chart.y.ticks() {
        let (_, y) = place(chart, Point { x: chart.x.low, y: value });
        shapes.push(Shape::Line { points: vec![(LEFT, y), (RIGHT, y)], color: GRID, width: 1.0 });
        shapes.push(words((LEFT - 12.0, y + 5.0), &text, 15.0, FAINT_INK, Anchor::End));
    }
    shapes.push(Shape::Line { points: vec![(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)], color: AXIS, width: 1.5 });
}

fn push_bends(shapes: &mut Vec<Shape>, chart: &Chart) {
    let with_values = chart.curve.bends.len() <= MOST_VALUES;
    for (bend, slope_after) in &chart.curve.bends {
        let center = place(chart, *bend);
        shapes.push(Shape::Ring { center, radius: 5.0, color: BLUE, width: 2.5 });
        if with_values {
            // Where the line is not: below it when it rises, above it when it falls, and never on the axis.
            let is_low = center.1 > BOTTOM - 34.0;
            let y = if *slope_after < 0.0 || is_low { center.1 - 12.0 } else { center.1 + 24.0 };
            let is_left = center.0 > RIGHT - 130.0 || (is_low && *slope_after > 0.0);
            let (x, anchor) = if is_left { (center.0 - 10.0, Anchor::End) } else { (center.0 + 10.0, Anchor::Start) };
            shapes.push(words((x, y), &chart.describe(*bend), 15.0, INK, anchor));
        }
    }
}

fn push_words(shapes: &mut Vec<Shape>, chart: &Chart) {
    let (title, size) = fitted(&chart.title);
    let at = (LEFT, 44.0);
    shapes.push(Shape::Text { at, text: title, size, bold: true, color: INK, anchor: Anchor::Start });
    shapes.push(words((LEFT, TOP - 18.0), &chart.y.name, 14.0, FAINT_INK, Anchor::Start));
    shapes.push(words((RIGHT, HEIGHT - 18.0), &chart.x.name, 14.0, FAINT_INK, Anchor::End));
}

fn words(at: (f64, f64), text: &str, size: f64, color: Color, anchor: Anchor) -> Shape {
    Shape::Text { at, text: text.to_owned(), size, bold: false, color, anchor }
}

/// A title and a size in which it fits the page; a very long one is cut.
fn fitted(title: &str) -> (String, f64) {
    const MOST_CHARACTERS: usize = 110;
    let mut title: String = title.to_owned();
    if title.chars().count() > MOST_CHARACTERS {
        title = title.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect();
    }
    // Half of the size is a generous mean width of a character.
    #[expect(clippy::cast_precision_loss, reason = "at most 110")]
    let size = (2.0 * (RIGHT - LEFT) / title.chars().count().max(1) as f64 / 1.1).clamp(12.0, 22.0);
    (title, size)
}
