//! A request that hangs delays no other object, and one that fails is tried again soon.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_informer::Observe;
use pillion_rightsizer::{Cluster, Config, recommend};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::targets::{scalable, widget};
use crate::{AUTOSCALERS, Rig, Trouble};

/// How often was written to a path with this in it.
fn count(written: &[(axum::http::Method, String)], part: &str) -> usize {
    written.iter().filter(|(_, path)| path.contains(part)).count()
}

/// Workloads with one pod each, which the updater is to evict.
async fn to_be_evicted(names: &[&str]) -> Rig {
    let rig = Rig::start().await;
    for name in names {
        rig.workload(name).await;
        rig.autoscaler(name).await;
    }
    for name in names {
        rig.recommended(name, "Recreate", 1).await;
    }
    rig
}

/// Workloads with one pod each, which the recommender is to look at.
async fn to_be_sampled(names: &[&str]) -> Rig {
    let rig = Rig::start().await;
    rig.serve_usage(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    for name in names {
        rig.workload(name).await;
        rig.autoscaler(name).await;
    }
    rig.take_written();
    rig
}

fn without_admission(rig: &Rig) -> Config {
    Config { needs_admission: false, ..rig.config() }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_hangs_delays_no_other_workload() {
    let rig = to_be_evicted(&["a", "b", "c"]).await;
    rig.trouble("/a-0/eviction", Trouble::Hangs);
    rig.update(without_admission(&rig));
    sleep(Duration::from_secs(10)).await;
    let written = rig.take_written();
    let evictions = ["a", "b", "c"].map(|name| count(&written, &format!("/{name}-0/eviction")));
    assert_eq!(evictions, [1, 1, 1], "{written:?}");
    sleep(Duration::from_secs(40)).await;
    assert_eq!(count(&rig.take_written(), "/a-0/eviction"), 1, "it is given up, and tried again");
    sleep(Duration::from_mins(10)).await;
    assert_eq!(rig.take_evictions(), 0);
}

/// Under a quota each of them plans with what the others have left.
#[tokio::test(start_paused = true)]
async fn under_a_quota_the_workloads_of_a_namespace_have_their_turns() {
    let rig = to_be_evicted(&["a", "b", "c"]).await;
    rig.quota("100", "1").await;
    rig.trouble("/a-0/eviction", Trouble::Hangs);
    rig.update(without_admission(&rig));
    sleep(Duration::from_secs(10)).await;
    let written = rig.take_written();
    assert_eq!(count(&written, "/eviction"), 1, "{written:?}");
    sleep(Duration::from_secs(22)).await;
    let written = rig.take_written();
    assert_eq!(["b", "c"].map(|name| count(&written, &format!("/{name}-0/eviction"))), [1, 1], "{written:?}");
}

/// What a reconciler has done.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(&'static str, &'static str)>>>);

struct Observer(&'static str, Seen);

impl Observe for Observer {
    fn begins(&self, _: Duration, is_retry: bool) {
        if is_retry {
            self.1.0.lock().unwrap().push((self.0, "retry"));
        }
    }

    fn ended(&self, _: Duration, has_failed: bool) {
        if has_failed {
            self.1.0.lock().unwrap().push((self.0, "error"));
        }
    }
}

impl Seen {
    fn config(&self, config: Config) -> Config {
        let seen = self.clone();
        Config { observers: Arc::new(move |name| Box::new(Observer(name, seen.clone()))), ..config }
    }

    fn take(&self) -> Vec<(&'static str, &'static str)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_fails_is_tried_again_before_the_next_pass() {
    let rig = to_be_evicted(&["web"]).await;
    rig.trouble("/eviction", Trouble::Fails);
    rig.trouble("/eviction", Trouble::Fails);
    let seen = Seen::default();
    rig.update(seen.config(without_admission(&rig)));
    sleep(Duration::from_secs(4)).await;
    assert_eq!(rig.take_evictions(), 1);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(rig.take_evictions(), 1, "after five seconds");
    sleep(Duration::from_secs(4)).await;
    assert_eq!(rig.take_evictions(), 0, "and then after ten");
    sleep(Duration::from_secs(8)).await;
    assert_eq!(rig.take_evictions(), 1);
    let expected = ["error", "retry", "error", "retry"].map(|what| ("updater", what));
    assert_eq!(seen.take(), expected);
    sleep(Duration::from_mins(5)).await;
    assert_eq!((rig.take_evictions(), seen.take()), (0, Vec::new()));
}

/// A refusal stays one until something changes.
#[tokio::test(start_paused = true)]
async fn an_eviction_that_a_budget_forbids_waits_for_the_next_pass() {
    let rig = to_be_evicted(&["web"]).await;
    rig.exhausted_budget("web").await;
    let seen = Seen::default();
    rig.update(seen.config(without_admission(&rig)));
    sleep(Duration::from_secs(50)).await;
    assert_eq!(rig.take_evictions(), 1);
    sleep(Duration::from_mins(1)).await;
    assert_eq!((rig.take_evictions(), seen.take()), (1, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_written_is_tried_again_before_the_next_pass() {
    let rig = to_be_evicted(&["web"]).await;
    let stopped = json!({
        "type": "EvictionsStopped", "status": "True", "reason": "NoSuccessor", "message": "no pod came",
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    });
    rig.merge(&format!("{AUTOSCALERS}/web/status"), json!({"status": {"conditions": [stopped]}})).await;
    rig.mode("web", "Off").await;
    rig.take_written();
    rig.trouble("/web/status", Trouble::Fails);
    rig.update(without_admission(&rig));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(count(&rig.take_written(), "/web/status"), 2);
    assert_eq!(rig.condition("web", "EvictionsStopped").await.as_deref(), Some("False"));
}

#[tokio::test(start_paused = true)]
async fn a_status_whose_write_hangs_delays_neither_the_others_nor_the_next_pass() {
    let rig = to_be_sampled(&["a", "b"]).await;
    rig.trouble("/a/status", Trouble::Hangs);
    rig.recommend(rig.config());
    sleep(Duration::from_secs(10)).await;
    assert_eq!((rig.recommended_for("a").await.len(), rig.recommended_for("b").await.len()), (0, 2));
    let written = rig.take_written();
    assert_eq!(["checkpoints/a-", "checkpoints/b-"].map(|part| count(&written, part)), [2, 2], "{written:?}");
    sleep(Duration::from_secs(40)).await;
    assert_eq!(rig.recommended_for("a").await.len(), 2, "it is given up, and tried again");
    sleep(Duration::from_secs(15)).await;
    let written = rig.take_written();
    assert_eq!(["checkpoints/a-", "checkpoints/b-"].map(|part| count(&written, part)), [2, 2], "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_has_to_be_asked_for_delays_no_other() {
    let rig = to_be_sampled(&["a", "b"]).await;
    widget(&rig, scalable(), 1).await;
    for _ in 0..2 {
        rig.trouble("/widgets/web/scale", Trouble::Hangs);
    }
    rig.recommend(rig.config());
    sleep(Duration::from_secs(10)).await;
    assert_eq!((rig.recommended_for("a").await.len(), rig.recommended_for("b").await.len()), (2, 2));
    let written = rig.take_written();
    assert_eq!(["checkpoints/a-", "checkpoints/b-"].map(|part| count(&written, part)), [2, 2], "{written:?}");
    sleep(Duration::from_mins(2)).await;
    assert_eq!(rig.condition("web", "ConfigUnsupported").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_whose_write_hangs_delays_neither_the_others_nor_the_next_pass() {
    let rig = to_be_sampled(&["a", "b", "c"]).await;
    rig.trouble("checkpoints/a-", Trouble::Hangs);
    // It hangs again.
    for _ in 0..10 {
        rig.trouble("checkpoints/a-a", Trouble::Hangs);
    }
    rig.recommend(Config { update_workers: 2, ..rig.config() });
    let others = ["checkpoints/b-", "checkpoints/c-"];
    for pass in 0..5 {
        sleep(Duration::from_secs(if pass == 0 { 10 } else { 60 })).await;
        let written = rig.take_written();
        assert_eq!(others.map(|part| count(&written, part)), [2, 2], "pass {pass}: {written:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_recommender_cannot_write_is_tried_again_before_the_next_pass() {
    let rig = to_be_sampled(&["web"]).await;
    rig.trouble("/web/status", Trouble::Fails);
    rig.trouble("checkpoints/web-a", Trouble::Fails);
    let seen = Seen::default();
    rig.recommend(seen.config(rig.config()));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(rig.recommended_for("web").await, ["a", "b"]);
    let mut checkpoints = rig.take_checkpoints();
    checkpoints.sort();
    assert_eq!(checkpoints, ["web-a", "web-a", "web-b"], "what was stored is not stored again");
    let mut seen = seen.take();
    seen.sort_unstable();
    let expected = ["error", "error", "retry", "retry"].map(|what| ("recommender-writes", what));
    assert_eq!(seen, expected);
}

/// The end is bounded, whatever the API server does.
#[tokio::test(start_paused = true)]
async fn at_the_end_everything_is_tried_once_more() {
    let rig = to_be_sampled(&["web"]).await;
    for _ in 0..3 {
        rig.trouble("checkpoints/web-a", Trouble::Fails);
    }
    let (cluster, config, (stop, stopping)) = (Cluster::new(rig.client.clone()), rig.config(), oneshot::channel());
    let stopping = async { stopping.await.unwrap() };
    let recommending = tokio::spawn(async move { recommend(&cluster, &config, stopping).await });
    sleep(Duration::from_secs(10)).await;
    let mut checkpoints = rig.take_checkpoints();
    checkpoints.sort();
    assert_eq!(checkpoints, ["web-a", "web-a", "web-b"]);
    stop.send(()).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.take_checkpoints(), ["web-a"]);
    assert!(recommending.is_finished());
}
