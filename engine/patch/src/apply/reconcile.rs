//! Fits sets of owned fields to a schema that changed: what became atomic is owned as a whole.

use std::rc::Rc;

use super::element::Element;
use super::set::{Node, Set};
use super::shape::{MapShape, Shape, Type};

/// The set that these paths are under this schema; `None` if it is the same.
pub(super) fn reconcile<'a>(at: Type<'_>, set: &Set<'a>) -> Option<Set<'a>> {
    let shape = at.shape(None);
    if matches!(shape, Shape::Map(MapShape::Of { value: Type::Deduced, .. }) | Shape::Scalar(_)) {
        return None;
    }
    let mut changed = false;
    let nodes: Vec<Node<'a>> = set
        .nodes()
        .iter()
        .map(|node| {
            let below = match (&node.element, shape) {
                (Element::Field(name), Shape::Map(map)) => map.value(name),
                (_, Shape::Map(MapShape::Of { value, .. })) => Some(value),
                (_, Shape::List(list)) => Some(list.item),
                _ => None,
            };
            let (Some(below), Some(children)) = (below, &node.children) else { return node.clone() };
            let atomic = match below.shape(None) {
                Shape::Map(map) => map.atomic(),
                Shape::List(list) => list.atomic(),
                Shape::Scalar(_) => false,
            };
            if atomic {
                changed = true;
                return Node { element: node.element.clone(), member: true, children: None };
            }
            match reconcile(below, children) {
                Some(children) => {
                    changed = true;
                    Node { element: node.element.clone(), member: node.member, children: Some(Rc::new(children)) }
                }
                None => node.clone(),
            }
        })
        .collect();
    changed.then(|| nodes.into_iter().collect())
}
