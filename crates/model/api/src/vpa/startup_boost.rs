//! `startupBoost`: more CPU while a pod starts.

use pillion_quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resource_list::quantity_schema;

/// More of a resource while a pod starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StartupBoost {
    /// More CPU. Absent: no boost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<GenericStartupBoost>,
}

/// How much more, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GenericStartupBoost {
    /// `Factor` multiplies the request, `Quantity` is added to it. Required.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub boost_type: Option<StartupBoostType>,
    /// What the request is multiplied by. Only with type Factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<i32>,
    /// What is added to the request. Only with type Quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity_schema")]
    pub quantity: Option<Quantity>,
    /// Seconds that the boost lasts after the pod is Ready. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<i32>,
}

/// How a boost is computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartupBoostType {
    /// The request is multiplied.
    Factor,
    /// Something is added to the request.
    Quantity,
    /// A value that this version does not know; validation rejects it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}
