//! How much the webhooks take on at once. What is too much is refused, with a reason, instead of waiting for ever.
//!
//! ```text
//!  review       bytes ─▶ review ─▶ decoded, given back ─▶ answer
//!  conversion   bytes ─▶ answer ─▶ conversion ─▶ decoded
//! ```
//!
//! A request asks for room in this order, so two requests never wait for each other. The bytes are given back when the question is answered,
//! the room of an answer when its client has read it: clients that do not read cost no more than that.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A text of no more than this is ordinary, as nearly every review is.
const ORDINARY_TEXT: usize = 64 * 1024;
/// Bytes of ordinary requests that are held at the same time, and of ordinary answers that clients have not read yet.
const ORDINARY_TEXTS: usize = 32 * 1024 * 1024;
/// The same for what is longer.
const LONG_TEXTS: usize = 128 * 1024 * 1024;
/// Reviews that are decided at the same time. Most of them take less than a millisecond; those that wait for a SidecarSet take a second.
const REVIEWS: usize = 512;
/// Conversions that run at the same time: each may hold every SidecarSet of the cluster.
const CONVERSIONS: usize = 2;
/// Memory that decoded texts take at the same time, by their [`weight`](crate::serving::weight::weight), and the most that one of them may take. A pod of
/// 3 MiB, which is as large as the API server takes them, weighs this much only if it consists of lists of nothing.
pub(crate) const DECODED: usize = 256 * 1024 * 1024;
/// What weighs no more than this is ordinary.
const ORDINARY: usize = 4 * 1024 * 1024;
/// The memory of those.
const ORDINARY_DECODED: usize = 128 * 1024 * 1024;
/// How long to wait for room. The API server waits three seconds for a pod.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same for an object that is converted. The API server waits 30 seconds for a conversion.
pub(crate) const PATIENCE_OF_CONVERSIONS: Duration = Duration::from_secs(10);
/// How long a body may take to arrive.
const LONGEST_BODY: Duration = Duration::from_secs(15);

/// What there is room for.
pub(crate) struct Budget {
    bytes: Lanes,
    answers: Lanes,
    reviews: Arc<Semaphore>,
    conversions: Arc<Semaphore>,
    pub(crate) decoding: Decoding,
}

impl Default for Budget {
    fn default() -> Budget {
        let texts = || Lanes::new(ORDINARY_TEXT, ORDINARY_TEXTS, LONG_TEXTS);
        Budget {
            bytes: texts(),
            answers: texts(),
            reviews: Arc::new(Semaphore::new(REVIEWS)),
            conversions: Arc::new(Semaphore::new(CONVERSIONS)),
            decoding: Decoding(Lanes::new(ORDINARY, ORDINARY_DECODED, DECODED)),
        }
    }
}

/// Room for what is ordinary, and room for what is larger: neither waits for the other.
#[derive(Clone)]
struct Lanes {
    /// The size up to which something is ordinary.
    most: usize,
    ordinary: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Lanes {
    fn new(most: usize, ordinary: usize, large: usize) -> Lanes {
        Lanes { most, ordinary: Arc::new(Semaphore::new(ordinary)), large: Arc::new(Semaphore::new(large)) }
    }

    /// The room for something of this size.
    fn of(&self, size: usize) -> &Arc<Semaphore> {
        if size <= self.most { &self.ordinary } else { &self.large }
    }
}

/// Room that is given back when this is dropped.
pub(crate) type Room = OwnedSemaphorePermit;

/// A body, and the room that it takes.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    _rooms: [Option<Room>; 2],
}

