//! Objects as the store keeps them.

use pillion_store::Stored;
use serde_json::Value;

use crate::status::{Refusal, Result};

/// An object as it was written.
pub(crate) fn parse(stored: &Stored) -> Result<Value> {
    serde_json::from_slice(&stored.bytes).map_err(Refusal::internal)
}
