//! What `bench/pure-parts` measures: a batch from its bytes to the records that are appended. No part of the API.

use std::hint::black_box;

use crate::{inbound::InboundRecord, media::BatchEncoding};

/// Of ordinary limits.
const MAX_BYTES: usize = 65_536;

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
    let mut framer = encoding.framer(MAX_BYTES);
    let mut count = 0;
    while let Some(frame) = framer.next(&mut body) {
        let posted = frame
            .content
            .ok()
            .map(|part| encoding.parse(part, MAX_BYTES));
        if let Some(Ok(posted)) = posted {
            black_box(InboundRecord::from(posted));
            count += 1;
        }
    }
    count
}
