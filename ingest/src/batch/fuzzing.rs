//! What the fuzz targets in `fuzz/` run, and `tests/fuzzed.rs` over what they found. No part of the API.

use posting::{InboundRecord, Post};
use schemas::command::Command;

use super::{frame::Frame, framer::Framer};
use crate::media::BatchEncoding;

/// Small, so that short inputs reach it.
const MAX_PART_BYTES: usize = 512;
const MAX_MSG_BYTES: usize = 256;

/// An NDJSON batch: the first byte says in what pieces the rest comes.
///
/// # Panics
/// The pieces matter, or what was accepted reads differently on the log.
pub fn ndjson(data: &[u8]) {
    batch(BatchEncoding::Ndjson, data);
}

/// A batch of length-delimited protobuf: the first byte says in what pieces the rest comes.
///
/// # Panics
/// As [`ndjson`].
pub fn protobuf(data: &[u8]) {
    batch(BatchEncoding::Protobuf, data);
}

fn batch(encoding: BatchEncoding, data: &[u8]) {
    let Some((piece, body)) = data.split_first() else {
        return;
    };
    let whole = outcomes(encoding, std::iter::once(body));
    let in_pieces = outcomes(encoding, body.chunks(1 + usize::from(*piece % 64)));
    assert_eq!(whole, in_pieces, "the pieces of a body matter");
}

/// By the number of its part: the command, or why there is none.
type Outcome = (u32, Result<Command, String>);

fn outcomes<'a>(encoding: BatchEncoding, chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Outcome> {
    let mut framer: Framer = encoding.framer(MAX_PART_BYTES);
    let mut outcomes = Vec::new();
    for mut chunk in chunks {
        while let Some(frame) = framer.next(&mut chunk) {
            outcomes.push(outcome(encoding, frame));
        }
    }
    outcomes.extend(framer.finish().map(|frame| outcome(encoding, frame)));
    outcomes
}

fn outcome(encoding: BatchEncoding, frame: Frame<'_>) -> Outcome {
    let post = encoding.parse(frame.content, MAX_PART_BYTES, MAX_MSG_BYTES);
    (
        frame.number,
        post.map(on_the_log).map_err(|problem| problem.detail),
    )
}

/// The command that the sequencer reads if ingest appends this. A generated id is another one each time, so it is replaced.
fn on_the_log(post: Post) -> Command {
    let is_generated = post.generated_id.is_some();
    let command = post.command.clone();
    let record = InboundRecord::from(post);
    let mut read = Command::parse(record.value()).expect("what ingest accepts is well formed");
    assert_eq!(read, command);
    let id = || "generated".to_owned().try_into().expect("an id");
    match &mut read {
        Command::Send(send) if is_generated => send.client_msg_id = id(),
        _ => {}
    }
    read
}
