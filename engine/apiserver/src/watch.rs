//! Watches: a stream of what changes, one JSON document per line.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::{self, Stream};
use pillion_store::{Event, EventKind, Stored, Watch};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::media::{self, Output, Transform};
use crate::query::{ListOptions, Query};
use crate::selection::Selection;
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::{list, meta, respond, versioned};

/// A watch without a timeout of its own ends after this long, or up to twice that.
const SHORTEST: Duration = Duration::from_mins(30);
/// The last bookmark comes this long before the watch ends.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How often a quiet watch that asked for bookmarks gets one.
const BOOKMARKS_EVERY: Duration = Duration::from_mins(1);

pub(crate) fn watch(call: &Call<'_>) -> Result<Response> {
    let options = ListOptions::decode(&call.query, call.path.watch)?;
    let selection = Selection::decode(call, &options)?;
    if call.output.yaml {
        return Err(Refusal::not_acceptable(&media::STREAMS));
    }
    if call.output.transform == Transform::Table {
        respond::check_include(call)?;
    }
    let version = list::resource_version_of_one(&options.resource_version)?;
    let inner = call.inner();
    let newest = inner.store.resource_version();
    let timeout = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        _ => SHORTEST.mul_f64(1.0 + inner.fraction()),
    };
    let resource = call.endpoint.storage_name();
    let namespace = (!call.namespace().is_empty()).then(|| call.namespace());
    let with_state = options.send_initial_events == Some(true);
    let writer = Writer {
        inner: Arc::clone(call.inner),
        endpoint: call.endpoint.clone(),
        query: call.query.clone(),
        output: call.output,
        headers: true,
    };
    // From nowhere, from 0, or asked for: what is there comes first.
    let (initial, after) = if with_state {
        if version > newest {
            return Ok(streamed(stream::iter([error(&list::too_large(version, newest))])));
        }
        let snapshot = inner.store.list(&resource, namespace);
        let items: Vec<Stored> = snapshot.iter().map(|(_, _, stored)| stored.clone()).collect();
        (items, snapshot.resource_version())
    } else {
        (Vec::new(), if version == 0 { newest } else { version })
    };
    if let Endpoint::Custom(custom) = &call.endpoint
        && after < custom.since
    {
        return Ok(streamed(stream::iter([error(&too_old(after, custom.since))])));
    }
    let live = match inner.store.watch(&resource, namespace, after) {
        Ok(live) => live,
        Err(expired) => {
            return Ok(streamed(stream::iter([error(&too_old(after, expired.oldest))])));
        }
    };
    let explicit = call.query.get("sendInitialEvents").is_some();
    let watching = Watching {
        writer,
        selection,
        live,
        initial: initial.into_iter(),
        initial_end: (with_state && explicit && options.allow_bookmarks).then_some(after),
        bookmarks: options.allow_bookmarks,
        next_bookmark: next_bookmark(Instant::now() + timeout),
        deadline: Instant::now() + timeout,
        over: false,
    };
    Ok(streamed(stream::unfold(watching, next)))
}

/// A minute from now, or just before the end, so that the client need not go far back.
fn next_bookmark(deadline: Instant) -> Instant {
    let now = Instant::now();
    let regular = now + BOOKMARKS_EVERY;
    match deadline.checked_sub(LAST_BOOKMARK) {
        Some(last) if last > now => last.min(regular),
        _ => regular,
    }
}

fn too_old(version: u64, oldest: u64) -> Box<Refusal> {
    Refusal::expired(format!("too old resource version: {version} ({oldest})"))
}

fn streamed(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(lines.map(Ok::<_, std::convert::Infallible>));
    let mut response = Response::new(body);
    respond::content_type(&mut response, "application/json");
    response
}

/// A watch under way.
struct Watching {
    writer: Writer,
    selection: Selection,
    live: Watch,
    initial: std::vec::IntoIter<Stored>,
    /// The version to say "that was the state" with, until it is said.
    initial_end: Option<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    over: bool,
}

