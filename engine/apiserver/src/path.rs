//! What a URL's path means: `/apis/apps/v1/namespaces/default/deployments/web/scale`.

/// A path, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Not about resources: `/healthz`, `/version`, `/openapi/v3/…`; the parts.
    Other(Vec<String>),
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources {
        /// Empty for the core group.
        group: String,
        version: String,
    },
    /// A resource, one of its objects, or what is below one.
    Resource(ResourcePath),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for cluster-scoped resources, and for a namespaced one across all namespaces.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// What follows the subresource: `proxy/metrics/resource`.
    pub(crate) rest: Vec<String>,
    /// The old form `/api/v1/watch/…`.
    pub(crate) watch: bool,
}

/// Takes a path apart. `parts` are decoded path segments, without empty ones.
pub(crate) fn parse(parts: Vec<String>) -> Target {
    let mut iter = parts.iter().map(String::as_str);
    match (iter.next(), iter.next(), iter.next()) {
        (Some("api"), None, _) => Target::CoreVersions,
        (Some("apis"), None, _) => Target::Groups,
        (Some("apis"), Some(group), None) => Target::Group(group.to_owned()),
        (Some("api"), Some(version), None) => Target::Resources { group: String::new(), version: version.to_owned() },
        (Some("api"), Some(version), Some(_)) => {
            resource(String::new(), version.to_owned(), parts.get(2..).unwrap_or_default())
        }
        (Some("apis"), Some(group), Some(version)) => match parts.get(3..).unwrap_or_default() {
            [] => Target::Resources { group: group.to_owned(), version: version.to_owned() },
            rest => resource(group.to_owned(), version.to_owned(), rest),
        },
        _ => Target::Other(parts),
    }
}

fn resource(group: String, version: String, parts: &[String]) -> Target {
    let (watch, parts) = match parts {
        [first, rest @ ..] if first == "watch" && !rest.is_empty() => (true, rest),
        all => (false, all),
    };
    // `namespaces/NAME/status` is about the namespace; `namespaces/NAME/pods` about pods in it.
    let (namespace, parts) = match parts {
        [first, namespace, third, ..] if first == "namespaces" && !matches!(third.as_str(), "status" | "finalize") => {
            (namespace.clone(), parts.get(2..).unwrap_or_default())
        }
        all => (String::new(), all),
    };
    let mut parts = parts.iter().cloned();
    let resource = parts.next().unwrap_or_default();
    let name = parts.next();
    let subresource = parts.next();
    Target::Resource(ResourcePath {
        group,
        version,
        namespace,
        resource,
        name,
        subresource,
        rest: parts.collect(),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        parse(path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    #[test]
    fn a_namespaced_subresource_is_found() {
        let Target::Resource(path) = target("/apis/apps/v1/namespaces/default/deployments/web/scale") else {
            panic!("a resource")
        };
        assert_eq!(
            (
                path.group.as_str(),
                path.namespace.as_str(),
                path.resource.as_str(),
                path.name.as_deref(),
                path.subresource.as_deref()
            ),
            ("apps", "default", "deployments", Some("web"), Some("scale"))
        );
    }

    #[test]
    fn a_namespace_itself_has_no_namespace() {
        let Target::Resource(path) = target("/api/v1/namespaces/default/finalize") else { panic!("a resource") };
        assert_eq!(
            (path.resource.as_str(), path.name.as_deref(), path.namespace.as_str()),
            ("namespaces", Some("default"), "")
        );
        assert_eq!(path.subresource.as_deref(), Some("finalize"));
    }

    #[test]
    fn a_proxy_keeps_the_rest_of_the_path() {
        let Target::Resource(path) = target("/api/v1/nodes/one/proxy/metrics/resource") else { panic!("a resource") };
        assert_eq!(path.rest, ["metrics", "resource"]);
    }

    #[test]
    fn the_roots_are_discovery() {
        assert_eq!(target("/api"), Target::CoreVersions);
        assert_eq!(target("/apis/apps"), Target::Group("apps".to_owned()));
        assert_eq!(target("/apis/apps/v1"), Target::Resources { group: "apps".to_owned(), version: "v1".to_owned() });
        assert_eq!(target("/healthz"), Target::Other(vec!["healthz".to_owned()]));
    }
}
