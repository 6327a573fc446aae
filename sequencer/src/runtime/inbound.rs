//! Polls records of `chat.inbound`. Shells take them in librdkafka's memory, without a copy.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use event_log::{FetchError, Fetched, Fetcher, RecordRef};
use schemas::{Partition, PartitionMap, TimestampMs};

use super::phase::Phase;
use crate::shell::{InboundRecord, InboundView};

/// How many records are polled between two checks for reports and timers.
const POLL_RECORDS: usize = 4000;

/// The partitions for which a round of polling returned anything.
#[derive(Default)]
pub(super) struct Polled {
    /// Partitions whose shells have taken records.
    pub(super) taken: BTreeSet<Partition>,
    /// Partitions without more records right now.
    pub(super) at_end: Vec<Partition>,
    /// Partitions whose position was temporarily out of range; none of their later records is taken.
    pub(super) back_in_range: Vec<Partition>,
    /// A partition that can no longer be read, and what has to be done.
    pub(super) out_of_range: Option<(Partition, String)>,
}

/// Gives the available records to the shells, after waiting at most `timeout` for the first one.
///
/// # Errors
/// The log can no longer be read; the process must end.
pub(super) fn poll_inbound(
    fetcher: &mut Fetcher,
    partitions: &mut PartitionMap<Phase>,
    mut timeout: Duration,
    now_ms: u64,
) -> anyhow::Result<Polled> {
    let mut polled_partitions = Polled::default();
    for _ in 0..POLL_RECORDS {
        let polled = fetcher.poll(timeout, |fetched| match fetched {
            Fetched::Record(record) => {
                let phase = partitions.get_mut(record.partition);
                if let Some(owned) = phase.and_then(Phase::owned_mut) {
                    owned.shell.take(&record, now_ms);
                    polled_partitions.taken.insert(record.partition);
                }
            }
            Fetched::EndOfPartition(partition) => polled_partitions.at_end.push(partition),
            Fetched::BackInRange(partition) => polled_partitions.back_in_range.push(partition),
        });
        match polled {
            // Later records must not reach a shell before it has compared the log with what it sequenced.
            Ok(Some(())) if !polled_partitions.back_in_range.is_empty() => break,
            Ok(Some(())) => {}
            Ok(None) => break,
            Err(FetchError::Transient(error)) => {
                tracing::debug!(error, "polling chat.inbound");
                break;
            }
            Err(ref error @ FetchError::OutOfRange { partition, .. }) => {
                polled_partitions.out_of_range = Some((partition, cannot_read_on(error)));
                break;
            }
            Err(error @ FetchError::Fatal(_)) => {
                return Err(anyhow::Error::new(error).context("chat.inbound cannot be read"));
            }
        }
        timeout = Duration::ZERO;
    }
    Ok(polled_partitions)
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

fn cannot_read_on(error: &FetchError) -> String {
    format!(
        "chat.inbound cannot be read on; to go on without what is missing, stop every sequencer and run `tidemark epoch \
         raise`: {error}"
    )
}
