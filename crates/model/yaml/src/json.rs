//! The events of a JSON value, as the parser of YAML has them.
//!
//! That parser keeps all tokens of a flow mapping until it knows that the mapping is not a key, which takes a hundred times the size of a large
//! JSON text. The text must be valid JSON; this is checked before.

use std::borrow::Cow;

use granit_parser::{Event, ScalarStyle, StructureStyle};

use crate::error::Mistake;
use crate::node::Position;
use crate::origin::Origin;

/// Cuts events off the front of a JSON value.
#[derive(Clone)]
pub(crate) struct Events<'t> {
    text: &'t str,
    origin: Origin,
    /// The offset of the next character, and its place in the text.
    at: usize,
    line: usize,
    column: usize,
    is_over: bool,
}

impl<'t> Events<'t> {
    /// The events of `text`, which begins at `origin`.
    pub(crate) fn new(text: &'t str, origin: Origin) -> Events<'t> {
        Events { text, origin, at: 0, line: 1, column: 0, is_over: false }
    }

    /// Takes `length` bytes.
    fn take(&mut self, length: usize) -> &'t str {
        let taken = self.text.get(self.at..self.at + length).unwrap_or_default();
        for byte in taken.bytes() {
            match byte {
                b'\n' => (self.line, self.column) = (self.line + 1, 0),
                // The bytes of a character after its first.
                0x80..=0xbf => {}
                _ => self.column += 1,
            }
        }
        self.at += length;
        taken
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes what separates values.
    fn skip(&mut self) {
        let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':');
        let length = self.rest().bytes().take_while(is_between).count();
        self.take(length);
    }

    fn string(&mut self) -> Result<Event<'t>, serde_json::Error> {
        let mut is_escaped = false;
        let length = self.rest().bytes().skip(1).take_while(|byte| {
            let is_end = *byte == b'"' && !is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
            !is_end
        });
        let quoted = length.count() + 2;
        let quoted = self.take(quoted);
        let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        let text = if inner.contains('\\') { Cow::Owned(serde_json::from_str(quoted)?) } else { Cow::Borrowed(inner) };
        Ok(Event::Scalar(text, ScalarStyle::DoubleQuoted, 0, None))
    }

    /// A number, a boolean or `null`.
    fn word(&mut self) -> Event<'t> {
        let length =
            self.rest().bytes().take_while(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b']' | b'}'));
        let length = length.count().max(1);
        Event::Scalar(Cow::Borrowed(self.take(length)), ScalarStyle::Plain, 0, None)
    }
}

impl<'t> Iterator for Events<'t> {
    type Item = Result<(Event<'t>, Position), Mistake>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip();
        let position = self.origin.place(self.line, self.column);
        let Some(first) = self.rest().bytes().next() else {
            let was_over = std::mem::replace(&mut self.is_over, true);
            return (!was_over).then_some(Ok((Event::DocumentEnd, position)));
        };
        let event = match first {
            b'{' => Event::MappingStart(StructureStyle::Flow, 0, None),
            b'[' => Event::SequenceStart(StructureStyle::Flow, 0, None),
            b'}' => Event::MappingEnd,
            b']' => Event::SequenceEnd,
            b'"' => {
                let event = self.string().map_err(|error| Mistake::new(position, error.to_string()));
                return Some(event.map(|event| (event, position)));
            }
            _ => return Some(Ok((self.word(), position))),
        };
        self.take(1);
        Some(Ok((event, position)))
    }
}
