//! A request for an update, and whether it is taken.

use serde_json::Value;

use super::version::Version;
use crate::config::{Security, Url};

/// A request for an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The version that the file gets.
    pub version: Version,
    /// Where it is fetched.
    pub source: Source,
    /// The URL as it was asked for.
    pub url: String,
    /// The name of the file below `fileDir`.
    pub file: String,
    /// What its SHA-256 must be, in lower-case hexadecimal.
    pub sha256: Option<String>,
    /// What its size must be.
    pub size: Option<u64>,
}

/// Where a file is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// By GET.
    Http(Url),
    /// The one layer of an artifact in a registry: `oci://HOST/REPOSITORY:TAG` or `@sha256:…`.
    Oci {
        /// The registry; its path is empty.
        registry: Url,
        repository: String,
        /// A tag, or a digest.
        reference: String,
    },
}

/// Why an update is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It makes no sense: 400.
    Bad(String),
    /// The configuration forbids it: 403.
    Forbidden(String),
}

impl Refusal {
    /// What is wrong.
    pub fn message(&self) -> &str {
        match self {
            Refusal::Bad(message) | Refusal::Forbidden(message) => message,
        }
    }
}

/// Files that begin so are the agent's own.
pub(crate) const OWN_PREFIX: &str = ".pillion-agent";

