//! What hangs below objects and is more than a view of them.

use axum::response::Response;

use crate::call::Call;
use crate::status::Result;
use crate::verbs::Subresource;

mod binding;
mod eviction;
mod finalize;
mod node;
pub(crate) mod scale;
mod token;

pub(crate) use binding::create as bind;

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
