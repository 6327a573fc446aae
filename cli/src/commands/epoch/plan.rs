//! Decides which events a raise appends.

use std::ops::ControlFlow;

use anyhow::Context as _;
use event_log::{EventLogError, LogReader, Sequenced};
use schemas::{
    OffsetRange, Partition, PartitionMap,
    event::{Body, Event, Source, SourceOffset},
    topics::Topic,
};
use sequencer::LoadFault;

use super::{
    logs::{KafkaLogs, Logs},
    resume::resume,
};
use crate::failure::Failure;

pub(super) struct Raise {
    pub(super) epoch: u32,
    /// The event that starts the epoch, for each partition that does not have it yet.
    pub(super) starts: Vec<(Partition, Event)>,
    /// The partitions that are sequenced from their start, since the logs do not show what was sequenced.
    pub(super) from_the_beginning: Vec<Partition>,
}

impl Raise {
    /// Refuses if the logs do not show how far a partition of `chat.inbound` was sequenced, unless `from_the_beginning` is set.
    pub(super) fn plan(reader: &LogReader, from_the_beginning: bool) -> anyhow::Result<Self> {
        // Events are read first, so that every source that they name is within the bounds of `chat.inbound`.
        let sequenced = all_sequenced(reader)?;
        let all: Vec<Partition> = sequenced.partitions().collect();
        let inbound = reader.bounds(Topic::Inbound, &all)?;
        let epoch = target(sequenced.values().map(|one| one.last.offset.epoch));
        let (mut starts, mut unknown) = (Vec::new(), Vec::new());
        for (partition, sequenced) in sequenced {
            if sequenced.last.offset.epoch >= epoch {
                continue;
            }
            let bounds = *inbound
                .get(partition)
                .with_context(|| format!("chat.inbound has no partition {partition}"))?;
            let logs = KafkaLogs { reader, partition };
            let next = resume(sequenced.last, bounds, &logs)?.unwrap_or_else(|| {
                unknown.push(partition);
                bounds.start
            });
            let event = epoch_start(&logs, sequenced, epoch, next, bounds)?;
            starts.push((partition, event));
        }
        if !unknown.is_empty() && !from_the_beginning {
            return Err(refusal(&unknown).into());
        }
        Ok(Self {
            epoch,
            starts,
            from_the_beginning: unknown,
        })
    }
}

/// Reads one partition after the other: the state of all of them may not fit into memory.
fn all_sequenced(reader: &LogReader) -> anyhow::Result<PartitionMap<Sequenced>> {
    Partition::all()
        .map(|partition| match sequencer::sequenced(reader, partition) {
            Ok(sequenced) => Ok((partition, sequenced)),
            Err(LoadFault::Kafka(fault)) => Err(fault.into()),
            Err(LoadFault::Refused(why)) => {
                Err(anyhow::Error::new(why).context("how far it is sequenced is unknown"))
            }
        })
        .collect()
}

fn refusal(unknown: &[Partition]) -> Failure {
    let names: Vec<String> = unknown.iter().map(Partition::to_string).collect();
    Failure::Usage(format!(
        "chat.events matches no retained record of chat.inbound in partitions: {}. Nothing was raised. If chat.inbound was created \
         again or restored from elsewhere, and none of its records was sequenced before, add --from-the-beginning: then all \
         retained records of those partitions are sequenced. Beware: a message that was sequenced longer ago than the dedup \
         window becomes a second one, and read-acks without mid count again",
        names.join(", ")
    ))
}

/// The epoch to which every partition is raised. If partitions differ, an earlier raise was interrupted: then the target is that raise's epoch, so
/// that this run finishes it and raises no partition twice.
fn target(epochs: impl Iterator<Item = u32>) -> u32 {
    let epochs: Vec<u32> = epochs.collect();
    let highest = epochs.iter().copied().max().unwrap_or(0);
    let is_whole = epochs.iter().all(|epoch| *epoch == highest);
    highest + u32::from(is_whole)
}

/// The progress event that begins the epoch. Its source is the offset below the first retained record at or above `next`; the end if there is none.
fn epoch_start(
    logs: &impl Logs,
    sequenced: Sequenced,
    epoch: u32,
    next: i64,
    inbound: OffsetRange,
) -> Result<Event, EventLogError> {
    let first = logs.first_inbound(next..inbound.end)?;
    let offset = first.map_or(inbound.end.max(next), |first| first.offset) - 1;
    let mut leader_epoch = -1;
    if (inbound.start..inbound.end).contains(&offset) {
        logs.scan_inbound(offset..offset + 1, &mut |record| {
            leader_epoch = record.leader_epoch;
            ControlFlow::Break(())
        })?;
    }
    let watermark = SourceOffset { epoch, offset };
    Ok(Event {
        src: Source {
            offset: watermark,
            leader_epoch,
        },
        ts: sequenced.clock,
        body: Body::Progress,
        command: None,
        words: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_raise_is_finished_and_a_complete_one_is_followed_by_the_next() {
        assert_eq!(target([0, 0, 0].into_iter()), 1);
        assert_eq!(target([1, 1, 0].into_iter()), 1);
        assert_eq!(target([3, 3, 3].into_iter()), 4);
    }
}