/// The next line, and the watch after it.
async fn next(mut watching: Watching) -> Option<(Bytes, Watching)> {
    if watching.over {
        return None;
    }
    while let Some(stored) = watching.initial.next() {
        if watching.selection.matches(&watching.writer.endpoint, &stored) {
            let line = watching.writer.event("ADDED", &stored).await;
            return Some((line, watching));
        }
    }
    if let Some(version) = watching.initial_end.take() {
        let line = watching.writer.bookmark(version, true);
        return Some((line, watching));
    }
    loop {
        // A watch that is never quiet ends in time, too.
        if Instant::now() >= watching.deadline {
            return None;
        }
        let wake = if watching.bookmarks { watching.deadline.min(watching.next_bookmark) } else { watching.deadline };
        let item = tokio::select! {
            biased;
            item = watching.live.next() => Some(item),
            () = tokio::time::sleep_until(wake) => None,
        };
        match item {
            None if Instant::now() >= watching.deadline => return None,
            None => {
                watching.next_bookmark = next_bookmark(watching.deadline);
                let line = watching.writer.bookmark(watching.live.resource_version(), false);
                return Some((line, watching));
            }
            Some(None) => return None,
            Some(Some(Err(expired))) => {
                watching.over = true;
                let line = error(&too_old(expired.requested, expired.oldest));
                return Some((line, watching));
            }
            Some(Some(Ok(event))) => {
                if let Some(line) = watching.line(&event).await {
                    return Some((line, watching));
                }
            }
        }
    }
}

impl Watching {
    /// What a watcher with this selection sees of an event: objects come and go as they begin and cease to match.
    async fn line(&mut self, event: &Arc<Event>) -> Option<Bytes> {
        let matches = |stored: &Stored| self.selection.matches(&self.writer.endpoint, stored);
        let now = event.kind != EventKind::Deleted && matches(&event.object);
        let before = event.previous.as_ref().is_some_and(matches);
        match (before, now) {
            (false, true) => Some(self.writer.event("ADDED", &event.object).await),
            (true, true) => Some(self.writer.event("MODIFIED", &event.object).await),
            (true, false) if event.kind == EventKind::Deleted => {
                Some(self.writer.event("DELETED", &event.object).await)
            }
            (true, false) => match &event.previous {
                Some(previous) => Some(self.writer.left(previous, event.object.resource_version).await),
                None => None,
            },
            (false, false) => None,
        }
    }
}

/// Writes the lines of a watch.
struct Writer {
    inner: Arc<Inner>,
    endpoint: Endpoint,
    query: Query,
    output: Output,
    /// A table's columns are only in its first event.
    headers: bool,
}

impl Writer {
    async fn event(&mut self, kind: &str, stored: &Stored) -> Bytes {
        if self.output.transform == Transform::None && versioned::shown_as_stored(&self.endpoint) {
            let mut line = Vec::with_capacity(stored.bytes.len() + 40);
            line.extend_from_slice(br#"{"type":""#);
            line.extend_from_slice(kind.as_bytes());
            line.extend_from_slice(br#"","object":"#);
            line.extend_from_slice(&stored.bytes);
            line.extend_from_slice(b"}\n");
            return line.into();
        }
        match versioned::decode(&self.inner, &self.endpoint, stored).await {
            Ok(object) => self.object(kind, object),
            Err(refusal) => error(&refusal),
        }
    }

    /// An object that no longer matches: its last matching state, at the version at which it left.
    async fn left(&mut self, previous: &Stored, version: u64) -> Bytes {
        match versioned::decode(&self.inner, &self.endpoint, previous).await {
            Ok(mut object) => {
                meta::set(&mut object, "resourceVersion", Some(version.to_string().into()));
                self.object("DELETED", object)
            }
            Err(refusal) => error(&refusal),
        }
    }

    fn object(&mut self, kind: &str, object: Value) -> Bytes {
        let shown = match self.output.transform {
            Transform::None => object,
            Transform::PartialObject | Transform::PartialList => respond::partial(&object, self.output),
            Transform::Table => self.table(&object),
        };
        line(kind, &shown)
    }

    fn table(&mut self, object: &Value) -> Value {
        let headers = std::mem::replace(&mut self.headers, false);
        let metadata = json!({"resourceVersion": meta::text(object, "resourceVersion")});
        let options = respond::TableOptions {
            endpoint: &self.endpoint,
            include: self.query.text("includeObject"),
            output: self.output,
            now: self.inner.clock.now(),
        };
        respond::table_of(&options, metadata, std::slice::from_ref(object), headers)
    }

    fn bookmark(&mut self, version: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object =
            json!({"kind": self.endpoint.kind(), "apiVersion": self.endpoint.api_version(), "metadata": metadata});
        self.object("BOOKMARK", object)
    }
}

fn error(refusal: &Refusal) -> Bytes {
    line("ERROR", &refusal.to_status())
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}
