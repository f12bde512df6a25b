//! From the events of one document to its tree: keys, aliases, merge keys, and the bounds on them.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, ScalarStyle, Tag};
use indexmap::IndexMap;
use serde_json::Value;

use crate::error::{Mistake, Problem};
use crate::list::{Header, ITEMS, ListType};
use crate::node::{Content, Node, Position};
use crate::{Options, scalar};

/// How deep a document may nest, aliases followed: as deep as `serde_json` reads. Kubernetes' own types end near 20.
pub const MAX_DEPTH: usize = 128;

/// About how many bytes the anchors and aliases of one text may add.
pub const MAX_ALIASED_BYTES: usize = 32 * 1024 * 1024;

/// What a node costs beside its text: the value, its place, its share of the collection around it.
const NODE_BYTES: usize = 128;

/// What `!!` stands for.
const YAML: &str = "tag:yaml.org,2002:";

/// A document under construction.
///
/// It keeps a stack of its own: a hostile document cannot overflow the program's.
pub(crate) struct Builder<'b> {
    options: Options,
    open: Vec<Frame>,
    anchors: HashMap<usize, Built>,
    aliased_bytes: &'b mut usize,
    /// The lists around the next node whose items are handed over one by one, from the outside.
    lists: Vec<ListType>,
    item: Option<Node>,
    root: Option<Node>,
}

/// What an event completes.
pub(crate) enum Part {
    /// An item of the list whose items are handed over one by one.
    Item(Node),
    /// The document. `None` if its parts were handed over.
    Root(Option<Node>),
}

/// A finished node, how many levels are below it, and what it costs to copy.
#[derive(Clone)]
struct Built {
    node: Node,
    height: usize,
    bytes: usize,
}

/// A collection whose end has not come yet.
struct Frame {
    position: Position,
    anchor: usize,
    height: usize,
    bytes: usize,
    content: Open,
    /// It is a mapping whose items were handed over one by one.
    is_taken: bool,
}

enum Open {
    List(Vec<Node>),
    Map { entries: IndexMap<String, Node>, merged: HashSet<String>, key: Option<Key> },
}

/// A key that waits for its value.
enum Key {
    Named(String, Position),
    /// `<<`
    Merge,
}

