//! What the fuzzer has found worth keeping (`fuzz/corpus`), once more and without it.

#[test]
fn batches_of_ndjson() {
    dev_stack::replay_corpus("ndjson", ingest::fuzzing::ndjson);
}

#[test]
fn batches_of_protobuf() {
    dev_stack::replay_corpus("protobuf", ingest::fuzzing::protobuf);
}
