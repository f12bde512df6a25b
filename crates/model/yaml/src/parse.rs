//! From a text of YAML or JSON documents to located trees, over the parser's events.

use granit_parser::{Options, Parser, StrInput};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::Options as ReadOptions;
use crate::build::Builder;
use crate::error::Mistake;
use crate::node::{Content, Node, Position};

/// Hands over the trees of `text`, and returns what is wrong with the documents that are broken; empty documents are left out.
///
/// A text that starts with a brace and is a series of JSON values is read as that.
pub(crate) fn parse(text: &str, options: ReadOptions, take: &mut dyn FnMut(Node)) -> Vec<Mistake> {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let skipped = text.len() - start.len();
    let mut trees = Trees { options, take, mistakes: Vec::new(), aliased_bytes: 0 };
    if start.starts_with('{') || options.json {
        match split_json(text, skipped) {
            Ok(parts) => {
                let mut origin = Origin::at(text, skipped);
                for (begin, end) in parts {
                    let part = text.get(begin..end).unwrap_or_default();
                    trees.read(part, origin);
                    origin = origin.behind(part);
                }
                return trees.mistakes;
            }
            Err(error) if options.json => {
                trees.mistakes.push(json_mistake(text, skipped, &error));
                return trees.mistakes;
            }
            // A flow mapping is YAML, too.
            Err(_) => {}
        }
    }
    trees.read(text, Origin::default());
    trees.mistakes
}

/// Where each of the JSON values in `text` begins and ends.
fn split_json(text: &str, skipped: usize) -> Result<Vec<(usize, usize)>, serde_json::Error> {
    let mut stream = serde_json::Deserializer::from_str(&text[skipped..]).into_iter::<IgnoredAny>();
    let mut parts = Vec::new();
    let mut begin = skipped;
    while let Some(value) = stream.next() {
        value?;
        let end = skipped + stream.byte_offset();
        parts.push((begin, end));
        begin = end;
    }
    Ok(parts)
}

fn json_mistake(text: &str, skipped: usize, error: &serde_json::Error) -> Mistake {
    let origin = Origin::at(text, skipped);
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    Mistake::new(origin.place(error.line(), error.column().saturating_sub(1)), message)
}

/// Where a part of a text begins in the whole.
#[derive(Clone, Copy, Default)]
struct Origin {
    lines: usize,
    columns: usize,
}

impl Origin {
    fn at(text: &str, offset: usize) -> Origin {
        let before = text.get(..offset).unwrap_or_default().trim_start_matches('\u{feff}');
        let lines = before.bytes().filter(|byte| *byte == b'\n').count();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin { lines, columns: before[line_start..].chars().count() }
    }

    /// Where the text behind `part` begins. Only the part is looked at: a stream may have very many of them.
    fn behind(self, part: &str) -> Origin {
        let Origin { lines, columns } = Origin::at(part, part.len());
        Origin { lines: self.lines + lines, columns: if lines == 0 { self.columns + columns } else { columns } }
    }

    /// The place in the whole of a line (from 1) and a column (from 0) of the part.
    fn place(self, line: usize, column: usize) -> Position {
        let columns = if line <= 1 { self.columns } else { 0 };
        Position::new(self.lines + line, columns + column + 1)
    }
}

/// Reads the trees of a text.
struct Trees<'t> {
    options: ReadOptions,
    take: &'t mut dyn FnMut(Node),
    mistakes: Vec<Mistake>,
    aliased_bytes: usize,
}

impl Trees<'_> {
    fn read(&mut self, text: &str, origin: Origin) {
        let mut options = Options::default();
        options.set_emit_comments(false);
        // JSON has no bound on the length of a key. The text itself is bounded.
        options.simple_key_max_lookahead = usize::MAX;
        let mut parser = Parser::new_from_str_with_options(text, options);
        loop {
            match self.read_document(&mut parser, origin) {
                Ok(Some(node)) if matches!(node.content, Content::Scalar(Value::Null)) => {}
                Ok(Some(node)) => (self.take)(node),
                Ok(None) => return,
                Err(mistake) => {
                    self.mistakes.push(mistake);
                    if !parser.proceed_next_document().is_ok_and(|more| more) {
                        return;
                    }
                }
            }
        }
    }

    /// The next document of `parser`, if there is one.
    fn read_document<'t>(
        &mut self,
        parser: &mut Parser<'t, StrInput<'t>>,
        origin: Origin,
    ) -> Result<Option<Node>, Mistake> {
        let mut builder = Builder::new(self.options, &mut self.aliased_bytes);
        for event in parser.by_ref() {
            let (event, span) = event.map_err(|error| {
                Mistake::new(origin.place(error.marker().line(), error.marker().col()), error.info())
            })?;
            let position = origin.place(span.start.line(), span.start.col());
            if let Some(root) = builder.on_event(event, position)? {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }
}
