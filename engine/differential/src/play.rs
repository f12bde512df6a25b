//! Playing a conversation: a request after the other, each answer normalised.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::conversation::{Collect, Conversation, Step};
use crate::expectation::{Expectation, Unmet};
use crate::normalise::Normaliser;
use crate::transcript::{Answer, Exchange, Transcript};
use crate::webhook::{Webhook, install_crypto_provider};

/// How long an answer may take to become what `until` wants, and a watch to send what is collected.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often `until` asks.
const PAUSE: Duration = Duration::from_millis(50);
/// Who speaks, if a step does not say it: the name before the slash is the field manager.
const USER_AGENT: &str = "corpus/1.0";

/// A client of the server of a kubeconfig, or of `KUBECONFIG`'s, that shows every answer as it is.
pub async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    install_crypto_provider();
    let mut config = match kubeconfig {
        Some(file) => {
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await.context("no cluster: run this with `cargo xtask cluster run -- …`")?,
    };
    // A 429 or a 504 is an answer like any other here.
    config.default_retry = false;
    config.read_timeout = None;
    Ok(Client::try_from(config)?)
}

/// Plays a conversation in a new namespace, and gives what was answered.
pub async fn play(client: &Client, conversation: &Conversation) -> anyhow::Result<Transcript> {
    let mut player = Player::prepared(client.clone(), conversation).await?;
    let outcome = player.play_all(&conversation.steps).await;
    let namespace = format!("DELETE /api/v1/namespaces/{}", player.namespace);
    for request in conversation.finally.iter().chain([&namespace]) {
        let step = Step { request: Some(request.clone()), ..Step::default() };
        player.send(&step).await.with_context(|| format!("tidying up with {request}"))?;
    }
    outcome.with_context(|| format!("conversation {}", conversation.name))?;
    Ok(Transcript { conversation: conversation.name.clone(), exchanges: player.exchanges })
}

struct Player {
    client: Client,
    namespace: String,
    variables: BTreeMap<String, String>,
    normaliser: Normaliser,
    webhook: Option<Webhook>,
    /// The last known version of each object, by its path.
    versions: BTreeMap<String, String>,
    exchanges: Vec<Exchange>,
}

