#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| query_api::fuzzing::cursor(data));
