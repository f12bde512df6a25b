//! See `pillion_engine_fuzzing::decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pillion_engine_fuzzing::decode(data));
