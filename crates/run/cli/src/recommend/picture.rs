//! Usage histograms as an SVG picture, with the percentiles that recommendations are made from.

use std::fmt::Write as _;

use pillion_expr::Resource;
use pillion_rightsize::Aggregate;

use super::histogram::{Histogram, PERCENTILES, amount, quantity};

const WIDTH: f64 = 760.0;
/// Of one histogram, with its title and its axis.
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 40.0;
/// Above the bars: the title, and a row for each percentile's name.
const TOP: f64 = 78.0;
const BOTTOM: f64 = 34.0;
const TICKS: u32 = 5;
/// A colour for each percentile, of the same order as [`PERCENTILES`].
const COLOURS: [&str; 3] = ["#2e7d32", "#c62828", "#6a1b9a"];

/// All histograms, one below the other.
pub(super) fn svg(histograms: &[Histogram<'_>]) -> String {
    let height = HEIGHT * f64::from(u32::try_from(histograms.len()).unwrap_or(u32::MAX));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut y = 0.0;
    for histogram in histograms {
        // A String takes whatever is written.
        let _ = writeln!(svg, "<g transform=\"translate(0 {y})\">");
        panel(&mut svg, histogram);
        svg.push_str("</g>\n");
        y += HEIGHT;
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, histogram: &Histogram<'_>) {
    let Histogram { title, aggregate, resource } = histogram;
    let shares = aggregate.shares(*resource);
    let most = shares.iter().map(|(_, share)| *share).fold(f64::MIN_POSITIVE, f64::max);
    let last = shares.iter().map(|(end, _)| *end).fold(f64::MIN_POSITIVE, f64::max) * 1.05;
    let x = |value: f64| LEFT + value / last * (WIDTH - LEFT - RIGHT);
    let (base, room) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP);
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>", escaped(title));
    for (end, share) in &shares {
        let (from, to, height) = (x(start(*resource, *end)), x(*end), share / most * room);
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"#90b8e0\" stroke=\"#fff\" \
             stroke-width=\"0.5\"><title>{} to {}: {:.1}%</title></rect>",
            base - height,
            (to - from).max(1.0),
            quantity(*resource, amount(*resource, start(*resource, *end))),
            quantity(*resource, amount(*resource, *end)),
            share * 100.0
        );
    }
    let _ = writeln!(svg, "<path d=\"M{LEFT} {base}H{:.1}\" stroke=\"#222\"/>", WIDTH - RIGHT);
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}%</text>",
        LEFT - 6.0,
        TOP + 4.0,
        most * 100.0
    );
    for tick in 0..=TICKS {
        let value = last * f64::from(tick) / f64::from(TICKS);
        let (at, text) = (x(value), quantity(*resource, amount(*resource, value)));
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", base + 16.0);
    }
    percentiles(svg, aggregate, *resource, &x);
}

/// A line for each percentile; their names are in rows, since percentiles may be close to each other.
fn percentiles(svg: &mut String, aggregate: &Aggregate, resource: Resource, x: &dyn Fn(f64) -> f64) {
    let mut row = 36.0;
    for ((percentile, bound), colour) in PERCENTILES.iter().zip(COLOURS) {
        let value = aggregate.percentile(resource, *percentile);
        #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
        let at = x(if resource == Resource::Cpu { value as f64 / 1000.0 } else { value as f64 });
        let (anchor, beside) = if at > WIDTH * 0.7 { ("end", at - 4.0) } else { ("start", at + 4.0) };
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n<text x=\"{beside:.1}\" y=\"{row:.1}\" \
             text-anchor=\"{anchor}\" fill=\"{colour}\">{:.0}% of use is at most {} ({bound})</text>",
            row - 8.0,
            HEIGHT - BOTTOM,
            percentile * 100.0,
            quantity(resource, value)
        );
        row += 14.0;
    }
}

/// Where a bucket begins: each is a twentieth wider than the one before, and the first is 10m or 10 MB wide.
fn start(resource: Resource, end: f64) -> f64 {
    let first = if resource == Resource::Cpu { 0.01 } else { 1e7 };
    ((end - first) / 1.05).max(0.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
