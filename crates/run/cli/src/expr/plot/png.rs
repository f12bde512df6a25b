//! Shapes as pixels. The font is part of the program.

use std::io;

use tiny_skia::{FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, Transform};
use ttf_parser::{Face, OutlineBuilder};

use super::Chart;
use super::scene::{Anchor, Color, HEIGHT, Shape, WHITE, WIDTH, shapes};

/// Pixels for one unit of the page: sharp on a screen of high density.
const SCALE: f32 = 2.0;

/// The chart as the bytes of a PNG file.
pub(in crate::expr) fn png(chart: &Chart) -> io::Result<Vec<u8>> {
    let face = Face::parse(notosans::REGULAR_TTF, 0).map_err(io::Error::other)?;
    let (width, height) = (pixels(narrow(WIDTH) * SCALE), pixels(narrow(HEIGHT) * SCALE));
    let mut page = Pixmap::new(width, height).ok_or_else(|| io::Error::other("no room for the picture"))?;
    page.fill(tiny_skia::Color::WHITE);
    for shape in shapes(chart) {
        draw(&mut page, &face, &shape);
    }
    page.encode_png().map_err(io::Error::other)
}

fn draw(page: &mut Pixmap, face: &Face<'_>, shape: &Shape) {
    match shape {
        Shape::Area { points, color } => fill(page, polygon(points, true), *color),
        Shape::Line { points, color, width } => stroke(page, polygon(points, false), *color, *width),
        Shape::Ring { center: (x, y), radius, color, width } => {
            let mut circle = PathBuilder::new();
            circle.push_circle(narrow(*x), narrow(*y), narrow(*radius));
            let circle = circle.finish();
            fill(page, circle.clone(), WHITE);
            stroke(page, circle, *color, *width);
        }
        Shape::Text { at, text, size, bold, color, anchor } => {
            let outline = outline(face, text, *at, *size, *anchor);
            // The white seam keeps the words readable where they cross a line.
            stroke(page, outline.clone(), WHITE, 4.0);
            if *bold {
                stroke(page, outline.clone(), *color, size / 30.0);
            }
            fill(page, outline, *color);
        }
    }
}

fn polygon(points: &[(f64, f64)], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (i, (x, y)) in points.iter().enumerate() {
        if i == 0 {
            path.move_to(narrow(*x), narrow(*y));
        } else {
            path.line_to(narrow(*x), narrow(*y));
        }
    }
    if closed {
        path.close();
    }
    path.finish()
}

fn fill(page: &mut Pixmap, path: Option<Path>, color: Color) {
    if let Some(path) = path {
        page.fill_path(&path, &paint(color), FillRule::Winding, Transform::from_scale(SCALE, SCALE), None);
    }
}

fn stroke(page: &mut Pixmap, path: Option<Path>, color: Color, width: f64) {
    if let Some(path) = path {
        let stroke =
            Stroke { width: narrow(width), line_join: LineJoin::Round, line_cap: LineCap::Round, ..Stroke::default() };
        page.stroke_path(&path, &paint(color), &stroke, Transform::from_scale(SCALE, SCALE), None);
    }
}

fn paint(Color(red, green, blue): Color) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, 0xff);
    paint
}

/// The outline of a line of text; a character that the font lacks is a blank.
fn outline(face: &Face<'_>, text: &str, at: (f64, f64), size: f64, anchor: Anchor) -> Option<Path> {
    let scale = narrow(size) / f32::from(face.units_per_em());
    let glyphs: Vec<_> = text.chars().map(|c| face.glyph_index(c)).collect();
    let advance = |glyph: Option<ttf_parser::GlyphId>| {
        f32::from(glyph.and_then(|glyph| face.glyph_hor_advance(glyph)).unwrap_or(face.units_per_em() / 2)) * scale
    };
    let width: f32 = glyphs.iter().map(|glyph| advance(*glyph)).sum();
    let mut x = match anchor {
        Anchor::Start => narrow(at.0),
        Anchor::Middle => narrow(at.0) - width / 2.0,
        Anchor::End => narrow(at.0) - width,
    };
    let mut pen = Pen { path: PathBuilder::new(), x, y: narrow(at.1), scale };
    for glyph in glyphs {
        if let Some(glyph) = glyph {
            pen.x = x;
            face.outline_glyph(glyph, &mut pen);
        }
        x += advance(glyph);
    }
    pen.path.finish()
}

/// Draws glyphs at a place and in a size; fonts count upwards, pages downwards.
struct Pen {
    path: PathBuilder,
    x: f32,
    y: f32,
    scale: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "coordinates of a page")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the size of a page")]
fn pixels(value: f32) -> u32 {
    value as u32
}
