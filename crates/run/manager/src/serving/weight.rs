//! How much memory a text of JSON takes when it is decoded, estimated from the text alone.
//!
//! ```text
//!  {"args": ["", "", ""]}      22 bytes of text
//!  ▲      ▲ ▲  ▲   ▲
//!  4      2 4  3   3           16 values of 72 bytes: 1,174 bytes
//! ```

use serde_json::Value;

/// What a value takes in a list, whatever it is.
const VALUE: usize = size_of::<Value>();

/// Characters that are counted together: so few that their sum fits into a byte.
const BLOCK: usize = 32;

/// The most bytes that a text takes when it is decoded. Of one that takes more than `limit` only that is known.
///
/// A first count includes the commas, colons and brackets in strings. It is quick, and enough for nearly every text. Only if it is above `limit`
/// are strings left out of the count.
pub(crate) fn weight(text: &[u8], limit: usize) -> usize {
    // A string takes no more than its text.
    let with = |values: usize| values.saturating_mul(VALUE).saturating_add(text.len());
    let most = with(all(text));
    if most <= limit { most } else { with(outside_strings(text, limit / VALUE)) }
}

/// How many values' memory a character stands for, outside of strings. Without branches, so that the compiler counts many at a time.
fn values(sign: u8) -> u8 {
    // One more value. Lists grow by doubling: the allocator may still hold the smaller ones, which are together twice as large as the values.
    3 * u8::from(sign == b',')
        // A key: its text, its hash, and its place in the index.
        + 2 * u8::from(sign == b':')
        // `[` or `{`: a list begins with room for four values, an object with room for three.
        + 4 * u8::from(sign | 0x20 == b'{')
}

fn all(text: &[u8]) -> usize {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    blocks.iter().map(|block| sum(block)).sum::<usize>() + sum(rest)
}

/// The sum of a block.
fn sum(signs: &[u8]) -> usize {
    usize::from(signs.iter().map(|sign| values(*sign)).sum::<u8>())
}

/// Stops at `most`: a whole long text would take milliseconds.
fn outside_strings(text: &[u8], most: usize) -> usize {
    let (mut total, mut is_string, mut is_escaped) = (0, false, false);
    for block in text.chunks(BLOCK) {
        if total > most {
            break;
        }
        // A block without quotes is outside of strings as a whole, and is counted at once.
        if !is_string && !block.contains(&b'"') {
            total += sum(block);
            continue;
        }
        for sign in block {
            match (is_string, *sign) {
                (true, _) if is_escaped => is_escaped = false,
                (true, b'\\') => is_escaped = true,
                (_, b'"') => is_string = !is_string,
                (true, _) => {}
                (false, sign) => total += usize::from(values(sign)),
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The memory of a value that was decoded, without what the allocator adds.
    fn taken(value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.capacity(),
            Value::Array(list) => list.capacity() * VALUE + list.iter().map(taken).sum::<usize>(),
            Value::Object(object) => {
                // The index takes two words for an entry, and there is room for three entries at least.
                let entry = size_of::<(usize, String, Value)>() + 2 * size_of::<usize>();
                let entries = if object.is_empty() { 0 } else { object.len().next_power_of_two().max(3) };
                entries * entry + object.iter().map(|(key, value)| key.capacity() + taken(value)).sum::<usize>()
            }
        }
    }

    fn list(item: &str, count: usize) -> String {
        format!(r#"{{"x":[{}]}}"#, vec![item; count].join(","))
    }

    #[test]
    fn a_text_weighs_at_least_what_it_takes_when_it_is_decoded() {
        let keys: Vec<String> = (0..10_000).map(|i| format!(r#""{i}":0"#)).collect();
        let texts = [
            list("0", 4_097),
            list(r#""""#, 10_000),
            list("[0]", 1_000),
            list("[[0],[]]", 1_000),
            list("{}", 1_000),
            list(r#"{"":0}"#, 1_000),
            list(r#"{"name":"A","value":"1"}"#, 1_000),
            format!("{{{}}}", keys.join(",")),
            json!({"text": "x".repeat(10_000)}).to_string(),
            "[".repeat(100) + &"]".repeat(100),
        ];
        for text in texts {
            let (taken, weight) = (taken(&serde_json::from_str(&text).unwrap()), weight(text.as_bytes(), usize::MAX));
            assert!(taken <= weight, "{text:.40}: {taken} > {weight}");
        }
    }

    #[test]
    fn a_long_list_weighs_a_hundred_times_its_text() {
        let text = list("0", 1_000_000);
        assert!(weight(text.as_bytes(), usize::MAX) > 100 * text.len());
    }

    #[test]
    fn strings_are_left_out_of_the_count_when_it_matters() {
        let csv = r#"a,b:c[d{e\",\\"#.repeat(1_000);
        let text = format!(r#"{{"csv":"{csv}","n":[1,2]}}"#);
        let outside = 4 + 2 + 3 + 2 + 4 + 3;
        let light = text.len() + outside * VALUE;
        assert_eq!(weight(text.as_bytes(), light), light);
        assert!(weight(text.as_bytes(), light / 2) > light / 2);
        let inside = 1_000 * (3 + 2 + 4 + 4 + 3);
        assert_eq!(weight(text.as_bytes(), usize::MAX), text.len() + (outside + inside) * VALUE);
    }

    #[test]
    fn both_counts_agree_on_a_text_without_strings() {
        let text = b"[{,:0 ".repeat(20);
        for length in 0..=text.len() {
            let text = &text[..length];
            assert_eq!(all(text), outside_strings(text, usize::MAX), "{length}");
            assert!(outside_strings(text, 10) <= 10 + 4 * BLOCK, "{length}");
        }
    }

    #[test]
    fn strings_begin_and_end_anywhere_in_a_block() {
        for before in 0..2 * BLOCK {
            for inside in 0..2 * BLOCK {
                let text = format!(r#"{}"{}\""[,"#, " ".repeat(before), ",".repeat(inside));
                assert_eq!(outside_strings(text.as_bytes(), usize::MAX), 4 + 3, "{text}");
            }
        }
    }
}
