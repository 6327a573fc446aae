//! What `bench/pure-parts` measures: a batch from its bytes to the records that are appended. No part of the API.

use std::hint::black_box;

use posting::{InboundRecord, IngestConfig};

use crate::media::BatchEncoding;

/// How many lines of an NDJSON batch become records.
#[must_use]
pub fn ndjson(body: &[u8]) -> usize {
    records(BatchEncoding::Ndjson, body)
}

/// The same of length-delimited protobuf.
#[must_use]
pub fn protobuf(body: &[u8]) -> usize {
    records(BatchEncoding::Protobuf, body)
}

fn records(encoding: BatchEncoding, mut body: &[u8]) -> usize {
    let config = IngestConfig::default();
    let (max_bytes, max_msg_bytes) = (config.max_line_bytes, config.max_msg_bytes);
    let mut framer = encoding.framer(max_bytes);
    let mut count = 0;
    while let Some(frame) = framer.next(&mut body) {
        if let Ok(post) = encoding.parse(frame.content, max_bytes, max_msg_bytes) {
            black_box(InboundRecord::from(post));
            count += 1;
        }
    }
    count
}
