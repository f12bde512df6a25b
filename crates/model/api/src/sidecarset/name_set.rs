//! The names of one SidecarSet, or of very many.

use std::sync::Arc;

use imbl::OrdSet;

/// Names in order. Nearly always it is one, which takes no memory of its own; a clone of many shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameSet {
    /// No name.
    #[default]
    None,
    /// One name.
    One(Arc<str>),
    /// Two or more.
    Many(OrdSet<Arc<str>>),
}

impl NameSet {
    /// Adds a name.
    pub fn insert(&mut self, name: &Arc<str>) {
        match self {
            NameSet::None => *self = NameSet::One(Arc::clone(name)),
            NameSet::One(known) if known == name => {}
            NameSet::One(known) => *self = NameSet::Many([Arc::clone(known), Arc::clone(name)].into_iter().collect()),
            NameSet::Many(names) => _ = names.insert(Arc::clone(name)),
        }
    }

    pub fn remove(&mut self, name: &str) {
        match self {
            NameSet::One(known) if **known == *name => *self = NameSet::None,
            NameSet::None | NameSet::One(_) => {}
            NameSet::Many(names) => {
                names.remove(name);
                if names.len() <= 1 {
                    *self = names.get_min().cloned().map_or(NameSet::None, NameSet::One);
                }
            }
        }
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        matches!(self, NameSet::None)
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (one, many) = match self {
            NameSet::None => (None, None),
            NameSet::One(name) => (Some(name), None),
            NameSet::Many(names) => (None, Some(names)),
        };
        one.into_iter().chain(many.into_iter().flatten()).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_and_go() {
        let mut names = NameSet::default();
        for name in ["b", "a", "c", "a"] {
            names.insert(&name.into());
        }
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        names.remove("b");
        names.remove("x");
        names.remove("a");
        assert_eq!(names, NameSet::One("c".into()));
        names.remove("x");
        names.remove("c");
        assert!(names.is_empty());
    }
}
