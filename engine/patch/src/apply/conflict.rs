//! Fields that an apply would take from other managers.

use std::fmt;

use super::entries::{Identity, Operation};
use super::go;
use super::set::Set;

/// One field of another manager that would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub manager: String,
    /// Through which subresource; empty for the object itself.
    pub subresource: String,
    /// How it came to own it.
    pub operation: Operation,
    /// With which version, if by an update.
    pub api_version: String,
    /// The field: `.spec.replicas`. `field` of the cause.
    pub path: String,
}

/// All fields of others that an apply would change. Displays as the `message` of the 409.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflict {
    /// `message` of the cause: `conflict with "kubectl-edit" using apps/v1`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner())
    }

    fn owner(&self) -> String {
        let mut owner = go::quote(&self.manager);
        if !self.subresource.is_empty() {
            owner = format!("{owner} with subresource {}", go::quote(&self.subresource));
        }
        match self.operation {
            Operation::Apply => owner,
            Operation::Update => format!("{owner} using {}", self.api_version),
        }
    }
}

impl Conflicts {
    /// The paths of each manager, managers in order.
    pub(super) fn of(mut sets: Vec<(Identity<'_>, Set<'_>)>) -> Self {
        sets.sort_by_cached_key(|(identity, _)| identity.text());
        let conflicts = sets.into_iter().flat_map(|(identity, set)| {
            set.paths().into_iter().map(move |path| Conflict {
                manager: identity.manager.to_string(),
                subresource: identity.subresource.to_string(),
                operation: identity.operation,
                api_version: identity.api_version.to_string(),
                path,
            })
        });
        Conflicts(conflicts.collect())
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(formatter, "Apply failed with 1 conflict: {}: {}", one.message(), one.path);
        }
        write!(formatter, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut before: Option<String> = None;
        for conflict in &self.0 {
            let owner = conflict.owner();
            let line = if before.is_some() { "\n" } else { "" };
            if before.as_ref() != Some(&owner) {
                write!(formatter, "{line}conflicts with {owner}:")?;
            }
            write!(formatter, "\n- {}", conflict.path)?;
            before = Some(owner);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(manager: &str, operation: Operation, path: &str) -> Conflict {
        Conflict {
            manager: manager.to_owned(),
            subresource: String::new(),
            operation,
            api_version: "v1".to_owned(),
            path: path.to_owned(),
        }
    }

    #[test]
    fn one_conflict_is_reported_in_a_line() {
        let mut one = conflict("foo", Operation::Update, ".bar");
        assert_eq!(
            Conflicts(vec![one.clone()]).to_string(),
            r#"Apply failed with 1 conflict: conflict with "foo" using v1: .bar"#
        );
        one.subresource = "status".to_owned();
        assert_eq!(one.message(), r#"conflict with "foo" with subresource "status" using v1"#);
        one.operation = Operation::Apply;
        assert_eq!(one.message(), r#"conflict with "foo" with subresource "status""#);
    }

    #[test]
    fn several_conflicts_are_listed_by_manager() {
        let conflicts = Conflicts(vec![
            conflict("m1", Operation::Apply, ".spec.replicas"),
            conflict("m2", Operation::Update, ".spec.replicas"),
            conflict("m2", Operation::Update, ".spec.paused"),
        ]);
        assert_eq!(
            conflicts.to_string(),
            "Apply failed with 3 conflicts: conflicts with \"m1\":\n- .spec.replicas\nconflicts with \"m2\" using v1:\n- .spec.replicas\n- .spec.paused"
        );
    }
}
