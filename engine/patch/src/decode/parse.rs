//! JSON text to a value, with the errors of Go's `encoding/json` and a note of fields that are given twice.
//!
//! `serde_json` reads the same language, but users see its error messages, and duplicate fields must be reported.

use serde_json::{Map, Number, Value};

use super::Parsed;

/// Objects and lists within each other. Everything that walks a value recurses, so this bounds its stack.
pub(crate) const MAX_DEPTH: usize = 128;

/// At most this many are reported.
const MAX_DUPLICATES: usize = 100;

/// Up to this many fields an object is put in the order of the last mention of each, which is linear in them.
const SMALL: usize = 1024;

/// Why a text is not JSON, in the words of Go's `encoding/json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The text ends within a value, or there is none.
    #[error("unexpected end of JSON input")]
    End,
    /// A character that cannot stand where it does.
    #[error("invalid character {} {context}", quote(*.byte))]
    Character {
        /// What stands there.
        byte: u8,
        /// Where that is.
        context: String,
    },
    /// Too many objects and lists within each other.
    #[error("exceeded max depth")]
    Depth,
    /// A number that no floating point number comes near to.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
    #[error("yaml: {0}")]
    Yaml(String),
}

/// Reads JSON. Of a field that is given twice the last value counts.
///
/// # Errors
/// The first character that is wrong.
pub fn parse(text: &[u8]) -> Result<Parsed, SyntaxError> {
    let mut parser = Parser { text, at: 0 };
    let mut duplicates = Vec::new();
    let value = parser.value(0, &mut duplicates)?;
    match parser.next_token() {
        None => Ok(Parsed { value, duplicates }),
        Some(byte) => Err(wrong(byte, "after top-level value")),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next_byte(&mut self) -> Result<u8, SyntaxError> {
        let byte = self.peek().ok_or(SyntaxError::End)?;
        self.at += 1;
        Ok(byte)
    }

    fn next_token(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    fn token(&mut self) -> Result<u8, SyntaxError> {
        self.next_token().ok_or(SyntaxError::End)
    }

    /// `duplicates` are the paths within this value.
    fn value(&mut self, depth: usize, duplicates: &mut Vec<String>) -> Result<Value, SyntaxError> {
        match self.token()? {
            b'{' | b'[' if depth >= MAX_DEPTH => Err(SyntaxError::Depth),
            b'{' => self.object(depth, duplicates).map(Value::Object),
            b'[' => self.array(depth, duplicates).map(Value::Array),
            b'"' => self.string().map(Value::String),
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            b'-' | b'0'..=b'9' => self.number().map(Value::Number),
            byte => Err(wrong(byte, "looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize, duplicates: &mut Vec<String>) -> Result<Map<String, Value>, SyntaxError> {
        let mut object = Map::new();
        self.at += 1;
        if self.token()? == b'}' {
            self.at += 1;
            return Ok(object);
        }
        loop {
            match self.token()? {
                b'"' => {}
                byte => return Err(wrong(byte, "looking for beginning of object key string")),
            }
            let key = self.string()?;
            match self.token()? {
                b':' => self.at += 1,
                byte => return Err(wrong(byte, "after object key")),
            }
            if object.contains_key(&key) {
                note(duplicates, key.clone());
                if object.len() <= SMALL {
                    object.shift_remove(&key);
                }
            }
            let mut within = Vec::new();
            let value = self.value(depth + 1, &mut within)?;
            for path in within {
                let dot = if path.starts_with('[') { "" } else { "." };
                note(duplicates, format!("{key}{dot}{path}"));
            }
            object.insert(key, value);
            match self.token()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(object);
                }
                byte => return Err(wrong(byte, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self, depth: usize, duplicates: &mut Vec<String>) -> Result<Vec<Value>, SyntaxError> {
        let mut array = Vec::new();
        self.at += 1;
        if self.token()? == b']' {
            self.at += 1;
            return Ok(array);
        }
        loop {
            let mut within = Vec::new();
            let value = self.value(depth + 1, &mut within)?;
            for path in within {
                let dot = if path.starts_with('[') { "" } else { "." };
                note(duplicates, format!("[{}]{dot}{path}", array.len()));
            }
            array.push(value);
            match self.token()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(array);
                }
                byte => return Err(wrong(byte, "after array element")),
            }
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result<Value, SyntaxError> {
        for expected in word.bytes() {
            let byte = self.next_byte()?;
            if byte != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(SyntaxError::Character { byte, context });
            }
        }
        Ok(value)
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.next_byte()? {
                b'"' => break,
                b'\\' => self.escape(&mut bytes)?,
                byte @ ..0x20 => return Err(wrong(byte, "in string literal")),
                byte => bytes.push(byte),
            }
        }
        // As in Go, what is not UTF-8 is replaced.
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let byte = match self.next_byte()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = self.unicode()?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            byte => return Err(wrong(byte, "in string escape code")),
        };
        bytes.push(byte);
        Ok(())
    }

    /// Half of a surrogate pair without its other half is replaced.
    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let unit = self.hexadecimal()?;
        if let (0xd800..0xdc00, Some(b"\\u")) = (unit, self.text.get(self.at..self.at + 2)) {
            let before = self.at;
            self.at += 2;
            let low = self.hexadecimal()?;
            if let 0xdc00..0xe000 = low {
                let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hexadecimal(&mut self) -> Result<u32, SyntaxError> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.next_byte()?;
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(wrong(byte, "in \\u hexadecimal character escape"));
            };
            unit = unit << 4 | digit;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Number, SyntaxError> {
        let start = self.at;
        let mut whole = true;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next_byte()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            byte => return Err(wrong(byte, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        let text = self.text.get(start..self.at).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        let integer = || {
            let number = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
            number.ok().filter(|_| whole)
        };
        integer()
            .or_else(|| text.parse().ok().and_then(Number::from_f64))
            .ok_or_else(|| SyntaxError::Number(text.to_owned()))
    }

    fn digit(&mut self, context: &str) -> Result<(), SyntaxError> {
        match self.next_byte()? {
            b'0'..=b'9' => Ok(()),
            byte => Err(wrong(byte, context)),
        }
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }
}

fn note(duplicates: &mut Vec<String>, path: String) {
    if duplicates.len() < MAX_DUPLICATES && !duplicates.contains(&path) {
        duplicates.push(path);
    }
}

fn wrong(byte: u8, context: &str) -> SyntaxError {
    SyntaxError::Character { byte, context: context.to_owned() }
}

/// As Go writes a byte in an error.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        ..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        byte => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        for (text, message) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\":1", "unexpected end of JSON input"),
            ("tru", "unexpected end of JSON input"),
            ("{\"a\":}", "invalid character '}' looking for beginning of value"),
            ("xyz", "invalid character 'x' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("01", "invalid character '1' after top-level value"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("trxe", "invalid character 'x' in literal true (expecting 'u')"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u00g0""#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("\u{c3}", "invalid character 'Ã' looking for beginning of value"),
            (&"[".repeat(200), "exceeded max depth"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn the_last_of_two_fields_counts_and_stands_where_it_stood() {
        let parsed = parse(br#"{"a":{"x":1,"x":2},"b":[{"y":1,"y":1,"y":2}],"a":{"z":1}}"#).unwrap();
        assert_eq!(parsed.duplicates, ["a.x", "b[0].y", "a"]);
        assert_eq!(serde_json::to_string(&parsed.value).unwrap(), r#"{"b":[{"y":2}],"a":{"z":1}}"#);
    }

    #[test]
    fn what_is_no_character_is_replaced() {
        assert_eq!(parse(b"\"\xff\"").unwrap().value, json!("\u{fffd}"));
        assert_eq!(parse(br#""\ud800x \ud83d\ude00""#).unwrap().value, json!("\u{fffd}x 😀"));
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_serde_json_reads_it_or_refused(text in r#"[\[\]{}:,"a0-9.eE+ \\un-]{0,24}"#) {
            let ours = parse(text.as_bytes()).ok().map(|parsed| parsed.value);
            let theirs = serde_json::from_str::<Value>(&text).ok();
            // Half surrogates are the one thing that only Go and we take.
            prop_assert!(ours == theirs || ours.is_some() && text.contains("\\u"), "{:?} {:?}", ours, theirs);
        }
    }
}
