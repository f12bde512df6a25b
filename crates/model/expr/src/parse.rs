//! Tokens into operations in postfix order, by recursive descent.
//!
//! ```text
//! sum      = product  { ("+" | "-") product }
//! product  = factor   { ("*" | "/") factor }
//! factor   = "-" factor | "(" sum ")" | number | quantity | variable | function "(" sum "," sum { "," sum } ")"
//! ```

use crate::amount::Resource;
use crate::error::{ExprErrorKind, Fault};
use crate::limits::{MAX_DEPTH, MAX_LENGTH};
use crate::suggest;
use crate::text::short;
use crate::token::{Lexer, Literal, Span, Token, unit};

/// One operation of an expression. Operands come first: evaluating the operations in order needs only a stack.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) operator: Operator,
    /// The part of the source that it covers with its operands.
    pub(crate) span: Span,
    /// Where its sign or name is.
    pub(crate) at: usize,
}

#[derive(Debug)]
pub(crate) enum Operator {
    Literal(Literal),
    Variable(Resource),
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    /// The greatest of the last so many values.
    Max(usize),
    /// The least of the last so many values.
    Min(usize),
}

/// Parses a whole expression. Types are not looked at.
pub(crate) fn parse(source: &str) -> Result<Vec<Operation>, Fault> {
    if source.len() > MAX_LENGTH {
        let kind = ExprErrorKind::TooLong { length: source.len() };
        return Err(Fault::new(source.floor_char_boundary(MAX_LENGTH), kind));
    }
    let mut parser = Parser::new(source)?;
    if parser.next.is_none() {
        return Err(Fault::new(0, ExprErrorKind::Empty));
    }
    parser.sum()?;
    match parser.next {
        None => Ok(parser.operations),
        Some((Token::Symbol(','), span)) => Err(Fault::new(span.start, ExprErrorKind::UnexpectedComma)),
        // After a sum comes nothing else: operators continue it, and values were refused where the operand ended.
        Some((_, span)) => Err(Fault::new(span.start, ExprErrorKind::UnopenedParenthesis)),
    }
}

