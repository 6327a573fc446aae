//! What the fuzzer has found worth keeping (`fuzz/corpus`), once more and without it.

#[test]
fn cursors() {
    dev_stack::replay_corpus("cursor", query_api::fuzzing::cursor);
}