/// An answer that was read to its end.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Player {
    async fn prepared(client: Client, conversation: &Conversation) -> anyhow::Result<Self> {
        let namespace = format!("{}-{}", conversation.name, random_letters());
        let mut normaliser = Normaliser::new(format!("{conversation:?}"));
        normaliser.name(&namespace, "$ns");
        let mut variables = BTreeMap::from([("ns".to_owned(), namespace.clone())]);
        let mut webhook = None;
        if !conversation.webhooks.is_empty() {
            let server = Webhook::start(conversation.webhooks.clone())?;
            for (name, value) in [("webhook", &server.url), ("ca", &server.ca_bundle)] {
                normaliser.name(value, &format!("${name}"));
                variables.insert(name.to_owned(), value.clone());
            }
            webhook = Some(server);
        }
        let (versions, exchanges) = (BTreeMap::new(), Vec::new());
        let mut player = Self { client, namespace, variables, normaliser, webhook, versions, exchanges };
        let name = |name: &str| json!({"metadata": {"name": name}});
        player.must_create("/api/v1/namespaces", name("$ns")).await?;
        // No controller makes it here, and pods want it.
        player.must_create("/api/v1/namespaces/$ns/serviceaccounts", name("default")).await?;
        Ok(player)
    }

    async fn must_create(&mut self, path: &str, body: Value) -> anyhow::Result<()> {
        let step = Step { request: Some(format!("POST {path}")), body: Some(body), ..Step::default() };
        let reply = self.send(&step).await?;
        if reply.status != StatusCode::CREATED {
            bail!("cannot prepare {}: {} {}", self.namespace, reply.status, reply.body);
        }
        Ok(())
    }

    async fn play_all(&mut self, steps: &[Step]) -> anyhow::Result<()> {
        for step in steps {
            self.normaliser.step(&step.name);
            let played = if step.watch.is_some() { self.watch(step).await } else { self.ask(step).await };
            played.with_context(|| format!("step {:?}", step.name))?;
        }
        Ok(())
    }

    async fn ask(&mut self, step: &Step) -> anyhow::Result<()> {
        let begin = tokio::time::Instant::now();
        let (reply, reviews) = loop {
            self.let_the_cache_catch_up(step).await?;
            let _of_before = self.take_reviews(step);
            let reply = self.send(step).await?;
            let reviews = self.take_reviews(step);
            self.remember_version(step, &reply);
            let unmet = step.until.as_ref().and_then(|until| self.unmet(until, &reply));
            if unmet.is_none() || begin.elapsed() > PATIENCE {
                break (reply, reviews);
            }
            tokio::time::sleep(PAUSE).await;
        };
        for (name, pointer) in &step.capture {
            // A variable of what is not there stays as it is written, and the steps that need it show that.
            if let Some(value) = reply.body.pointer(pointer) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.variables.insert(name.clone(), text);
            }
        }
        self.normaliser.sent(step.body.as_ref().unwrap_or_default());
        let mut answer = self.answer_head(&reply);
        answer.body = only(&step.only, &self.normaliser.value(&reply.body));
        answer.reviews = reviews.iter().map(|review| self.normaliser.value(review)).collect();
        self.note(step, &reply, answer);
        Ok(())
    }

    async fn watch(&mut self, step: &Step) -> anyhow::Result<()> {
        let response = self.open(step).await?;
        let (parts, mut body) = response.into_parts();
        Box::pin(self.play_all(&step.during)).await?;
        let mut reply = Reply { status: parts.status, headers: parts.headers, body: Value::Null };
        if reply.status != StatusCode::OK {
            reply.body = parsed(&tokio::time::timeout(PATIENCE, body.collect_bytes()).await??);
            let mut answer = self.answer_head(&reply);
            answer.body = self.normaliser.value(&reply.body);
            self.note(step, &reply, answer);
            return Ok(());
        }
        self.normaliser.step(&step.name);
        let (events, ended) = collect(&mut body, step.collect.unwrap_or(Collect::End)).await?;
        let mut answer = self.answer_head(&reply);
        answer.events = events.iter().map(|event| only(&step.only, &self.normaliser.value(event))).collect();
        answer.ended = ended.map(str::to_owned);
        self.note(step, &reply, answer);
        Ok(())
    }

    /// Status and headers, normalised.
    fn answer_head(&mut self, reply: &Reply) -> Answer {
        let text = |name: header::HeaderName| {
            reply.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Answer {
            status: reply.status.as_u16(),
            content_type: text(header::CONTENT_TYPE).collect::<Vec<_>>().join(", "),
            warnings: text(header::WARNING).map(|warning| self.normaliser.text(&warning)).collect(),
            retry_after: text(header::RETRY_AFTER).next(),
            ..Answer::default()
        }
    }

    fn note(&mut self, step: &Step, reply: &Reply, answer: Answer) {
        let request = match (&step.request, &step.watch) {
            (Some(request), _) => request.clone(),
            (_, watch) => format!("GET {}", watch.as_deref().unwrap_or_default()),
        };
        let unmet = step.expect.as_ref().or(step.until.as_ref());
        let unmet = unmet.and_then(|expect| self.unmet(expect, reply));
        let sent = step.raw.clone().or_else(|| Some(step.body.as_ref()?.to_string()));
        self.exchanges.push(Exchange { step: step.name.clone(), request, sent, answer, unmet });
    }

    fn unmet(&self, expected: &Expectation, reply: &Reply) -> Option<Unmet> {
        expected.unmet(reply.status.as_u16(), &reply.body, |wanted| self.filled_value(wanted))
    }

    async fn send(&mut self, step: &Step) -> anyhow::Result<Reply> {
        let (parts, body) = self.open(step).await?.into_parts();
        let bytes = tokio::time::timeout(PATIENCE, body.collect_bytes()).await.context("the answer does not end")??;
        Ok(Reply { status: parts.status, headers: parts.headers, body: parsed(&bytes) })
    }

    async fn open(&mut self, step: &Step) -> anyhow::Result<Response<Body>> {
        let line = step.request.clone().unwrap_or_else(|| format!("GET {}", step.watch.as_deref().unwrap_or_default()));
        let (method, path) = line.split_once(' ').with_context(|| format!("{line:?} is not METHOD /path"))?;
        let content = step.content.as_deref().unwrap_or("application/json");
        let accept = step.accept.as_deref().unwrap_or("application/json");
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes())?)
            .uri(encoded(&self.filled(path)))
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, long_accept(accept));
        let body = match (&step.raw, &step.body) {
            (Some(raw), _) => Some(self.filled(raw)),
            (None, Some(body)) => Some(self.filled_value(body).to_string()),
            (None, None) => None,
        };
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, long_content(content));
        }
        let mut request = request.body(Body::from(body.unwrap_or_default().into_bytes()))?;
        for (name, value) in &step.headers {
            let value = self.filled(value);
            let name = header::HeaderName::try_from(name)?;
            // An empty header is none.
            if value.is_empty() {
                request.headers_mut().remove(&name);
            } else {
                request.headers_mut().insert(name, value.try_into()?);
            }
        }
        let answered = tokio::time::timeout(PATIENCE, self.client.send(request)).await;
        answered.with_context(|| format!("no answer to {line}"))?.with_context(|| format!("sending {line}"))
    }

    /// Waits until the API server's cache has the last version of the object.
    ///
    /// kube-apiserver first applies a change to the object in its cache. If a newer version is stored, it starts over with that one, and webhooks have
    /// been called for the older one as well. A read with a resource version waits until the cache has that version, so that this does not happen.
    async fn let_the_cache_catch_up(&mut self, step: &Step) -> anyhow::Result<()> {
        let Some((_, path)) = self.target(step).filter(|_| self.webhook.is_some()) else { return Ok(()) };
        let Some(version) = self.versions.get(&path) else { return Ok(()) };
        let read = Step { request: Some(format!("GET {path}?resourceVersion={version}")), ..Step::default() };
        self.send(&read).await.map(drop)
    }

    fn remember_version(&mut self, step: &Step, reply: &Reply) {
        let Some((method, path)) = self.target(step) else { return };
        let [name, version] = ["name", "resourceVersion"].map(|field| reply.body["metadata"][field].as_str());
        if let (Some(name), Some(version)) = (name, version) {
            let path = if method == "POST" { format!("{path}/{name}") } else { path };
            self.versions.insert(path, version.to_owned());
        }
    }

    /// The method and the path of a request, without its query.
    fn target(&self, step: &Step) -> Option<(String, String)> {
        let (method, path) = step.request.as_deref()?.split_once(' ')?;
        Some((method.to_owned(), self.filled(path.split('?').next()?)))
    }

    /// What webhooks were sent since the last time.
    fn take_reviews(&self, step: &Step) -> Vec<Value> {
        let reviews = self.webhook.as_ref().map(Webhook::take_reviews).unwrap_or_default();
        let whole = |path: String, review: Value| {
            if step.reviews { json!({"path": path, "review": review}) } else { json!({"path": path}) }
        };
        reviews.into_iter().map(|(path, review)| whole(path, review)).collect()
    }

    /// The text with variables filled in. What looks like a variable and is none stays: `$patch`, `$ref`.
    fn filled(&self, text: &str) -> String {
        static VARIABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\$([a-z][A-Za-z0-9]*)").ok());
        let Some(variable) = VARIABLE.as_ref() else { return text.to_owned() };
        let value = |found: &Captures<'_>| self.variables.get(&found[1]).map_or(&found[0], String::as_str).to_owned();
        variable.replace_all(text, value).into_owned()
    }

    fn filled_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.filled(text).into(),
            Value::Array(items) => items.iter().map(|item| self.filled_value(item)).collect(),
            Value::Object(object) => object.iter().map(|(k, v)| (self.filled(k), self.filled_value(v))).collect(),
            other => other.clone(),
        }
    }
}