struct Parser<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    /// The token that is looked at, not yet taken.
    next: Option<(Token, Span)>,
    depth: usize,
    operations: Vec<Operation>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Result<Self, Fault> {
        let mut lexer = Lexer::new(source);
        let next = lexer.next()?;
        Ok(Self { source, lexer, next, depth: 0, operations: Vec::with_capacity(8) })
    }

    fn sum(&mut self) -> Result<Span, Fault> {
        let mut span = self.product()?;
        loop {
            let operator = match self.symbol() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => return Ok(span),
            };
            let at = self.advance()?;
            span = span.to(self.product()?);
            self.push(operator, span, at);
        }
    }

    fn product(&mut self) -> Result<Span, Fault> {
        let mut span = self.factor()?;
        loop {
            let operator = match self.symbol() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                _ => return Ok(span),
            };
            let at = self.advance()?;
            span = span.to(self.factor()?);
            self.push(operator, span, at);
        }
    }

    /// One operand, with everything that binds tighter than `*`. The span includes its parentheses.
    fn factor(&mut self) -> Result<Span, Fault> {
        let Some((token, span)) = self.next.clone() else {
            let end = self.source.trim_end().len();
            return Err(Fault::new(end, ExprErrorKind::ExpectedValue { found: None }));
        };
        let at = span.start;
        let span = match token {
            Token::Literal(literal) => {
                self.advance()?;
                self.push(Operator::Literal(literal), span, at);
                span
            }
            Token::Name => self.name(span)?,
            Token::Symbol('-') => {
                self.advance()?;
                let operand = self.nested(at, Self::factor)?;
                let span = span.to(operand);
                self.push(Operator::Negate, span, at);
                return Ok(span);
            }
            Token::Symbol('(') => {
                self.advance()?;
                self.nested(at, Self::sum)?;
                match self.symbol() {
                    Some(',') => return Err(Fault::new(self.position(), ExprErrorKind::UnexpectedComma)),
                    _ => span.to(self.close(at)?),
                }
            }
            Token::Symbol(found) => return Err(expected_value(at, found)),
        };
        self.refuse_value_after(span)?;
        Ok(span)
    }

    /// A variable or a function call.
    fn name(&mut self, span: Span) -> Result<Span, Fault> {
        type Function = fn(usize) -> Operator;
        const FUNCTIONS: [(&str, Function); 2] = [("max", Operator::Max), ("min", Operator::Min)];
        let name = span.of(self.source);
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let at = self.advance()?;
        if let Some(variable) = [Resource::Cpu, Resource::Memory].into_iter().find(|variable| is(variable.name())) {
            self.push(Operator::Variable(variable), span, at);
            return Ok(span);
        }
        let called = self.symbol() == Some('(');
        let Some((function, operator)) = FUNCTIONS.into_iter().find(|(function, _)| is(function)) else {
            let name = name.to_owned();
            return Err(if called {
                let help = suggest::for_function(&name);
                Fault::new(at, ExprErrorKind::UnknownFunction { name }).help(help)
            } else {
                let help = suggest::for_name(&name);
                Fault::new(at, ExprErrorKind::UnknownName { name }).help(help)
            });
        };
        if !called {
            let fault = Fault::new(at, ExprErrorKind::MissingArguments { function });
            return Err(fault.help(format!("write `{function}(a, b)`")));
        }
        let (found, end) = self.nested(at, Self::arguments)?;
        if found < 2 {
            return Err(Fault::new(at, ExprErrorKind::ArgumentCount { function, found }));
        }
        let span = span.to(end);
        self.push(operator(found), span, at);
        Ok(span)
    }

    /// The arguments of a function: how many, and the closing parenthesis.
    fn arguments(&mut self) -> Result<(usize, Span), Fault> {
        let open = self.advance()?;
        if self.symbol() == Some(')') {
            return Ok((0, self.close(open)?));
        }
        let mut count = 1;
        self.sum()?;
        while self.symbol() == Some(',') {
            self.advance()?;
            self.sum()?;
            count += 1;
        }
        Ok((count, self.close(open)?))
    }

    /// Takes the `)` that belongs to the `(` at `open`.
    fn close(&mut self, open: usize) -> Result<Span, Fault> {
        match self.next {
            Some((Token::Symbol(')'), span)) => {
                self.advance()?;
                Ok(span)
            }
            _ => Err(Fault::new(open, ExprErrorKind::UnclosedParenthesis)),
        }
    }

    /// Two values in a row are a forgotten operator (`2(cpu)`), and never a multiplication.
    fn refuse_value_after(&self, left: Span) -> Result<(), Fault> {
        let Some((token, right)) = &self.next else { return Ok(()) };
        if let Token::Symbol(symbol) = token
            && *symbol != '('
        {
            return Ok(());
        }
        let (left, name) = (left.of(self.source), right.of(self.source));
        let fault = Fault::new(right.start, ExprErrorKind::MissingOperator { before: name.to_owned() });
        Err(match token {
            Token::Name if left.ends_with(|c: char| c.is_ascii_digit()) && unit(name).is_some() => {
                fault.help(format!("a unit follows its number without a space: `{}{name}`", short(left)))
            }
            Token::Literal(_) if left.ends_with('%') => fault.help("`%` means percent; there is no modulo"),
            _ => fault.help(suggest::product(left, self.operand_at(*right))),
        })
    }

    /// The text of the operand whose first token this is, up to the parenthesis that closes it.
    fn operand_at(&self, first: Span) -> &'a str {
        let (operand, rest) = (first.of(self.source), self.source.get(first.end..).unwrap_or_default());
        if operand != "(" && !rest.trim_start().starts_with('(') {
            return operand;
        }
        let text = self.source.get(first.start..).unwrap_or_default();
        let mut depth = 0_usize;
        let mut is_end = |character| {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            character == ')' && depth == 0
        };
        text.find(&mut is_end).and_then(|end| text.get(..=end)).unwrap_or(text)
    }

    fn nested<T>(&mut self, at: usize, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::new(at, ExprErrorKind::TooDeep));
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn push(&mut self, operator: Operator, span: Span, at: usize) {
        self.operations.push(Operation { operator, span, at });
    }

    fn symbol(&self) -> Option<char> {
        match self.next {
            Some((Token::Symbol(symbol), _)) => Some(symbol),
            _ => None,
        }
    }

    /// Where the next token begins.
    fn position(&self) -> usize {
        self.next.as_ref().map_or(self.source.len(), |(_, span)| span.start)
    }

    /// Takes the next token and returns its position.
    fn advance(&mut self) -> Result<usize, Fault> {
        let position = self.position();
        self.next = self.lexer.next()?;
        Ok(position)
    }
}

fn expected_value(at: usize, found: char) -> Fault {
    let fault = Fault::new(at, ExprErrorKind::ExpectedValue { found: Some(found) });
    match found {
        '+' => fault.help("a sign is only written where it is a minus"),
        '*' => fault.help("there is no power operator"),
        _ => fault,
    }
}
