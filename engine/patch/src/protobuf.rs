//! Objects of Kubernetes' own kinds as protobuf, which is how typed clients and most commands of kubectl send them.
//!
//! ```text
//!  bytes ──decode──▶ Envelope { api_version, kind, raw } ──to_json(schema)──▶ Value ──decode::decode(schema)──▶ Decoded
//! ```
//!
//! The numbers of the fields are in the table of schemas, so there is no code for any one kind.

mod message;
mod value;
mod wire;

use crate::decode::SyntaxError;
use wire::Reader;

pub use message::to_json;

/// What every body starts with.
const PREFIX: &[u8] = b"k8s\0";

/// A body that says what it is (`runtime.Unknown`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `apps/v1`; empty if it does not say.
    pub api_version: String,
    /// `Deployment`; empty if it does not say.
    pub kind: String,
    /// The object, for [`to_json`].
    pub raw: &'a [u8],
}

/// Why bytes are not what they should be, in the words of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// There is nothing.
    #[error("empty data")]
    EmptyData,
    /// It does not begin as it should.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// There is nothing but the beginning.
    #[error("empty body")]
    EmptyBody,
    /// It ends within a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length of more than 63 bits.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A group ends that did not begin.
    #[error("proto: {message}: wiretype end group for non-group")]
    EndOfGroup {
        /// Go's name of the type it is in.
        message: String,
    },
    /// A number that no field can have.
    #[error("proto: {message}: illegal tag {number} (wire type {tag})")]
    IllegalTag {
        /// Go's name of the type it is in.
        message: String,
        number: i32,
        /// What the number was taken from.
        tag: u64,
    },
    /// A field in a form that there is not.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// A field in a form that its type does not have.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongWireType {
        /// The form.
        wire_type: u8,
        /// Its name in Go.
        field: String,
    },
    /// Neither a number nor a string.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// A time that cannot be written.
    #[error("Time.MarshalJSON: year outside of range [0,9999]")]
    Time,
    /// JSON within the message that is none; or too many messages within each other.
    #[error(transparent)]
    Json(#[from] SyntaxError),
}

/// Takes a body out of its envelope.
///
/// # Errors
/// It is no envelope.
pub fn decode(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    if bytes.is_empty() {
        return Err(ProtobufError::EmptyData);
    }
    let body = bytes.strip_prefix(PREFIX).ok_or(ProtobufError::Prefix)?;
    if body.is_empty() {
        return Err(ProtobufError::EmptyBody);
    }
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(body);
    while let Some(tag) = reader.tag("Unknown")? {
        match tag.number {
            1 => type_meta(reader.bytes(tag, "typeMeta")?, &mut envelope)?,
            2 => envelope.raw = reader.bytes(tag, "raw")?,
            // What the object is encoded in and compressed with is there, but kube-apiserver heeds neither.
            3 => drop(reader.bytes(tag, "contentEncoding")?),
            4 => drop(reader.bytes(tag, "contentType")?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(envelope)
}

fn type_meta(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("TypeMeta")? {
        match tag.number {
            1 => envelope.api_version = wire::text(reader.bytes(tag, "APIVersion")?),
            2 => envelope.kind = wire::text(reader.bytes(tag, "kind")?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
