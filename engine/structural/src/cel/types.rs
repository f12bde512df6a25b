//! Types of expressions, and when one can stand for another.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[allow(clippy::enum_variant_names, reason = "the type of a type is a type")]
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Type {
    /// Known only when evaluated.
    #[default]
    Dyn,
    /// Of an expression that is wrong; it fits everywhere, so that one mistake is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    Type(Arc<Type>),
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<Object>),
    /// A type with a name only, such as `net.IP`, or `optional_type` of another.
    Opaque(&'static str, Vec<Type>),
    /// A type that is still to be found.
    Parameter(usize),
}

/// An object with known fields.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, Type>,
}

impl Object {
    /// A field by the name that an expression gives it. A word that has to be escaped can be written as it is where the language allows it.
    pub(super) fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name).or_else(|| self.fields.get(&crate::escape::escape(name)?))
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        self.name == other.name
    }
}

pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub(crate) fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    pub(crate) fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(of: Type) -> Type {
        Type::Opaque(OPTIONAL, vec![of])
    }

    pub(crate) fn type_of(of: Type) -> Type {
        Type::Type(Arc::new(of))
    }

    pub(crate) fn object_of(name: &str, fields: impl IntoIterator<Item = (String, Type)>) -> Type {
        Type::Object(Arc::new(Object { name: name.to_owned(), fields: fields.into_iter().collect() }))
    }

    pub(super) fn unwrap_optional(&self) -> Option<&Type> {
        match self {
            Type::Opaque(OPTIONAL, parameters) => parameters.first(),
            _ => None,
        }
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::Type(of) | Type::List(of) => vec![of],
            Type::Map(key, value) => vec![key, value],
            Type::Opaque(_, parameters) => parameters.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether both are made the same way; their parameters aside.
    fn same_head(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Opaque(a, p), Type::Opaque(b, q)) => a == b && p.len() == q.len(),
            (Type::Object(a), Type::Object(b)) => a == b,
            (Type::Parameter(a), Type::Parameter(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Dyn | Type::Parameter(_) => "dyn",
            Type::Error => "!error!",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::Type(_) => "type",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Object(object) => &object.name,
            Type::Opaque(name, _) => name,
        };
        f.write_str(name)?;
        let parameters: Vec<String> = self.parameters().into_iter().map(ToString::to_string).collect();
        if parameters.is_empty() { Ok(()) } else { write!(f, "({})", parameters.join(", ")) }
    }
}

/// What the parameters stand for, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    known: HashMap<usize, Type>,
    fresh: usize,
}

impl Bindings {
    pub(super) fn fresh(&mut self) -> Type {
        self.fresh += 1;
        Type::Parameter(self.fresh - 1)
    }

    /// Whether `from` can stand where `to` is wanted; the parameters are bound if so.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all(&[from], &[to])
    }

    pub(super) fn assign_all(&mut self, from: &[&Type], to: &[&Type]) -> bool {
        let mut attempt = self.clone();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| attempt.fits(from, to));
        if fits {
            *self = attempt;
        }
        fits
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Parameter(id) = to {
            match self.substitutes(from, *id) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Parameter(id) = from {
            return self.substitutes(to, *id).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(other, Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp)
            }
            (Type::Type(_), Type::Type(_)) => true,
            _ => {
                from.same_head(to)
                    && from.parameters().into_iter().zip(to.parameters()).all(|(from, to)| self.fits(from, to))
            }
        }
    }

    /// Whether the parameter can be (or is) `of`, and whether it is known already.
    fn substitutes(&mut self, of: &Type, id: usize) -> (bool, bool) {
        if *of == Type::Parameter(id) {
            return (true, true);
        }
        match self.known.get(&id).cloned() {
            Some(known) => {
                if known == *of {
                    return (true, true);
                }
                if !self.fits(of, &known) {
                    return (false, true);
                }
                let general = most_general(of, &known).clone();
                if !self.occurs(id, &general) {
                    self.known.insert(id, general);
                }
                (true, true)
            }
            None if self.occurs(id, of) => (false, false),
            None => {
                self.known.insert(id, of.clone());
                (true, false)
            }
        }
    }

    /// Whether the parameter is part of the type.
    fn occurs(&self, id: usize, within: &Type) -> bool {
        match within {
            Type::Parameter(other) => *other == id || self.known.get(other).is_some_and(|known| self.occurs(id, known)),
            _ => within.parameters().into_iter().any(|parameter| self.occurs(id, parameter)),
        }
    }

    /// The type with its known parameters put in; with `to_dyn`, the unknown ones become `dyn`.
    pub(super) fn resolve(&self, of: &Type, to_dyn: bool) -> Type {
        match of {
            Type::Parameter(id) => match self.known.get(id) {
                Some(known) => self.resolve(known, to_dyn),
                None if to_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::Type(of) => Type::type_of(self.resolve(of, to_dyn)),
            Type::List(of) => Type::list(self.resolve(of, to_dyn)),
            Type::Map(key, value) => Type::map(self.resolve(key, to_dyn), self.resolve(value, to_dyn)),
            Type::Opaque(name, parameters) => {
                Type::Opaque(name, parameters.iter().map(|parameter| self.resolve(parameter, to_dyn)).collect())
            }
            _ => of.clone(),
        }
    }
}

/// A signature's own parameters made fresh ones.
pub(super) fn instantiate(of: &Type, fresh: &HashMap<usize, Type>) -> Type {
    match of {
        Type::Parameter(id) => fresh.get(id).cloned().unwrap_or_default(),
        Type::Type(of) => Type::type_of(instantiate(of, fresh)),
        Type::List(of) => Type::list(instantiate(of, fresh)),
        Type::Map(key, value) => Type::map(instantiate(key, fresh), instantiate(value, fresh)),
        Type::Opaque(name, parameters) => {
            Type::Opaque(name, parameters.iter().map(|parameter| instantiate(parameter, fresh)).collect())
        }
        _ => of.clone(),
    }
}

/// Of two types that fit, the one that says less.
pub(super) fn most_general<'a>(a: &'a Type, b: &'a Type) -> &'a Type {
    if equal_or_less_specific(a, b) { a } else { b }
}

fn equal_or_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Parameter(_), _) | (Type::Type(_), Type::Type(_)) => true,
        (_, Type::Dyn | Type::Parameter(_)) => false,
        _ => {
            a.same_head(b) && a.parameters().into_iter().zip(b.parameters()).all(|(a, b)| equal_or_less_specific(a, b))
        }
    }
}
