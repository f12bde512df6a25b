//! The kinds of `admissionregistration.k8s.io/v1`. Expressions are checked where they are evaluated.

pub(crate) mod policy;
pub(crate) mod policy_binding;
mod rule;
pub(crate) mod webhook_configuration;
