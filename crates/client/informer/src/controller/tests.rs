use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use tokio::time::Instant;

use super::*;

#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

fn config_map(name: &str, version: u32) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn cache(names: &[&str]) -> Cache<ConfigMap> {
    let cache = Cache::new();
    for (version, name) in (1..).zip(names) {
        cache.written(config_map(name, version));
    }
    cache
}

/// When each reconciliation began, in milliseconds, and of which object.
#[derive(Clone)]
struct Diary {
    start: Instant,
    lines: Arc<Mutex<Vec<(u128, String)>>>,
}

impl Diary {
    fn new() -> Diary {
        Diary { start: Instant::now(), lines: Arc::default() }
    }

    /// Notes a reconciliation, and says how many there have been of this object before.
    fn note(&self, object: &ConfigMap) -> usize {
        let (name, mut lines) = (object.name_any(), self.lines.lock().unwrap());
        let before = lines.iter().filter(|(_, known)| *known == name).count();
        lines.push((self.start.elapsed().as_millis(), name));
        before
    }

    fn lines(&self) -> Vec<(u128, String)> {
        self.lines.lock().unwrap().clone()
    }
}

fn lines<const N: usize>(lines: [(u128, &str); N]) -> Vec<(u128, String)> {
    lines.map(|(at, name)| (at, name.to_owned())).to_vec()
}

async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

#[tokio::test(start_paused = true)]
async fn many_changes_at_once_are_one_reconciliation_and_so_are_those_during_one() {
    let (cache, diary) = (cache(&["a"]), Diary::new());
    let noted = diary.clone();
    tokio::spawn(Controller::new(&cache).run(move |object| {
        noted.note(&object);
        async {
            pass(100).await;
            Ok::<_, Refused>(None)
        }
    }));
    for version in 2..5 {
        pass(1).await;
        cache.written(config_map("a", version));
    }
    pass(20).await;
    cache.written(config_map("a", 6));
    cache.written(config_map("a", 7));
    pass(500).await;
    assert_eq!(diary.lines(), lines([(5, "a"), (105, "a")]));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_reconciled_again_when_it_asks_for_it_and_when_a_trigger_names_it() {
    let (cache, diary) = (cache(&["a", "b"]), Diary::new());
    let noted = diary.clone();
    let later = stream::once(async {
        pass(500).await;
        NamespacedName::new("default", "b")
    });
    tokio::spawn(Controller::new(&cache).reconcile_on(later).run(move |object| {
        let again = (noted.note(&object) == 0 && object.name_any() == "a").then_some(Duration::from_secs(1));
        std::future::ready(Ok::<_, Refused>(again))
    }));
    pass(5000).await;
    assert_eq!(diary.lines(), lines([(5, "a"), (5, "b"), (505, "b"), (1005, "a")]));
}

#[tokio::test(start_paused = true)]
async fn errors_and_panics_delay_only_the_object_that_they_are_about() {
    let (cache, diary) = (cache(&["error", "fine", "panic"]), Diary::new());
    let noted = diary.clone();
    tokio::spawn(Controller::new(&cache).run(move |object: Arc<ConfigMap>| {
        let before = noted.note(&object);
        async move {
            let name = object.name_any();
            assert!(name != "panic" || before > 0);
            if name == "error" && before < 3 { Err(Refused) } else { Ok(None) }
        }
    }));
    pass(1000).await;
    let of = |wanted: &str| -> Vec<u128> {
        diary.lines().into_iter().filter(|(_, name)| name == wanted).map(|(at, _)| at).collect()
    };
    assert_eq!((of("error"), of("fine"), of("panic")), (vec![5, 10, 20, 40], vec![5], vec![5, 10]));
}

#[tokio::test(start_paused = true)]
async fn no_more_objects_than_allowed_are_reconciled_at_the_same_time() {
    let (cache, running) = (cache(&["a", "b", "c", "d", "e"]), Arc::new((AtomicUsize::new(0), AtomicUsize::new(0))));
    let counts = Arc::clone(&running);
    let controller = Controller::new(&cache).concurrency(2).run(move |_| {
        let counts = Arc::clone(&counts);
        async move {
            let now = counts.0.fetch_add(1, Ordering::Relaxed) + 1;
            counts.1.fetch_max(now, Ordering::Relaxed);
            pass(10).await;
            counts.0.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, Refused>(None)
        }
    });
    tokio::spawn(controller);
    pass(34).await;
    assert_eq!((running.0.load(Ordering::Relaxed), running.1.load(Ordering::Relaxed)), (1, 2));
    pass(2).await;
    assert_eq!(running.0.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_not_reconciled() {
    let (cache, diary) = (cache(&["a"]), Diary::new());
    let noted = diary.clone();
    let gone = stream::iter([NamespacedName::new("default", "gone")]);
    tokio::spawn(Controller::new(&cache).reconcile_on(gone).run(move |object| {
        noted.note(&object);
        std::future::ready(Ok::<_, Refused>(None))
    }));
    pass(100).await;
    assert_eq!(diary.lines(), lines([(5, "a")]));
}
