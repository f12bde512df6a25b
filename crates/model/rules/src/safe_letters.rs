//! Names that are generated: their letters cannot spell a word.

/// Lowercase letters and digits, without vowels and without digits that look like vowels.
pub const SAFE_LETTERS: [char; 27] = [
    'b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w', 'x', 'z', '2', '4', '5',
    '6', '7', '8', '9',
];

/// A hash as part of a name, as Kubernetes encodes it: each byte as one of the [letters](SAFE_LETTERS).
///
/// ```
/// assert_eq!(pillion_rules::safe_encode("1234567890"), "56789bcdf4");
/// ```
pub fn safe_encode(text: &str) -> String {
    text.bytes().filter_map(|byte| SAFE_LETTERS.get(usize::from(byte) % SAFE_LETTERS.len())).collect()
}
