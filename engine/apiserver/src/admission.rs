//! What every write passes on its way to the store, in Kubernetes' order: built-in plugins, then policies and webhooks.

use serde_json::Value;

use crate::attributes::Attributes;
use crate::status::Result;
use crate::{admission_plugins, policy, webhook};

/// Steps that may change the object. `object` is `Null` for a deletion.
pub(crate) async fn mutate(attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    admission_plugins::mutate(attributes, object, old)?;
    webhook::mutate(attributes, object, old).await
}

/// Steps that only accept or refuse, when the object is complete.
pub(crate) async fn validate(attributes: &Attributes<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<()> {
    admission_plugins::validate(attributes, object)?;
    policy::validate(attributes, object, old).await?;
    webhook::validate(attributes, object, old).await
}
