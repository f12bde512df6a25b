//! An acknowledged write survives SIGKILL at any moment.
//!
//! A child process, which is this test again, writes from many tasks and reports each write that was acknowledged.
//! It is killed, and the store is opened and compared with what the child reported. `PILLION_KILL_ROUNDS` says how often,
//! `PILLION_KILL_SEED` repeats its choices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::collections::HashMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pillion_store::{Key, Options, Store, Stored, Write};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

const TASKS: usize = 32;
const WRITES: usize = 10_000;
const KEYS: usize = 8;

/// The child's folder and round.
const CHILD: &str = "PILLION_KILL_CHILD";

#[test]
fn acknowledged_writes_survive_sigkill() {
    if let Ok(child) = env::var(CHILD) {
        let (round, folder) = child.split_once(' ').unwrap();
        return write_until_killed(round, Path::new(folder));
    }
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let rounds = number("PILLION_KILL_ROUNDS").unwrap_or(3);
    let seed = number("PILLION_KILL_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("PILLION_KILL_SEED={seed}");
    let mut random = Random(seed);

    let folder = tempfile::tempdir().unwrap();
    let mut known = HashMap::new();
    let mut newest = 0;
    for round in 0..rounds {
        let (acknowledged, moment) = run_and_kill(round, folder.path(), &mut random);
        let store = Store::open(folder.path(), Options::default()).unwrap();
        let there = check(&store, round, &acknowledged, &known);
        newest = acknowledged.iter().map(|write| write.version).max().unwrap_or(0).max(newest);
        assert!(store.resource_version() >= newest);
        println!("round {round}: killed {moment}; {} acknowledged, {} objects", acknowledged.len(), there.len());
        known = there;
        newest = store.resource_version();
    }
}

/// Writes to objects of its own in every task. `step` is the number of the write to one object; it says what is
/// written, so that a reader can tell.
fn write_until_killed(round: &str, folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = Store::open(folder, Options::default()).unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (store, round) = (store.clone(), round.to_owned());
            tasks.spawn(async move {
                let mut versions = [0; KEYS];
                for write in 0..WRITES / TASKS {
                    let (index, step) = (write % KEYS, write / KEYS);
                    let name = format!("r{round}-t{task}-k{index}");
                    let key = Key::new("configmaps", "default", name.clone());
                    let expected = versions[index];
                    let write = match (object(&name, step), step > 0 && object(&name, step - 1).is_some()) {
                        (Some(object), false) => Write::Create { key, object },
                        (Some(object), true) => Write::Update { key, expected, object },
                        (None, _) => Write::Delete { key, expected },
                    };
                    let version = store.write(write).await.unwrap().resource_version();
                    versions[index] = version;
                    println!("acknowledged {name} {step} {version}");
                }
            });
        }
        tasks.join_all().await;
    });
}

/// What the given write to an object stores; `None` when it deletes.
fn object(name: &str, step: usize) -> Option<Map<String, Value>> {
    let filler = format!("{name}:{step};").repeat(1 + step * 37 % 300);
    let value = json!({"metadata": {"name": name}, "step": step, "filler": filler});
    (step % 5 != 4).then(|| serde_json::from_value(value).unwrap())
}

struct Acknowledged {
    name: String,
    step: usize,
    version: u64,
}

/// Starts a child, kills it at a random moment, and returns what it said was acknowledged.
fn run_and_kill(round: u64, folder: &Path, random: &mut Random) -> (Vec<Acknowledged>, String) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "acknowledged_writes_survive_sigkill", "--nocapture"])
        .env(CHILD, format!("{round} {}", folder.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // Half a line, as the last one may be, says nothing.
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line.strip_suffix('\n').map(str::to_owned)
    };
    let mut acknowledged = Vec::new();
    // Some are killed while they open the store; the others between and inside of commits.
    let (count, delay) = match random.below(5) {
        0 => (0, Duration::from_micros(random.below(40_000))),
        _ => (random.below(WRITES as u64 * 9 / 10), Duration::from_micros(random.below(3000))),
    };
    while (acknowledged.len() as u64) < count {
        acknowledged.extend(parse(&line().expect("the child has ended by itself")));
    }
    let since = Instant::now();
    while since.elapsed() < delay {
        std::hint::spin_loop();
    }
    kill(pid, Signal::SIGKILL).unwrap();
    acknowledged.extend(std::iter::from_fn(line).filter_map(|line| parse(&line)));
    child.wait().unwrap();
    (acknowledged, format!("after {count} writes and {delay:?}"))
}

/// `acknowledged NAME STEP VERSION`; the test harness says other things too.
fn parse(line: &str) -> Option<Acknowledged> {
    let mut words = line.strip_prefix("acknowledged ")?.split(' ');
    let (name, step, version) = (words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Acknowledged { name, step, version })
}

/// Compares the store with what was acknowledged in this round, and with all that was there before it.
fn check(
    store: &Store,
    round: u64,
    acknowledged: &[Acknowledged],
    known: &HashMap<String, Stored>,
) -> HashMap<String, Stored> {
    let list = store.list("configmaps", None);
    let there: HashMap<String, Stored> =
        list.iter().map(|(_, name, stored)| (name.to_string(), stored.clone())).collect();
    let of_this_round = format!("r{round}-");
    for (name, stored) in known {
        assert_eq!(there.get(name), Some(stored), "{name} of an earlier round has changed");
    }
    for name in there.keys().filter(|name| !name.starts_with(&of_this_round)) {
        assert!(known.contains_key(name), "{name} of an earlier round has come back");
    }
    let mut last = HashMap::new();
    for write in acknowledged {
        last.insert(&*write.name, write);
    }
    for (task, index) in (0..TASKS).flat_map(|task| (0..KEYS).map(move |index| (task, index))) {
        let name = format!("r{round}-t{task}-k{index}");
        let last = last.get(&*name);
        let stored = there.get(&name).map(|stored| (contents(stored), stored.resource_version));
        let written = |step| object(&name, step).map(Value::Object);
        // The next write may be there as well: it was under way.
        let next = last.map_or(0, |last| last.step + 1);
        match (last, stored) {
            (Some(last), Some((found, version))) if Some(&found) == written(last.step).as_ref() => {
                assert_eq!(version, last.version, "{name} at step {}", last.step);
            }
            (_, found) if found.as_ref().map(|(found, _)| found) == written(next).as_ref() => {}
            (Some(last), None) if written(last.step).is_none() => {}
            (None, None) => {}
            (last, found) => {
                panic!("{name}: step {:?} was acknowledged and {found:?} is there", last.map(|last| last.step))
            }
        }
    }
    there
}

/// The object as it was written, after a check that its version is right.
fn contents(stored: &Stored) -> Value {
    let mut object: Value = serde_json::from_slice(&stored.bytes).unwrap();
    let version = object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(version, Some(json!(stored.resource_version.to_string())));
    object
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