impl<'b> Builder<'b> {
    /// A builder for one document; `aliased_bytes` counts over all documents of a text.
    pub(crate) fn new(options: Options, aliased_bytes: &'b mut usize) -> Builder<'b> {
        Builder {
            options,
            open: Vec::new(),
            anchors: HashMap::new(),
            aliased_bytes,
            lists: Vec::new(),
            item: None,
            root: None,
        }
    }

    /// The mapping around the next node, if the next node is the list of its items and these can be handed over one by one: what is known of the
    /// mapping's type so far.
    pub(crate) fn awaits_items(&self) -> Option<Header> {
        // Mappings and lists alternate, beginning with the document.
        let Some(Frame { content: Open::Map { entries, merged, key: Some(Key::Named(key, _)) }, anchor: 0, .. }) =
            self.open.last().filter(|_| self.open.len() == 2 * self.lists.len() + 1)
        else {
            return None;
        };
        let text = |key: &str| match &entries.get(key)?.content {
            Content::Scalar(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        (key == ITEMS && merged.is_empty() && !entries.contains_key(ITEMS))
            .then(|| Header { api_version: text("apiVersion"), kind: text("kind") })
    }

    /// The items of the list that begins next are handed over one by one.
    pub(crate) fn split(&mut self, list: ListType) {
        if let Some(frame) = self.open.last_mut() {
            frame.is_taken = true;
        }
        self.lists.push(list);
    }

    /// The list that the node which was handed over last is an item of.
    pub(crate) fn list(&self) -> Option<&ListType> {
        self.lists.last()
    }

    /// Takes the next event, and returns what it completes.
    pub(crate) fn on_event(&mut self, event: Event<'_>, position: Position) -> Result<Option<Part>, Mistake> {
        let mistake = |problem: Problem| Mistake { position, problem };
        match event {
            Event::DocumentEnd => return Ok(Some(Part::Root(self.root.take()))),
            Event::Scalar(text, style, anchor, tag) => {
                if self.awaits_key() && is_merge(&text, style, tag.as_deref()) {
                    self.set_key(Key::Merge);
                } else {
                    let bytes = NODE_BYTES + text.len();
                    let content = Content::Scalar(scalar_value(&text, style, tag.as_deref()).map_err(mistake)?);
                    self.add(Built { node: Node { position, content }, height: 0, bytes }, anchor)?;
                }
            }
            Event::SequenceStart(_, anchor, _) => self.push(position, anchor, Open::List(Vec::new()))?,
            Event::MappingStart(_, anchor, _) => {
                let map = Open::Map { entries: IndexMap::new(), merged: HashSet::new(), key: None };
                self.push(position, anchor, map)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Frame { position, anchor, height, bytes, content, is_taken }) = self.open.pop() {
                    if self.open.len() < 2 * self.lists.len() {
                        self.lists.pop();
                    }
                    if is_taken {
                        return Ok(None);
                    }
                    let content = match content {
                        Open::List(items) => Content::List(items),
                        Open::Map { entries, .. } => Content::Map(entries),
                    };
                    self.add(Built { node: Node { position, content }, height, bytes }, anchor)?;
                }
            }
            Event::Alias(anchor) => {
                let Some(Built { bytes, .. }) = self.anchors.get(&anchor) else {
                    return Err(mistake("this alias is inside of what it stands for".into()));
                };
                self.spend(*bytes).map_err(mistake)?;
                if let Some(mut built) = self.anchors.get(&anchor).cloned() {
                    built.node.position = position;
                    self.add(built, 0)?;
                }
            }
            _ => {}
        }
        Ok(self.item.take().map(Part::Item))
    }

    fn push(&mut self, position: Position, anchor: usize, content: Open) -> Result<(), Mistake> {
        self.open.push(Frame { position, anchor, height: 0, bytes: NODE_BYTES, content, is_taken: false });
        self.check_depth(0).map_err(|problem| Mistake { position, problem })
    }

    /// Puts a finished node into the collection around it.
    fn add(&mut self, built: Built, anchor: usize) -> Result<(), Mistake> {
        let position = built.node.position;
        self.put(built, anchor).map_err(|problem| Mistake { position, problem })
    }

    fn put(&mut self, built: Built, anchor: usize) -> Result<(), Problem> {
        self.check_depth(built.height)?;
        if anchor != 0 {
            self.spend(built.bytes)?;
            self.anchors.insert(anchor, built.clone());
        }
        let Built { node, height, bytes } = built;
        if self.is_item() {
            self.item = Some(node);
            return Ok(());
        }
        let Some(frame) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        frame.height = frame.height.max(height + 1);
        frame.bytes += bytes;
        match &mut frame.content {
            Open::List(items) => items.push(node),
            Open::Map { entries, merged, key } => match key.take() {
                None => *key = Some(named_key(node, entries, merged, self.options)?),
                Some(Key::Named(name, at)) => {
                    entries.insert(name, on_the_line_of_its_key(node, at));
                }
                Some(Key::Merge) => merge(node, entries, merged)?,
            },
        }
        Ok(())
    }

    /// Whether the next node is an item of a list whose items are handed over one by one.
    fn is_item(&self) -> bool {
        !self.lists.is_empty() && self.open.len() == 2 * self.lists.len()
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(Frame { content: Open::Map { key: None, .. }, .. }))
    }

    fn set_key(&mut self, name: Key) {
        if let Some(Frame { content: Open::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(name);
        }
    }

    fn check_depth(&self, height: usize) -> Result<(), Problem> {
        if self.open.len() + height > MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} levels deep").into());
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Problem> {
        *self.aliased_bytes = self.aliased_bytes.saturating_add(bytes);
        if *self.aliased_bytes > MAX_ALIASED_BYTES {
            return Err("the aliases expand to too much; write out what they stand for".into());
        }
        Ok(())
    }
}

fn is_merge(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    let implied = tag.is_none() && style == ScalarStyle::Plain;
    text == "<<" && (implied || tag.is_some_and(|tag| tag.suffix_in_namespace(YAML).as_deref() == Some("merge")))
}

fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, Problem> {
    match tag {
        Some(tag) => match tag.suffix_in_namespace(YAML) {
            Some(kind) => Ok(scalar::resolve_tagged(&kind, text)?),
            // A tag of somebody's own says nothing to Kubernetes.
            None => Ok(text.into()),
        },
        None if style == ScalarStyle::Plain => Ok(scalar::resolve(text)?),
        None => Ok(text.into()),
    }
}

/// The key that `node` is. The same twice is a mistake, unless the first one came by a merge.
fn named_key(
    node: Node,
    entries: &IndexMap<String, Node>,
    merged: &mut HashSet<String>,
    options: Options,
) -> Result<Key, Problem> {
    let kind = node.content.describe();
    let name = match node.content {
        Content::Scalar(value) => scalar::key(value),
        Content::List(_) | Content::Map(_) => None,
    };
    let name = name.ok_or_else(|| format!("a key must be a string, this is {kind}"))?;
    match entries.get(&name) {
        Some(first) if !merged.remove(&name) && !options.last_key_wins => {
            Err(Problem::DuplicateKey { key: name, line: first.position.line })
        }
        _ => Ok(Key::Named(name, node.position)),
    }
}

/// A value that begins below its key is looked for at the key.
fn on_the_line_of_its_key(mut node: Node, key: Position) -> Node {
    if node.position.line != key.line {
        node.position = key;
    }
    node
}

/// Sets the entries of a mapping, or of each of a list of mappings, of which the first wins.
///
/// A merge that comes after a key overrides it: kubectl does that, whatever YAML says.
fn merge(node: Node, entries: &mut IndexMap<String, Node>, merged: &mut HashSet<String>) -> Result<(), Problem> {
    let sources = match node.content {
        Content::List(items) => items,
        Content::Map(_) | Content::Scalar(_) => vec![node],
    };
    for source in sources.into_iter().rev() {
        let Content::Map(map) = source.content else {
            let found = source.content.describe();
            return Err(format!("<< merges a mapping or a list of mappings, this is {found}").into());
        };
        for (name, value) in map {
            if !entries.contains_key(&name) {
                merged.insert(name.clone());
            }
            entries.insert(name, value);
        }
    }
    Ok(())
}
