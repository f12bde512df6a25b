//! `[]byte` in JSON: base64 as Go reads and writes it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text as Go writes it after having read it: without line breaks, and without bits that stand for nothing.
///
/// # Errors
/// The offset of the byte that is wrong.
pub(super) fn canonical(text: &str) -> Result<String, usize> {
    let mut symbols = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut output = String::with_capacity(text.len());
    let mut group = String::with_capacity(4);
    while let Some((offset, byte)) = symbols.next() {
        if byte == b'=' && group.len() >= 2 {
            if group.len() == 2 && symbols.next().ok_or(text.len())?.1 != b'=' {
                return Err(offset);
            }
            if let Some((more, _)) = symbols.next() {
                return Err(more);
            }
            output.push_str(&last(&group));
            return Ok(output);
        }
        if !ALPHABET.contains(&byte) {
            return Err(offset);
        }
        group.push(char::from(byte));
        if group.len() == 4 {
            output.push_str(&group);
            group.clear();
        }
    }
    if group.is_empty() { Ok(output) } else { Err(text.len() - group.len()) }
}

/// The last group, with the bits below its last whole byte cleared, and padded.
fn last(group: &str) -> String {
    let (front, symbol) = group.split_at(group.len() - 1);
    let (mask, padding) = if front.len() == 1 { (0b11_0000, "==") } else { (0b11_1100, "=") };
    let value = symbol.bytes().find_map(|byte| ALPHABET.iter().position(|other| *other == byte)).unwrap_or_default();
    let symbol = char::from(*ALPHABET.get(value & mask).unwrap_or(&b'A'));
    format!("{front}{symbol}{padding}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are what Go's `base64.StdEncoding` says.
    #[test]
    fn text_is_read_as_go_reads_it() {
        for (text, expected) in [
            ("", Ok("")),
            ("YQ==", Ok("YQ==")),
            ("YR==", Ok("YQ==")),
            ("YWI=", Ok("YWI=")),
            ("YW\nI=\r\n", Ok("YWI=")),
            ("YWJj", Ok("YWJj")),
            ("!!!", Err(0)),
            ("YWJjZA", Err(4)),
            ("YWJj!WJj", Err(4)),
            ("YQ==YQ==", Err(4)),
            ("Y===", Err(1)),
            ("YQ=", Err(3)),
            ("YQ=a", Err(2)),
            ("YWJ=j", Err(4)),
            ("YWI=\nYQ", Err(5)),
            ("=", Err(0)),
        ] {
            assert_eq!(canonical(text).as_deref().map_err(|offset| *offset), expected, "{text:?}");
        }
    }
}
