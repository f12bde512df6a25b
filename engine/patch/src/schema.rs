//! The shape of objects, as far as decoding, patching and applying need it: which fields there are, how they merge, how Go writes them.
//!
//! Kubernetes' own types come from a committed table (`builtin`), custom resources from their `OpenAPI` schema (`Schemas::from_openapi`).

mod builtin;
mod openapi;

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

pub use builtin::builtin;

/// A set of shapes that refer to each other.
#[derive(Debug, Default)]
pub struct Schemas {
    nodes: Vec<Node>,
    /// What Go has beside the shape; for each node.
    go: Vec<Go>,
    names: HashMap<String, NodeId>,
    root: NodeId,
}

/// What Go's name and reading of a shape add to it.
#[derive(Clone, Debug, Default)]
struct Go {
    /// The name, where it does not follow from the shape: `v1.RestartPolicy`.
    name: Option<String>,
    form: Form,
}

/// Values that read themselves in a way that their [`Node`] does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// The node is the whole schema.
    #[default]
    Plain,
    /// `metav1.Duration`
    Duration,
    /// A JSON schema or a boolean.
    SchemaOrBool,
    /// A JSON schema or a list of them.
    SchemaOrArray,
    /// A JSON schema or a list of strings.
    SchemaOrStrings,
}

/// A shape within its [`Schemas`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeId(u32);

/// One shape.
#[derive(Clone, Debug)]
pub enum Node {
    /// An object with known fields.
    Struct(Struct),
    /// An object with arbitrary keys and values of one shape.
    Map {
        /// Shape of the values.
        value: NodeId,
        /// Owned and replaced as a whole by server-side apply.
        atomic: bool,
    },
    List {
        /// Shape of the elements.
        item: NodeId,
        /// How server-side apply merges it.
        list_type: ListType,
    },
    /// A single value.
    Scalar(Scalar),
    /// Anything: nothing is known below here, and all of it is kept.
    Any,
}

/// An object with known fields.
#[derive(Clone, Debug, Default)]
pub struct Struct {
    /// Go's name of the type, as its JSON errors print it: `v1.Container`. Empty for custom resources.
    pub go_name: String,
    /// The fields, in Go's order.
    pub fields: Vec<Field>,
    /// Owned and replaced as a whole by server-side apply (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Fields that are not listed are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
}

/// A field of a [`Struct`].
#[derive(Clone, Debug)]
pub struct Field {
    /// Name in JSON.
    pub name: String,
    /// The Go structs that it is inlined from, as Go's errors name them: `ProbeHandler`.
    pub inline: Option<String>,
    /// Its shape.
    pub node: NodeId,
    /// Go holds it by pointer: a zero value that was given is kept.
    pub pointer: bool,
    /// Go leaves it out when it is empty (`omitempty` or `omitzero`).
    pub omit_empty: bool,
    /// Its number in protobuf, after those of the messages that it is in there though JSON inlines them. Empty if protobuf has it not.
    pub protobuf: Vec<u32>,
    /// How a strategic merge patch treats it.
    pub patch: PatchStrategy,
    /// Default of the `OpenAPI` schema; list-map keys that are left out count as this.
    pub default: Option<Value>,
}

/// `patchStrategy` and `patchMergeKey` of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists merge instead of being replaced.
    pub merge: bool,
    /// Objects are replaced instead of being merged.
    pub replace: bool,
    /// Keys that the patch does not name are removed (`retainKeys`).
    pub retain_keys: bool,
    /// The field by which elements are the same; `None` for lists of scalars.
    pub merge_key: Option<String>,
}

/// How server-side apply merges a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// As a whole.
    Atomic,
    /// By value.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// The kinds of single values. The names in Go's errors follow from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `string`, and types of it.
    String,
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `float64`
    Float64,
    /// `[]byte`, base64 in JSON.
    Bytes,
    /// `intstr.IntOrString`
    IntOrString,
    /// `resource.Quantity`
    Quantity,
    /// `metav1.Time`
    Time,
    /// `metav1.MicroTime`
    MicroTime,
    /// A number of any kind (custom resources' `type: number`).
    Number,
}

/// A shape together with the set it belongs to: the way to walk.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'a> {
    schemas: &'a Schemas,
    id: NodeId,
}

impl Schemas {
    /// The shape with this name: `io.k8s.api.core.v1.Pod`.
    pub fn get(&self, name: &str) -> Option<Schema<'_>> {
        self.names.get(name).map(|id| Schema { schemas: self, id: *id })
    }

    /// The names of the shapes that have one.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// The custom resource that this set was made for by [`Schemas::from_openapi`].
    pub fn root(&self) -> Schema<'_> {
        Schema { schemas: self, id: self.root }
    }

    fn add(&mut self, node: Node, go: Go) -> NodeId {
        // Four billion shapes do not fit into memory; if they did, the last would be `Any` to `Schema::node`.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        self.go.push(go);
        id
    }

    fn set(&mut self, id: NodeId, node: Node) {
        if let Some(place) = self.nodes.get_mut(id.0 as usize) {
            *place = node;
        }
    }
}

impl<'a> Schema<'a> {
    /// What it is.
    pub fn node(&self) -> &'a Node {
        // An id only ever comes from the same set; `Any` keeps a foreign one harmless.
        self.schemas.nodes.get(self.id.0 as usize).unwrap_or(&Node::Any)
    }

    /// The shape that a field, an element or a value of this one has.
    #[must_use]
    pub fn at(&self, id: NodeId) -> Schema<'a> {
        Schema { schemas: self.schemas, id }
    }

    /// The field `name`, if this is an object that lists it.
    pub fn field(&self, name: &str) -> Option<(&'a Field, Schema<'a>)> {
        match self.node() {
            Node::Struct(object) => {
                object.fields.iter().find(|field| field.name == name).map(|field| (field, self.at(field.node)))
            }
            _ => None,
        }
    }

    /// Go's name of the type, as its errors print it: `[]v1.Container`.
    pub fn go_type(&self) -> Cow<'a, str> {
        if let Some(name) = self.schemas.go.get(self.id.0 as usize).and_then(|go| go.name.as_deref()) {
            return name.into();
        }
        match self.node() {
            Node::Struct(object) => object.go_name.as_str().into(),
            Node::Map { value, .. } => format!("map[string]{}", self.at(*value).go_type()).into(),
            Node::List { item, .. } => format!("[]{}", self.at(*item).go_type()).into(),
            Node::Scalar(scalar) => scalar.go_type().into(),
            Node::Any => "interface {}".into(),
        }
    }

    pub(crate) fn form(&self) -> Form {
        self.schemas.go.get(self.id.0 as usize).map_or(Form::Plain, |go| go.form)
    }

    /// Another shape of the same set.
    pub(crate) fn named(&self, name: &str) -> Option<Schema<'a>> {
        self.schemas.get(name)
    }
}

impl Scalar {
    fn go_type(self) -> &'static str {
        match self {
            Scalar::String => "string",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Float64 | Scalar::Number => "float64",
            Scalar::Bytes => "[]uint8",
            Scalar::IntOrString => "intstr.IntOrString",
            Scalar::Quantity => "resource.Quantity",
            Scalar::Time => "v1.Time",
            Scalar::MicroTime => "v1.MicroTime",
        }
    }
}
