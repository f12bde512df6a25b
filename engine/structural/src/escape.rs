//! Names of properties in expressions: what is no identifier is escaped.

/// Words that an identifier cannot be.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const ESCAPES: [(&str, &str); 4] = [("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__")];

/// The name of a property in expressions; `None` if it cannot have one.
pub(crate) fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut characters = name.chars().peekable();
    if !characters.peek().is_some_and(|c| c.is_ascii_alphabetic() || *c == '_') {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    while let Some(c) = characters.next() {
        match c {
            '_' if characters.peek() == Some(&'_') => {
                characters.next();
                out.push_str("__underscores__");
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

/// The property that an expression means.
pub(crate) fn unescape(name: &str) -> String {
    if let Some(word) = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return word.to_owned();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (written, length) = match ESCAPES.iter().find(|(escaped, _)| rest.starts_with(escaped)) {
            Some((escaped, plain)) => ((*plain).to_owned(), escaped.len()),
            None => (c.to_string(), c.len_utf8()),
        };
        out.push_str(&written);
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_there_and_back() {
        for (name, escaped) in [
            ("a", "a"),
            ("namespace", "__namespace__"),
            ("x-prop", "x__dash__prop"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("redact__d", "redact__underscores__d"),
            ("a_b", "a_b"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped), name);
        }
        for bad in ["", "1a", "a b", "$a", "é"] {
            assert_eq!(escape(bad), None, "{bad}");
        }
    }
}
