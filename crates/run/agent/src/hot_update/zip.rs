//! Reads zip archives: what tools write today, stored or deflated. What is in doubt is refused.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// The end of the central directory, without its comment.
const END: usize = 22;
const END_MARK: [u8; 4] = [0x50, 0x4b, 5, 6];
const CENTRAL: usize = 46;
const CENTRAL_MARK: [u8; 4] = [0x50, 0x4b, 1, 2];
const LOCAL: usize = 30;
const LOCAL_MARK: [u8; 4] = [0x50, 0x4b, 3, 4];
/// A central directory is not longer.
const LONGEST: u64 = 8 << 20;
/// The format bits of a mode, and those of a directory and a regular file.
const FORMAT: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// One file or directory of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_directory: bool,
    pub(crate) is_executable: bool,
    /// The size that the archive says it has.
    pub(crate) size: u64,
    packed: u64,
    method: u16,
    crc: u32,
    at: u64,
}

/// Whether a file begins as a zip archive does.
pub(crate) fn is_zip(head: &[u8]) -> bool {
    head.starts_with(&LOCAL_MARK) || head.starts_with(&END_MARK)
}

/// What an archive contains, as its central directory says, if it has no more than `most` entries.
pub(crate) fn entries(file: &mut File, most: usize) -> Result<Vec<Entry>, String> {
    let broken = |error: std::io::Error| format!("the archive cannot be read: {error}");
    let length = file.metadata().map_err(broken)?.len();
    // The end is followed by a comment of at most 64 KiB.
    let tail = length.min(END as u64 + u64::from(u16::MAX));
    file.seek(SeekFrom::Start(length - tail)).map_err(broken)?;
    let mut bytes = Vec::new();
    file.by_ref().take(tail).read_to_end(&mut bytes).map_err(broken)?;
    let end = bytes.windows(4).rposition(|mark| mark == END_MARK).ok_or("the archive has no end: it was cut off")?;
    let end = &bytes[end..];
    if end.len() < END {
        return Err("the archive has no end: it was cut off".to_owned());
    }
    let (count, size, start) = (number(end, 10, 2), number(end, 12, 4), number(end, 16, 4));
    if count > most as u64 && count != u64::from(u16::MAX) {
        return Err(format!("the archive has more than {most} files and directories"));
    }
    if number(end, 4, 4) != 0 || count == u64::from(u16::MAX) || size > LONGEST || start.saturating_add(size) > length {
        return Err("the archive is in several parts, or too large to be read (zip64)".to_owned());
    }
    file.seek(SeekFrom::Start(start)).map_err(broken)?;
    let mut central = Vec::new();
    file.by_ref().take(size).read_to_end(&mut central).map_err(broken)?;
    let mut entries = Vec::new();
    let mut rest = central.as_slice();
    for _ in 0..count {
        let (entry, next) = entry(rest)?;
        entries.push(entry);
        rest = next;
    }
    Ok(entries)
}

/// A little-endian number; 0 if it is not there.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn entry(bytes: &[u8]) -> Result<(Entry, &[u8]), String> {
    if bytes.len() < CENTRAL || !bytes.starts_with(&CENTRAL_MARK) {
        return Err("the archive's list of files is damaged".to_owned());
    }
    let small = |at: usize| u16::try_from(number(bytes, at, 2)).unwrap_or_default();
    let word = |at: usize| u32::try_from(number(bytes, at, 4)).unwrap_or_default();
    let lengths = [28, 30, 32].map(|at| usize::from(small(at)));
    let end = CENTRAL + lengths.iter().sum::<usize>();
    let name = bytes.get(CENTRAL..CENTRAL + lengths[0]).ok_or("the archive's list of files is damaged")?;
    let name = std::str::from_utf8(name).map_err(|_| "a name in the archive is not UTF-8".to_owned())?;
    if small(8) & 1 != 0 {
        return Err(format!("the archive contains {name}, which is encrypted"));
    }
    // The upper half of the attributes is a mode if a Unix wrote it.
    let mode = if small(4) >> 8 == 3 { word(38) >> 16 } else { 0 };
    let is_directory = name.ends_with('/') || mode & FORMAT == DIRECTORY;
    if !matches!(mode & FORMAT, 0 | DIRECTORY | REGULAR) {
        return Err(format!("the archive contains {name}, which is neither a file nor a directory"));
    }
    let entry = Entry {
        name: name.to_owned(),
        is_directory,
        is_executable: mode & 0o100 != 0,
        size: number(bytes, 24, 4),
        packed: number(bytes, 20, 4),
        method: small(10),
        crc: word(16),
        at: number(bytes, 42, 4),
    };
    Ok((entry, bytes.get(end..).unwrap_or_default()))
}

/// Copies the contents of a file, and checks that they are what the archive says.
pub(crate) fn copy(file: &mut File, entry: &Entry, to: &mut impl std::io::Write) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("{}: {error}", entry.name);
    file.seek(SeekFrom::Start(entry.at)).map_err(broken)?;
    let mut head = [0; LOCAL];
    file.read_exact(&mut head).map_err(broken)?;
    if !head.starts_with(&LOCAL_MARK) {
        return Err(format!("{}: it is not where the archive says", entry.name));
    }
    let skipped = i64::try_from(number(&head, 26, 2) + number(&head, 28, 2)).unwrap_or_default();
    file.seek(SeekFrom::Current(skipped)).map_err(broken)?;
    let packed = file.by_ref().take(entry.packed);
    let reader: Box<dyn Read> = match entry.method {
        0 => Box::new(packed),
        8 => Box::new(flate2::read::DeflateDecoder::new(packed)),
        other => return Err(format!("{}: the archive uses the method {other}; use deflate", entry.name)),
    };
    // One byte more, to see whether there is more than was said.
    let mut checked = flate2::CrcReader::new(reader.take(entry.size.saturating_add(1)));
    let size = std::io::copy(&mut checked, to).map_err(broken)?;
    if size != entry.size || checked.crc().sum() != entry.crc {
        return Err(format!("{}: its contents are not what the archive says", entry.name));
    }
    Ok(())
}
