//! Expressions of webhooks and policies, compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pillion_structural::policy::{MatchConditions, Policy};
use serde_json::Value;

use crate::meta;

/// More different conditions than this are compiled anew.
const KEPT: usize = 256;

/// Conditions by their text and failure policy.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<HashMap<String, Arc<MatchConditions>>>);

impl Conditions {
    pub(crate) fn compiled(&self, conditions: &Value, failure_policy: &str) -> Arc<MatchConditions> {
        let key = format!("{failure_policy}{conditions}");
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() > KEPT {
            kept.clear();
        }
        kept.entry(key).or_insert_with(|| Arc::new(MatchConditions::compile(conditions, failure_policy))).clone()
    }
}

/// Compiled policies by uid, each with the version that it was compiled of.
#[derive(Debug, Default)]
pub(crate) struct Policies(Mutex<HashMap<String, (String, Arc<Policy>)>>);

impl Policies {
    pub(crate) fn compiled(&self, policy: &Value) -> Arc<Policy> {
        let (uid, version) = (meta::uid(policy).to_owned(), meta::text(policy, "resourceVersion").to_owned());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.get(&uid) {
            Some((of, compiled)) if *of == version => compiled.clone(),
            _ => {
                let compiled = Arc::new(Policy::compile(policy));
                kept.insert(uid, (version, compiled.clone()));
                compiled
            }
        }
    }
}
