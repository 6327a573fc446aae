//! What a raise appends.

use std::{collections::BTreeMap, ops::ControlFlow};

use anyhow::Context as _;
use event_log::{Bounds, EventLogError, LogReader};
use schemas::{
    Partition,
    event::{Body, Event, Source, SourceOffset},
    topics::Topic,
};
use sequencer::{LoadFault, Sequenced};

use super::{
    logs::{KafkaLogs, Logs},
    resume::resume,
};
use crate::failure::Failure;

/// What is to be appended.
pub(super) struct Raise {
    pub(super) epoch: u32,
    /// The event that begins the epoch in each partition that is not there yet.
    pub(super) starts: Vec<(Partition, Event)>,
    /// The partitions among them of which all that is retained is sequenced, since nothing tells what of it was.
    pub(super) from_the_beginning: Vec<Partition>,
}

impl Raise {
    /// Refuses where nothing tells how far a partition of `chat.inbound` was sequenced, unless it may be sequenced
    /// `from_the_beginning`.
    pub(super) fn plan(reader: &LogReader, from_the_beginning: bool) -> anyhow::Result<Self> {
        // The events' ends come first: an inbound record that an event names is on the log by then.
        let sequenced = all_sequenced(reader)?;
        let all: Vec<Partition> = sequenced.keys().copied().collect();
        let inbound = reader.bounds(Topic::Inbound, &all)?;
        let epoch = target(sequenced.values().map(|one| one.last.offset.epoch));
        let (mut starts, mut unknown) = (Vec::new(), Vec::new());
        for (partition, sequenced) in sequenced {
            if sequenced.last.offset.epoch >= epoch {
                continue;
            }
            let bounds = *inbound
                .get(&partition)
                .with_context(|| format!("chat.inbound has no partition {partition}"))?;
            let logs = KafkaLogs { reader, partition };
            let next = resume(sequenced.last, bounds, &logs)?.unwrap_or_else(|| {
                unknown.push(partition);
                bounds.start
            });
            let event = start(&logs, sequenced, epoch, next, bounds)?;
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

/// One partition after another: what an owner holds of all of them may be more than this machine has to spare.
fn all_sequenced(reader: &LogReader) -> anyhow::Result<BTreeMap<Partition, Sequenced>> {
    Partition::all()
        .map(|partition| match sequencer::sequenced(reader, partition) {
            Ok(sequenced) => Ok((partition, sequenced)),
            Err(LoadFault::Kafka(fault)) => Err(fault.into()),
            Err(LoadFault::Refused(why)) => {
                Err(anyhow::Error::new(why).context("how far it is sequenced cannot be told"))
            }
        })
        .collect()
}

fn refusal(unknown: &[Partition]) -> Failure {
    let names: Vec<String> = unknown.iter().map(Partition::to_string).collect();
    Failure::Usage(format!(
        "no record that chat.inbound retains is known from chat.events, in partitions: {}. Nothing was raised. If the topic was \
         created anew or restored from elsewhere, and holds only what is yet to be sequenced, add --from-the-beginning: all that \
         those partitions retain is sequenced then. A message that was sequenced before is sequenced a second time if that was \
         longer ago than the dedup window, and read-acks without mid count again",
        names.join(", ")
    ))
}

/// The epoch to which every partition is to be raised. Partitions that differ were left behind by a raise that broke
/// off: then it is that raise's, so that another run finishes it and raises no partition twice.
fn target(epochs: impl Iterator<Item = u32>) -> u32 {
    let epochs: Vec<u32> = epochs.collect();
    let highest = epochs.iter().copied().max().unwrap_or(0);
    let is_whole = epochs.iter().all(|epoch| *epoch == highest);
    highest + u32::from(is_whole)
}

/// The event behind which `next` is sequenced.
fn start(
    logs: &impl Logs,
    sequenced: Sequenced,
    epoch: u32,
    next: i64,
    inbound: Bounds,
) -> Result<Event, EventLogError> {
    let first = logs.first_inbound(next..inbound.end)?;
    let offset = first.map_or(inbound.end.max(next), |first| first.offset) - 1;
    let mut leader_epoch = -1;
    if (inbound.start..inbound.end).contains(&offset) {
        logs.scan_inbound(offset..offset + 1, &mut |kept| {
            leader_epoch = kept.leader_epoch;
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raise_that_broke_off_is_finished_and_a_whole_one_is_followed_by_the_next() {
        assert_eq!(target([0, 0, 0].into_iter()), 1);
        assert_eq!(target([1, 1, 0].into_iter()), 1);
        assert_eq!(target([3, 3, 3].into_iter()), 4);
    }
}
