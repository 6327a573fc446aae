//! Snapshots as records of `chat.snapshots`: split into chunks and put together again. Only complete snapshots with a valid checksum are used
//! (PROTOCOL S12).

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, Bytes};
use prost::Message as _;
use schemas::proto::{SequencerSnapshot, SnapshotChunk};

use crate::core::snapshot::{self, InvalidSnapshot, Restored};

/// The maximum payload of a chunk: half of what a record may hold.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// Splits a snapshot into chunks with at most `chunk_bytes` of payload, in order. Each is the value of one record, whose key is the
/// snapshot's id.
#[must_use]
pub fn split(snapshot: &SequencerSnapshot, chunk_bytes: usize) -> Vec<SnapshotChunk> {
    let payload = snapshot.encode_to_vec();
    let checksum = blake3::hash(&payload);
    let src = snapshot.src.unwrap_or_default();
    // With the checksum, snapshots of two writers have the same id only if their bytes are equal.
    let id = format!(
        "{}-{}.{}-{}",
        snapshot.events_offset,
        src.epoch,
        src.offset,
        &checksum.to_hex()[..16]
    );
    let chunks = payload.chunks(chunk_bytes);
    let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
    chunks
        .zip(0..)
        .map(|(chunk, index)| SnapshotChunk {
            snapshot_id: id.clone(),
            index,
            count,
            checksum: checksum.as_bytes().to_vec(),
            payload: chunk.to_vec(),
        })
        .collect()
}

/// A complete snapshot as it was stored, with a valid checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    events_offset: i64,
    chunks: VecDeque<Bytes>,
}

impl StoredSnapshot {
    /// Decodes the snapshot. Each chunk is freed as soon as it is decoded.
    ///
    /// # Errors
    /// [`InvalidSnapshot`] if the bytes do not hold a valid state.
    pub fn read(self) -> Result<Restored, InvalidSnapshot> {
        snapshot::read(Chunks::new(self.chunks))
    }
}

/// Chunks as one buffer.
struct Chunks {
    left: VecDeque<Bytes>,
    bytes: usize,
}

impl Chunks {
    fn new(chunks: VecDeque<Bytes>) -> Self {
        Self {
            bytes: chunks.iter().map(Bytes::len).sum(),
            left: chunks,
        }
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.left.front().map_or(&[], |chunk| chunk)
    }

    fn advance(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let first = self.left.front_mut().expect("there is as much left");
            let taken = count.min(first.len());
            first.advance(taken);
            count -= taken;
            if first.is_empty() {
                self.left.pop_front();
            }
        }
    }
}

/// Assembles the snapshots of a partition from their chunks, which may come in any order.
#[derive(Debug, Default)]
pub struct Assembler {
    partial: BTreeMap<String, Partial>,
    complete: Vec<StoredSnapshot>,
}

#[derive(Debug, Default)]
struct Partial {
    count: u32,
    checksum: Vec<u8>,
    chunks: BTreeMap<u32, Bytes>,
}

impl Assembler {
    /// How many snapshots are kept, so that one that does not agree with the log can be skipped.
    const KEPT: usize = 3;

    /// Takes one record's value. A value that is not a chunk is skipped.
    pub fn push(&mut self, value: &[u8]) {
        let Ok(chunk) = SnapshotChunk::decode(value) else {
            return;
        };
        let partial = self.partial.entry(chunk.snapshot_id.clone()).or_default();
        partial.count = chunk.count;
        partial.checksum = chunk.checksum;
        partial.chunks.insert(chunk.index, chunk.payload.into());
        if partial.chunks.len() == partial.count as usize
            && let Some(partial) = self.partial.remove(&chunk.snapshot_id)
        {
            self.keep(partial);
        }
    }

    /// The complete snapshots, the one with the highest offset of `chat.events` first; at most three.
    #[must_use]
    pub fn finish(self) -> Vec<StoredSnapshot> {
        self.complete
    }

    fn keep(&mut self, partial: Partial) {
        let mut checksum = blake3::Hasher::new();
        for chunk in partial.chunks.values() {
            checksum.update(chunk);
        }
        if checksum.finalize().as_bytes().as_slice() != partial.checksum {
            return;
        }
        let chunks: VecDeque<Bytes> = partial.chunks.into_values().collect();
        // Bytes are shared, so this copies none.
        if let Some(events_offset) = snapshot::events_offset(Chunks::new(chunks.clone())) {
            self.complete.push(StoredSnapshot {
                events_offset,
                chunks,
            });
            self.complete
                .sort_by_key(|snapshot| std::cmp::Reverse(snapshot.events_offset));
            self.complete.truncate(Self::KEPT);
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
        let complete = assembler.finish().into_iter();
        complete
            .map(|stored| SequencerSnapshot::decode(Chunks::new(stored.chunks)).unwrap())
            .collect()
    }

    #[test]
    fn interleaved_chunks_are_assembled_and_the_highest_offset_is_first() {
        let (low, high) = (split(&snapshot(5), 3), split(&snapshot(700), 3));
        assert!(low.len() > 1 && high.len() > 1);
        let mut mixed: Vec<_> = low.iter().chain(&high).collect();
        mixed.reverse();
        assert_eq!(assemble(mixed), [snapshot(700), snapshot(5)]);
    }

    #[test]
    fn a_chunk_is_freed_once_it_is_read() {
        let chunks = [&b"ab"[..], b"c", b"def"].map(Bytes::copy_from_slice);
        let mut chunks = Chunks::new(chunks.into());
        let mut first = [0; 3];
        chunks.copy_to_slice(&mut first);
        assert_eq!((&first, chunks.left.len()), (b"abc", 1));
        chunks.advance(2);
        assert_eq!((chunks.chunk(), chunks.remaining()), (&b"f"[..], 1));
        chunks.advance(1);
        assert!(!chunks.has_remaining() && chunks.left.is_empty());
    }

    #[test]
    fn a_torn_or_corrupt_snapshot_is_skipped() {
        let complete = split(&snapshot(5), 3);
        assert_eq!(assemble(&complete[1..]), []);
        for i in 0..complete.len() {
            let mut corrupt = complete.clone();
            corrupt[i].payload[0] ^= 1;
            assert_eq!(assemble(&corrupt), [], "chunk {i}");
        }
        let mut junk = Assembler::default();
        junk.push(b"junk");
        assert!(junk.finish().is_empty());
    }
}
