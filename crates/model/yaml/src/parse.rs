//! From a text of YAML or JSON documents to located trees, over the parser's events.

use granit_parser::{Event, Options, Parser, StrInput};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::Options as ReadOptions;
use crate::build::{Builder, Part};
use crate::error::Mistake;
use crate::json;
use crate::list::{ListType, behind_items};
use crate::node::{Content, Node, Position};
use crate::origin::Origin;

/// Takes a tree, and the type of the list that it is an item of.
type Take<'t> = dyn FnMut(Node, Option<&ListType>) + 't;

/// Hands over the trees of `text`, and returns what is wrong with the documents that are broken; empty documents are left out. If lists are
/// split, each item of a list is a tree.
///
/// A text that starts with a brace and is a series of JSON values is read as that.
pub(crate) fn parse(text: &str, options: ReadOptions, split_lists: bool, take: &mut Take<'_>) -> Vec<Mistake> {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let skipped = text.len() - start.len();
    let mut trees = Trees { options, split_lists, take, mistakes: Vec::new(), aliased_bytes: 0 };
    if start.starts_with('{') || options.json {
        match split_json(text, skipped) {
            Ok(parts) => {
                let mut origin = Origin::at(text, skipped);
                for (begin, end) in parts {
                    let part = text.get(begin..end).unwrap_or_default();
                    if let Err(mistake) = trees.read_document(&mut json::Events::new(part, origin)) {
                        trees.mistakes.push(mistake);
                    }
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
    trees.read(text);
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

/// The events of documents.
trait Events<'t>: Iterator<Item = Result<(Event<'t>, Position), Mistake>> {
    /// The same events from here to the end of the document.
    fn ahead(&self) -> impl Iterator<Item = Self::Item>;
}

impl<'t> Events<'t> for json::Events<'t> {
    fn ahead(&self) -> impl Iterator<Item = Self::Item> {
        self.clone()
    }
}

/// The events of a text of YAML documents.
struct YamlEvents<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    /// The offset of the line where the current document begins, and how many of its events were taken.
    begin: usize,
    taken: usize,
}

impl<'t> YamlEvents<'t> {
    fn new(text: &'t str) -> YamlEvents<'t> {
        let mut options = Options::default();
        options.set_emit_comments(false);
        YamlEvents { text, parser: Parser::new_from_str_with_options(text, options), begin: 0, taken: 0 }
    }
}

impl<'t> Iterator for YamlEvents<'t> {
    type Item = Result<(Event<'t>, Position), Mistake>;

    fn next(&mut self) -> Option<Self::Item> {
        let origin = Origin::default();
        let (event, span) = match self.parser.next()? {
            Ok(next) => next,
            Err(error) => {
                let position = origin.place(error.marker().line(), error.marker().col());
                return Some(Err(Mistake::new(position, error.info())));
            }
        };
        self.taken += 1;
        if matches!(event, Event::DocumentStart(..)) {
            let before = span.start.byte_offset().and_then(|offset| self.text.get(..offset)).unwrap_or_default();
            self.begin = before.rfind('\n').map_or(0, |at| at + 1);
            self.taken = 1;
        }
        Some(Ok((event, origin.place(span.start.line(), span.start.col()))))
    }
}

impl<'t> Events<'t> for YamlEvents<'t> {
    fn ahead(&self) -> impl Iterator<Item = Self::Item> {
        // The first event is the start of the stream.
        YamlEvents::new(self.text.get(self.begin..).unwrap_or_default()).skip(self.taken + 1)
    }
}

/// Reads the trees of a text.
struct Trees<'t> {
    options: ReadOptions,
    split_lists: bool,
    take: &'t mut Take<'t>,
    mistakes: Vec<Mistake>,
    aliased_bytes: usize,
}

impl Trees<'_> {
    fn read(&mut self, text: &str) {
        let mut events = YamlEvents::new(text);
        loop {
            match self.read_document(&mut events) {
                Ok(true) => {}
                Ok(false) => return,
                Err(mistake) => {
                    self.mistakes.push(mistake);
                    if !events.parser.proceed_next_document().is_ok_and(|more| more) {
                        return;
                    }
                }
            }
        }
    }

    /// Hands over the next document, or its parts. Whether there was one.
    fn read_document<'e>(&mut self, events: &mut impl Events<'e>) -> Result<bool, Mistake> {
        let mut builder = Builder::new(self.options, &mut self.aliased_bytes);
        while let Some(event) = events.next() {
            let (event, position) = event?;
            if self.split_lists
                && matches!(event, Event::SequenceStart(_, 0, _))
                && let Some(before) = builder.awaits_items()
                && let Some(list) = behind_items(events.ahead()).and_then(|behind| behind.or(before).list_type())
            {
                builder.split(list);
            }
            match builder.on_event(event, position)? {
                Some(Part::Item(node)) => (self.take)(node, builder.list()),
                Some(Part::Root(Some(node))) if !matches!(node.content, Content::Scalar(Value::Null)) => {
                    (self.take)(node, None);
                    return Ok(true);
                }
                Some(Part::Root(_)) => return Ok(true),
                None => {}
            }
        }
        Ok(false)
    }
}
