//! A day in virtual time, with an API server that fails one request in five.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_agent::{Api, BoxFuture, Manager, Pod, Prober, Publisher, Registry, Request, Response, Secrets, World};
use pillion_assist::{Ask, Fields, State};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Remembers what was written, and fails one request in five: half of them before it has done anything, half of them after.
#[derive(Default)]
struct Flaky {
    requests: AtomicU64,
    written: Mutex<Vec<(Duration, Value)>>,
    began: Mutex<Option<Instant>>,
}

impl Api for Flaky {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, String>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            if number % 10 == 3 {
                return Err("connection reset".to_owned());
            }
            let began = self.began.lock().unwrap().unwrap();
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            if request.path.ends_with("/web-0") {
                self.written.lock().unwrap().push((began.elapsed(), body));
            }
            let status = if number % 10 == 8 { 500 } else { 200 };
            Ok(Response { status, body: "{}".into() })
        })
    }

    fn watch(&self, _path: String) -> BoxFuture<'_, Result<mpsc::Receiver<Value>, String>> {
        Box::pin(async { Err("there are no watches here".to_owned()) })
    }
}

/// A game that changes its state every so often.
struct Game {
    began: Instant,
    looks: AtomicU64,
}

/// Between 200 s and 500 s: longer than any back-off of two failures in a row.
fn state_at(elapsed: Duration) -> &'static str {
    let (mut at, mut number) = (0, 0u64);
    loop {
        at += 200 + (number * 7919) % 300;
        if elapsed.as_secs() < at {
            return ["idle", "allocated", "unknown"][(number % 3) as usize];
        }
        number += 1;
    }
}

impl Prober for Game {
    fn look<'a>(&'a self, _ask: &'a Ask, _secrets: &'a Secrets, _timeout: Duration) -> BoxFuture<'a, State> {
        Box::pin(async move {
            self.looks.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            match state_at(self.began.elapsed()) {
                "unknown" => State::failed("connection refused"),
                state => State::succeeded(state),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_with_a_failing_api_server_loses_no_transition_and_writes_once_for_each() {
    let (api, began) = (Arc::new(Flaky::default()), Instant::now());
    *api.began.lock().unwrap() = Some(began);
    let game = Arc::new(Game { began, looks: AtomicU64::new(0) });
    let fields = Fields::from([("POD_NAME".into(), "web-0".into()), ("POD_NAMESPACE".into(), "default".into())]);
    let pod = Pod::from_fields(fields).unwrap();
    let origin = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    let clock = Arc::new(move || origin + jiff::SignedDuration::try_from(began.elapsed()).unwrap());
    let publisher = Publisher::new(pod.name.clone(), clock);
    let manager = Manager::new(World {
        pod: Arc::new(pod),
        api: Arc::clone(&api) as Arc<dyn Api>,
        prober: Arc::clone(&game) as Arc<dyn Prober>,
        publisher: publisher.clone(),
        registry: Arc::new(Registry::new()),
        plugin_dir: "/nowhere".into(),
        pod_info: None,
    });
    let writer = tokio::spawn({
        let api = Arc::clone(&api);
        async move { publisher.run(&*api).await }
    });
    let sample = include_str!("../../../decide/assist/src/config/samples/proposal-3.yaml")
        .replace("startDelaySeconds: 60", "startDelaySeconds: 0");
    manager.load_config(&sample).await.unwrap();
    tokio::time::sleep(Duration::from_hours(24)).await;
    manager.stop().await;
    writer.abort();

    // By the interval of five seconds, and not once more.
    let looks = game.looks.load(Ordering::Relaxed);
    assert!((17_270..=17_281).contains(&looks), "{looks} looks");
    let mut expected = Vec::new();
    for second in 0..86_400 {
        let state = state_at(Duration::from_secs(second));
        if expected.last() != Some(&state) {
            expected.push(state);
        }
    }
    let written = api.written.lock().unwrap();
    let states: Vec<&str> =
        written.iter().filter_map(|(_, body)| body["metadata"]["annotations"]["http_probe"].as_str()).collect();
    // A write that was done and answered with an error is done again: the same state twice in a row.
    let mut distinct = states.clone();
    distinct.dedup();
    assert_eq!(distinct, expected, "every transition arrives, in order");
    let requests = api.requests.load(Ordering::Relaxed);
    let changes = expected.len() as u64;
    // The pod and the target, each once for a change, and one more for each of the failures (one in five).
    assert!(requests <= changes * 2 * 5 / 4 + 10, "{requests} requests for {changes} changes");
    assert!(requests >= changes * 2, "{requests} requests for {changes} changes");
}
