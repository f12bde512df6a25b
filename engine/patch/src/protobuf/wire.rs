//! The wire format of protobuf: numbered fields, each a number, eight bytes or a run of bytes.

use super::ProtobufError;

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
pub(super) const LENGTH: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// What stands before a field.
#[derive(Clone, Copy)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire_type: u8,
}

/// Takes a message apart.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field of the message; errors name it. `None` at its end.
    pub(super) fn tag(&mut self, message: &str) -> Result<Option<Tag>, ProtobufError> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire_type = wire_type(tag);
        #[expect(clippy::cast_possible_truncation, reason = "Go's conversion is this one")]
        let number = (tag >> 3) as i32;
        if wire_type == END_GROUP {
            return Err(ProtobufError::EndOfGroup { message: message.to_owned() });
        }
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Some(Tag { number, wire_type })),
            _ => Err(ProtobufError::IllegalTag { message: message.to_owned(), number, tag }),
        }
    }

    /// The number in the field `name`.
    pub(super) fn number(&mut self, tag: Tag, name: &str) -> Result<u64, ProtobufError> {
        expect(tag, VARINT, name)?;
        self.varint()
    }

    /// The floating point number in the field `name`.
    pub(super) fn double(&mut self, tag: Tag, name: &str) -> Result<f64, ProtobufError> {
        expect(tag, FIXED64, name)?;
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    /// The bytes, the text or the message in the field `name`.
    pub(super) fn bytes(&mut self, tag: Tag, name: &str) -> Result<&'a [u8], ProtobufError> {
        expect(tag, LENGTH, name)?;
        self.run()
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.read_bytes(1)?.first().ok_or(ProtobufError::Truncated)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Overflow)
    }

    /// Passes over a field that is not known.
    pub(super) fn skip(&mut self, tag: Tag) -> Result<(), ProtobufError> {
        let mut groups = 0_usize;
        let mut wire_type = tag.wire_type;
        loop {
            match wire_type {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.read_bytes(8)?),
                LENGTH => drop(self.run()?),
                START_GROUP => groups += 1,
                END_GROUP => groups = groups.saturating_sub(1),
                FIXED32 => drop(self.read_bytes(4)?),
                other => return Err(ProtobufError::IllegalWireType(other)),
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = self::wire_type(self.varint()?);
        }
    }

    fn run(&mut self) -> Result<&'a [u8], ProtobufError> {
        let length = i64::try_from(self.varint()?).map_err(|_| ProtobufError::NegativeLength)?;
        self.read_bytes(usize::try_from(length).map_err(|_| ProtobufError::Truncated)?)
    }

    fn read_bytes(&mut self, count: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// The low three bits.
fn wire_type(tag: u64) -> u8 {
    tag.to_le_bytes()[0] & 7
}

fn expect(tag: Tag, wire_type: u8, name: &str) -> Result<(), ProtobufError> {
    if tag.wire_type == wire_type {
        return Ok(());
    }
    // Go's names begin with a capital.
    let mut characters = name.chars();
    let field = characters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(characters).collect();
    Err(ProtobufError::WrongWireType { wire_type: tag.wire_type, field })
}

/// Text as Go writes it to JSON: each byte that is not UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::with_capacity(bytes.len()), |mut text, chunk| {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        text
    })
}
