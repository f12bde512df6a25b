//! See `pillion_testkit::fuzz::selector`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pillion_testkit::fuzz::selector(data));
