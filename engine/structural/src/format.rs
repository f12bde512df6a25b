//! String formats of `OpenAPI`, as the API server checks them. A format that it does not know is not checked.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::{go_duration, go_url};

/// A format that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

impl Format {
    /// The format of that name. Dashes do not count: `date-time` is `datetime`.
    pub(crate) fn named(name: &str) -> Option<Format> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Format::BsonObjectId,
            "uri" => Format::Uri,
            "email" => Format::Email,
            "hostname" => Format::Hostname,
            "ipv4" => Format::Ipv4,
            "ipv6" => Format::Ipv6,
            "cidr" => Format::Cidr,
            "mac" => Format::Mac,
            "uuid" => Format::Uuid,
            "uuid3" => Format::Uuid3,
            "uuid4" => Format::Uuid4,
            "uuid5" => Format::Uuid5,
            "isbn" => Format::Isbn,
            "isbn10" => Format::Isbn10,
            "isbn13" => Format::Isbn13,
            "creditcard" => Format::CreditCard,
            "ssn" => Format::Ssn,
            "hexcolor" => Format::HexColor,
            "rgbcolor" => Format::RgbColor,
            "byte" => Format::Byte,
            "password" => Format::Password,
            "date" => Format::Date,
            "duration" => Format::Duration,
            "datetime" => Format::DateTime,
            "k8sshortname" => Format::ShortName,
            "k8slongname" => Format::LongName,
            _ => return None,
        })
    }

    /// Whether `text` has the format.
    pub(crate) fn matches(self, text: &str) -> bool {
        match self {
            Format::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Format::Uri => go_url::Url::parse_request_uri(text).is_ok(),
            Format::Email => is_email(text),
            Format::Hostname => is_hostname(text),
            Format::Ipv4 => text.contains('.') && sloppy_ip(text).is_some(),
            Format::Ipv6 => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
            Format::Cidr => is_cidr(text),
            Format::Mac => is_mac(text),
            Format::Uuid => is_uuid(text, None, false),
            Format::Uuid3 => is_uuid(text, Some(b'3'), false),
            Format::Uuid4 => is_uuid(text, Some(b'4'), true),
            Format::Uuid5 => is_uuid(text, Some(b'5'), true),
            Format::Isbn => is_isbn10(text) || is_isbn13(text),
            Format::Isbn10 => is_isbn10(text),
            Format::Isbn13 => is_isbn13(text),
            Format::CreditCard => is_credit_card(text),
            Format::Ssn => text.len() == 11 && SSN.is_match(text),
            Format::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
            }
            Format::RgbColor => RGB.is_match(text),
            Format::Byte => is_base64(text),
            Format::Password => true,
            Format::Date => is_date(text),
            Format::Duration => go_duration::parse(text).is_some() || is_spoken_duration(text),
            Format::DateTime => is_date_time(text),
            Format::ShortName => text.len() <= 63 && is_name_segment(text),
            Format::LongName => text.len() <= 253 && text.split('.').all(is_name_segment),
        }
    }
}

/// Compiles a pattern that is written here; one that does not compile matches nothing, and the tests would say so.
fn fixed(pattern: &str) -> Regex {
    #[allow(clippy::expect_used, reason = "the patterns are constants, and a test matches each")]
    Regex::new(pattern).expect("a constant pattern compiles")
}

