//! A digest of JSON content, made while it is read.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// 128 bits that stand for a JSON value: equal values have equal digests, in whatever order their keys are, and nothing is kept of the value.
///
/// It tells contents apart that were not made to be confused. Who can write an object can write any content in it, so that nobody gains by
/// making two that have the same digest.
///
/// ```
/// use pillion_api::digest::Digest;
/// let digest = |text: &str| serde_json::from_str::<Digest>(text).unwrap();
/// assert_eq!(digest(r#"{"a": 1, "b": [true, null]}"#), digest(r#"{"b":[true,null],"a":1}"#));
/// assert_ne!(digest(r#"{"a": 1}"#), digest(r#"{"a": "1"}"#));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    pub fn of(value: &Value) -> Digest {
        // A visitor that takes everything gives no error.
        Digest::deserialize(value).unwrap_or_default()
    }

    /// The digest of a list of values with these digests.
    pub(crate) fn of_list(items: impl Iterator<Item = Digest>) -> Digest {
        Digest(items.fold(leaf(6, &[]), |hash, item| pair(6, hash, item.0)))
    }

    /// The digest of an object of values with these digests.
    pub(crate) fn of_object<'a>(entries: impl Iterator<Item = (&'a str, Digest)>) -> Digest {
        let sum = entries.fold(0, |sum: u128, (key, value)| sum.wrapping_add(entry(leaf(5, key.as_bytes()), value.0)));
        Digest(object(sum))
    }

    /// Reads a value as far as its digest goes, and whether the text at `path` is `wanted`.
    ///
    /// # Errors
    /// What the deserializer cannot read.
    pub fn read_and_look<'de, D: Deserializer<'de>>(
        deserializer: D,
        path: &[&str],
        wanted: &str,
    ) -> Result<(Digest, bool), D::Error> {
        let is_found = Cell::new(false);
        let look = Look { path, wanted, is_found: &is_found };
        let digest = deserializer.deserialize_any(Walk(Some(look)))?;
        Ok((Digest(digest), is_found.get()))
    }
}

/// A text that is looked for on the way.
#[derive(Clone, Copy)]
struct Look<'a> {
    /// The keys that are left to it.
    path: &'a [&'a str],
    wanted: &'a str,
    is_found: &'a Cell<bool>,
}

impl<'a> Look<'a> {
    /// What is looked for below a key.
    fn below(self, key: &str) -> Option<Look<'a>> {
        let (first, path) = self.path.split_first()?;
        (*first == key).then_some(Look { path, ..self })
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        deserializer.deserialize_any(Walk(None)).map(Digest)
    }
}

/// A hash of 128 bits, made from eight bytes at a time: the kind of a value and its length, then its bytes.
fn leaf(kind: u8, bytes: &[u8]) -> u128 {
    let length = u128::try_from(bytes.len()).unwrap_or_default();
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(step(BASIS, u128::from(kind) | length << 8), |hash, word| {
        step(hash, u128::from(u64::from_le_bytes(*word)))
    });
    mixed(if rest.is_empty() { hash } else { step(hash, read(rest)) })
}

/// As [`leaf`], of two hashes.
fn pair(kind: u8, one: u128, two: u128) -> u128 {
    mixed(step(step(step(BASIS, u128::from(kind)), one), two))
}

/// As [`leaf`], of an entry of an object.
fn entry(key: u128, value: u128) -> u128 {
    pair(7, key, value)
}

/// As [`leaf`], of an object by the sum of its entries: their order does not count.
fn object(sum: u128) -> u128 {
    leaf(8, &sum.to_le_bytes())
}

const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

/// Odd, and with bits everywhere: what differs in one word reaches beyond the next one, which cannot make up for it.
const FACTOR: u128 = 0xff51_afd7_ed55_8ccd_c4ce_b9fe_1a85_ec53;

fn step(hash: u128, word: u128) -> u128 {
    (hash ^ word).wrapping_mul(FACTOR)
}

/// Sums of hashes are taken below: every bit depends on every other first.
fn mixed(hash: u128) -> u128 {
    let hash = (hash ^ (hash >> 67)).wrapping_mul(FACTOR);
    hash ^ (hash >> 61)
}

/// Less than eight bytes as a number.
fn read(bytes: &[u8]) -> u128 {
    u128::from(bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte)))
}

struct Walk<'a>(Option<Look<'a>>);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = u128;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A key: its hash, and what is looked for below it.
struct Key<'a>(Option<Look<'a>>);

