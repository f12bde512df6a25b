//! Clients that mean harm: what they cost the manager or the embedded API server, and those who wait for their answers.
//!
//! ```text
//!  good requests ─▶ manage or serve (a child): their 99th percentile, and its memory
//!  attack ─▶ discard (a child), then ─▶ manage or serve: the same clients, on the same machine, in the same run
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use hyper::{Method, StatusCode};
use pillion_engine_load::client::Target;
use pillion_engine_load::server::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::child::{Running, start};
use crate::fill::fill;
use crate::manage;

/// Connections with good requests. Half of them are opened anew all the time.
const GOOD: usize = 4;
/// After so many requests a connection is opened anew.
const RECONNECT: usize = 20;
/// Good requests come as they come: with a pause between them, or they would be the attack.
const PAUSE: Duration = Duration::from_millis(4);
/// How many times as slow good requests may be as while the same attack hits a server that throws everything away.
const MOST_TIMES: f64 = 2.0;
/// The bytes of requests that a server holds at a time.
const REQUESTS: u64 = 160 << 20;
/// The memory of what the manager decodes at a time.
const DECODED: u64 = 384 << 20;
/// The bytes of answers that the manager holds for clients who do not read them.
const ANSWERS: u64 = 160 << 20;
/// How often the memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Attacks on the webhooks, or on the API server.
#[derive(Args, Clone)]
pub(crate) struct Attack {
    /// Who is attacked.
    #[arg(long, value_enum, default_value_t)]
    on: On,
    /// SidecarSets.
    #[arg(long, default_value_t = 100)]
    sets: usize,
    /// For how long each attack lasts, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// For how long slow clients send, in seconds.
    #[arg(long, default_value_t = 20)]
    slow_seconds: u64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only the attacks whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// Who is attacked.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum On {
    /// The webhooks of the manager.
    #[default]
    Manager,
    /// The embedded API server.
    Apiserver,
}

impl On {
    /// How many bytes more it may hold.
    fn most_memory(self) -> u64 {
        match self {
            On::Manager => REQUESTS + DECODED + ANSWERS,
            On::Apiserver => 3 * REQUESTS,
        }
    }
}

