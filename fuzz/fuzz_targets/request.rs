//! See `pillion_testkit::fuzz::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pillion_testkit::fuzz::request(data));