/// The events of a watch, and how it ended if not as it should.
async fn collect(body: &mut Body, until: Collect) -> anyhow::Result<(Vec<Value>, Option<&'static str>)> {
    let (mut events, mut buffer) = (Vec::new(), Vec::new());
    let mut is_enough = until == Collect::Events(0);
    while !is_enough {
        let frame = match tokio::time::timeout(PATIENCE, body.frame()).await {
            Ok(Some(frame)) => frame?,
            Ok(None) => return Ok((events, (until != Collect::End).then_some("by the server"))),
            Err(_) => return Ok((events, Some("by nobody: what was to be collected did not come"))),
        };
        buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        // A frame may hold more events than are wanted.
        while !is_enough && let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event = parsed(&line);
            is_enough = match until {
                Collect::Events(wanted) => events.len() + 1 >= wanted,
                Collect::Bookmark => event["type"] == "BOOKMARK",
                Collect::End => false,
            };
            events.push(event);
        }
    }
    Ok((events, None))
}

/// JSON as it is, everything else as text.
fn parsed(bytes: &[u8]) -> Value {
    match (serde_json::from_slice(bytes), std::str::from_utf8(bytes)) {
        (Ok(value), _) => value,
        (_, Ok("")) => Value::Null,
        (_, Ok(text)) => text.into(),
        _ => format!("{} bytes that are not text", bytes.len()).into(),
    }
}

/// The parts of a value at some pointers; all of it if there are none.
fn only(pointers: &[String], value: &Value) -> Value {
    if pointers.is_empty() || value["kind"] == "Status" {
        return value.clone();
    }
    pointers.iter().map(|pointer| (pointer.clone(), value.pointer(pointer).cloned().unwrap_or_default())).collect()
}

fn long_content(short: &str) -> &str {
    match short {
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "json-patch" => "application/json-patch+json",
        "apply" => "application/apply-patch+yaml",
        "yaml" => "application/yaml",
        other => other,
    }
}

fn long_accept(short: &str) -> &str {
    match short {
        "table" => "application/json;as=Table;g=meta.k8s.io;v=v1",
        "metadata" => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "metadata-list" => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        other => other,
    }
}

/// A path and query with what must not stand in one encoded, so that the corpus can be written as one thinks it.
fn encoded(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => format!("%{byte:02X}"),
            byte if byte.is_ascii_graphic() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Five letters that no namespace before had.
fn random_letters() -> String {
    let mut number = RandomState::new().hash_one(std::process::id());
    let mut letters = String::new();
    for _ in 0..5 {
        letters.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or_default()));
        number /= 26;
    }
    letters
}
