//! Every kind against the answers of a kube-apiserver 1.35.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its stage stops there")]

mod discovery;
mod replay;
mod robust;