/// A text on its way to a client, and the room that it takes until the last of it is sent.
struct Sent {
    text: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// An answer that takes this room until it is sent.
pub(crate) fn sent(text: Vec<u8>, room: Room) -> Bytes {
    Bytes::from_owner(Sent { text, _room: room })
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("this is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("decoding this would take more than {limit} bytes of memory: it has very many values")]
    TooHeavy { limit: usize },
    #[error("the body did not arrive")]
    Incomplete,
    #[error("{0}")]
    Malformed(String),
    #[error("the manager's caches are not synced yet")]
    NotSynced,
    #[error("the manager has too much to do; try again, and look at its CPU limit and its number of replicas")]
    Overloaded,
    #[error("{0}")]
    Failed(String),
}

impl Refused {
    pub(crate) fn into_response(self) -> Response {
        let status = match self {
            Refused::TooLarge { .. } | Refused::TooHeavy { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refused::Incomplete => StatusCode::REQUEST_TIMEOUT,
            Refused::Malformed(_) => StatusCode::BAD_REQUEST,
            Refused::NotSynced => StatusCode::SERVICE_UNAVAILABLE,
            Refused::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Refused::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = (status, self.to_string()).into_response();
        if self == Refused::Overloaded {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

impl Budget {
    /// Reads a body of at most `limit` bytes. Only what has arrived takes room, so that clients who send slowly hold little.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body, limit: usize) -> Result<Held, Refused> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > limit)) {
            return Err(Refused::TooLarge { limit });
        }
        let read = tokio::time::timeout(LONGEST_BODY, self.collect(body, limit)).await;
        read.unwrap_or(Err(Refused::Incomplete))
    }

    async fn collect(&self, body: Body, limit: usize) -> Result<Held, Refused> {
        let mut chunks = body.into_data_stream();
        let (mut ordinary, mut large): (Option<Room>, Option<Room>) = (None, None);
        let mut first = Bytes::new();
        let mut all = Vec::new();
        let mut length = 0;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Refused::Incomplete)?;
            length += chunk.len();
            if length > limit {
                return Err(Refused::TooLarge { limit });
            }
            let more = wait(self.bytes.of(length), chunk.len()).await?;
            let room = if length <= self.bytes.most { &mut ordinary } else { &mut large };
            match room {
                Some(room) => room.merge(more),
                None => *room = Some(more),
            }
            // Most bodies are one chunk, and need not be copied.
            if first.is_empty() && all.is_empty() {
                first = chunk;
            } else {
                if all.is_empty() {
                    all.extend_from_slice(&std::mem::take(&mut first));
                }
                all.extend_from_slice(&chunk);
            }
        }
        let bytes = if all.is_empty() { first } else { Bytes::from(all) };
        Ok(Held { bytes, _rooms: [ordinary, large] })
    }

    pub(crate) async fn review(&self) -> Result<Room, Refused> {
        wait(&self.reviews, 1).await
    }

    /// Room for an answer of this many bytes.
    pub(crate) async fn answer(&self, length: usize) -> Result<Room, Refused> {
        wait(self.answers.of(length), length).await
    }

    pub(crate) async fn conversion(&self) -> Result<Room, Refused> {
        wait(&self.conversions, 1).await
    }
}

/// Room for what is decoded.
#[derive(Clone)]
pub(crate) struct Decoding(Lanes);

impl Decoding {
    /// Room for what the text of a review is decoded to.
    pub(crate) async fn room(&self, weight: usize) -> Result<Room, Refused> {
        self.room_within(weight, PATIENCE).await
    }

    /// As [`Decoding::room`], with another limit on the wait.
    pub(crate) async fn room_within(&self, weight: usize, patience: Duration) -> Result<Room, Refused> {
        if weight > DECODED {
            return Err(Refused::TooHeavy { limit: DECODED });
        }
        wait_for(self.0.of(weight), weight, patience).await
    }
}

async fn wait(room: &Arc<Semaphore>, size: usize) -> Result<Room, Refused> {
    wait_for(room, size, PATIENCE).await
}

async fn wait_for(room: &Arc<Semaphore>, size: usize, patience: Duration) -> Result<Room, Refused> {
    let size = u32::try_from(size).map_err(|_| Refused::Overloaded)?;
    // There is nearly always room, and then no timer is needed. This does not overtake those who wait: what is given back goes to them first.
    if let Ok(room) = Arc::clone(room).try_acquire_many_owned(size) {
        return Ok(room);
    }
    match tokio::time::timeout(patience, Arc::clone(room).acquire_many_owned(size)).await {
        Ok(Ok(room)) => Ok(room),
        _ => Err(Refused::Overloaded),
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn chunks(sizes: &[usize]) -> Body {
        let chunks: Vec<Result<Bytes, std::io::Error>> =
            sizes.iter().map(|size| Ok(vec![b'a'; *size].into())).collect();
        Body::from_stream(stream::iter(chunks))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_bounded_with_and_without_its_length() {
        let budget = Budget::default();
        let mut headers = HeaderMap::new();
        assert_eq!(budget.read(&headers, chunks(&[3, 4, 3]), 10).await.unwrap().bytes.len(), 10);
        assert_eq!(budget.read(&headers, chunks(&[3, 4, 4]), 10).await.unwrap_err(), Refused::TooLarge { limit: 10 });
        headers.insert(header::CONTENT_LENGTH, 11.into());
        let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(budget.read(&headers, never, 10).await.unwrap_err(), Refused::TooLarge { limit: 10 });
        assert_eq!(budget.bytes.ordinary.available_permits(), ORDINARY_TEXTS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let budget = Budget::default();
        let rest = stream::pending::<Result<Bytes, std::io::Error>>();
        let body = Body::from_stream(stream::iter([Ok(Bytes::from_static(b"{"))]).chain(rest));
        assert_eq!(budget.read(&HeaderMap::new(), body, 10).await.unwrap_err(), Refused::Incomplete);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_reviews_and_conversions_are_decided_at_once() {
        let budget = Budget::default();
        let (mut reviews, mut conversions) = (Vec::new(), Vec::new());
        for _ in 0..REVIEWS {
            reviews.push(budget.review().await.unwrap());
        }
        for _ in 0..CONVERSIONS {
            conversions.push(budget.conversion().await.unwrap());
        }
        assert_eq!(budget.review().await.unwrap_err(), Refused::Overloaded);
        assert_eq!(budget.conversion().await.unwrap_err(), Refused::Overloaded);
        reviews.pop();
        conversions.pop();
        assert!(budget.review().await.is_ok() && budget.conversion().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_there_is_no_room_for_is_refused_with_when_to_come_back() {
        let budget = Budget::default();
        let all = budget.bytes.ordinary.acquire_many(u32::try_from(ORDINARY_TEXTS).unwrap()).await.unwrap();
        let refused = budget.read(&HeaderMap::new(), chunks(&[1]), 10).await.unwrap_err();
        assert_eq!(refused, Refused::Overloaded);
        let response = refused.into_response();
        assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"1".parse().unwrap()));
        drop(all);
        budget.read(&HeaderMap::new(), chunks(&[1]), 10).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_takes_room_until_the_last_of_it_is_sent() {
        let budget = Budget::default();
        let text = sent(vec![b'a'; ORDINARY_TEXT + 1], budget.answer(ORDINARY_TEXT + 1).await.unwrap());
        let end = text.slice(9..);
        drop(text);
        assert_eq!(budget.answer(LONG_TEXTS).await.unwrap_err(), Refused::Overloaded);
        drop(budget.answer(ORDINARY_TEXT).await.unwrap());
        drop(end);
        drop(budget.answer(LONG_TEXTS).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn an_ordinary_body_does_not_wait_for_long_ones() {
        let budget = Budget::default();
        let headers = HeaderMap::new();
        let (half, limit) = (LONG_TEXTS / 2, 2 * LONG_TEXTS);
        let long = budget.read(&headers, chunks(&[ORDINARY_TEXT, half, half]), limit).await.unwrap();
        assert_eq!(budget.bytes.ordinary.available_permits(), ORDINARY_TEXTS - ORDINARY_TEXT);
        let refused = budget.read(&headers, chunks(&[ORDINARY_TEXT + 1]), limit).await.unwrap_err();
        assert_eq!(refused, Refused::Overloaded);
        drop(budget.read(&headers, chunks(&[ORDINARY_TEXT]), limit).await.unwrap());
        drop(long);
        let free = [&budget.bytes.ordinary, &budget.bytes.large].map(|lane| lane.available_permits());
        assert_eq!(free, [ORDINARY_TEXTS, LONG_TEXTS]);
    }

    #[tokio::test(start_paused = true)]
    async fn heavy_texts_are_decoded_one_after_the_other_and_hold_no_ordinary_one_up() {
        let decoding = Budget::default().decoding;
        let heavy = decoding.room(DECODED - ORDINARY).await.unwrap();
        assert_eq!(decoding.room(DECODED / 2).await.unwrap_err(), Refused::Overloaded);
        drop(decoding.room(ORDINARY).await.unwrap());
        let waiting = decoding.room_within(DECODED / 2, PATIENCE_OF_CONVERSIONS);
        let end = async {
            tokio::time::sleep(2 * PATIENCE).await;
            drop(heavy);
        };
        drop(tokio::join!(waiting, end).0.unwrap());
        drop(decoding.room(DECODED).await.unwrap());
        assert_eq!(decoding.0.large.available_permits(), DECODED);
        assert_eq!(decoding.0.ordinary.available_permits(), ORDINARY_DECODED);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_heavy_to_be_ever_decoded_is_refused_at_once() {
        let refused = Budget::default().decoding.room(DECODED + 1).await.unwrap_err();
        insta::assert_snapshot!(refused.to_string(), @"decoding this would take more than 268435456 bytes of memory: it has very many values");
        assert_eq!(refused.into_response().status().as_u16(), 413);
    }
}
