//! Bytes in text.

/// Bytes of base64, with padding.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let body = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - body.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() * 3 / 4);
    for group in body.as_bytes().chunks(4) {
        let bits = group.iter().try_fold(0_u32, |bits, b| Some(bits << 6 | u32::from(value(*b)?)))?;
        let bits = bits << (6 * (4 - group.len()));
        out.extend_from_slice(bits.to_be_bytes().get(1..group.len())?);
    }
    Some(out)
}
