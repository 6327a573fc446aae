//! Snapshots in the pieces in which they lie on `chat.snapshots` (PROTOCOL S12: whole and checksummed, or not used).

use std::collections::BTreeMap;

use prost::Message as _;
use schemas::proto::{SequencerSnapshot, SnapshotChunk};

use crate::sabotage::{Rule, dropped};

/// The most payload of one piece: half of what a record may hold.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// Cuts a snapshot into pieces of at most `chunk_bytes`, in order. Each is the value of one record, whose key is the
/// snapshot's id.
#[must_use]
pub fn split(snapshot: &SequencerSnapshot, chunk_bytes: usize) -> Vec<SnapshotChunk> {
    let payload = snapshot.encode_to_vec();
    let checksum = blake3::hash(&payload);
    let src = snapshot.src.unwrap_or_default();
    // The checksum makes the id of two writers' snapshots the same only where their bytes are.
    let id = format!(
        "{}-{}.{}-{}",
        snapshot.events_offset,
        src.epoch,
        src.offset,
        &checksum.to_hex()[..16]
    );
    let pieces = payload.chunks(chunk_bytes);
    let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
    pieces
        .zip(0..)
        .map(|(piece, index)| SnapshotChunk {
            snapshot_id: id.clone(),
            index,
            count,
            checksum: checksum.as_bytes().to_vec(),
            payload: piece.to_vec(),
        })
        .collect()
}

/// Puts the pieces of a partition's snapshots together again, in whatever order they come.
#[derive(Debug, Default)]
pub struct Assembler {
    partial: BTreeMap<String, Partial>,
    whole: Vec<SequencerSnapshot>,
}

#[derive(Debug, Default)]
struct Partial {
    count: u32,
    checksum: Vec<u8>,
    pieces: BTreeMap<u32, Vec<u8>>,
}

impl Assembler {
    /// How many whole snapshots are kept: enough to pass over one that does not agree with the log.
    const KEPT: usize = 3;

    /// Takes one record's value. What is no piece of a snapshot is passed over.
    pub fn push(&mut self, value: &[u8]) {
        let Ok(chunk) = SnapshotChunk::decode(value) else {
            return;
        };
        let partial = self.partial.entry(chunk.snapshot_id.clone()).or_default();
        partial.count = chunk.count;
        partial.checksum = chunk.checksum;
        partial.pieces.insert(chunk.index, chunk.payload);
        if partial.pieces.len() == partial.count as usize
            && let Some(partial) = self.partial.remove(&chunk.snapshot_id)
        {
            self.keep(&partial);
        }
    }

    /// The snapshots that are whole, the furthest in `chat.events` first; at most three.
    #[must_use]
    pub fn finish(mut self) -> Vec<SequencerSnapshot> {
        if dropped(Rule::S12Checksum) {
            for partial in std::mem::take(&mut self.partial).values() {
                self.keep(partial);
            }
        }
        self.whole
    }

    fn keep(&mut self, partial: &Partial) {
        let payload: Vec<u8> = partial.pieces.values().flatten().copied().collect();
        let intact = blake3::hash(&payload).as_bytes().as_slice() == partial.checksum;
        if !intact && !dropped(Rule::S12Checksum) {
            return;
        }
        if let Ok(snapshot) = SequencerSnapshot::decode(payload.as_slice()) {
            self.whole.push(snapshot);
            self.whole
                .sort_by_key(|snapshot| std::cmp::Reverse(snapshot.events_offset));
            self.whole.truncate(Self::KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(events_offset: i64) -> SequencerSnapshot {
        SequencerSnapshot {
            format_version: 1,
            events_offset,
            clock_ms: 1234,
            ..SequencerSnapshot::default()
        }
    }

    fn assemble<'a>(chunks: impl IntoIterator<Item = &'a SnapshotChunk>) -> Vec<SequencerSnapshot> {
        let mut assembler = Assembler::default();
        for chunk in chunks {
            assembler.push(&chunk.encode_to_vec());
        }
        assembler.finish()
    }

    #[test]
    fn interleaved_pieces_come_together_and_the_furthest_is_first() {
        let (low, high) = (split(&snapshot(5), 3), split(&snapshot(700), 3));
        assert!(low.len() > 1 && high.len() > 1);
        let mut mixed: Vec<_> = low.iter().chain(&high).collect();
        mixed.reverse();
        assert_eq!(assemble(mixed), [snapshot(700), snapshot(5)]);
    }

    #[test]
    fn a_torn_or_corrupt_snapshot_is_passed_over() {
        let whole = split(&snapshot(5), 3);
        assert_eq!(assemble(&whole[1..]), []);
        for i in 0..whole.len() {
            let mut corrupt = whole.clone();
            corrupt[i].payload[0] ^= 1;
            assert_eq!(assemble(&corrupt), [], "piece {i}");
        }
        let mut junk = Assembler::default();
        junk.push(b"junk");
        assert_eq!(junk.finish(), []);
    }
}
