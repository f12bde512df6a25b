//! URLs as Go's `net/url` reads them.

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) text: String,
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) escaped_path: String,
    pub(crate) query: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Query,
    User,
}

impl Url {
    /// An absolute URI or an absolute path, as in an HTTP request. A fragment is not looked for.
    ///
    /// # Errors
    /// Go's message.
    pub(crate) fn parse_request_uri(text: &str) -> Result<Url, String> {
        parse(text).map_err(|reason| format!("parse {}: {reason}", pillion_rules::field::quoted(text)))
    }

    /// As [`Url::parse_request_uri`], but what follows a `#` is not part of the path or the query.
    ///
    /// # Errors
    /// Go's message.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        let whole = Url::parse_request_uri(text)?;
        match text.split_once('#') {
            None => Ok(whole),
            Some((before, _)) => Ok(Url { text: text.to_owned(), ..Url::parse_request_uri(before)? }),
        }
    }

    pub(crate) fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
    }

    pub(crate) fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// Values of the query by key, in the order of the first appearance of each key.
    pub(crate) fn query_values(&self) -> Vec<(String, Vec<String>)> {
        let mut values: Vec<(String, Vec<String>)> = Vec::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Ok(key), Ok(value)) = (unescape(key, Part::Query), unescape(value, Part::Query)) else { continue };
            match values.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => known.push(value),
                None => values.push((key, vec![value])),
            }
        }
        values
    }
}

fn parse(text: &str) -> Result<Url, String> {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() {
        return Err("empty url".into());
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url {
        text: text.to_owned(),
        scheme: scheme.to_ascii_lowercase(),
        host: String::new(),
        escaped_path: String::new(),
        query: query.to_owned(),
    };
    if !rest.starts_with('/') && text != "*" {
        return if scheme.is_empty() { Err("invalid URI for request".into()) } else { Ok(url) };
    }
    let mut path = rest;
    if let Some(authority) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        let (authority, after) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
        url.host = parse_authority(authority)?;
        path = after;
    }
    let plain = unescape(path, Part::Path)?;
    url.escaped_path = if is_valid_path(path) { path.to_owned() } else { escape_path(&plain) };
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((text.get(..i).unwrap_or_default(), text.get(i + 1..).unwrap_or_default())),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_authority(authority: &str) -> Result<String, String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let host = parse_host(host)?;
    if let Some(user) = user {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.chars().all(fits) {
            return Err("net/url: invalid userinfo".into());
        }
        unescape(user, Part::User)?;
    }
    Ok(host)
}

fn parse_host(host: &str) -> Result<String, String> {
    let port = if host.starts_with('[') {
        let Some(end) = host.rfind(']') else { return Err("missing ']' in host".into()) };
        host.get(end + 1..).unwrap_or_default()
    } else {
        host.rfind(':').and_then(|at| host.get(at..)).unwrap_or_default()
    };
    let fits =
        port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !fits {
        return Err(format!("invalid port {} after host", pillion_rules::field::quoted(port)));
    }
    unescape(host, Part::Host)
}

fn unescape(text: &str, part: Part) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().enumerate();
    while let Some((i, b)) = bytes.next() {
        match b {
            b'%' => {
                let digits = text.get(i + 1..i + 3).unwrap_or_default();
                // In a host only what is not ASCII may be escaped, and the percent sign.
                let allowed = part != Part::Host || digits >= "8" || digits == "25";
                let code = u8::from_str_radix(digits, 16).ok().filter(|_| allowed && digits.len() == 2);
                let Some(code) = code else {
                    let shown: String = text.get(i..).unwrap_or_default().chars().take(3).collect();
                    return Err(format!("invalid URL escape {}", pillion_rules::field::quoted(&shown)));
                };
                out.push(code);
                bytes.next();
                bytes.next();
            }
            b'+' if part == Part::Query => out.push(b' '),
            b if part == Part::Host && b.is_ascii() && !is_host_byte(b) => {
                return Err(format!(
                    "invalid character {} in host name",
                    pillion_rules::field::quoted(&char::from(b).to_string())
                ));
            }
            b => out.push(b),
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&b)
}

fn is_path_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b)
}

/// Whether an escaped path can stay as it is.
fn is_valid_path(path: &str) -> bool {
    path.bytes().all(|b| is_path_byte(b) || b"!'()*[]%".contains(&b))
}

fn escape_path(path: &str) -> String {
    path.bytes().map(|b| if is_path_byte(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_as_go_does() {
        let url = Url::parse_request_uri("https://u:p@example.com:80/a%20b/c?x=1&y=2&x=3").unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host.as_str(), url.hostname(), url.port()),
            ("https", "example.com:80", "example.com", "80")
        );
        assert_eq!(url.escaped_path, "/a%20b/c");
        assert_eq!(
            url.query_values(),
            [("x".to_owned(), vec!["1".to_owned(), "3".to_owned()]), ("y".to_owned(), vec!["2".to_owned()])]
        );
        assert_eq!(Url::parse_request_uri("https://[::1]:80/").unwrap().hostname(), "::1");
    }

    #[test]
    fn mistakes_read_as_go_writes_them() {
        for (text, message) in [
            ("", r#"parse "": empty url"#),
            ("a/b", r#"parse "a/b": invalid URI for request"#),
            (":a", r#"parse ":a": missing protocol scheme"#),
            ("http://a:b/", r#"parse "http://a:b/": invalid port ":b" after host"#),
            ("http://a b/", r#"parse "http://a b/": invalid character " " in host name"#),
            ("/%zz", r#"parse "/%zz": invalid URL escape "%zz""#),
        ] {
            assert_eq!(Url::parse_request_uri(text).unwrap_err(), message);
        }
    }
}
