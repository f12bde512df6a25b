//! What must be true of any input of the embedded API server. Each function takes the bytes of a fuzzer and panics when that is not true. The
//! fuzzers and the replay of their corpus call the same functions.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a fuzzer sees by a panic that something is wrong")]

mod objects;
mod request;

use pillion_patch::field_selector::FieldSelector;
use pillion_patch::label_selector::LabelSelector;

pub use objects::{apply, decode, protobuf, strategic};
pub use request::request;

/// Any text is a selector of labels, or of fields, or an error; what was read prints as text that reads as the same.
pub fn selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(selector) = LabelSelector::parse(text) {
        let printed = selector.to_string();
        assert_eq!(LabelSelector::parse(&printed), Ok(selector), "{text:?} prints as {printed:?}");
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let printed = selector.to_string();
        // Terms stand in the order of their text, and `==` prints as `=`.
        let terms = |selector: FieldSelector| {
            let mut terms: Vec<String> = selector.terms.iter().map(|term| format!("{term:?}")).collect();
            terms.sort_unstable();
            terms
        };
        assert_eq!(FieldSelector::parse(&printed).map(terms), Ok(terms(selector)), "{text:?} prints as {printed:?}");
    }
}
