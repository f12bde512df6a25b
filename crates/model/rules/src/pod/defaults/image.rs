//! Whether an image reference means `:latest`, read by the grammar of the distribution project as Kubernetes reads it.
//!
//! ```text
//!  [domain[:port]/]component{/component}[:tag][@digest]
//! ```

/// How an image is pulled unless its container says: what is `latest` may have changed, everything else is taken as it is.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

/// Whether the reference has the tag `latest`, or neither a tag nor a digest. What is no reference has no tag.
fn is_latest(image: &str) -> bool {
    let (domain, remainder) = split_domain(image);
    let (name, digest) = split_once_or_none(remainder, '@');
    let (path, tag) = split_once_or_none(name, ':');
    let latest = if digest.is_some() { tag == Some("latest") } else { matches!(tag, None | Some("latest")) };
    latest && !is_identifier(image) && is_name(domain, path) && digest.is_none_or(is_digest)
}

fn split_once_or_none(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// The first component is a domain if it cannot be anything else.
fn split_domain(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) || first != first.to_lowercase() => {
            (Some(first), rest)
        }
        _ => (None, image),
    }
}

/// Sixty-four hexadecimal digits are the identifier of an image and not its name.
fn is_identifier(image: &str) -> bool {
    image.len() == 64 && is_lower_hex(image)
}

fn is_name(domain: Option<&str>, path: &str) -> bool {
    // A "domain" that is none can still be the first component, as in `my_registry.local/image`.
    let (prefix, domain_is_good) = match domain {
        Some(domain) if !is_domain(domain) => (domain.len() + 1, is_component(domain)),
        _ => (0, true),
    };
    // `docker.io/image` is `docker.io/library/image`, and the limit is about that name.
    let implied =
        if domain.is_none_or(|domain| matches!(domain, "docker.io" | "index.docker.io")) && !path.contains('/') {
            "library/".len()
        } else {
            0
        };
    domain_is_good && prefix + implied + path.len() <= 255 && path.split('/').all(is_component)
}

fn is_component(component: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-');
    component.starts_with(is_letter) && component.ends_with(is_letter) && component.split(is_letter).all(is_separator)
}

fn is_domain(domain: &str) -> bool {
    let (good_host, port) = if let Some(rest) = domain.strip_prefix('[') {
        rest.split_once(']').map_or((false, ""), |(address, port)| (is_ipv6(address), port))
    } else {
        let host = domain.split(':').next().unwrap_or_default();
        (host.split('.').all(is_host_label), domain.strip_prefix(host).unwrap_or_default())
    };
    good_host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

fn is_host_label(label: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric();
    label.starts_with(is_letter) && label.ends_with(is_letter) && label.chars().all(|c| is_letter(c) || c == '-')
}

fn is_ipv6(address: &str) -> bool {
    !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
}

fn is_port(port: &str) -> bool {
    !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

fn is_digest(digest: &str) -> bool {
    let hex = |length: usize, hex: &str| hex.len() == length && is_lower_hex(hex);
    match digest.split_once(':') {
        Some(("sha256", text)) => hex(64, text),
        Some(("sha384", text)) => hex(96, text),
        Some(("sha512", text)) => hex(128, text),
        _ => false,
    }
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untagged_or_latest_image_is_latest_and_nothing_else_is() {
        let digest = format!("@sha256:{}", "a".repeat(64));
        for image in [
            "nginx",
            "nginx:latest",
            "library/nginx",
            "gcr.io/a/b-c__d",
            "localhost:5000/x:latest",
            "[::1]:5000/x",
            "[::1]/x",
            "Registry/x",
            "my_registry.local/x",
            &format!("nginx:latest{digest}"),
            &"a".repeat(247),
        ] {
            assert!(is_latest(image), "{image}");
        }
        for image in [
            "",
            "nginx:1.0",
            "nginx:LATEST",
            "Nginx",
            "gcr.io/A/b",
            "nginx:",
            "a//b",
            "a/b/",
            "a___b",
            "my_registry:5000/x",
            "[::1]x/y",
            "[]/y",
            " nginx",
            "nginx:latest@sha256:abc",
            &format!("nginx:latest@md5:{}", "a".repeat(32)),
            &format!("nginx{digest}"),
            &"a".repeat(64),
            &"a".repeat(248),
        ] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
