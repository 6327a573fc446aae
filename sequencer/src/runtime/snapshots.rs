//! Tracks which snapshots are being stored, and deletes older ones.

use std::{collections::BTreeMap, sync::Arc};

use event_log::{Admin, AssignmentGeneration, EventLogError, KafkaConfig};
use schemas::{Partition, PartitionMap, topics::Topic};
use tokio::runtime::Handle;

use crate::shell::{SnapshotWriteId, WriteFailed};

/// Tracks the snapshots of all partitions and deletes those that are no longer needed.
pub(super) struct Snapshots {
    chunks: SnapshotChunks,
    admin: Arc<Admin>,
    runtime: Handle,
}

impl Snapshots {
    pub(super) fn new(kafka: &KafkaConfig, runtime: Handle) -> Result<Self, EventLogError> {
        Ok(Self {
            chunks: SnapshotChunks::default(),
            admin: Arc::new(Admin::new(kafka)?),
            runtime,
        })
    }

    /// Takes the report of one of `of` chunks, and returns whether it was the last.
    pub(super) fn reported(
        &mut self,
        partition: Partition,
        generation: AssignmentGeneration,
        ticket: SnapshotWriteId,
        of: usize,
        outcome: &Result<Option<i64>, WriteFailed>,
    ) -> bool {
        let stored = self
            .chunks
            .reported(partition, generation, ticket, of, outcome);
        if let Some(below) = stored.as_ref().and_then(|stored| stored.obsolete_below) {
            self.delete(partition, below);
        }
        stored.is_some()
    }

    fn delete(&self, partition: Partition, below: i64) {
        let admin = Arc::clone(&self.admin);
        self.runtime.spawn(async move {
            if let Err(error) = admin
                .delete_before(Topic::Snapshots, partition, below)
                .await
            {
                tracing::warn!(%error, %partition, "old snapshots were not deleted");
            }
        });
    }
}

/// A snapshot whose chunks are not all reported yet.
struct Storing {
    reported: usize,
    lost: bool,
    /// The first offset of the chunks so far; `None` once a chunk's offset is unknown.
    first_offset: Option<i64>,
}

/// A snapshot whose chunks are all reported.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    /// Records of `chat.snapshots` below this offset may be deleted: the newest two snapshots are above.
    obsolete_below: Option<i64>,
}

#[derive(Default)]
struct SnapshotChunks {
    storing: BTreeMap<(Partition, AssignmentGeneration, SnapshotWriteId), Storing>,
    /// Where the newest whole snapshot of each partition begins.
    newest: PartitionMap<i64>,
}

impl SnapshotChunks {
    /// Takes the report of one of `of` chunks; returns the snapshot after the last one.
    fn reported(
        &mut self,
        partition: Partition,
        generation: AssignmentGeneration,
        ticket: SnapshotWriteId,
        of: usize,
        outcome: &Result<Option<i64>, WriteFailed>,
    ) -> Option<Stored> {
        let key = (partition, generation, ticket);
        let storing = self.storing.entry(key).or_insert(Storing {
            reported: 0,
            lost: false,
            first_offset: Some(i64::MAX),
        });
        storing.reported += 1;
        match outcome {
            // `None` is less than every offset, so one unknown offset makes the minimum unknown.
            Ok(offset) => storing.first_offset = storing.first_offset.min(*offset),
            Err(_) => storing.lost = true,
        }
        if storing.reported < of {
            return None;
        }
        let storing = self.storing.remove(&key)?;
        let obsolete_below = if storing.lost {
            tracing::warn!(%partition, "a snapshot was lost; the next start folds more of the log");
            None
        } else {
            // A snapshot at an unknown offset deletes nothing, now or later.
            storing
                .first_offset
                .and_then(|first| self.newest.insert(partition, first))
        };
        Some(Stored { obsolete_below })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_two_complete_snapshots_are_kept() {
        let mut chunks = SnapshotChunks::default();
        let p: Partition = 3.try_into().unwrap();
        let mut report = |ticket, of, outcome| {
            chunks.reported(
                p,
                AssignmentGeneration::default(),
                SnapshotWriteId(ticket),
                of,
                &outcome,
            )
        };
        assert_eq!(report(1, 2, Ok(Some(10))), None);
        assert_eq!(
            report(1, 2, Ok(Some(11))),
            Some(Stored {
                obsolete_below: None
            })
        );
        assert_eq!(
            report(2, 1, Err(WriteFailed(String::new()))),
            Some(Stored {
                obsolete_below: None
            })
        );
        assert_eq!(
            report(3, 1, Ok(Some(13))),
            Some(Stored {
                obsolete_below: Some(10)
            })
        );
        assert_eq!(
            report(9, 2, Ok(None)),
            None,
            "its offset is unknown, so it deletes nothing"
        );
        assert_eq!(
            report(9, 2, Ok(Some(20))),
            Some(Stored {
                obsolete_below: None
            })
        );
        assert_eq!(
            report(4, 1, Ok(Some(14))),
            Some(Stored {
                obsolete_below: Some(13)
            })
        );
    }
}
