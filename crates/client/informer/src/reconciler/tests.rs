use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

/// When each reconciliation began, in milliseconds, and of which key.
struct Diary {
    start: Instant,
    lines: Mutex<Vec<(u128, &'static str)>>,
}

impl Diary {
    fn new() -> Diary {
        Diary { start: Instant::now(), lines: Mutex::default() }
    }

    /// Notes a reconciliation, and says how many there have been of this key before.
    fn note(&self, key: &'static str) -> usize {
        let mut lines = self.lines.lock().unwrap();
        lines.push((self.start.elapsed().as_millis(), key));
        lines.iter().filter(|(_, known)| *known == key).count() - 1
    }

    fn of(&self, key: &str) -> Vec<u128> {
        self.lines.lock().unwrap().iter().filter(|(_, known)| *known == key).map(|(at, _)| *at).collect()
    }
}

/// Names keys at once, and never ends.
fn named(keys: &[&'static str]) -> impl Stream<Item = &'static str> + Send + use<> {
    stream::iter(keys.to_vec()).chain(stream::pending())
}

/// As a reconciliation whose request has a deadline.
async fn fail_after_a_minute() -> Outcome {
    tokio::time::sleep(MINUTE).await;
    Outcome::Failed { error: "no answer".to_owned(), has_progressed: false }
}

async fn for_a_while(reconciling: impl Future<Output = ()>, seconds: u64) {
    let _ = tokio::time::timeout(Duration::from_secs(seconds), reconciling).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_hangs_delays_no_other() {
    let diary = Diary::new();
    let reconciler = Reconciler::new("test").on(named(&["hangs", "a", "b"])).concurrency(2);
    let reconciling = reconciler.run(async |key| {
        if diary.note(key) == 0 && key == "hangs" {
            return fail_after_a_minute().await;
        }
        Outcome::Done(None)
    });
    for_a_while(reconciling, 120).await;
    assert_eq!((diary.of("a"), diary.of("b")), (vec![5], vec![5]));
    assert_eq!(diary.of("hangs"), [5, 60_010]);
}

#[tokio::test(start_paused = true)]
async fn errors_and_panics_are_tried_again_after_the_back_off_of_their_key() {
    let diary = Diary::new();
    let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(4), is_strict: true };
    let reconciler = Reconciler::new("test").on(named(&["error", "panic", "fine"])).backoff(backoff);
    let reconciling = reconciler.run(async |key| {
        let before = diary.note(key);
        assert!(key != "panic" || before > 0, "the first one panics");
        match key {
            "error" => Outcome::Failed { error: "no".to_owned(), has_progressed: before == 3 },
            _ => Outcome::Done(None),
        }
    });
    for_a_while(reconciling, 15).await;
    assert_eq!(diary.of("error"), [5, 1005, 3005, 7005, 8005, 10_005, 14_005]);
    assert_eq!((diary.of("panic"), diary.of("fine")), (vec![5, 1005], vec![5]));
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_by_the_keys_while_no_reconciliation_ends() {
    #[derive(Default)]
    struct Counted {
        most: AtomicUsize,
        begun: AtomicUsize,
        failed: AtomicUsize,
        retries: AtomicUsize,
    }
    impl Observe for &Counted {
        fn waiting(&self, keys: usize) {
            self.most.fetch_max(keys, Ordering::Relaxed);
        }

        fn begins(&self, waited: Duration, is_retry: bool) {
            assert!(is_retry || waited == Duration::ZERO || waited >= MINUTE);
            self.begun.fetch_add(1, Ordering::Relaxed);
            self.retries.fetch_add(usize::from(is_retry), Ordering::Relaxed);
        }

        fn ended(&self, took: Duration, has_failed: bool) {
            assert_eq!(took, MINUTE);
            self.failed.fetch_add(usize::from(has_failed), Ordering::Relaxed);
        }
    }
    let counted = Counted::default();
    let changes = stream::iter((0..100_000_u32).map(|i| i % 100)).chain(stream::pending());
    let reconciler = Reconciler::new("test").on(changes).concurrency(8).observed_by(Box::new(&counted));
    for_a_while(reconciler.run(|_| fail_after_a_minute()), 90).await;
    let seen = [&counted.most, &counted.begun, &counted.failed, &counted.retries];
    // Eight are under way for a minute, and eight others after them; 92 wait, and then those that failed as well.
    assert_eq!(seen.map(|number| number.load(Ordering::Relaxed)), [92, 16, 8, 0]);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_streams_when_nothing_waits() {
    let diary = Diary::new();
    let again = |before: usize| (before < 2).then_some(Duration::from_secs(1));
    let reconciler = Reconciler::new("test").on(stream::iter(["a"]));
    reconciler.run(async |key| Outcome::Done(again(diary.note(key)))).await;
    assert_eq!(diary.of("a"), [5, 1005, 2005]);
}
