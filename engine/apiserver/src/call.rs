//! One request about a resource, as handlers see it.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::Method;
use jiff::Timestamp;
use pillion_store::Key;

use crate::endpoint::{Endpoint, Part};
use crate::media::Output;
use crate::path::ResourcePath;
use crate::query::Query;
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::upgrade::Upgrade;
use crate::user::User;

/// Warnings for the client, gathered on the way.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub(crate) fn add(&self, text: impl Into<String>) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text.into();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub(crate) fn extend(&self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            self.add(text);
        }
    }

    pub(crate) fn drain(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request about a resource.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) endpoint: Endpoint,
    /// Of the endpoint: `apps/v1`.
    pub(crate) api_version: String,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    /// The query as it came, for a kubelet to read.
    pub(crate) raw_query: Option<String>,
    /// Path and query as they came.
    pub(crate) uri: String,
    pub(crate) output: Output,
    pub(crate) user: User,
    pub(crate) user_agent: String,
    pub(crate) content_type: String,
    /// What the connection is to become, if the client asks for that.
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) body: Bytes,
    pub(crate) warnings: &'a Warnings,
}

impl Call<'_> {
    pub(crate) fn inner(&self) -> &Inner {
        self.inner
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner().clock.now()
    }

    /// The name in the path.
    pub(crate) fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.path.namespace
    }

    /// What of the object the path is about.
    pub(crate) fn part(&self) -> Part {
        match self.path.subresource.as_deref() {
            Some("status") => Part::Status,
            Some("resize") => Part::Resize,
            Some("ephemeralcontainers") => Part::EphemeralContainers,
            Some("scale") => Part::Scale,
            Some("finalize") => Part::Finalize,
            _ => Part::Main,
        }
    }

    /// Where the store keeps the object of the path.
    pub(crate) fn key(&self) -> Key {
        self.key_of(self.name())
    }

    pub(crate) fn key_of(&self, name: &str) -> Key {
        Key::new(self.endpoint.storage_name(), self.namespace(), name)
    }

    pub(crate) fn not_found(&self) -> Box<Refusal> {
        Refusal::not_found(&self.endpoint.group_resource(), self.name())
    }

    /// Who makes the change, for managedFields: the option, or what the client calls itself.
    pub(crate) fn manager(&self, option: &str) -> String {
        if !option.is_empty() {
            return option.to_owned();
        }
        let printable: String = self.user_agent.chars().filter(|character| !character.is_control()).collect();
        let before_slash = printable.split('/').next().unwrap_or_default();
        if before_slash.is_empty() {
            return "unknown".to_owned();
        }
        before_slash.chars().take(128).collect()
    }

    pub(crate) fn invalid(&self, name: &str, errors: &[pillion_rules::field::Error]) -> Result<()> {
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Refusal::invalid(self.endpoint.storage_group(), self.endpoint.kind(), name, errors))
        }
    }
}
