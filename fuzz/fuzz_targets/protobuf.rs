//! See `pillion_engine_fuzzing::protobuf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pillion_engine_fuzzing::protobuf(data));