static SSN: LazyLock<Regex> = LazyLock::new(|| fixed("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB: LazyLock<Regex> = LazyLock::new(|| {
    let channel = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    fixed(&format!(r"^rgb\({channel},{channel},{channel}\)$"))
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    fixed(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
static HOST_CHARACTER: LazyLock<Regex> = LazyLock::new(|| fixed(r"^[a-zA-Z0-9\p{S}\p{L}]$"));
static HOST_LETTER: LazyLock<Regex> = LazyLock::new(|| fixed(r"^\p{L}$"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| fixed("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
static SPOKEN: LazyLock<Regex> = LazyLock::new(|| fixed(r"([0-9]+)\s*([A-Za-zµ]+)"));

/// An address whose parts may have leading zeros, as old versions of Go allowed.
fn sloppy_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let octets: Vec<&str> = text.split('.').collect();
    let plain = |octet: &str| -> Option<String> {
        let digits = !octet.is_empty() && octet.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| octet.trim_start_matches('0')).map(|o| if o.is_empty() { "0".into() } else { o.into() })
    };
    let octets: Option<Vec<String>> = octets.into_iter().map(plain).collect();
    octets?.join(".").parse().ok()
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, length)| {
        let most = match sloppy_ip(address) {
            Some(IpAddr::V4(_)) => 32,
            Some(IpAddr::V6(_)) => 128,
            None => return false,
        };
        !length.is_empty()
            && length.bytes().all(|b| b.is_ascii_digit())
            && length.parse::<u32>().is_ok_and(|bits| bits <= most)
    })
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// Dashes are optional in every place that has one.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut digits = Vec::with_capacity(32);
    let mut dashes = 0;
    for byte in text.bytes() {
        if byte == b'-' {
            // At most one dash after 8, 12, 16 and 20 digits.
            if !matches!((digits.len(), dashes), (8, 0) | (12, 0..=1) | (16, 0..=2) | (20, 0..=3)) {
                return false;
            }
            dashes = (digits.len() - 8) / 4 + 1;
        } else if byte.is_ascii_hexdigit() && digits.len() < 32 {
            digits.push(byte.to_ascii_lowercase());
        } else {
            return false;
        }
    }
    digits.len() == 32
        && version.is_none_or(|version| digits.get(12) == Some(&version))
        && (!variant || digits.get(16).is_some_and(|b| matches!(b, b'8' | b'9' | b'a' | b'b')))
}

fn digits_of(text: &str) -> Vec<u32> {
    text.chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .map(|c| c.to_digit(10).unwrap_or(if c == 'X' { 10 } else { 99 }))
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text);
    let (Some((last, head)), true) = (digits.split_last(), digits.len() == 10) else { return false };
    head.iter().all(|d| *d < 10) && *last <= 10 && digits.iter().zip(1..).map(|(d, i)| d * i).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of(text);
    digits.len() == 13
        && digits.iter().all(|d| *d < 10)
        && digits.iter().zip([1, 3].into_iter().cycle()).map(|(d, factor)| d * factor).sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn =
        number.chars().rev().filter_map(|c| c.to_digit(10)).zip([1, 2].into_iter().cycle()).map(|(d, factor)| {
            let product = d * factor;
            if product > 9 { product - 9 } else { product }
        });
    CREDIT_CARD.is_match(&number) && luhn.sum::<u32>() % 10 == 0
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// `2006-01-02`, and a day that the month has.
pub(crate) fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| if matches!(i, 4 | 7) { b == b'-' } else { b.is_ascii_digit() });
    shape
        && (text.starts_with("0000-")
            && format!("0004{}", text.get(4..).unwrap_or_default()).parse::<jiff::civil::Date>().is_ok()
            || text.parse::<jiff::civil::Date>().is_ok())
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && TIME.captures(time).is_some_and(|found| {
            let part = |i: usize| found.get(i).map_or("", |part| part.as_str());
            part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
        })
}

/// `22 ns`, `3 days`: any number with a word that is a unit.
fn is_spoken_duration(text: &str) -> bool {
    const UNITS: [(&[&str], &str); 8] = [
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    let mut found = false;
    for part in SPOKEN.captures_iter(text) {
        let word = |i: usize| part.get(i).map_or("", |word| word.as_str());
        if word(1).parse::<i64>().is_err() {
            return false;
        }
        let unit = word(2).to_lowercase();
        found |= UNITS.iter().any(|(short, long)| short.contains(&unit.as_str()) || unit.starts_with(long));
    }
    found
}

fn is_hostname(text: &str) -> bool {
    let is_character =
        |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() && HOST_CHARACTER.is_match(c.encode_utf8(&mut [0; 4]));
    let is_symbol = |c: char| matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
    let is_character = |c: char| is_character(c) || is_symbol(c);
    let is_letter =
        |c: char| c.is_ascii_alphabetic() || !c.is_ascii() && HOST_LETTER.is_match(c.encode_utf8(&mut [0; 4]));
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let Some((labels, top)) = text.rsplit_once('.') else {
        // A lone label may have one dash, as its second character.
        let mut characters = text.chars();
        let first = characters.next().is_some_and(is_character);
        let rest = characters.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_character);
    };
    let label_fits = |label: &str| {
        label.chars().next().is_some_and(is_character)
            && label.chars().next_back().is_some_and(is_character)
            && label.chars().all(|c| is_character(c) || c == '-')
    };
    labels.split('.').all(label_fits) && top.chars().count() >= 2 && top.chars().all(is_letter)
}

