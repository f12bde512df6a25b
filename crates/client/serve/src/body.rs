//! Bodies that report how far an exchange is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

use crate::activity::Exchange;

/// The body of a request: its end is reported.
pub(crate) struct Received<B> {
    body: B,
    exchange: Arc<Exchange>,
}

impl<B: Body> Received<B> {
    pub(crate) fn new(body: B, exchange: &Arc<Exchange>) -> Received<B> {
        if body.is_end_stream() {
            exchange.received();
        }
        Received { body, exchange: Arc::clone(exchange) }
    }
}

impl<B: Body + Unpin> Body for Received<B> {
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

impl<B> Drop for Received<B> {
    fn drop(&mut self) {
        // A handler that drops the body does not read the rest of it.
        self.exchange.received();
    }
}

/// The body of an answer: the exchange goes on until it is sent.
pub(crate) struct Answered<B> {
    body: B,
    _exchange: Arc<Exchange>,
}

impl<B> Answered<B> {
    pub(crate) fn new(body: B, exchange: Arc<Exchange>) -> Answered<B> {
        Answered { body, _exchange: exchange }
    }
}

impl<B: Body + Unpin> Body for Answered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
