//! Objects as compact JSON text, with `metadata.resourceVersion` set by the store.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::stored::Stored;
use crate::write_error::{LARGEST_OBJECT, WriteError};

/// The text of an object, ready to be given any version.
///
/// Serialising is most of the work of a write, and the version is known only when the write's turn has come: so the
/// text is made first, and the digits are put in later.
pub(crate) struct Text {
    json: Bytes,
    version: Range<usize>,
}

impl Text {
    /// Serialises an object.
    pub(crate) fn new(mut object: Map<String, Value>) -> Result<Text, WriteError> {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(metadata) = metadata else {
            return Err(WriteError::Object("metadata must be a JSON object"));
        };
        metadata.insert("resourceVersion".to_owned(), Value::String(String::new()));
        let json = serde_json::to_vec(&object).map_err(|_| WriteError::Object("it has no JSON form"))?;
        if json.len() > LARGEST_OBJECT {
            return Err(WriteError::TooLarge);
        }
        Text::of(json.into())
    }

    /// The text of a stored object, to be given another version.
    pub(crate) fn of(json: Bytes) -> Result<Text, WriteError> {
        match version_in(&json) {
            Some(version) => Ok(Text { json, version }),
            None => Err(WriteError::Object("it has no metadata.resourceVersion")),
        }
    }

    /// The object at that version, in a text without spare capacity.
    pub(crate) fn at(&self, resource_version: u64) -> Stored {
        let digits = resource_version.to_string();
        let (head, tail) = (&self.json[..self.version.start], &self.json[self.version.end..]);
        let mut bytes = Vec::with_capacity(head.len() + digits.len() + tail.len());
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(tail);
        Stored { bytes: bytes.into(), resource_version }
    }
}

/// The version that a text says it has.
pub(crate) fn version_of(json: &[u8]) -> Option<u64> {
    std::str::from_utf8(json.get(version_in(json)?)?).ok()?.parse().ok()
}

/// Where the value of `metadata.resourceVersion` is in compact JSON, without its quotes.
///
/// A scan instead of a parser: it stops early, as `metadata` comes early, and has no limit of depth.
fn version_in(json: &[u8]) -> Option<Range<usize>> {
    let mut depth = 0_usize;
    let mut in_metadata = false;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let text = string_at(json, at)?;
                let end = text.end;
                if json.get(end + 1) == Some(&b':') {
                    match depth {
                        1 => in_metadata = &json[text] == b"metadata",
                        2 if in_metadata && &json[text] == b"resourceVersion" => return string_at(json, end + 2),
                        _ => {}
                    }
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The inside of the JSON string that opens at `at`.
fn string_at(json: &[u8], at: usize) -> Option<Range<usize>> {
    if json.get(at) != Some(&b'"') {
        return None;
    }
    let mut end = at + 1;
    loop {
        match json.get(end)? {
            b'"' => return Some(at + 1..end),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_object_that_etcd_would_not_take_is_refused() {
        let object = |size: usize| Text::new(map(json!({"metadata": {}, "data": "x".repeat(size)})));
        assert!(object(LARGEST_OBJECT - 100).is_ok());
        assert!(matches!(object(LARGEST_OBJECT), Err(WriteError::TooLarge)));
    }

    #[test]
    fn the_version_is_set_where_it_was_or_at_the_end_of_metadata() {
        for (object, expected) in [
            (
                json!({"metadata": {"resourceVersion": "1", "uid": "u"}}),
                r#"{"metadata":{"resourceVersion":"42","uid":"u"}}"#,
            ),
            (
                json!({"kind": "Pod", "metadata": {"name": "a"}}),
                r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"42"}}"#,
            ),
            (json!({}), r#"{"metadata":{"resourceVersion":"42"}}"#),
        ] {
            let stored = Text::new(map(object)).unwrap().at(42);
            assert_eq!((stored.bytes, stored.resource_version), (expected.into(), 42));
        }
    }

    #[test]
    fn only_the_version_of_the_object_itself_is_touched() {
        let object = json!({
            "resourceVersion": "top",
            "spec": {"metadata": {"resourceVersion": "template"}, "resourceVersion": "spec"},
            "list": [["metadata", {"resourceVersion": "list"}], {"metadata": {}}],
            "text": "\"metadata\":{\"resourceVersion\":\"escaped\"} \\",
            "metadata": {
                "annotations": {"resourceVersion": "annotation", "metadata": "}{"},
                "ownerReferences": [{"resourceVersion": "owner"}],
                "resourceVersion": "own",
            },
            "involvedObject": {"resourceVersion": "other"},
        });
        let stored = Text::new(map(object.clone())).unwrap().at(7);
        let again = Text::of(stored.bytes).unwrap().at(123_456);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("123456");
        assert_eq!(again.bytes, expected.to_string());
        assert_eq!(version_of(&again.bytes), Some(123_456));
    }

    #[test]
    fn metadata_that_is_no_object_is_refused() {
        let error = Text::new(map(json!({"metadata": []}))).err().unwrap();
        assert_eq!(error.to_string(), "the object cannot be stored: metadata must be a JSON object");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered_without_panic(bytes in "[{}\\[\\]\",:\\\\a]{0,40}", cut in 0_usize..60) {
            version_of(bytes.as_bytes());
            let whole = r#"{"kind":"a\"b","metadata":{"labels":{},"resourceVersion":"9"}}"#;
            let cut = &whole.as_bytes()[..cut.min(whole.len())];
            proptest::prop_assert!(version_of(cut).is_none_or(|version| version == 9));
        }
    }
}