/// An address such as `a@example.com` or `Name <a@example.com>`.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.split_once('<') {
        Some((_, rest)) if !text.starts_with('"') || text.ends_with('>') => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        _ => text,
    };
    let is_atom_character = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let is_dotted_atom =
        |text: &str| text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_character));
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
        let literal = domain
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .is_some_and(|ip| ip.parse::<IpAddr>().is_ok());
        (quoted || is_dotted_atom(local)) && (literal || is_dotted_atom(domain))
    })
}

fn is_name_segment(text: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|b| edge(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse_what_the_api_server_does() {
        for (format, good, bad) in [
            ("bsonobjectid", vec!["507f1f77bcf86cd799439011"], vec!["507f1f77bcf86cd79943901"]),
            ("uri", vec!["http://a/b", "/a"], vec!["a", ""]),
            ("email", vec!["a@example.com", "N <a@example.com>"], vec!["a", "@a", "a@", "a b@c"]),
            ("hostname", vec!["a.example.com", "localhost", "a-b"], vec!["-a", "a..b", "a.b-", "a_b"]),
            ("ipv4", vec!["1.2.3.4", "01.2.3.4"], vec!["1.2.3", "::1"]),
            ("ipv6", vec!["::1", "::ffff:1.2.3.4"], vec!["1.2.3.4", "::g"]),
            ("cidr", vec!["10.0.0.0/8", "::/0"], vec!["10.0.0.0", "10.0.0.0/33"]),
            ("mac", vec!["01:23:45:67:89:ab", "0123.4567.89ab"], vec!["01:23"]),
            (
                "uuid",
                vec!["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109dad11d180b400c04fd430c8"],
                vec!["6ba7b810", "6ba7b81-09dad-11d1-80b4-00c04fd430c8"],
            ),
            ("uuid4", vec!["f47ac10b-58cc-4372-a567-0e02b2c3d479"], vec!["f47ac10b-58cc-1372-a567-0e02b2c3d479"]),
            ("isbn10", vec!["0321751043"], vec!["0321751041"]),
            ("isbn13", vec!["978-0321751041"], vec!["978-0321751042"]),
            ("creditcard", vec!["4111 1111 1111 1111"], vec!["4111 1111 1111 1112"]),
            ("ssn", vec!["111-11-1111"], vec!["111111111"]),
            ("hexcolor", vec!["#FFF", "ffffff"], vec!["#ffff"]),
            ("rgbcolor", vec!["rgb(1, 2,255)"], vec!["rgb(1,2,256)"]),
            ("byte", vec!["aGVsbG8="], vec!["", "a", "aGVsbG8"]),
            ("date", vec!["2024-02-29"], vec!["2023-02-29", "2024-2-1"]),
            ("duration", vec!["1h30m", "22 ns", "3 days", "1d"], vec!["x", "5", "5 q"]),
            (
                "date-time",
                vec!["2024-02-29T12:00:00Z", "2024-02-29t12:00:00.5+01:00"],
                vec!["2024-02-29", "2024-02-29T24:00:00Z", "x"],
            ),
            ("k8s-short-name", vec!["a-1"], vec!["A", "a.b"]),
            ("k8s-long-name", vec!["a.b"], vec!["a..b"]),
        ] {
            let named = Format::named(format).unwrap();
            for text in good {
                assert!(named.matches(text), "{format}: {text}");
            }
            for text in bad {
                assert!(!named.matches(text), "{format}: {text}");
            }
        }
        assert_eq!(Format::named("int32"), None);
    }
}
