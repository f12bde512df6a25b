//! `http_probe`: endpoints, and what each of them asks.

use std::time::Duration;

use super::expand::stand_in;
use super::extract::Extract;
use super::reader::Field;
use super::secret::{Credential, SecretKey};
use super::storage::Storage;

/// One probe, and where its result goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// What it is called in the status and the log.
    pub name: String,
    /// What is asked.
    pub ask: Ask,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Before the first look.
    pub start_delay: Duration,
    /// Between looks.
    pub interval: Duration,
    /// How often the same successful state must come in a row.
    pub success_threshold: u32,
    /// Whether successes with different answers are the same state, as they are for the kubelet and for Kruise.
    pub any_success: bool,
    /// How many failures in a row count.
    pub failure_threshold: u32,
    /// Where the result goes.
    pub storage: Storage,
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// A URL.
    Http(HttpAsk),
    /// A connection.
    Tcp {
        /// A name or an address.
        host: String,
        port: u16,
    },
    /// `grpc.health.v1.Health`.
    Grpc {
        /// A name or an address.
        host: String,
        port: u16,
        /// The service; may be empty.
        service: String,
    },
    /// A command in the agent's own container.
    Exec {
        /// The command and its arguments.
        command: Vec<String>,
    },
    /// Something that cannot be asked from here, and why.
    Impossible(String),
}

/// An HTTP request.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpAsk {
    /// Where.
    pub url: Url,
    /// `GET` and its kin.
    pub method: String,
    /// Headers; values may be in Secrets.
    pub headers: Vec<(String, Credential)>,
    /// The status that means success; otherwise 200 to 399.
    pub expected_status: Option<u16>,
    /// Which part of the body is the state.
    pub extract: Option<Extract>,
}

/// The parts of an http or https URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether TLS is spoken.
    pub https: bool,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// Seconds, at most a day.
const DAY: u64 = 86_400;

const KNOWN: &[&str] = &[
    "name",
    "url",
    "method",
    "headers",
    "timeout",
    "timeoutSeconds",
    "expectedStatusCode",
    "jsonPathConfig",
    "storageConfig",
    "bootorder",
    "tcpSocket",
    "grpc",
    "exec",
    "startDelaySeconds",
    "probeIntervalSeconds",
    "interval",
    "successThreshold",
    "failureThreshold",
];

/// What endpoints have in common.
pub(super) struct Defaults {
    pub(super) start_delay: Duration,
    pub(super) interval: Duration,
}

pub(super) fn seconds(field: &Field<'_>, names: &[&str], least: u64) -> Option<Duration> {
    field.get(names).map(|seconds| Duration::from_secs(seconds.number(least, DAY)))
}

impl Endpoint {
    pub(super) fn read(field: &Field<'_>, index: usize, defaults: &Defaults) -> Option<Endpoint> {
        if !field.mapping(KNOWN) {
            return None;
        }
        let count = |name| field.get(&[name]).map_or(1, |count| u32::try_from(count.number(1, 1000)).unwrap_or(1));
        let ask = Ask::read(field)?;
        let name = field.get(&["name"]).map(|name| name.word());
        Some(Endpoint {
            name: name.unwrap_or_else(|| format!("endpoint {index}: {ask}")),
            ask,
            timeout: seconds(field, &["timeout", "timeoutSeconds"], 1).unwrap_or(Duration::from_secs(10)),
            start_delay: seconds(field, &["startDelaySeconds"], 0).unwrap_or(defaults.start_delay),
            interval: seconds(field, &["probeIntervalSeconds", "interval"], 1).unwrap_or(defaults.interval),
            success_threshold: count("successThreshold"),
            any_success: false,
            failure_threshold: count("failureThreshold"),
            storage: field.get(&["storageConfig"]).map(|storage| Storage::read(&storage)).unwrap_or_default(),
        })
    }
}

impl Ask {
    /// One of `url`, `tcpSocket`, `grpc` and `exec`.
    pub(super) fn read(field: &Field<'_>) -> Option<Ask> {
        let kinds = ["url", "tcpSocket", "grpc", "exec"];
        let given: Vec<_> = kinds.iter().filter_map(|kind| field.get(&[kind]).map(|value| (*kind, value))).collect();
        let (kind, value) = match given.as_slice() {
            [one] => one.clone(),
            [] => {
                field.wrong("a probe needs one of `url`, `tcpSocket`, `grpc` and `exec`");
                return None;
            }
            _ => {
                field.wrong("a probe has only one of `url`, `tcpSocket`, `grpc` and `exec`");
                return None;
            }
        };
        let host = || value.get(&["host"]).map_or_else(|| "127.0.0.1".to_owned(), |host| host.word());
        let port = || {
            let port = value.get(&["port"]);
            if port.is_none() {
                value.wrong("this needs a `port`");
            }
            port.and_then(|port| u16::try_from(port.number(1, 65_535)).ok()).unwrap_or(1)
        };
        match kind {
            "url" => HttpAsk::read(field, &value).map(Ask::Http),
            "tcpSocket" => {
                value.mapping(&["host", "port"]);
                Some(Ask::Tcp { host: host(), port: port() })
            }
            "grpc" => {
                value.mapping(&["host", "port", "service"]);
                let service = value.get(&["service"]).map(|service| service.text()).unwrap_or_default();
                Some(Ask::Grpc { host: host(), port: port(), service })
            }
            _ => {
                value.mapping(&["command"]);
                let command = value.get(&["command"]).map(|command| command.words()).unwrap_or_default();
                if command.is_empty() {
                    value.wrong("this needs a `command`, a list of words");
                }
                Some(Ask::Exec { command })
            }
        }
    }
}

