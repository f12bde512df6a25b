//! Tokens into a tree. Mistakes are reported in the words of cel-go's parser, which ANTLR generates.

mod macros;

use super::ast::{Entry, Expr, Kind, Literal, MAX_DEPTH};
use super::issue::Issue;
use super::lexer::{self, Token};

/// cel-go reads no longer text.
const MAX_LENGTH: usize = 100_000;

/// Macros copy what they are applied to, so a short text can stand for a large tree.
const MAX_NODES: usize = 100_000;

/// What an expression can start with.
const STARTS: &str =
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];

/// A tree, and how many ids it uses.
pub(super) struct Parsed {
    pub(super) root: Expr,
    pub(super) ids: usize,
}

/// Parses an expression.
///
/// # Errors
/// What is wrong in it.
pub(super) fn parse(source: &str) -> Result<Parsed, Vec<Issue>> {
    let length = source.chars().count();
    if length > MAX_LENGTH {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
        return Err(vec![Issue::new(0, message)]);
    }
    let (tokens, issues) = lexer::tokens(source);
    let mut parser = Parser { tokens, next: 0, issues, ids: 0, nesting: 0 };
    let root = parser.expr().and_then(|root| parser.expect_end().map(|()| root));
    match root {
        Ok(root) if parser.issues.is_empty() => Ok(Parsed { root, ids: parser.ids }),
        _ => Err(parser.issues),
    }
}

/// The parser has reported what is wrong, and gives up.
pub(super) struct Stop;

type Parse<T> = Result<T, Stop>;

pub(super) struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    pub(super) issues: Vec<Issue>,
    ids: usize,
    nesting: usize,
}

