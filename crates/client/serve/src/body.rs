//! Bodies that report the progress of an exchange.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

use crate::activity::Exchange;

/// The body of a request or of its response. When it ends or is dropped, the request counts as received; the exchange lasts until both
/// bodies are dropped.
pub(crate) struct Tracked<B> {
    body: B,
    exchange: Arc<Exchange>,
}

impl<B: Body> Tracked<B> {
    pub(crate) fn new(body: B, exchange: &Arc<Exchange>) -> Tracked<B> {
        if body.is_end_stream() {
            exchange.received();
        }
        Tracked { body, exchange: Arc::clone(exchange) }
    }
}

impl<B: Body + Unpin> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.exchange.received();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Tracked<B> {
    fn drop(&mut self) {
        // A handler that drops the body does not read the rest of it.
        self.exchange.received();
    }
}
