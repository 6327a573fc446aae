//! What the fuzzer has found worth keeping (`fuzz/corpus`), once more and without it.

mod log;

#[test]
fn logs() {
    dev_stack::replay_corpus("log", log::log);
}
