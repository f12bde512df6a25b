//! The agent's own HTTP: a client for one request at a time, and a small server.

mod client;
mod server;
mod tls;

pub(crate) use client::{Connector, Request, collect, read};
pub(crate) use server::{Answer, Head, Service, serve};
pub(crate) use tls::{connector, trusting};
