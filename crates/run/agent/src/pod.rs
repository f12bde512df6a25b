//! The pod that the agent runs in, as the downward API describes it.

use pillion_assist::{Fields, PodName, workload_of};

/// The pod that the agent runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace and name.
    pub name: PodName,
    /// Its address; may be empty.
    pub ip: String,
    /// The workload that it belongs to.
    pub workload: String,
    /// All variables, for `${SELF:NAME}`.
    pub fields: Fields,
}

impl Pod {
    /// From the environment of the agent's container.
    ///
    /// # Errors
    /// `POD_NAME` or `POD_NAMESPACE` is missing.
    pub fn from_environment() -> Result<Pod, String> {
        Pod::from_fields(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        )
    }

    /// From variables.
    ///
    /// # Errors
    /// `POD_NAME` or `POD_NAMESPACE` is missing.
    pub fn from_fields(fields: Fields) -> Result<Pod, String> {
        let text = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let needed = |name: &str, field: &str| match text(name) {
            value if value.is_empty() => Err(format!(
                "{name} is not set: add it to the agent's container with valueFrom.fieldRef.fieldPath: {field}"
            )),
            value => Ok(value),
        };
        let name = needed("POD_NAME", "metadata.name")?;
        let namespace = needed("POD_NAMESPACE", "metadata.namespace")?;
        let hash = text("POD_TEMPLATE_HASH");
        let workload = Some(text("POD_WORKLOAD")).filter(|workload| !workload.is_empty());
        let workload = workload.unwrap_or_else(|| workload_of(&name, Some(&hash)));
        let ip = text("POD_IP");
        Ok(Pod { name: PodName { namespace, name }, ip, workload, fields })
    }
}
