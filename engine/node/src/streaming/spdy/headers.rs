//! Header blocks: names and values, compressed with one zlib stream for a whole connection, whose window begins with a dictionary.

use std::collections::BTreeMap;
use std::io;

use bytes::{Buf as _, BufMut as _, BytesMut};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// The largest distance of a reference in a compressed text.
const WINDOW: usize = 32 * 1024;

/// A block is refused when it is larger uncompressed: a few bytes can become very many.
const LARGEST: usize = 64 * 1024;

/// What identifies the dictionary: its Adler-32.
const DICTIONARY_ID: u32 = 0xe3c6_a7c2;

/// The words of the dictionary, each of which follows its length.
const WORDS: [&str; 65] = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// The end of the dictionary.
const REST: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found\
    500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,\
    text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

fn dictionary() -> BytesMut {
    let mut dictionary = BytesMut::new();
    for word in WORDS {
        put(&mut dictionary, word);
    }
    dictionary.put_slice(REST.as_bytes());
    dictionary
}

fn put(bytes: &mut BytesMut, word: &str) {
    bytes.put_u32(u32::try_from(word.len()).unwrap_or(u32::MAX));
    bytes.put_slice(word.as_bytes());
}

/// Reads the header blocks of a connection, in the order in which they come.
pub(super) struct HeaderReader {
    inflate: Box<DecompressorOxide>,
    window: Vec<u8>,
    /// Where in the window the next byte goes.
    position: usize,
    has_begun: bool,
}

impl HeaderReader {
    pub(super) fn new() -> HeaderReader {
        HeaderReader { inflate: Box::default(), window: vec![0; WINDOW], position: 0, has_begun: false }
    }

    /// The names and values of a block.
    pub(super) fn read(&mut self, mut block: &[u8]) -> io::Result<BTreeMap<String, String>> {
        if !self.has_begun {
            self.begin(&mut block)?;
        }
        parse(&self.decompress(block)?).ok_or_else(|| invalid("a header block ends too early"))
    }

    /// Reads the header of the zlib stream.
    fn begin(&mut self, block: &mut &[u8]) -> io::Result<()> {
        let header = block.try_get_u16().map_err(|_| invalid("a header block ends too early"))?;
        if header % 31 != 0 || header & 0x0f00 != 0x0800 {
            return Err(invalid("a header block is not compressed with zlib"));
        }
        if header & 0x20 != 0 {
            if block.try_get_u32().ok() != Some(DICTIONARY_ID) {
                return Err(invalid("a header block is compressed with another dictionary"));
            }
            let dictionary = dictionary();
            self.position = dictionary.len();
            self.window[..self.position].copy_from_slice(&dictionary);
        }
        self.has_begun = true;
        Ok(())
    }

    fn decompress(&mut self, mut block: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let (window, position) = (&mut self.window, self.position);
            let (status, read, written) =
                decompress(&mut self.inflate, block, window, position, TINFL_FLAG_HAS_MORE_INPUT);
            text.extend_from_slice(&self.window[position..position + written]);
            self.position = (position + written) % WINDOW;
            block = &block[read..];
            match status {
                _ if text.len() > LARGEST => return Err(invalid("a header block is too large")),
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput => return Ok(text),
                _ => return Err(invalid("a header block is not compressed with zlib")),
            }
        }
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn parse(mut text: &[u8]) -> Option<BTreeMap<String, String>> {
    let count = text.try_get_u32().ok()?;
    let mut word = || {
        let length = usize::try_from(text.try_get_u32().ok()?).ok()?;
        let (word, rest) = text.split_at_checked(length)?;
        text = rest;
        Some(String::from_utf8_lossy(word).into_owned())
    };
    (0..count).map(|_| Some((word()?, word()?))).collect()
}

/// A block without headers, for a connection's zlib stream that begins with it, or goes on. It is stored instead of compressed; the empty
/// part at its end makes a reader hand over what it has.
pub(super) fn empty_block(is_first: bool) -> &'static [u8] {
    const BLOCK: &[u8] = b"\x78\x01\x00\x04\x00\xfb\xff\x00\x00\x00\x00\x00\x00\x00\xff\xff";
    if is_first { BLOCK } else { &BLOCK[2..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Adler-32 checksum.
    fn adler(bytes: &[u8]) -> u32 {
        let add = |(a, b): (u32, u32), byte: &u8| {
            let a = (a + u32::from(*byte)) % 65521;
            (a, (b + a) % 65521)
        };
        let (a, b) = bytes.iter().fold((1, 0), add);
        b << 16 | a
    }

    #[test]
    fn the_dictionary_is_the_one_of_the_protocol() {
        assert_eq!(dictionary().len(), 1423);
        assert_eq!(adler(&dictionary()), DICTIONARY_ID);
    }

    /// Two blocks as kubectl sends them for one connection, compressed by zlib itself.
    const BLOCKS: [&[u8]; 2] = [
        b"\x78\xf9\xe3\xc6\xa7\xc2\x02\x25\x3a\x48\xf9\x5b\x04\x4e\xea\x16\x06\x16\x06\x40\x9a\xb3\x08\x12\
          \x5f\x99\xa0\x74\xcc\x68\x00\x4e\x89\x25\x45\xa9\x89\xb9\xd0\xc2\x86\x35\x15\x14\x15\x00\x00\x00\
          \x00\xff\xff",
        b"\x22\x53\x33\xa8\xa4\x4a\x04\x00\x00\x00\xff\xff",
    ];

    #[test]
    fn blocks_of_zlib_are_read() {
        let mut reader = HeaderReader::new();
        let first = reader.read(BLOCKS[0]).unwrap();
        let second = reader.read(BLOCKS[1]).unwrap();
        let value = |headers: &BTreeMap<String, String>, name: &str| headers.get(name).cloned().unwrap_or_default();
        for (headers, kind) in [(first, "error"), (second, "data")] {
            assert_eq!(value(&headers, "streamtype"), kind);
            assert_eq!(value(&headers, "port"), "8080");
            assert_eq!(value(&headers, "requestid"), "0");
        }
    }

    #[test]
    fn an_empty_block_is_read_back() {
        let mut reader = HeaderReader::new();
        for is_first in [true, false, false] {
            assert_eq!(reader.read(empty_block(is_first)).unwrap(), BTreeMap::new());
        }
    }

    #[test]
    fn what_is_not_a_block_is_refused() {
        let refused = |block: &[u8]| HeaderReader::new().read(block).unwrap_err().to_string();
        assert_eq!(refused(b""), "a header block ends too early");
        assert_eq!(refused(b"\x78\x02"), "a header block is not compressed with zlib");
        assert_eq!(refused(b"\x78\xbb\x00\x00\x00\x00"), "a header block is compressed with another dictionary");
        assert_eq!(refused(b"\x78\x01\xff"), "a header block is not compressed with zlib");
        assert_eq!(
            refused(b"\x78\x01\x00\x04\x00\xfb\xff\xff\xff\xff\xff\x00\x00\x00\xff\xff"),
            "a header block ends too early"
        );
    }

    #[test]
    fn a_small_block_that_becomes_large_is_refused() {
        let bomb = miniz_oxide::deflate::compress_to_vec(&vec![0; 16 * 1024 * 1024], 9);
        let block = [b"\x78\x01", bomb.as_slice()].concat();
        assert!(block.len() < 32 * 1024);
        assert_eq!(HeaderReader::new().read(&block).unwrap_err().to_string(), "a header block is too large");
    }
}
