//! Waits for the sequencer.

use std::time::Duration;

use indicatif::ProgressBar;
use schemas::{OffsetRange, Partition, PartitionMap, TimestampMs, topics::Topic};

use crate::context::CommandContext;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the sequencer has decided about all records of `chat.inbound` from before a time: their events have the times of these records,
/// whenever they are appended.
///
/// # Errors
/// Not within a minute; Kafka does not answer.
pub(crate) async fn everything_before(
    context: &CommandContext,
    time: TimestampMs,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let reader = context.log_reader()?;
    let inbound = reader.blocking(move |reader| {
        let all: Vec<Partition> = Partition::all().collect();
        let ends = reader.offsets_at(Topic::Inbound, &all, time)?;
        let bounds = reader.bounds(Topic::Inbound, &all)?;
        let until = |(partition, OffsetRange { start, .. })| {
            let end = ends[partition].max(start);
            (partition, OffsetRange { start, end })
        };
        Ok::<PartitionMap<OffsetRange>, event_log::EventLogError>(
            bounds.into_iter().map(until).collect(),
        )
    });
    let inbound = inbound.await?;
    let show = |progress: audit::Progress| bar.set_message(progress.to_string());
    audit::until_sequenced(&reader, &inbound, TIMEOUT, &show).await?;
    bar.set_message("");
    Ok(())
}
