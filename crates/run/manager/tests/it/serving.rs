//! How the manager is reached: its certificates, its health and its metrics.

mod health;
mod mounted;
mod tls;