/// What an attacker does.
#[derive(Clone, Copy)]
enum Kind {
    /// Requests with this body, one after the other.
    Bodies { clients: usize, path: &'static str, body: fn() -> Bytes },
    /// The same by somebody who has the owner's token: the method, and the type of the body.
    Requests { clients: usize, method: &'static str, path: &'static str, content: &'static str, body: fn() -> Bytes },
    /// One request with this body from each, whose answer nobody reads.
    Unread { clients: usize, path: &'static str, body: fn() -> Bytes },
    /// Bytes that are no TLS.
    NoTls { clients: usize },
    /// Connections on which nothing comes, half of them without TLS.
    Idle { clients: usize },
    /// A request of which a byte comes every tenth of a second.
    Slow { clients: usize },
}

const ATTACKS: &[(&str, Kind)] = &[
    ("bodies of 10 MiB", Kind::Bodies { clients: 8, path: "/mutate-pod", body: || filled(10 << 20, b' ') }),
    (
        "bodies of 7 MiB, which are read",
        Kind::Bodies { clients: 8, path: "/mutate-pod", body: || filled(7 << 20, b' ') },
    ),
    ("deep JSON", Kind::Bodies { clients: 8, path: "/mutate-pod", body: || filled(1 << 20, b'[') }),
    ("garbage", Kind::Bodies { clients: 8, path: "/mutate-pod", body: garbage }),
    ("conversions of 24 MB of nothing", Kind::Bodies { clients: 4, path: "/convert", body: nothings }),
    (
        "pods of a million empty arguments",
        Kind::Bodies { clients: 8, path: "/mutate-pod", body: || pod_with("default", "args", "\"\"") },
    ),
    (
        "pods with a long list, in no namespace",
        Kind::Bodies { clients: 8, path: "/mutate-pod", body: || pod_with("nowhere", "x", "0") },
    ),
    ("conversions of a long list", Kind::Bodies { clients: 4, path: "/convert", body: set_with_a_list }),
    ("conversions of 24 MB, answers not read", Kind::Unread { clients: 32, path: "/convert", body: sets }),
    ("garbage instead of TLS", Kind::NoTls { clients: 16 }),
    ("500 idle connections", Kind::Idle { clients: 500 }),
    ("200 slow clients", Kind::Slow { clients: 200 }),
];

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

const ATTACKS_ON_THE_API_SERVER: &[(&str, Kind)] = &[
    (
        "bodies of 10 MiB, without a token",
        Kind::Bodies { clients: 8, path: CONFIG_MAPS, body: || filled(10 << 20, b' ') },
    ),
    (
        "bodies of 2 MiB, which are read",
        Kind::Requests {
            clients: 8,
            method: "POST",
            path: CONFIG_MAPS,
            content: "application/json",
            body: || filled(2 << 20, b' '),
        },
    ),
    (
        "deep JSON",
        Kind::Requests {
            clients: 8,
            method: "POST",
            path: CONFIG_MAPS,
            content: "application/json",
            body: || filled(1 << 20, b'['),
        },
    ),
    (
        "alias bombs",
        Kind::Requests { clients: 8, method: "POST", path: CONFIG_MAPS, content: "application/yaml", body: bomb },
    ),
    (
        "patches of 20,000 fields",
        Kind::Requests {
            clients: 3,
            method: "PATCH",
            path: WIDE,
            content: "application/merge-patch+json",
            body: label,
        },
    ),
    ("garbage instead of TLS", Kind::NoTls { clients: 16 }),
    ("500 idle connections", Kind::Idle { clients: 500 }),
    ("200 slow clients", Kind::Slow { clients: 200 }),
];

/// What is attacked, and what good clients want of it.
struct Subject {
    target: Target,
    process: Process,
    good: Good,
}

enum Process {
    Manager(Running),
    ApiServer(Server),
}

#[derive(Clone)]
struct Good {
    method: Method,
    path: &'static str,
    body: Bytes,
}

impl Subject {
    fn resident(&self) -> anyhow::Result<u64> {
        Ok(match &self.process {
            Process::Manager(running) => running.usage()?.resident,
            Process::ApiServer(server) => server.usage()?.resident,
        })
    }
}

/// What good requests and the server went through.
struct Seen {
    p99: Duration,
    failed: usize,
    /// Bytes above what the server held before.
    memory: u64,
}

impl Attack {
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let server = Server::embedded("embedded", folder.path(), None)?;
        let api = Target::of(&server.kubeconfig).await?;
        let (subject, attacks, _server) = match self.on {
            On::Manager => {
                fill(&api, self.sets, 0, 0).await?;
                let manager = start(&["manage".as_ref(), server.kubeconfig.as_os_str()])?;
                let body = Bytes::from(manage::review().to_string());
                let good = Good { method: Method::POST, path: "/mutate-pod", body };
                let target = manager.ready.target()?;
                (Subject { target, process: Process::Manager(manager), good }, ATTACKS, Some(server))
            }
            On::Apiserver => {
                make_wide(&api).await?;
                let good = Good { method: Method::GET, path: "/api/v1/namespaces/default", body: Bytes::new() };
                (Subject { target: api, process: Process::ApiServer(server), good }, ATTACKS_ON_THE_API_SERVER, None)
            }
        };
        let discard = start(&["discard".as_ref()])?;
        let discard_target = discard.ready.target()?.with_credentials_of(&subject.target);
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "attack",
            "99th percentile of good requests",
            "while it hits a server that throws everything away",
            "ratio",
            "memory of the server",
            "good requests that failed",
        ]);
        let mut missed = Vec::new();
        let wanted = |name: &str| self.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
        for (name, kind) in attacks.iter().copied().filter(|(name, _)| wanted(name)) {
            eprintln!("{name} …");
            let mut pairs = Vec::new();
            for _ in 0..self.rounds.max(1) {
                let apart = self.attacked(&subject, &discard_target, kind).await?;
                pairs.push((apart, self.attacked(&subject, &subject.target, kind).await?));
            }
            let ratio = |(apart, seen): &(Seen, Seen)| seen.p99.as_secs_f64() / apart.p99.as_secs_f64();
            pairs.sort_by(|one, two| ratio(one).total_cmp(&ratio(two)));
            let failed: usize = pairs.iter().map(|(_, seen)| seen.failed).sum();
            let memory = pairs.iter().map(|(_, seen)| seen.memory).max().unwrap_or_default();
            let Some(pair) = pairs.get(pairs.len() / 2) else { continue };
            if ratio(pair) > MOST_TIMES || memory > self.on.most_memory() || failed > 0 {
                missed.push(name);
            }
            table.add_row([
                name.to_owned(),
                format!("{:.1} ms", pair.1.p99.as_secs_f64() * 1e3),
                format!("{:.1} ms", pair.0.p99.as_secs_f64() * 1e3),
                format!("{:.2}", ratio(pair)),
                format!("+ {} MiB", memory >> 20),
                failed.to_string(),
            ]);
        }
        println!("{table}\nratio: at most {MOST_TIMES}; memory: at most + {} MiB", self.on.most_memory() >> 20);
        ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
        Ok(())
    }

