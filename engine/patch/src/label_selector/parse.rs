//! Text to terms, as `labels.Parse` reads them.

use std::collections::BTreeSet;

use pillion_selector::name::{label_key_complaints, label_value_complaints};

use super::{Operator, Term};

/// Why a text is not a label selector, in the words of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// A term that is malformed.
    #[error("unable to parse requirement: {0}")]
    Term(String),
    /// Something that can be no term, or that cannot come after one.
    #[error("found '{found}', expected: {expected}")]
    Found {
        /// What stands there.
        found: String,
        /// What could.
        expected: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A word; `in` and `notin` are, too.
    Word(&'a str),
    /// `=`, `==`, `!=`, `!`, `(`, `)`, `,`, `<`, `>`
    Sign(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Sign(text) => text,
            Token::End => "",
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

const SIGNS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

pub(super) fn terms(text: &str) -> Result<Vec<Term>, LabelSelectorError> {
    let found =
        |token: Token<'_>, expected| Err(LabelSelectorError::Found { found: token.text().to_owned(), expected });
    // To Go's lexer a zero byte is the end.
    let mut parser = Parser { rest: text.split('\0').next().unwrap_or_default() };
    let mut terms = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Sign("!") => {}
            Token::End => return Ok(terms),
            token @ Token::Sign(_) => return found(token, "!, identifier, or 'end of string'"),
        }
        terms.push(parser.term().map_err(LabelSelectorError::Term)?);
        match parser.next() {
            Token::End => return Ok(terms),
            Token::Sign(",") => match parser.peek() {
                Token::Word(_) | Token::Sign("!") => {}
                token => return found(token, "identifier after ','"),
            },
            token => return found(token, "',' or 'end of string'"),
        }
    }
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Token<'a> {
        let text = self.rest.trim_start_matches(SPACES);
        let word =
            text.find(|character| SIGNS.contains(&character) || SPACES.contains(&character)).unwrap_or(text.len());
        let (token, length) = match word {
            0 if text.is_empty() => (Token::End, 0),
            0 => {
                let sign = ["==", "!="].into_iter().find(|sign| text.starts_with(sign)).map_or(1, str::len);
                (Token::Sign(text.get(..sign).unwrap_or_default()), sign)
            }
            word => (Token::Word(text.get(..word).unwrap_or_default()), word),
        };
        self.rest = text.get(length..).unwrap_or_default();
        token
    }

    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn term(&mut self) -> Result<Term, String> {
        let mut token = self.next();
        let negated = token == Token::Sign("!");
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else { return Err(format!("found '{}', expected: identifier", token.text())) };
        let complaints = label_key_complaints(key);
        if !complaints.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", complaints.join("; ")));
        }
        let alone = matches!(self.peek(), Token::End | Token::Sign(","));
        let (operator, values) = match (negated, alone) {
            (true, _) => (Operator::DoesNotExist, BTreeSet::new()),
            (false, true) => (Operator::Exists, BTreeSet::new()),
            (false, false) => self.operator_and_values()?,
        };
        check_values(key, operator, &values)?;
        Ok(Term { key: key.to_owned(), operator, values })
    }

    fn operator_and_values(&mut self) -> Result<(Operator, BTreeSet<String>), String> {
        let operator = match self.next() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Sign("=") => Operator::Equals,
            Token::Sign("==") => Operator::DoubleEquals,
            Token::Sign("!=") => Operator::NotEquals,
            Token::Sign(">") => Operator::GreaterThan,
            Token::Sign("<") => Operator::LessThan,
            token => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", token.text())),
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.value()?]),
        };
        Ok((operator, values))
    }

    fn value(&mut self) -> Result<String, String> {
        if let Token::End | Token::Sign(",") = self.peek() {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value.to_owned()),
            token => Err(format!("found '{}', expected: identifier", token.text())),
        }
    }

    /// `(a,b)`; values may be empty.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Sign("(") => {}
            token => return Err(format!("found '{}' expected: '('", token.text())),
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Token::Word(_) | Token::Sign(",") => {}
            Token::Sign(")") => {
                self.next();
                return Ok(BTreeSet::from([String::new()]));
            }
            token => return Err(format!("found '{}', expected: ',', ')' or identifier", token.text())),
        }
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        Token::Sign("," | ")") => {}
                        token => return Err(format!("found '{}', expected: ',' or ')'", token.text())),
                    }
                }
                Token::Sign(",") => {
                    if values.is_empty() || matches!(self.peek(), Token::Sign("," | ")")) {
                        values.insert(String::new());
                    }
                }
                Token::Sign(")") => return Ok(values),
                token => return Err(format!("found '{}', expected: ',', or identifier", token.text())),
            }
        }
    }
}

fn check_values(key: &str, operator: Operator, values: &BTreeSet<String>) -> Result<(), String> {
    let mut errors = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let integer = value.parse::<i64>().is_ok();
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) && !integer {
            errors.push(format!(
                "values[{i}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
    }
    for (i, value) in values.iter().enumerate() {
        let complaints = label_value_complaints(value);
        if !complaints.is_empty() {
            errors.push(format!("values[{i}][{key}]: Invalid value: {value:?}: {}", complaints.join("; ")));
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [error] => Err(error.clone()),
        errors => Err(format!("[{}]", errors.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::LabelSelector;

    /// The messages are those of kube-apiserver 1.35.
    #[test]
    fn errors_are_those_of_kube_apiserver() {
        const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
            character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
            '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
            start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
            is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        for (text, message) in [
            ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'".to_owned()),
            ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier".to_owned()),
            (",", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
            ("a,", "found '', expected: identifier after ','".to_owned()),
            ("a=b,,c=d", "found ',', expected: identifier after ','".to_owned()),
            ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
            ("(a)", "found '(', expected: !, identifier, or 'end of string'".to_owned()),
            ("=b", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
            ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
            ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
            ("-a=b", format!("unable to parse requirement: <nil>: Invalid value: \"-a\": name part {NAME}")),
            (
                "x/y/z=a",
                format!(
                    "unable to parse requirement: <nil>: Invalid value: \"x/y/z\": a valid label key {NAME} with an optional DNS \
                     subdomain prefix and '/' (e.g. 'example.com/MyName')"
                ),
            ),
            ("a=-b", format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {VALUE}")),
            ("A=ü", format!("unable to parse requirement: values[0][A]: Invalid value: \"ü\": {VALUE}")),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
                    .to_owned(),
            ),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }
}
