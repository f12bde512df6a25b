//! Where a tree branches: nearly always into one or a few, sometimes into very many.

use std::sync::Arc;

use imbl::HashMap;

/// More branches than this are found by hash.
const FEW: usize = 8;

/// What is found by a label's key or value. A few take no more memory than they need; a clone of many shares them.
#[derive(Clone, Debug)]
pub(crate) enum Branches<V> {
    Few(Vec<(Arc<str>, V)>),
    Many(HashMap<Arc<str>, V>),
}

impl<V> Default for Branches<V> {
    fn default() -> Branches<V> {
        Branches::Few(Vec::new())
    }
}

impl<V: Clone + Default> Branches<V> {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Branches::Few(few) => few.is_empty(),
            Branches::Many(many) => many.is_empty(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&V> {
        match self {
            Branches::Few(few) => few.iter().find(|(known, _)| **known == *key).map(|(_, value)| value),
            Branches::Many(many) => many.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        match self {
            Branches::Few(few) => few.iter_mut().find(|(known, _)| **known == *key).map(|(_, value)| value),
            Branches::Many(many) => many.get_mut(key),
        }
    }

    /// What is there, or what is put there now.
    pub(crate) fn get_or_default(&mut self, key: &str) -> &mut V {
        if let Branches::Few(few) = self
            && few.len() >= FEW
            && !few.iter().any(|(known, _)| **known == *key)
        {
            *self = Branches::Many(std::mem::take(few).into_iter().collect());
        }
        match self {
            Branches::Few(few) => {
                let at = few.iter().position(|(known, _)| **known == *key).unwrap_or_else(|| {
                    few.reserve_exact(1);
                    few.push((Arc::from(key), V::default()));
                    few.len() - 1
                });
                &mut few[at].1
            }
            Branches::Many(many) => many.entry(Arc::from(key)).or_default(),
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        match self {
            Branches::Few(few) => few.retain(|(known, _)| **known != *key),
            Branches::Many(many) => _ = many.remove(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_found_alike() {
        for count in [1, FEW, FEW + 1, 100] {
            let mut branches = Branches::default();
            for i in 0..count {
                *branches.get_or_default(&i.to_string()) += i;
                *branches.get_or_default(&i.to_string()) += 1;
            }
            for i in 0..count {
                assert_eq!(branches.get(&i.to_string()), Some(&(i + 1)));
                *branches.get_mut(&i.to_string()).unwrap() = 0;
                assert_eq!(branches.get(&i.to_string()), Some(&0));
            }
            assert_eq!(branches.get("x"), None);
            for i in 0..count {
                assert!(!branches.is_empty());
                branches.remove(&i.to_string());
            }
            assert!(branches.is_empty());
        }
    }
}