    /// What good requests to the subject go through while `victim` is attacked.
    async fn attacked(&self, subject: &Subject, victim: &Target, kind: Kind) -> anyhow::Result<Seen> {
        let over = Arc::new(AtomicBool::new(false));
        let mut attackers = JoinSet::new();
        let before = subject.resident()?;
        attack(&mut attackers, kind, victim, &over);
        let seconds = if matches!(kind, Kind::Slow { .. }) { self.slow_seconds } else { self.seconds };
        let end = Instant::now() + Duration::from_secs(seconds);
        let failed = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for i in 0..GOOD {
            let (target, good, failed) = (subject.target.clone(), subject.good.clone(), Arc::clone(&failed));
            clients.spawn(async move { ask_until(end, &target, &good, i % 2 == 0, &failed).await });
        }
        let mut most = before;
        while Instant::now() < end {
            tokio::time::sleep(LOOK).await;
            most = most.max(subject.resident()?);
        }
        let mut times: Vec<Duration> = clients.join_all().await.into_iter().flatten().collect();
        over.store(true, Ordering::Relaxed);
        attackers.abort_all();
        while attackers.join_next().await.is_some() {}
        times.sort_unstable();
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or(Duration::MAX);
        Ok(Seen { p99, failed: failed.load(Ordering::Relaxed), memory: most.saturating_sub(before) })
    }
}

