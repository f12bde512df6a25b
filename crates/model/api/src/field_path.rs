//! Where deserializing failed, as the path of a field.

use serde_path_to_error::Segment;

use crate::field::Path;

/// The path of a field as Kubernetes writes it.
pub(crate) fn field_path(path: &serde_path_to_error::Path) -> Path {
    path.iter().fold(Path::root(), |at, segment| match segment {
        Segment::Seq { index } => at.index(*index),
        Segment::Map { key } => at.child(key),
        Segment::Enum { variant } => at.child(variant),
        Segment::Unknown => at,
    })
}
