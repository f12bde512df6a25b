//! Sets of field paths, as trees. What two sets have in common below a step is shared, not copied.

use std::cmp::Ordering;
use std::rc::Rc;

use super::element::Element;
use super::shape::{Shape, Type};

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Set<'a> {
    /// Sorted by element; each is a member or has children.
    nodes: Vec<Node<'a>>,
}

/// What a set holds at and below one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node<'a> {
    /// The step.
    pub element: Element<'a>,
    /// The path that ends here is in the set.
    pub member: bool,
    /// Longer paths; never empty.
    pub children: Option<Rc<Set<'a>>>,
}

impl<'a> Node<'a> {
    /// `None` if nothing is there.
    pub(super) fn new(element: Element<'a>, member: bool, children: Set<'a>) -> Option<Self> {
        let children = (!children.is_empty()).then(|| Rc::new(children));
        (member || children.is_some()).then_some(Node { element, member, children })
    }
}

impl<'a> FromIterator<Node<'a>> for Set<'a> {
    /// Each element at most once.
    fn from_iter<T: IntoIterator<Item = Node<'a>>>(nodes: T) -> Self {
        let mut nodes: Vec<Node<'a>> = nodes.into_iter().collect();
        nodes.sort_unstable_by(|a, b| a.element.cmp(&b.element));
        Set { nodes }
    }
}

impl<'a> Set<'a> {
    /// The set of these paths of field names.
    pub(super) fn of_fields(paths: &[&[&'a str]]) -> Self {
        paths.iter().fold(Set::default(), |set, path| {
            let path = path.iter().rev().fold(None, |below: Option<Set>, name| {
                let member = below.is_none();
                Some(Node::new(Element::Field(name), member, below.unwrap_or_default()).into_iter().collect())
            });
            set.union(&path.unwrap_or_default())
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// What is held at and below this step.
    pub(super) fn get(&self, element: &Element<'_>) -> Option<&Node<'a>> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.nodes.get(at)
    }

    /// Paths in either.
    #[must_use]
    pub(super) fn union(&self, other: &Self) -> Self {
        join(self, other, |pair| match pair {
            Pair::Left(node) | Pair::Right(node) => Some(node.clone()),
            Pair::Both(a, b) => Some(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: match (&a.children, &b.children) {
                    (Some(a), Some(b)) => Some(Rc::new(a.union(b))),
                    (Some(one), None) | (None, Some(one)) => Some(Rc::clone(one)),
                    (None, None) => None,
                },
            }),
        })
    }

    /// Whether a path is in both.
    pub(super) fn overlaps(&self, other: &Set<'_>) -> bool {
        let (few, many) = if self.nodes.len() < other.nodes.len() { (self, other) } else { (other, self) };
        few.nodes.iter().any(|a| {
            many.get(&a.element).is_some_and(|b| {
                a.member && b.member || matches!((&a.children, &b.children), (Some(a), Some(b)) if a.overlaps(b))
            })
        })
    }

    /// Paths in both.
    #[must_use]
    pub(super) fn intersection(&self, other: &Set<'_>) -> Self {
        join(self, other, |pair| match pair {
            Pair::Both(a, b) => {
                let children = match (&a.children, &b.children) {
                    (Some(a), Some(b)) => a.intersection(b),
                    _ => Set::default(),
                };
                Node::new(a.element.clone(), a.member && b.member, children)
            }
            _ => None,
        })
    }

    /// Paths that are not in the other.
    #[must_use]
    pub(super) fn difference(&self, other: &Set<'_>) -> Self {
        join(self, other, |pair| match pair {
            Pair::Left(node) => Some(node.clone()),
            Pair::Right(_) => None,
            Pair::Both(a, b) => remaining(a, b, a.member && !b.member, |a, b| a.difference(b)),
        })
    }

    /// Paths that are not in the other and have no beginning in it.
    #[must_use]
    pub(super) fn recursive_difference(&self, other: &Set<'_>) -> Self {
        join(self, other, |pair| match pair {
            Pair::Left(node) => Some(node.clone()),
            Pair::Both(a, b) if !b.member => remaining(a, b, a.member, |a, b| a.recursive_difference(b)),
            _ => None,
        })
    }

    /// Adds the named fields on the way to each path. Sets of owned fields leave them out, but they go when all below them does.
    #[must_use]
    pub(super) fn with_named_fields(&self, at: Type<'_>) -> Self {
        let shape = at.shape(None);
        let nodes = self.nodes.iter().map(|node| {
            let (named, below) = match (&node.element, shape) {
                (Element::Field(name), Shape::Map(map)) => (map.is_named(name), map.value(name)),
                (Element::Key(_), Shape::List(list)) => (false, Some(list.item)),
                _ => (false, None),
            };
            let children = node.children.as_ref().map(|children| match below {
                Some(below) => Rc::new(children.with_named_fields(below)),
                None => Rc::clone(children),
            });
            Node { element: node.element.clone(), member: node.member || named && children.is_some(), children }
        });
        Set { nodes: nodes.collect() }
    }

    /// The paths as text: those that end at a level before those that go on.
    pub(super) fn paths(&self) -> Vec<String> {
        fn walk(set: &Set<'_>, prefix: &str, out: &mut Vec<String>) {
            out.extend(set.nodes.iter().filter(|node| node.member).map(|node| format!("{prefix}{}", node.element)));
            for node in &set.nodes {
                if let Some(children) = &node.children {
                    walk(children, &format!("{prefix}{}", node.element), out);
                }
            }
        }
        let mut out = Vec::new();
        walk(self, "", &mut out);
        out
    }
}

fn remaining<'a, 'b>(
    a: &Node<'a>,
    b: &Node<'b>,
    member: bool,
    less: impl Fn(&Set<'a>, &Set<'b>) -> Set<'a>,
) -> Option<Node<'a>> {
    let children = match (&a.children, &b.children) {
        (Some(a), Some(b)) => Some(less(a, b)).filter(|set| !set.is_empty()).map(Rc::new),
        (children, _) => children.clone(),
    };
    (member || children.is_some()).then(|| Node { element: a.element.clone(), member, children })
}

enum Pair<'s, 'a, 'b> {
    Left(&'s Node<'a>),
    Right(&'s Node<'b>),
    Both(&'s Node<'a>, &'s Node<'b>),
}

/// Walks two sets in step.
fn join<'s, 'a, 'b>(
    a: &'s Set<'a>,
    b: &'s Set<'b>,
    mut keep: impl FnMut(Pair<'s, 'a, 'b>) -> Option<Node<'a>>,
) -> Set<'a> {
    let (mut left, mut right) = (a.nodes.iter().peekable(), b.nodes.iter().peekable());
    let mut nodes = Vec::with_capacity(a.nodes.len());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.element.cmp(&b.element),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Set { nodes },
        };
        let a = if order.is_le() { left.next() } else { None };
        let b = if order.is_ge() { right.next() } else { None };
        nodes.extend(match (a, b) {
            (Some(a), Some(b)) => keep(Pair::Both(a, b)),
            (Some(a), None) => keep(Pair::Left(a)),
            (None, Some(b)) => keep(Pair::Right(b)),
            (None, None) => None,
        });
    }
}