impl<'de, 'a> DeserializeSeed<'de> for Key<'a> {
    type Value = (u128, Option<Look<'a>>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Key<'a> {
    type Value = (u128, Option<Look<'a>>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok((leaf(5, key.as_bytes()), self.0.and_then(|look| look.below(key))))
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = u128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<u128, E> {
        Ok(leaf(0, &[]))
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<u128, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<u128, E> {
        Ok(leaf(1, &[u8::from(value)]))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<u128, E> {
        Ok(leaf(2, &value.to_le_bytes()))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<u128, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Ok(leaf(3, &value.to_le_bytes())),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<u128, E> {
        // The two zeros are equal.
        Ok(leaf(4, &(value + 0.0).to_le_bytes()))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<u128, E> {
        if let Some(look) = self.0
            && look.path.is_empty()
            && look.wanted == value
        {
            look.is_found.set(true);
        }
        Ok(leaf(5, value.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u128, A::Error> {
        let mut hash = leaf(6, &[]);
        while let Some(item) = items.next_element_seed(Walk(None))? {
            hash = pair(6, hash, item);
        }
        Ok(hash)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<u128, A::Error> {
        let mut sum = 0_u128;
        while let Some((key, look)) = entries.next_key_seed(Key(self.0))? {
            sum = sum.wrapping_add(entry(key, entries.next_value_seed(Walk(look))?));
        }
        Ok(object(sum))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_same_digest_exactly_if_they_are_equal() {
        let values = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(1),
            json!(-1),
            json!(1.0),
            json!("1"),
            json!(""),
            json!([]),
            json!({}),
            json!([null]),
            json!([[]]),
            json!([1, 2]),
            json!([2, 1]),
            json!(["12"]),
            json!(["1", "2"]),
            json!({"a": null}),
            json!({"a": 1}),
            json!({"b": 1}),
            json!({"a": {"b": 1}}),
            json!({"a": 1, "b": 2}),
            json!({"a": 2, "b": 1}),
            json!({"a": [1], "b": [2]}),
        ];
        for one in &values {
            assert_eq!(Digest::of(one), serde_json::from_str(&one.to_string()).unwrap());
            for two in &values {
                assert_eq!(Digest::of(one) == Digest::of(two), one == two, "{one} {two}");
            }
        }
        assert_eq!(Digest::of(&json!(-0.0)), Digest::of(&json!(0.0)));
    }

    #[test]
    fn a_digest_is_made_of_those_of_the_parts() {
        let [one, two] = [json!("a"), json!({"b": [1]})];
        let digests = [&one, &two].map(Digest::of);
        assert_eq!(Digest::of_list(digests.into_iter()), Digest::of(&json!([one, two])));
        assert_eq!(Digest::of_object(["x", "y"].into_iter().zip(digests)), Digest::of(&json!({"y": two, "x": one})));
        assert_eq!(Digest::of_list([].into_iter()), Digest::of(&json!([])));
        assert_eq!(Digest::of_object([].into_iter()), Digest::of(&json!({})));
    }

    #[test]
    fn a_change_of_one_word_is_not_undone_by_one_of_the_next() {
        let original = leaf(5, &[0; 16]);
        for byte in 0..8 {
            for second in 0..=u16::MAX {
                let mut changed = [0; 16];
                changed[byte] = 1;
                let [low, high] = second.to_le_bytes();
                changed[8 + byte] = low;
                changed[8 + (byte + 1) % 8] = high;
                assert_ne!(leaf(5, &changed), original, "{changed:?}");
            }
        }
    }

    #[test]
    fn a_text_is_found_at_its_path_only() {
        let found = |value: Value| {
            let (digest, is_found) = Digest::read_and_look(&value, &["spec", "$patch"], "replace").unwrap();
            assert_eq!(digest, Digest::of(&value));
            is_found
        };
        assert!(found(json!({"a": "replace", "spec": {"b": 1, "$patch": "replace", "c": []}})));
        for other in [
            json!("replace"),
            json!(null),
            json!({"$patch": "replace"}),
            json!({"spec": "replace"}),
            json!({"spec": ["replace"]}),
            json!({"spec": {"$patch": ["replace"]}}),
            json!({"spec": {"$patch": "merge"}}),
            json!({"spec": {"template": {"$patch": "replace"}}}),
        ] {
            assert!(!found(other));
        }
    }
}