impl HttpAsk {
    fn read(field: &Field<'_>, url: &Field<'_>) -> Option<HttpAsk> {
        let text = url.text();
        let parsed = match Url::parse_template(&text) {
            Ok(parsed) => parsed,
            Err(problem) => {
                url.wrong(problem);
                return None;
            }
        };
        let method = field.get(&["method"]).map(|method| method.text().to_ascii_uppercase()).unwrap_or_default();
        if !method.chars().all(|c| c.is_ascii_alphabetic()) {
            field.wrong(format!("{method:?} is not an HTTP method"));
        }
        let header = |(name, value): (&str, Field<'_>)| {
            let legal = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(legal) {
                value.wrong(format!("{name:?} is not a name of a header"));
            }
            (name.to_owned(), Credential::read(&value))
        };
        let headers = field.get(&["headers"]).map(|headers| headers.entries()).unwrap_or_default();
        let expected = field.get(&["expectedStatusCode"]).map(|code| code.number(100, 599));
        Some(HttpAsk {
            url: parsed,
            method: if method.is_empty() { "GET".to_owned() } else { method },
            headers: headers.into_iter().map(header).collect(),
            expected_status: expected.and_then(|code| u16::try_from(code).ok()),
            extract: field.get(&["jsonPathConfig"]).and_then(|config| Extract::read(&config)),
        })
    }

    /// The Secrets that the request needs.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretKey> {
        self.headers.iter().filter_map(|(_, value)| match value {
            Credential::Secret(key) => Some(key),
            Credential::Literal(_) => None,
        })
    }
}

impl Url {
    /// Reads an http or https URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (https, rest) = if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(format!("{text:?} is not a URL: it must begin with http:// or https://"));
        };
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("{text:?} is not a URL: it contains blanks or control characters"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a URL with a user name is not taken; put credentials into a header".to_owned());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => match inner.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, port)) => (host, port.strip_prefix(':')),
                None => return Err(format!("{text:?} is not a URL: a bracket is not closed")),
            },
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
        if host.is_empty() || !host.chars().all(legal) {
            return Err(format!("{text:?} is not a URL: {host:?} is not a host"));
        }
        let port = match port {
            None => Ok(if https { 443 } else { 80 }),
            Some(port) => port.parse().map_err(|_| format!("{text:?} is not a URL: {port:?} is not a port")),
        }?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Url { https, host: host.to_ascii_lowercase(), port, path })
    }

    /// Reads a URL that may have variables in it.
    pub(super) fn parse_template(text: &str) -> Result<Url, String> {
        Url::parse(text).or_else(|problem| Url::parse(&stand_in(text)).map_err(|_| problem))
    }

    /// Without what follows `?`, where object stores put signatures.
    #[must_use]
    pub fn without_query(&self) -> Url {
        let path = self.path.split('?').next().unwrap_or_default().to_owned();
        Url { path, ..self.clone() }
    }

    /// `host:port`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, port) = if self.https { ("https", 443) } else { ("http", 80) };
        let authority = self.authority();
        let shown = if self.port == port { authority.trim_end_matches(&format!(":{port}")) } else { &authority };
        write!(f, "{scheme}://{shown}{}", self.path)
    }
}

/// For the status and the log: no query, since it may hold a token.
impl std::fmt::Display for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ask::Http(ask) => write!(f, "{} {}", ask.method, ask.url.without_query()),
            Ask::Tcp { host, port } => write!(f, "tcp {host}:{port}"),
            Ask::Grpc { host, port, .. } => write!(f, "grpc {host}:{port}"),
            Ask::Exec { command } => write!(f, "exec {}", command.first().map_or("", String::as_str)),
            Ask::Impossible(_) => f.write_str("a probe that cannot be made from here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        let table = [
            ("http://localhost:8080", "http://localhost:8080/"),
            ("https://Example.com", "https://example.com/"),
            ("https://example.com/a/b?x=1&y=2#top", "https://example.com/a/b?x=1&y=2"),
            ("http://example.com?x", "http://example.com/?x"),
            ("http://[::1]:80/x", "http://[::1]/x"),
            ("http://[fe80::1]:8080/x", "http://[fe80::1]:8080/x"),
        ];
        for (text, expected) in table {
            assert_eq!(Url::parse(text).unwrap().to_string(), expected, "{text}");
        }
        for text in [
            "",
            "ftp://a/b",
            "file:///etc/passwd",
            "http://",
            "http://a:b/",
            "http://a b/",
            "http://u:p@a/",
            "http://a\r\nx: y/",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
