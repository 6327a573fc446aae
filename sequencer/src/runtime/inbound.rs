//! Records of `chat.inbound`, stepped where librdkafka has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use event_log::{FetchError, Fetched, Fetcher, RecordRef};
use schemas::{Partition, TimestampMs};

use super::phase::Phase;
use crate::shell::{InboundRecord, InboundView};

/// How many records are polled before reports and timers get their turn.
const POLL_RECORDS: usize = 4000;

/// Partitions that a round of polling brought something of.
#[derive(Default)]
pub(super) struct Stepped {
    /// Their shells have taken records.
    pub(super) taken: BTreeSet<Partition>,
    /// There is no more of them right now.
    pub(super) drained: Vec<Partition>,
    /// Their position was off the log for a while; none of their records behind that is taken.
    pub(super) resumed: Vec<Partition>,
}

/// Hands what is at hand to the shells, after waiting so long at most for the first of it.
///
/// # Errors
/// The log cannot be read on; the process must end.
pub(super) fn step_at_hand(
    fetcher: &mut Fetcher,
    partitions: &mut BTreeMap<Partition, Phase>,
    mut patience: Duration,
    now_ms: u64,
) -> anyhow::Result<Stepped> {
    let mut stepped = Stepped::default();
    for _ in 0..POLL_RECORDS {
        let polled = fetcher.poll(patience, |fetched| match fetched {
            Fetched::Record(record) => {
                let phase = partitions.get_mut(&record.partition);
                if let Some(owned) = phase.and_then(Phase::owned_mut) {
                    owned.shell.take(&record, now_ms);
                    stepped.taken.insert(record.partition);
                }
            }
            Fetched::Drained(partition) => stepped.drained.push(partition),
            Fetched::Resumed(partition) => stepped.resumed.push(partition),
        });
        match polled {
            // What comes behind it is not for a shell that has not compared the log with what it sequenced.
            Ok(Some(())) if !stepped.resumed.is_empty() => break,
            Ok(Some(())) => {}
            Ok(None) => break,
            Err(FetchError::Transient(error)) => {
                tracing::debug!(error, "polling chat.inbound");
                break;
            }
            Err(error) => return Err(cannot_read_on(error)),
        }
        patience = Duration::ZERO;
    }
    Ok(stepped)
}

impl InboundView for RecordRef<'_> {
    fn offset(&self) -> i64 {
        self.offset
    }

    fn ts(&self) -> TimestampMs {
        self.timestamp
    }

    fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    fn value(&self) -> &[u8] {
        self.bytes()
    }

    fn to_record(&self) -> InboundRecord {
        InboundRecord {
            offset: self.offset,
            ts: self.timestamp,
            leader_epoch: self.leader_epoch,
            key: self.key.map(Bytes::copy_from_slice),
            value: self.value.map(Bytes::copy_from_slice),
            headers: self
                .headers()
                .into_iter()
                .map(|(name, value)| (name, value.map(Into::into)))
                .collect(),
        }
    }
}

/// Only what is missing from the log can be gone on without.
fn cannot_read_on(error: FetchError) -> anyhow::Error {
    let what = match error {
        FetchError::OutOfRange { .. } => {
            "chat.inbound cannot be read on; to go on without what is missing, stop every sequencer and run `tidemark \
             epoch raise`"
        }
        FetchError::Transient(_) | FetchError::Fatal(_) => "chat.inbound cannot be read",
    };
    anyhow::Error::new(error).context(what)
}

#[cfg(test)]
mod tests {
    use schemas::NextOffset;

    use super::*;

    #[test]
    fn raising_the_epoch_is_advised_only_where_records_are_missing() {
        let partition: Partition = 1.try_into().unwrap();
        let advised = |error| format!("{:#}", cannot_read_on(error)).contains("epoch raise");
        assert!(advised(FetchError::OutOfRange {
            topic: "chat.inbound".to_owned(),
            partition,
            position: NextOffset::new(7),
            start: 0,
            end: 3,
        }));
        let denied = "Broker: Topic authorization failed".to_owned();
        assert!(!advised(FetchError::Fatal(denied)));
    }
}
