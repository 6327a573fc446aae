//! Which snapshots are on their way and which older ones may go.

use std::{collections::BTreeMap, sync::Arc};

use event_log::{Admin, EventLogError, KafkaConfig};
use schemas::{Partition, topics::Topic};
use tokio::runtime::Handle;

use super::effects::Run;
use crate::shell::{SnapshotWriteId, WriteFailed};

/// Follows the snapshots of all partitions and deletes those that are no longer needed.
pub(super) struct Snapshots {
    pieces: SnapshotPieces,
    admin: Arc<Admin>,
    runtime: Handle,
}

impl Snapshots {
    pub(super) fn new(kafka: &KafkaConfig, runtime: Handle) -> Result<Self, EventLogError> {
        Ok(Self {
            pieces: SnapshotPieces::default(),
            admin: Arc::new(Admin::new(kafka)?),
            runtime,
        })
    }

    /// Takes the report of one of `of` pieces; answers whether it was the last.
    pub(super) fn reported(
        &mut self,
        partition: Partition,
        run: Run,
        ticket: SnapshotWriteId,
        of: usize,
        outcome: &Result<Option<i64>, WriteFailed>,
    ) -> bool {
        let stored = self.pieces.reported(partition, run, ticket, of, outcome);
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
                tracing::warn!(%error, %partition, "old snapshots stay");
            }
        });
    }
}

/// A snapshot of which not all pieces are reported.
struct Storing {
    reported: usize,
    lost: bool,
    /// Of the pieces so far; `None` once one's is not known.
    first_offset: Option<i64>,
}

/// All pieces of a snapshot are reported.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    /// What lies below this offset of the partition of `chat.snapshots` may go: the newest two lie above.
    obsolete_below: Option<i64>,
}

#[derive(Default)]
struct SnapshotPieces {
    storing: BTreeMap<(Partition, Run, SnapshotWriteId), Storing>,
    /// Where the newest whole snapshot of each partition begins.
    newest: BTreeMap<Partition, i64>,
}

impl SnapshotPieces {
    /// Takes the report of one of `of` pieces; answers when it was the last.
    fn reported(
        &mut self,
        partition: Partition,
        run: Run,
        ticket: SnapshotWriteId,
        of: usize,
        outcome: &Result<Option<i64>, WriteFailed>,
    ) -> Option<Stored> {
        let key = (partition, run, ticket);
        let storing = self.storing.entry(key).or_insert(Storing {
            reported: 0,
            lost: false,
            first_offset: Some(i64::MAX),
        });
        storing.reported += 1;
        match outcome {
            // The order of options puts what is not known below everything.
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
            // One whose place is not known deletes nothing, now or later.
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
    fn the_newest_two_whole_ones_are_kept() {
        let mut pieces = SnapshotPieces::default();
        let p: Partition = 3.try_into().unwrap();
        let mut report =
            |ticket, of, outcome| pieces.reported(p, 1, SnapshotWriteId(ticket), of, &outcome);
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
            "its place is not known, so it deletes nothing"
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
