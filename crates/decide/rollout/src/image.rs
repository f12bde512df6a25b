//! When two image references mean the same image.

/// An image reference in its full form: what a runtime makes of `nginx` is `docker.io/library/nginx:latest`.
#[derive(Debug, PartialEq, Eq)]
struct Reference<'a> {
    domain: &'a str,
    /// Whether the path has `library/` in front that is not written.
    is_official: bool,
    path: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Reference<'a> {
    fn parse(image: &'a str) -> Reference<'a> {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        let is_domain = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let (domain, path) = match name.split_once('/') {
            Some((domain, path)) if is_domain(domain) => (domain, path),
            _ => ("docker.io", name),
        };
        let domain = if domain == "index.docker.io" { "docker.io" } else { domain };
        let official = path.strip_prefix("library/").filter(|_| domain == "docker.io");
        let is_official = domain == "docker.io" && (official.is_some() || !path.contains('/'));
        let tag = tag.or(if digest.is_none() { Some("latest") } else { None });
        Reference { domain, is_official, path: official.unwrap_or(path), tag, digest }
    }

    fn repository(&self) -> (&str, bool, &str) {
        (self.domain, self.is_official, self.path)
    }
}

/// Whether a container with `reported` as its image runs `wanted`. References with a digest are compared by it.
pub(crate) fn is_same(wanted: &str, reported: &str) -> bool {
    if wanted == reported {
        return true;
    }
    let (wanted, reported) = (Reference::parse(wanted), Reference::parse(reported));
    wanted.repository() == reported.repository()
        && match (wanted.digest, reported.digest) {
            (Some(wanted), Some(reported)) => wanted == reported,
            (None, None) => wanted.tag == reported.tag,
            _ => false,
        }
}

/// Whether `image_id`, as the kubelet reports it, is the digest that `wanted` asks for; `None` if that cannot be said: one of them has no
/// repository with a digest, or the runtime reports another repository that has the same image.
pub(crate) fn has_digest(wanted: &str, image_id: &str) -> Option<bool> {
    let image_id = image_id.split_once("://").map_or(image_id, |(_, id)| id);
    if !wanted.contains('@') || !image_id.contains('@') {
        return None;
    }
    let (wanted, reported) = (Reference::parse(wanted), Reference::parse(image_id));
    (wanted.repository() == reported.repository()).then(|| wanted.digest == reported.digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_full_references_are_the_same() {
        for (short, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.2", "index.docker.io/library/nginx:1.2"),
            ("team/mesh:v1", "docker.io/team/mesh:v1"),
            ("reg:5000/mesh", "reg:5000/mesh:latest"),
            ("a@sha256:1", "docker.io/library/a:v2@sha256:1"),
        ] {
            assert!(is_same(short, full), "{short} {full}");
        }
        for (one, other) in [
            ("nginx:1", "nginx:2"),
            ("nginx", "team/nginx"),
            ("reg.io/library/a", "reg.io/a"),
            ("a:v1", "a:v1@sha256:1"),
            ("a@sha256:1", "b@sha256:1"),
            ("a:v1", "sha256:0123"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn a_digest_is_found_in_the_image_id() {
        assert_eq!(has_digest("nginx@sha256:1", "docker-pullable://nginx@sha256:1"), Some(true));
        assert_eq!(has_digest("nginx@sha256:1", "docker.io/library/nginx@sha256:2"), Some(false));
        assert_eq!(has_digest("nginx@sha256:1", "sha256:1"), None, "the ID of a configuration");
        assert_eq!(has_digest("nginx:1", "nginx@sha256:1"), None);
        assert_eq!(has_digest("nginx@sha256:1", "mirror.test/nginx@sha256:1"), None);
    }
}