impl Parser {
    /// A node. Those that are too deep are refused, so that whatever walks the tree stays within its stack.
    pub(super) fn node(&mut self, at: usize, kind: Kind) -> Parse<Expr> {
        let depth = 1 + children(&kind).map(|child| child.depth).max().unwrap_or_default();
        if depth > MAX_DEPTH {
            return self.fail(at, format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        let id = self.ids;
        if id >= MAX_NODES {
            return self.fail(at, format!("expression has more than {MAX_NODES} parts"));
        }
        self.ids += 1;
        Ok(Expr { id, at, depth, kind })
    }

    pub(super) fn call(&mut self, at: usize, function: &str, args: Vec<Expr>) -> Parse<Expr> {
        self.node(at, Kind::Call { function: function.to_owned(), target: None, args })
    }

    pub(super) fn fail<T>(&mut self, at: usize, message: impl Into<String>) -> Parse<T> {
        self.issues.push(Issue::new(at, message));
        Err(Stop)
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(token, _)| token)
    }

    fn after(&self) -> &Token {
        self.tokens.get(self.next + 1).map_or(&Token::End, |(token, _)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(_, at)| *at)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    /// Takes a symbol if it is next; where it was.
    fn eat(&mut self, symbol: &str) -> Option<usize> {
        self.is(symbol).then(|| {
            let at = self.at();
            self.next += 1;
            at
        })
    }

    fn mismatch<T>(&mut self, expecting: &str) -> Parse<T> {
        let message = format!("Syntax error: mismatched input '{}' expecting {expecting}", self.peek().text());
        self.fail(self.at(), message)
    }

    /// An extra token is reported and skipped.
    fn extraneous(&mut self, expecting: &str) {
        let message = format!("Syntax error: extraneous input '{}' expecting {expecting}", self.peek().text());
        self.issues.push(Issue::new(self.at(), message));
        self.next += 1;
    }

    /// `symbol` has to be next. One token too many is skipped; where the text ends, it is missing.
    fn expect(&mut self, symbol: &'static str, expecting: &str) -> Parse<()> {
        if self.eat(symbol).is_some() {
            return Ok(());
        }
        if *self.after() == Token::Symbol(symbol) && *self.peek() != Token::End {
            self.extraneous(expecting);
            self.next += 1;
            return Ok(());
        }
        if *self.peek() == Token::End && expecting == format!("'{symbol}'") && symbol != ":" {
            let message = format!("Syntax error: missing '{symbol}' at '<EOF>'");
            return self.fail(self.at(), message);
        }
        self.mismatch(expecting)
    }

    fn expect_end(&mut self) -> Parse<()> {
        if *self.peek() == Token::End {
            return Ok(());
        }
        if *self.after() == Token::End {
            self.extraneous("<EOF>");
            return Ok(());
        }
        self.mismatch("<EOF>")
    }

    fn expr(&mut self) -> Parse<Expr> {
        self.nesting += 1;
        if self.nesting > MAX_DEPTH {
            return self.fail(self.at(), format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        let condition = self.binary(0)?;
        let result = match self.eat("?") {
            None => condition,
            Some(at) => self.conditional(at, condition)?,
        };
        self.nesting -= 1;
        Ok(result)
    }

    fn conditional(&mut self, at: usize, condition: Expr) -> Parse<Expr> {
        let yes = self.binary(0)?;
        self.expect(":", "':'")?;
        let no = self.expr()?;
        self.call(at, "_?_:_", vec![condition, yes, no])
    }

    /// Operators that bind at least as tightly as `tightness`. One function for all of them, since every level that an expression nests takes
    /// its share of the stack.
    fn binary(&mut self, tightness: u8) -> Parse<Expr> {
        let first = self.unary()?;
        self.binary_after(first, tightness)
    }

    fn binary_after(&mut self, mut left: Expr, tightness: u8) -> Parse<Expr> {
        while let Some((function, level)) = operator(self.peek()).filter(|(_, level)| *level >= tightness) {
            if level < RELATION {
                left = self.logical(left, function, level)?;
                continue;
            }
            let at = self.at();
            self.next += 1;
            let right = self.binary(level + 1)?;
            left = self.call(at, function, vec![left, right])?;
        }
        Ok(left)
    }

    /// A chain of `||` or `&&`, as a balanced tree.
    fn logical(&mut self, first: Expr, function: &'static str, level: u8) -> Parse<Expr> {
        let mut terms = vec![first];
        let mut places = Vec::new();
        while operator(self.peek()).is_some_and(|(next, _)| next == function) {
            places.push(self.at());
            self.next += 1;
            terms.push(self.binary(level + 1)?);
        }
        self.balance(function, terms, &places)
    }

    fn balance(&mut self, function: &str, mut terms: Vec<Expr>, places: &[usize]) -> Parse<Expr> {
        let middle = terms.len().div_ceil(2);
        if terms.len() < 2 {
            return terms.pop().ok_or(Stop);
        }
        let right = terms.split_off(middle);
        let (left_places, rest) = places.split_at_checked(middle - 1).unwrap_or((places, &[]));
        let (at, right_places) = rest.split_first().unwrap_or((&0, &[]));
        let left = self.balance(function, terms, left_places)?;
        let right = self.balance(function, right, right_places)?;
        self.call(*at, function, vec![left, right])
    }

    /// Pairs of `!` or `-` cancel out.
    fn unary(&mut self) -> Parse<Expr> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let Some(at) = self.eat(symbol) else { continue };
            // A minus belongs to the number that follows it.
            if symbol == "-" && matches!(self.peek(), Token::Int(_) | Token::Float(_)) {
                let literal = self.number(at, true)?;
                return self.members(literal);
            }
            let mut count = 1;
            while self.eat(symbol).is_some() {
                count += 1;
            }
            if *self.peek() == Token::End {
                self.extraneous(&format!("{{{STARTS}}}"));
                return Err(Stop);
            }
            let operand = self.member()?;
            return if count % 2 == 0 { Ok(operand) } else { self.call(at, function, vec![operand]) };
        }
        self.member()
    }

    fn member(&mut self) -> Parse<Expr> {
        let primary = self.primary()?;
        self.members(primary)
    }

    /// `.field`, `.call()`, `[index]` and their optional forms.
    fn members(&mut self, mut operand: Expr) -> Parse<Expr> {
        loop {
            if let Some(dot) = self.eat(".") {
                let optional = self.eat("?").is_some();
                let name_at = self.at();
                let name = match self.peek().clone() {
                    Token::Ident(name) => name,
                    Token::Escaped(_) => return self.fail(name_at, "unsupported syntax: '`'"),
                    Token::End => return self.fail(name_at, "Syntax error: no viable alternative at input '.'"),
                    Token::True | Token::False | Token::Null | Token::In => return self.mismatch("IDENTIFIER"),
                    token => {
                        let (gap, text) = (" ".repeat(name_at.saturating_sub(dot + 1)), token.text());
                        return self
                            .fail(name_at, format!("Syntax error: no viable alternative at input '.{gap}{text}'"));
                    }
                };
                self.next += 1;
                operand = match self.eat("(").filter(|_| !optional) {
                    Some(open) => {
                        let args = self.arguments()?;
                        macros::member_call(self, open, operand, name, args)?
                    }
                    None if optional => {
                        let field = self.node(name_at, Kind::Literal(Literal::String(name)))?;
                        self.call(dot, "_?._", vec![operand, field])?
                    }
                    None => self.node(dot, Kind::Select { operand: Box::new(operand), field: name, test: false })?,
                };
            } else if let Some(open) = self.eat("[") {
                let optional = self.eat("?").is_some();
                if *self.peek() == Token::End {
                    return self.mismatch(&format!("{{{}}}", STARTS.replacen("'!', ", "'!', '?', ", 1)));
                }
                let index = self.expr()?;
                self.expect("]", "']'")?;
                operand = self.call(open, if optional { "_[?_]" } else { "_[_]" }, vec![operand, index])?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let mut args = Vec::new();
        if self.eat(")").is_some() {
            return Ok(args);
        }
        if *self.peek() == Token::End {
            return self.mismatch(&format!("{{{}}}", STARTS.replacen("'(', ", "'(', ')', ", 1)));
        }
        loop {
            args.push(self.expr()?);
            if self.eat(",").is_none() {
                self.expect(")", "')'")?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Parse<Expr> {
        let at = self.at();
        match self.peek().clone() {
            Token::Symbol("(") => {
                self.next += 1;
                let inside = self.expr()?;
                self.expect(")", "')'")?;
                Ok(inside)
            }
            Token::Symbol("[") => {
                self.next += 1;
                self.list(at)
            }
            Token::Symbol("{") => {
                self.next += 1;
                self.map(at)
            }
            Token::Symbol(".") if matches!(self.after(), Token::Ident(_)) => {
                self.next += 1;
                self.primary()
            }
            Token::Ident(name) => {
                self.next += 1;
                self.ident(at, name)
            }
            Token::Int(_) | Token::Uint(_) | Token::Float(_) => self.number(at, false),
            Token::Text(text) => {
                self.next += 1;
                match lexer::unquote(&text, false).and_then(|bytes| String::from_utf8(bytes).ok()) {
                    Some(text) => self.node(at, Kind::Literal(Literal::String(text))),
                    None => self.fail(at, "unable to unescape string"),
                }
            }
            Token::Bytes(text) => {
                self.next += 1;
                match lexer::unquote(&text, true) {
                    Some(bytes) => self.node(at, Kind::Literal(Literal::Bytes(bytes))),
                    None => self.fail(at, "unable to unescape string"),
                }
            }
            Token::True => self.constant(at, Literal::Bool(true)),
            Token::False => self.constant(at, Literal::Bool(false)),
            Token::Null => self.constant(at, Literal::Null),
            Token::End => self.mismatch(&format!("{{{STARTS}}}")),
            _ if starts(self.after()) => {
                self.extraneous(&format!("{{{STARTS}}}"));
                self.primary()
            }
            _ => self.mismatch(&format!("{{{STARTS}}}")),
        }
    }

    fn constant(&mut self, at: usize, literal: Literal) -> Parse<Expr> {
        self.next += 1;
        self.node(at, Kind::Literal(literal))
    }

    fn ident(&mut self, at: usize, name: String) -> Parse<Expr> {
        if RESERVED.contains(&name.as_str()) {
            return self.fail(at, format!("reserved identifier: {name}"));
        }
        if let Some(open) = self.eat("(") {
            let args = self.arguments()?;
            return macros::global_call(self, open, name, args);
        }
        // `a.b.C{…}` makes a message, if a brace follows the names.
        let mut ahead = self.next;
        let token = |i: usize| self.tokens.get(i).map(|(token, _)| token);
        while token(ahead) == Some(&Token::Symbol(".")) && matches!(token(ahead + 1), Some(Token::Ident(_))) {
            ahead += 2;
        }
        if token(ahead) == Some(&Token::Symbol("{")) {
            let names: Vec<&str> = (self.next..ahead).filter_map(token).map(Token::text).collect();
            let name = format!("{name}{}", names.concat());
            self.next = ahead;
            let open = self.at();
            self.next += 1;
            self.skip_fields()?;
            return self.node(open, Kind::Struct { name });
        }
        self.node(at, Kind::Ident(name))
    }

    /// The fields of a message. No type of Kubernetes can be made in an expression, so they are read and forgotten.
    fn skip_fields(&mut self) -> Parse<()> {
        while self.eat("}").is_none() {
            self.eat("?");
            if !matches!(self.peek(), Token::Ident(_) | Token::Escaped(_)) {
                return self.mismatch("{'}', '?', ',', IDENTIFIER, ESC_IDENTIFIER}");
            }
            self.next += 1;
            self.expect(":", "':'")?;
            self.expr()?;
            if self.eat(",").is_none() && !self.is("}") {
                return self.expect("}", "{'}', ','}");
            }
        }
        Ok(())
    }

    fn list(&mut self, at: usize) -> Parse<Expr> {
        let mut elements = Vec::new();
        while self.eat("]").is_none() {
            let optional = self.eat("?").is_some();
            elements.push((self.expr()?, optional));
            if self.eat(",").is_none() {
                self.expect("]", "{']', ','}")?;
                break;
            }
            if *self.peek() == Token::End {
                return self.expect("]", "']'").and(Err(Stop));
            }
        }
        self.node(at, Kind::List(elements))
    }

    fn map(&mut self, at: usize) -> Parse<Expr> {
        let mut entries = Vec::new();
        while self.eat("}").is_none() {
            let optional = self.eat("?").is_some();
            let key = self.expr()?;
            if !self.is(":") && starts(self.peek()) {
                let message = format!("Syntax error: missing ':' at '{}'", self.peek().text());
                return self.fail(self.at(), message);
            }
            self.expect(":", "':'")?;
            let value = self.expr()?;
            entries.push(Entry { key, value, optional });
            if self.eat(",").is_none() {
                self.expect("}", "{'}', ','}")?;
                break;
            }
            if *self.peek() == Token::End {
                return self.expect("}", "'}'").and(Err(Stop));
            }
        }
        self.node(at, Kind::Map(entries))
    }

    fn number(&mut self, at: usize, negative: bool) -> Parse<Expr> {
        let token = self.peek().clone();
        self.next += 1;
        let sign = if negative { "-" } else { "" };
        let literal = match &token {
            Token::Int(text) => integer(sign, text).map(Literal::Int).ok_or("invalid int literal"),
            Token::Uint(text) => {
                let digits = text.trim_end_matches(['u', 'U']);
                let number = match digits.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).ok(),
                    None => digits.parse().ok(),
                };
                number.map(Literal::Uint).ok_or("invalid uint literal")
            }
            other => {
                format!("{sign}{}", other.text()).parse().map(Literal::Double).map_err(|_| "invalid double literal")
            }
        };
        match literal {
            Ok(literal) => self.node(at, Kind::Literal(literal)),
            Err(message) => self.fail(at, message),
        }
    }
}

fn integer(sign: &str, digits: &str) -> Option<i64> {
    match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(&format!("{sign}{digits}"), 16).ok(),
        None => format!("{sign}{digits}").parse().ok(),
    }
}

const RELATION: u8 = 2;

/// The function of a binary operator, and how tightly it binds.
fn operator(token: &Token) -> Option<(&'static str, u8)> {
    let symbol = match token {
        Token::In => return Some(("@in", RELATION)),
        Token::Symbol(symbol) => *symbol,
        _ => return None,
    };
    Some(match symbol {
        "||" => ("_||_", 0),
        "&&" => ("_&&_", 1),
        "==" => ("_==_", RELATION),
        "!=" => ("_!=_", RELATION),
        "<=" => ("_<=_", RELATION),
        ">=" => ("_>=_", RELATION),
        "<" => ("_<_", RELATION),
        ">" => ("_>_", RELATION),
        "+" => ("_+_", 3),
        "-" => ("_-_", 3),
        "*" => ("_*_", 4),
        "/" => ("_/_", 4),
        "%" => ("_%_", 4),
        _ => return None,
    })
}

/// Whether an expression can start with the token.
fn starts(token: &Token) -> bool {
    match token {
        Token::Symbol(symbol) => matches!(*symbol, "[" | "{" | "(" | "." | "-" | "!"),
        Token::End | Token::In | Token::Escaped(_) => false,
        _ => true,
    }
}

fn children(kind: &Kind) -> Box<dyn Iterator<Item = &Expr> + '_> {
    match kind {
        Kind::Literal(_) | Kind::Ident(_) | Kind::Accumulator { .. } | Kind::Composed(_) | Kind::Struct { .. } => {
            Box::new(std::iter::empty())
        }
        Kind::Select { operand, .. } => Box::new(std::iter::once(operand.as_ref())),
        Kind::Call { target, args, .. } => Box::new(target.iter().map(AsRef::as_ref).chain(args)),
        Kind::List(elements) => Box::new(elements.iter().map(|(element, _)| element)),
        Kind::Map(entries) => Box::new(entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
        Kind::Comprehension(comprehension) => {
            let super::ast::Comprehension { range, init, condition, step, result, .. } = comprehension.as_ref();
            Box::new([range, init, condition, step, result].into_iter())
        }
    }
}
