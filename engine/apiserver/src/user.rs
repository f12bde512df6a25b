//! Who makes a request.

use serde_json::{Map, Value, json};

/// Who makes a request, as admission reviews and reviews of oneself show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// `admin`, `system:serviceaccount:default:builder`
    pub name: String,
    /// Identifier, where there is one.
    pub uid: String,
    /// Groups that the user belongs to.
    pub groups: Vec<String>,
    /// Further facts, such as the pod that a token is bound to.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// The owner of the cluster.
    pub fn admin() -> User {
        User {
            name: "admin".to_owned(),
            uid: String::new(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            extra: Vec::new(),
        }
    }

    /// Whether this is somebody to whom everything is allowed.
    pub(crate) fn is_owner(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }

    /// The `userInfo` of reviews.
    pub(crate) fn to_json(&self) -> Value {
        let mut info = Map::new();
        info.insert("username".to_owned(), self.name.as_str().into());
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), self.uid.as_str().into());
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            let extra: Map<String, Value> =
                self.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
            info.insert("extra".to_owned(), Value::Object(extra));
        }
        Value::Object(info)
    }
}
