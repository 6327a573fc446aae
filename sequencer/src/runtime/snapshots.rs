//! Which snapshots are on their way and which older ones may go.

use std::collections::BTreeMap;

use schemas::Partition;

use super::effects::Run;
use crate::shell::{Failed, Ticket};

/// A snapshot of which not all pieces are reported.
struct Storing {
    reported: usize,
    lost: bool,
    first_offset: i64,
}

/// All pieces of a snapshot are reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// What lies below this offset of the partition of `chat.snapshots` may go: the newest two lie above.
    pub(super) obsolete_below: Option<i64>,
}

#[derive(Default)]
pub(super) struct SnapshotPieces {
    storing: BTreeMap<(Partition, Run, Ticket), Storing>,
    /// Where the newest whole snapshot of each partition begins.
    newest: BTreeMap<Partition, i64>,
}

impl SnapshotPieces {
    /// Takes the report of one of `of` pieces; answers when it was the last.
    pub(super) fn reported(
        &mut self,
        partition: Partition,
        run: Run,
        ticket: Ticket,
        of: usize,
        outcome: &Result<i64, Failed>,
    ) -> Option<Stored> {
        let key = (partition, run, ticket);
        let storing = self.storing.entry(key).or_insert(Storing {
            reported: 0,
            lost: false,
            first_offset: i64::MAX,
        });
        storing.reported += 1;
        match outcome {
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
            self.newest.insert(partition, storing.first_offset)
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
        let mut report = |ticket, of, outcome| pieces.reported(p, 1, Ticket(ticket), of, &outcome);
        assert_eq!(report(1, 2, Ok(10)), None);
        assert_eq!(
            report(1, 2, Ok(11)),
            Some(Stored {
                obsolete_below: None
            })
        );
        assert_eq!(
            report(2, 1, Err(Failed(String::new()))),
            Some(Stored {
                obsolete_below: None
            })
        );
        assert_eq!(
            report(3, 1, Ok(13)),
            Some(Stored {
                obsolete_below: Some(10)
            })
        );
        assert_eq!(
            report(4, 1, Ok(14)),
            Some(Stored {
                obsolete_below: Some(13)
            })
        );
    }
}
