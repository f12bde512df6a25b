//! A question of the API server, as text until there is room for what it is decoded to.

use axum::body::Bytes;

use crate::serving::budget::{Budget, DECODED, Decoding, Held, Refused, Room};
use crate::serving::weight::weight;
use crate::webhooks::review::Request;

/// What weighs more takes milliseconds to decode, and is left to another thread.
const QUICK: usize = 4 * 1024 * 1024;

/// A question that is among those being decided.
pub(crate) struct Question {
    body: Held,
    decoding: Decoding,
    _room: Room,
}

/// A question that was decoded, and the room that it takes.
pub(crate) struct Decoded {
    pub(crate) request: Request,
    _room: Room,
}

impl Question {
    pub(crate) async fn new(budget: &Budget, body: Held) -> Result<Question, Refused> {
        Ok(Question { body, decoding: budget.decoding.clone(), _room: budget.review().await? })
    }

    pub(crate) fn text(&self) -> &Bytes {
        &self.body.bytes
    }

    /// Decodes the question when there is room for `copies` of what it is decoded to.
    pub(crate) async fn decode(
        &self,
        copies: usize,
        read: impl FnOnce(&Bytes) -> Result<Request, String> + Send + 'static,
    ) -> Result<Decoded, Refused> {
        let body = self.body.bytes.clone();
        let weight = weight(&body, DECODED / copies).saturating_mul(copies);
        let room = self.decoding.room(weight).await?;
        // The room goes where the memory is taken: a thread goes on when nobody waits for it any more.
        let decode = move || read(&body).map(|request| Decoded { request, _room: room });
        if weight <= QUICK {
            return decode().map_err(Refused::Malformed);
        }
        match tokio::task::spawn_blocking(decode).await {
            Ok(decoded) => decoded.map_err(Refused::Malformed),
            Err(error) => Err(Refused::Failed(error.to_string())),
        }
    }
}