impl Trigger {
    /// Reads the fields of a request: `version`, `url`, and ours: `sha256`, `size`, `file`.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Trigger, Refusal> {
        let field = |name: &str| get(name).map(str::trim).filter(|text| !text.is_empty());
        let version = Version::parse(field("version").unwrap_or_default()).map_err(Refusal::Bad)?;
        let Some(url) = field("url") else { return Err(Refusal::Bad("the url is empty".to_owned())) };
        let (source, name) = Source::parse(url)?;
        let file = file_name(field("file").unwrap_or(&name))?;
        let sha256 = field("sha256").map(|text| {
            let hex = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
            let legal = hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit());
            if legal { Ok(hex) } else { Err(Refusal::Bad(format!("sha256 {text:?} is not 64 hexadecimal digits"))) }
        });
        let size = field("size")
            .map(|text| text.parse().map_err(|_| Refusal::Bad(format!("size {text:?} is not a number of bytes"))));
        Ok(Trigger { version, source, url: url.to_owned(), file, sha256: sha256.transpose()?, size: size.transpose()? })
    }

    /// Reads a request as JSON.
    ///
    /// # Errors
    /// It is not a JSON object, or a field is wrong.
    pub fn from_json(text: &str) -> Result<Trigger, Refusal> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| Refusal::Bad(format!("this is not JSON: {error}")))?;
        let Value::Object(object) = value else { return Err(Refusal::Bad("this is not a JSON object".to_owned())) };
        let texts: std::collections::BTreeMap<String, String> = object
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => (key, text),
                Value::Null => (key, String::new()),
                other => (key, other.to_string()),
            })
            .collect();
        Trigger::read(|name| texts.get(name).map(String::as_str))
    }

    /// Checks the request against what the configuration allows. The answer names the key to set.
    ///
    /// # Errors
    /// It is forbidden.
    pub fn check(&self, security: &Security) -> Result<(), Refusal> {
        let url = match &self.source {
            Source::Http(url) => url,
            Source::Oci { registry, .. } => registry,
        };
        check_host(url, security)?;
        let by_digest = matches!(&self.source, Source::Oci { reference, .. } if reference.starts_with("sha256:"));
        if security.require_checksum && self.sha256.is_none() && !by_digest {
            return Err(Refusal::Forbidden(
                "the update has no sha256; send it, or set `requireChecksum: false` in the agent's configuration"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// Whether the agent may fetch from the host of this URL; also asked of every redirect.
///
/// # Errors
/// It is forbidden.
pub fn check_host(url: &Url, security: &Security) -> Result<(), Refusal> {
    if security.permissive && security.allowed_hosts.is_empty() {
        return Ok(());
    }
    let authority = url.authority();
    let default_port = if url.https { 443 } else { 80 };
    let matches = |allowed: &String| {
        let allowed = allowed.to_ascii_lowercase();
        if let Some(domain) = allowed.strip_prefix('*') {
            // Of a domain only hosts below it, by the default port.
            return domain.starts_with('.') && url.port == default_port && url.host.ends_with(domain);
        }
        allowed == authority || (url.port == default_port && allowed.trim_matches(['[', ']']) == url.host)
    };
    if security.allowed_hosts.iter().any(matches) {
        return Ok(());
    }
    let shown = if url.port == default_port { url.host.clone() } else { authority };
    Err(Refusal::Forbidden(format!(
        "the host {shown} is not allowed; add it to `allowedHosts` in the agent's configuration"
    )))
}

impl Source {
    /// The source, and the name that the file gets if no other is given.
    fn parse(text: &str) -> Result<(Source, String), Refusal> {
        let Some(rest) = text.strip_prefix("oci://") else {
            let url = Url::parse(text).map_err(Refusal::Bad)?;
            let path = url.without_query().path;
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            return Ok((Source::Http(url), name));
        };
        let bad = || Refusal::Bad(format!("{text:?} is not of the form oci://HOST/REPOSITORY:TAG"));
        let (host, path) = rest.split_once('/').ok_or_else(bad)?;
        let registry = Url::parse(&format!("https://{host}")).map_err(Refusal::Bad)?;
        // A registry of this machine has no certificate, as every client of registries assumes.
        let address = registry.host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        let registry = if registry.host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
            Url::parse(&format!("http://{host}")).map_err(Refusal::Bad)?
        } else {
            registry
        };
        let (repository, reference) = match path.split_once('@') {
            Some((repository, digest)) => (repository, digest),
            None => path.rsplit_once(':').unwrap_or((path, "latest")),
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let clean = repository.chars().all(legal)
            && !repository.split('/').any(|part| part.is_empty() || part.starts_with('.'));
        let tag = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        if !clean || reference.is_empty() || !reference.chars().all(tag) || reference.starts_with('.') {
            return Err(bad());
        }
        let name = repository.rsplit('/').next().unwrap_or_default().to_owned();
        let (repository, reference) = (repository.to_owned(), reference.to_owned());
        Ok((Source::Oci { registry, repository, reference }, name))
    }
}

/// One component that stays below its directory.
fn file_name(text: &str) -> Result<String, Refusal> {
    let legal = !text.is_empty()
        && text.len() <= 200
        && text != "."
        && text != ".."
        && !text.starts_with(OWN_PREFIX)
        && !text.starts_with("..")
        && text.chars().all(|c| !c.is_control() && c != '/' && c != '\\' && c != '%');
    if legal {
        Ok(text.to_owned())
    } else {
        Err(Refusal::Bad(format!("{text:?} cannot be the name of a file; give another as `file`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<Trigger, Refusal> {
        Trigger::read(|name| fields.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    #[test]
    fn a_form_and_json_say_the_same() {
        let form =
            read(&[("version", "v2"), ("url", "https://cdn.example.com/a/app.conf?sig=x"), ("size", "3")]).unwrap();
        let json =
            Trigger::from_json(r#"{"version": "v2", "url": "https://cdn.example.com/a/app.conf?sig=x", "size": 3}"#);
        assert_eq!(form.file, "app.conf");
        assert_eq!(Ok(form), json);
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for url in [
            "http://h/",
            "http://h/..",
            "http://h/a/..",
            "http://h/.",
            "http://h",
            "http://h/%2e%2e%2fetc",
            "http://h/.pillion-agent",
            "http://h/a\\b",
        ] {
            assert!(matches!(read(&[("version", "v1"), ("url", url)]), Err(Refusal::Bad(_))), "{url}");
        }
        for file in ["../x", "/etc/passwd", "a/b", "..", ".pillion-agent-x", "a\nb", "..data"] {
            let trigger = read(&[("version", "v1"), ("url", "http://h/x"), ("file", file)]);
            assert!(matches!(trigger, Err(Refusal::Bad(_))), "{file}");
        }
    }

    #[test]
    fn what_the_defaults_forbid_is_answered_with_the_key_to_set() {
        let sum = "a".repeat(64);
        let trigger = read(&[("version", "v1"), ("url", "https://cdn.example.com/x"), ("sha256", &sum)]).unwrap();
        let mut security = Security::default();
        let Err(Refusal::Forbidden(message)) = trigger.check(&security) else { panic!() };
        assert!(message.contains("`allowedHosts`"));
        security.allowed_hosts = vec!["cdn.example.com".into()];
        assert_eq!(trigger.check(&security), Ok(()));
        let bare = Trigger { sha256: None, ..trigger };
        let Err(Refusal::Forbidden(message)) = bare.check(&security) else { panic!() };
        assert!(message.contains("`requireChecksum: false`"));
        let permissive = Security { permissive: true, require_checksum: false, ..Security::default() };
        assert_eq!(bare.check(&permissive), Ok(()));
    }

    #[test]
    fn hosts_are_allowed_by_name_port_or_domain() {
        let allowed = |host: &str, url: &str| {
            let security = Security { allowed_hosts: vec![host.into()], ..Security::default() };
            check_host(&Url::parse(url).unwrap(), &security).is_ok()
        };
        assert!(allowed("cdn.example.com", "https://CDN.example.com/x"));
        assert!(allowed("cdn.example.com:8443", "https://cdn.example.com:8443/x"));
        assert!(allowed("*.example.com", "https://cdn.example.com/x"));
        assert!(allowed("[::1]:80", "http://[::1]/x"));
        for (host, url) in [
            ("cdn.example.com", "https://cdn.example.com:8443/x"),
            ("*.example.com", "https://example.com/x"),
            ("*.example.com", "https://evilexample.com/x"),
            ("*", "https://cdn.example.com/x"),
            ("cdn.example.com", "http://127.0.0.1/x"),
            ("cdn.example.com", "https://cdn.example.com.evil.org/x"),
        ] {
            assert!(!allowed(host, url), "{host} {url}");
        }
    }

    #[test]
    fn artifacts_are_named_as_images_are() {
        let trigger =
            read(&[("version", "v1"), ("url", "oci://registry.example.com:5000/team/app-config:v3")]).unwrap();
        let Source::Oci { registry, repository, reference } = trigger.source else { panic!() };
        assert_eq!(
            (registry.authority().as_str(), repository.as_str(), reference.as_str()),
            ("registry.example.com:5000", "team/app-config", "v3")
        );
        for url in ["oci://h", "oci://h/../x:v1", "oci://h/a//b", "oci://h/a:..", "oci://h/a:b?c"] {
            assert!(read(&[("version", "v1"), ("url", url)]).is_err(), "{url}");
        }
    }
}
