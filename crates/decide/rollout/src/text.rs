//! Texts that many pods share are kept once.

use std::collections::HashSet;
use std::sync::Arc;

/// A text that many pods may share, such as an image or a label.
pub type Text = Arc<str>;

/// The texts that views share. Those that no view has any more are dropped from time to time.
#[derive(Debug, Default)]
pub struct Texts {
    known: HashSet<Text>,
    sweep_at: usize,
}

impl Texts {
    /// The shared copy of a text.
    pub fn get(&mut self, text: &str) -> Text {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = 1024.max(2 * self.known.len());
        }
        let new: Text = Arc::from(text);
        self.known.insert(Arc::clone(&new));
        new
    }

    /// How many texts are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no text is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_unused_ones_go() {
        let mut texts = Texts::default();
        let first = texts.get("a");
        assert!(Arc::ptr_eq(&first, &texts.get("a")));
        for i in 0..10_000 {
            texts.get(&i.to_string());
        }
        assert!(texts.len() <= 1025, "{}", texts.len());
        assert!(Arc::ptr_eq(&first, &texts.get("a")));
    }
}
