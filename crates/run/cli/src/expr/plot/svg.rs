//! Shapes as SVG.

use std::fmt::Write as _;

use super::Chart;
use super::scene::{Anchor, Color, HEIGHT, Shape, WIDTH, shapes};

/// The chart as the text of an SVG file.
pub(in crate::expr) fn svg(chart: &Chart) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\" font-family=\"'Noto Sans', 'Helvetica Neue', Arial, sans-serif\" stroke-linejoin=\"round\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escaped(&chart.title)
    );
    for shape in shapes(chart) {
        push(&mut text, &shape);
    }
    text.push_str("</svg>\n");
    text
}

fn push(text: &mut String, shape: &Shape) {
    // Writing to a String cannot fail.
    let _ = match shape {
        Shape::Area { points, color } => {
            writeln!(text, "<polygon points=\"{}\" fill=\"{}\"/>", coordinates(points), hex(*color))
        }
        Shape::Line { points, color, width } => writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            coordinates(points),
            hex(*color)
        ),
        Shape::Ring { center: (x, y), radius, color, width } => writeln!(
            text,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"#fff\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            number(*x),
            number(*y),
            hex(*color)
        ),
        Shape::Text { at: (x, y), text: words, size, bold, color, anchor } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let weight = if *bold { " font-weight=\"600\"" } else { "" };
            // The white seam keeps the words readable where they cross a line.
            writeln!(
                text,
                "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{weight} fill=\"{}\" text-anchor=\"{anchor}\" \
                 paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"4\">{}</text>",
                number(*x),
                number(*y),
                number(*size),
                hex(*color),
                escaped(words)
            )
        }
    };
}

fn coordinates(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect::<Vec<_>>().join(" ")
}

/// A hundredth of a pixel is enough.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn hex(Color(red, green, blue): Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
