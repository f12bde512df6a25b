//! What hangs below objects and is more than a view of them.

use axum::response::Response;

use crate::call::Call;
use crate::status::Result;

mod binding;
mod eviction;
mod finalize;
mod node;
mod scale;
mod token;

pub(crate) use binding::create as bind;

/// Subresources with a handler of their own; the others are views of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Scale,
    Eviction,
    Binding,
    Log,
    Token,
    NodeProxy,
    Finalize,
    /// A connection into a container.
    Connection,
}

pub(crate) async fn answer(subresource: Subresource, call: &Call<'_>) -> Result<Response> {
    match subresource {
        Subresource::Scale => scale::answer(call).await,
        Subresource::Eviction => eviction::create(call).await,
        Subresource::Binding => binding::create(call).await,
        Subresource::Token => token::create(call).await,
        Subresource::Log => node::log(call).await,
        Subresource::NodeProxy => node::proxy(call).await,
        Subresource::Finalize => finalize::update(call).await,
        Subresource::Connection => node::connection(call).await,
    }
}
