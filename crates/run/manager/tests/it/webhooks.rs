//! What API servers ask the webhooks, and what they answer.

mod conversion;
mod many;
mod pods;
mod sidecarsets;
