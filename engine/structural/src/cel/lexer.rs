//! Text into tokens.

use super::issue::Issue;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Int(String),
    Uint(String),
    Float(String),
    /// With quotes and prefixes, as written.
    Text(String),
    Bytes(String),
    Ident(String),
    /// A name in backquotes.
    Escaped(String),
    True,
    False,
    Null,
    In,
    Symbol(&'static str),
    End,
}

impl Token {
    /// As it stands in the text.
    pub(super) fn text(&self) -> &str {
        match self {
            Token::Int(text)
            | Token::Uint(text)
            | Token::Float(text)
            | Token::Text(text)
            | Token::Bytes(text)
            | Token::Ident(text)
            | Token::Escaped(text) => text,
            Token::True => "true",
            Token::False => "false",
            Token::Null => "null",
            Token::In => "in",
            Token::Symbol(text) => text,
            Token::End => "<EOF>",
        }
    }
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];

/// Tokens with their places, ending in [`Token::End`]; and what is no token.
pub(super) fn tokens(source: &str) -> (Vec<(Token, usize)>, Vec<Issue>) {
    let characters: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { characters: &characters, at: 0 };
    let (mut found, mut issues) = (Vec::new(), Vec::new());
    while lexer.skip_blanks() {
        let start = lexer.at;
        if let Some(token) = lexer.token() {
            found.push((token, start));
            continue;
        }
        // The character at which no token could go on is lost too.
        lexer.at = (lexer.at + 1).min(characters.len()).max(start + 1);
        let text: String = characters.get(start..lexer.at).into_iter().flatten().collect();
        issues.push(Issue::new(start, format!("Syntax error: token recognition error at: '{}'", shown(&text))));
    }
    found.push((Token::End, characters.len()));
    (found, issues)
}

fn shown(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

struct Lexer<'a> {
    characters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn since(&self, start: usize) -> String {
        self.characters.get(start..self.at).into_iter().flatten().collect()
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.at += 1;
        }
    }

    /// Skips blanks and comments. Whether something is left.
    fn skip_blanks(&mut self) -> bool {
        loop {
            self.skip_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}'));
            if self.peek(0) == Some('/') && self.peek(1) == Some('/') {
                self.skip_while(|c| c != '\n');
            } else {
                return self.peek(0).is_some();
            }
        }
    }

    /// The next token. `None` leaves the place at the character that fits no token.
    fn token(&mut self) -> Option<Token> {
        let start = self.at;
        let c = self.peek(0)?;
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit())) {
            return Some(self.number());
        }
        if let Some(prefix) = self.quote_prefix() {
            let is_bytes = prefix.iter().any(|c| matches!(c, 'b' | 'B'));
            let is_raw = prefix.iter().any(|c| matches!(c, 'r' | 'R'));
            self.at += prefix.len();
            self.quoted(is_raw)?;
            let text = self.since(start);
            return Some(if is_bytes { Token::Bytes(text) } else { Token::Text(text) });
        }
        if c.is_ascii_alphabetic() || c == '_' {
            self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_');
            let name = self.since(start);
            return Some(match name.as_str() {
                "true" => Token::True,
                "false" => Token::False,
                "null" => Token::Null,
                "in" => Token::In,
                _ => Token::Ident(name),
            });
        }
        if c == '`' {
            self.at += 1;
            self.skip_while(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
            if self.peek(0) != Some('`') || self.at == start + 1 {
                return None;
            }
            self.at += 1;
            return Some(Token::Escaped(self.since(start)));
        }
        let fits = |symbol: &&str| symbol.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c));
        if let Some(symbol) = SYMBOLS.into_iter().find(fits) {
            self.at += symbol.len();
            return Some(Token::Symbol(symbol));
        }
        if matches!(c, '=' | '&' | '|') {
            self.at += 1;
        }
        None
    }

    /// `r`, `b` or both before a quote, if this is one.
    fn quote_prefix(&self) -> Option<&[char]> {
        let length = (0..3).find(|i| matches!(self.peek(*i), Some('"' | '\'')))?;
        let prefix = self.characters.get(self.at..self.at + length)?;
        matches!(prefix, [] | ['r' | 'R' | 'b' | 'B'] | ['b' | 'B', 'r' | 'R']).then_some(prefix)
    }

    fn quoted(&mut self, is_raw: bool) -> Option<()> {
        let quote = self.peek(0)?;
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if triple { 3 } else { 1 };
        loop {
            let c = self.peek(0)?;
            if c == quote && (!triple || self.peek(1) == Some(quote) && self.peek(2) == Some(quote)) {
                self.at += if triple { 3 } else { 1 };
                return Some(());
            }
            if !triple && matches!(c, '\n' | '\r') {
                return None;
            }
            self.at += 1;
            if c == '\\' && !is_raw {
                self.escape()?;
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Option<()> {
        let digits = match self.peek(0)? {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => {
                self.at += 1;
                return Some(());
            }
            'x' | 'X' => 2,
            'u' => 4,
            'U' => 8,
            '0'..='3' => {
                self.at += 1;
                for _ in 0..2 {
                    self.peek(0).filter(|c| ('0'..='7').contains(c))?;
                    self.at += 1;
                }
                return Some(());
            }
            _ => return None,
        };
        self.at += 1;
        for _ in 0..digits {
            self.peek(0).filter(char::is_ascii_hexdigit)?;
            self.at += 1;
        }
        Some(())
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        if self.peek(0) == Some('0') && self.peek(1) == Some('x') && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            self.skip_while(|c| c.is_ascii_hexdigit());
            return self.integer(start);
        }
        self.skip_while(|c| c.is_ascii_digit());
        let mut is_float = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            is_float = true;
            self.at += 1;
            self.skip_while(|c| c.is_ascii_digit());
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
            is_float = true;
            self.at += 1 + sign;
            self.skip_while(|c| c.is_ascii_digit());
        }
        if is_float { Token::Float(self.since(start)) } else { self.integer(start) }
    }

    fn integer(&mut self, start: usize) -> Token {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Token::Uint(self.since(start));
        }
        Token::Int(self.since(start))
    }
}

/// The characters or bytes that a quoted token stands for. `None` where a byte literal has an escape that only text may have.
pub(super) fn unquote(token: &str, is_bytes: bool) -> Option<Vec<u8>> {
    let token = token.trim_start_matches(['b', 'B']);
    let (is_raw, quoted) = match token.strip_prefix(['r', 'R']) {
        Some(quoted) => (true, quoted),
        None => (false, token),
    };
    let width = if quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''")) { 3 } else { 1 };
    let inside = quoted.get(width..quoted.len().checked_sub(width)?)?.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = Vec::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(c) = characters.next() {
        if c != '\\' || is_raw {
            push(&mut out, c);
            continue;
        }
        let escape = characters.next()?;
        let code = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => u32::from(escape),
            'u' | 'U' if is_bytes => return None,
            'x' | 'X' => number(&mut characters, 2, 16)?,
            'u' => number(&mut characters, 4, 16)?,
            'U' => number(&mut characters, 8, 16)?,
            digit => digit.to_digit(8)? * 64 + number(&mut characters, 2, 8)?,
        };
        // In a byte literal a number is a byte, not a character.
        match u8::try_from(code) {
            Ok(byte) if is_bytes => out.push(byte),
            _ => push(&mut out, char::from_u32(code)?),
        }
    }
    Some(out)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn number(characters: &mut std::str::Chars<'_>, digits: usize, radix: u32) -> Option<u32> {
    (0..digits).try_fold(0, |number, _| Some(number * radix + characters.next()?.to_digit(radix)?))
}
