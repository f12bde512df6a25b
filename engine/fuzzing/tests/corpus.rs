//! Replays the committed corpus of the fuzzers as an ordinary test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set its stage stops there"
)]

use std::path::Path;

use pillion_engine_fuzzing as fuzz;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is committed") {
        let path = entry.expect("an entry of the folder").path();
        let data = std::fs::read(&path).expect("a file of the corpus");
        let holds = std::panic::catch_unwind(|| check(&data)).is_ok();
        assert!(holds, "{} breaks what must be true of any input", path.display());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", folder.display());
}

#[test]
fn decoded_objects() {
    replay("decode", fuzz::decode);
}

#[test]
fn protobuf_messages() {
    replay("protobuf", fuzz::protobuf);
}

#[test]
fn strategic_merges() {
    replay("strategic", fuzz::strategic);
}

#[test]
fn applied_objects() {
    replay("apply", fuzz::apply);
}

#[test]
fn selectors() {
    replay("selector", fuzz::selector);
}

#[test]
fn requests() {
    replay("request", fuzz::request);
}
