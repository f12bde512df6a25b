//! Resources that are kept as another resource.

use serde_json::Value;

/// The resource that keeps objects of another one, and the way there and back.
///
/// Of the rules of the resource, `default` works on the form that the client sees, and all others on the stored one.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Group of the resource that keeps the objects; the plural is the same.
    pub group: &'static str,
    /// Version of that group.
    pub version: &'static str,
    /// From this resource's form to the stored one, `apiVersion` included.
    pub to_storage: fn(&mut Value),
    /// From the stored form to this resource's, `apiVersion` included.
    pub from_storage: fn(&mut Value),
}
