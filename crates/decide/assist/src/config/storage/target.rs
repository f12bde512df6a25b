//! `inKube.target`: another object that gets results.

use crate::config::reader::Field;

/// An object that gets a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    /// The plural name.
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl Target {
    /// Returns the `GameServer` of the pod, which has its name.
    pub(super) fn game_server(field: &Field<'_>) -> Target {
        Target {
            group: "game.kruise.io".to_owned(),
            version: "v1alpha1".to_owned(),
            resource: "gameservers".to_owned(),
            namespace: field.variable("POD_NAMESPACE"),
            name: field.variable("POD_NAME"),
        }
    }

    pub(super) fn read(field: &Field<'_>) -> Target {
        field.mapping(&["group", "version", "resource", "namespace", "name", "podOwner"]);
        let text = |name: &str| field.get(&[name]).map(|text| text.text()).unwrap_or_default();
        let target = Target {
            group: text("group"),
            version: text("version"),
            resource: text("resource"),
            namespace: text("namespace"),
            name: text("name"),
        };
        for (name, value) in [("version", &target.version), ("resource", &target.resource), ("name", &target.name)] {
            if value.is_empty() {
                field.wrong(format!("the target has no `{name}`"));
            }
        }
        let parts = [&target.group, &target.version, &target.resource, &target.namespace, &target.name];
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '$' || "{}:_".contains(c);
        if parts.iter().any(|part| !part.chars().all(legal) || part.as_str() == ".." || part.as_str() == ".") {
            field.wrong("a target's names are letters, digits, `-` and `.`");
        }
        target
    }

    /// The path of the object, or of its subresource.
    pub fn path(&self, subresource: Option<&str>) -> String {
        let group = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespace =
            if self.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", self.namespace) };
        let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{group}/{}{namespace}/{}/{}{subresource}", self.version, self.resource, self.name)
    }
}
