//! Lists of objects, whose items are handed over one by one.

use granit_parser::Event;

use crate::error::Mistake;
use crate::node::Position;

/// The type of a Kubernetes list: its `kind` ends in `List`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListType {
    /// `apiVersion`, empty if it is missing.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
}

/// The field of a list that has the items.
pub(crate) const ITEMS: &str = "items";

/// What is known of the type of a mapping.
#[derive(Clone, Debug, Default)]
pub(crate) struct Header {
    pub(crate) api_version: Option<String>,
    pub(crate) kind: Option<String>,
}

impl Header {
    /// This, and what it leaves open as `other` says.
    pub(crate) fn or(self, other: Header) -> Header {
        Header { api_version: self.api_version.or(other.api_version), kind: self.kind.or(other.kind) }
    }

    pub(crate) fn list_type(self) -> Option<ListType> {
        let kind = self.kind.filter(|kind| kind.ends_with("List"))?;
        Some(ListType { api_version: self.api_version.unwrap_or_default(), kind })
    }
}

/// Looks ahead from the start of the items of a mapping to the mapping's end: `kind` may come behind the items. Returns what comes behind them, or
/// `None` if an item is not a mapping, if the mapping has keys that must be merged, or if the text is broken.
pub(crate) fn behind_items<'t>(
    mut events: impl Iterator<Item = Result<(Event<'t>, Position), Mistake>>,
) -> Option<Header> {
    let mut next = || events.next()?.ok().map(|(event, _)| event);
    loop {
        match next()? {
            Event::MappingStart(..) => skip(&mut next)?,
            Event::SequenceEnd => break,
            _ => return None,
        }
    }
    let mut header = Header::default();
    loop {
        let key = match next()? {
            Event::MappingEnd => return Some(header),
            Event::Scalar(key, ..) if key != ITEMS && key != "<<" => key,
            _ => return None,
        };
        let field = match &*key {
            "kind" => Some(&mut header.kind),
            "apiVersion" => Some(&mut header.api_version),
            _ => None,
        };
        match (next()?, field) {
            (Event::Scalar(text, ..), Some(field)) => *field = Some(text.into_owned()),
            (_, Some(_)) => return None,
            (Event::MappingStart(..) | Event::SequenceStart(..), None) => skip(&mut next)?,
            (_, None) => {}
        }
    }
}

/// Takes everything up to the end of the collection that has just begun.
fn skip<'t>(next: &mut impl FnMut() -> Option<Event<'t>>) -> Option<()> {
    let mut depth = 1;
    while depth > 0 {
        match next()? {
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => depth -= 1,
            _ => {}
        }
    }
    Some(())
}
