//! Pods on a node over an API server of this process, in virtual time.

mod cluster;
mod lifecycle;
mod marked;
mod trouble;
