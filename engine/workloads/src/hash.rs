//! Names of revisions: a hash that labels can hold.

use pillion_rules::safe_encode;
use serde_json::Value;

/// The hash of an object as part of a name. It does not depend on the order of fields; `collisions` makes another one.
pub(crate) fn revision_hash(object: &Value, collisions: Option<i32>) -> String {
    let mut hash = Fnv::new();
    feed(&mut hash, object);
    if let Some(collisions) = collisions {
        hash.write(&collisions.to_le_bytes());
    }
    safe_encode(&hash.0.to_string())
}

fn feed(hash: &mut Fnv, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            hash.write(b"{");
            for (name, value) in fields {
                hash.write(name.as_bytes());
                hash.write(b":");
                feed(hash, value);
            }
            hash.write(b"}");
        }
        Value::Array(items) => {
            hash.write(b"[");
            for item in items {
                feed(hash, item);
            }
            hash.write(b"]");
        }
        other => {
            hash.write(other.to_string().as_bytes());
            hash.write(b",");
        }
    }
}

/// FNV-1a of 32 bits, which Kubernetes uses here. It need not withstand anyone: collisions are found and counted.
struct Fnv(u32);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0x811c_9dc5)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_is_that_of_the_fields_and_not_of_their_order() {
        let hash = revision_hash(&json!({"a": 1, "b": [true, "x"]}), None);
        assert_eq!(hash, revision_hash(&json!({"b": [true, "x"], "a": 1}), None));
        assert_ne!(hash, revision_hash(&json!({"a": 1, "b": ["x", true]}), None));
        assert!(hash.chars().all(|letter| pillion_rules::SAFE_LETTERS.contains(&letter)), "{hash}");
    }

    #[test]
    fn a_collision_gives_another_hash() {
        let object = json!({"spec": {}});
        assert_ne!(revision_hash(&object, None), revision_hash(&object, Some(0)));
        assert_ne!(revision_hash(&object, Some(1)), revision_hash(&object, Some(0)));
    }

    #[test]
    fn the_published_hashes_of_fnv_come_out() {
        let hash = |text: &str| {
            let mut hash = Fnv::new();
            hash.write(text.as_bytes());
            hash.0
        };
        assert_eq!((hash(""), hash("a"), hash("foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    }
}
