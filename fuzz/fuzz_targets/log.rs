#![no_main]

#[path = "../../sequencer/tests/fuzzed/log.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log::log(data));