/// The times of good requests until `end`.
async fn ask_until(
    end: Instant,
    target: &Target,
    good: &Good,
    is_reconnecting: bool,
    failed: &AtomicUsize,
) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut connection = None;
    let mut count = 0;
    while Instant::now() < end {
        count += 1;
        if is_reconnecting && count % RECONNECT == 0 {
            connection = None;
        }
        let begin = Instant::now();
        let asked = async {
            if connection.is_none() {
                connection = Some(target.connect().await?);
            }
            match &mut connection {
                Some(open) => open.ask(&good.method, good.path, &good.body).await,
                None => anyhow::bail!("there is no connection"),
            }
        };
        // As long as an API server waits for a pod's webhook.
        let answer = tokio::time::timeout(Duration::from_secs(3), asked).await;
        if !matches!(answer, Ok(Ok((StatusCode::OK, _)))) {
            failed.fetch_add(1, Ordering::Relaxed);
            connection = None;
        }
        times.push(begin.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    times
}

fn attack(tasks: &mut JoinSet<()>, kind: Kind, target: &Target, over: &Arc<AtomicBool>) {
    let clients = match kind {
        Kind::Bodies { clients, .. }
        | Kind::Requests { clients, .. }
        | Kind::Unread { clients, .. }
        | Kind::NoTls { clients }
        | Kind::Idle { clients }
        | Kind::Slow { clients } => clients,
    };
    let body = match kind {
        Kind::Bodies { body, .. } | Kind::Requests { body, .. } | Kind::Unread { body, .. } => body(),
        _ => Bytes::new(),
    };
    for i in 0..clients {
        let (target, over, body) = (target.clone(), Arc::clone(over), body.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                // Whatever becomes of it, it is tried again; but not faster than a connection can be refused.
                let _ = once(kind, i, &target, &body).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}

/// One attempt of one attacker.
async fn once(kind: Kind, client: usize, target: &Target, body: &Bytes) -> anyhow::Result<()> {
    match kind {
        Kind::Bodies { path, .. } => {
            let mut stream = target.tls().await?;
            // Every other one does not say how long it is.
            let head = if client.is_multiple_of(2) {
                format!("content-length: {}", body.len())
            } else {
                "transfer-encoding: chunked".to_owned()
            };
            stream.write_all(format!("POST {path} HTTP/1.1\r\nhost: webhook\r\n{head}\r\n\r\n").as_bytes()).await?;
            if client.is_multiple_of(2) {
                stream.write_all(body).await?;
            } else {
                stream.write_all(format!("{:x}\r\n", body.len()).as_bytes()).await?;
                stream.write_all(body).await?;
                stream.write_all(b"\r\n0\r\n\r\n").await?;
            }
            stream.flush().await?;
            let mut answer = [0; 1024];
            let _length = stream.read(&mut answer).await?;
        }
        Kind::Requests { method, path, content, .. } => {
            let mut stream = target.tls().await?;
            let (length, authorization) = (body.len(), target.authorization_line());
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: api\r\n{authorization}content-type: {content}\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body).await?;
            stream.flush().await?;
            let mut answer = [0; 1024];
            let _length = stream.read(&mut answer).await?;
        }
        Kind::Unread { path, .. } => {
            let mut stream = target.tls().await?;
            let length = body.len();
            let head = format!("POST {path} HTTP/1.1\r\nhost: webhook\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body).await?;
            stream.flush().await?;
            std::future::pending::<()>().await;
        }
        Kind::NoTls { .. } => {
            let mut stream = target.tcp().await?;
            stream.write_all(&garbage()[..16 << 10]).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
        }
        Kind::Idle { .. } if client.is_multiple_of(2) => {
            let mut stream = target.tcp().await?;
            let _length = stream.read(&mut [0; 16]).await?;
        }
        Kind::Idle { .. } => {
            let mut stream = target.tls().await?;
            let _length = stream.read(&mut [0; 16]).await?;
        }
        Kind::Slow { .. } => {
            let mut stream = target.tls().await?;
            stream.write_all(b"POST /mutate-pod HTTP/1.1\r\nhost: webhook\r\ncontent-length: 100000\r\n\r\n").await?;
            loop {
                stream.write_all(b" ").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    Ok(())
}

fn filled(size: usize, byte: u8) -> Bytes {
    Bytes::from(vec![byte; size])
}

/// A mebibyte in which no byte follows from the one before.
fn garbage() -> Bytes {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(1 << 17).flatten().collect::<Vec<u8>>().into()
}

/// A conversion of objects that are none.
fn nothings() -> Bytes {
    let objects = "{},".repeat(8_000_000);
    format!(r#"{{"request":{{"uid":"1","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[{objects}{{}}]}}}}"#)
        .into()
}

/// A list whose text is short, and which takes nearly as much memory as the manager gives to one object.
fn long_list(item: &str) -> String {
    vec![item; 1_000_000].join(",")
}

/// A review of a pod that matches SidecarSets, with such a list in its container.
fn pod_with(namespace: &str, field: &str, item: &str) -> Bytes {
    let container = format!(r#"{{"name":"app","image":"web:1","{field}":[{}]}}"#, long_list(item));
    let pod = format!(r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"containers":[{container}]}}}}"#);
    format!(r#"{{"request":{{"uid":"1","operation":"CREATE","namespace":"{namespace}","object":{pod}}}}}"#).into()
}

/// A conversion of as many SidecarSets as the API server asks for at a time.
fn sets() -> Bytes {
    let value = "x".repeat(2_300);
    let set = format!(
        r#"{{"apiVersion":"apps.kruise.io/v1alpha1","kind":"SidecarSet","metadata":{{"name":"a","annotations":{{"a":"{value}"}}}}}}"#
    );
    let objects = vec![set; 10_000].join(",");
    format!(r#"{{"request":{{"uid":"1","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[{objects}]}}}}"#).into()
}

/// A conversion of a SidecarSet with such a list.
fn set_with_a_list() -> Bytes {
    let (from, to, list) = ("apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1", long_list("0"));
    let set = format!(r#"{{"apiVersion":"{from}","kind":"SidecarSet","metadata":{{"name":"a"}},"x":[{list}]}}"#);
    format!(r#"{{"request":{{"uid":"1","desiredAPIVersion":"{to}","objects":[{set}]}}}}"#).into()
}

/// A custom resource with 20,000 fields.
const WIDE: &str = "/apis/attack.example/v1/namespaces/default/wides/wide";

async fn make_wide(target: &Target) -> anyhow::Result<()> {
    let fields = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"spec": fields}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wides.attack.example"},
        "spec": {
            "group": "attack.example", "scope": "Namespaced",
            "names": {"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let mut connection = target.connect().await?;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    connection.must(&Method::POST, definitions, &Bytes::from(definition.to_string())).await?;
    let spec: serde_json::Map<String, Value> = (0..20_000).map(|number| (format!("f{number}"), json!("v"))).collect();
    let wide = json!({"apiVersion": "attack.example/v1", "kind": "Wide", "metadata": {"name": "wide"}, "spec": spec});
    let path = "/apis/attack.example/v1/namespaces/default/wides";
    connection.must(&Method::POST, path, &Bytes::from(wide.to_string())).await?;
    Ok(())
}

/// Changes one label: what it costs is the object.
fn label() -> Bytes {
    Bytes::from_static(br#"{"metadata":{"labels":{"a":"b"}}}"#)
}

/// Aliases of aliases, which stand for 10 to the power of 9.
fn bomb() -> Bytes {
    let levels = (1..10).map(|level| {
        let above = ["*", &format!("a{}", level - 1)].concat();
        format!("a{level}: &a{level} [{}]\n", vec![above; 10].join(","))
    });
    format!("kind: ConfigMap\napiVersion: v1\na0: &a0 x\n{}", levels.collect::<String>()).into()
}
