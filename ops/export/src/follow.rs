//! Goes on exporting what is appended.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use event_log::{GroupEvent, GroupMember, LogReader};
use schemas::{NextOffset, OffsetRange, Partition, PartitionMap, topics::Topic};
use tokio::time::{MissedTickBehavior, interval};

use crate::{Export, ExportError, Exported, lake::Plan};

impl Export {
    /// The consumer group of all processes that follow the log into this lake.
    #[must_use]
    pub fn group(&self) -> String {
        let lake = blake3::hash(self.lake.address().as_bytes()).to_hex();
        format!("export-{}-{}", self.dataset.name(), &lake[..8])
    }

    /// Exports every `every` what was appended to the partitions that the consumer group has given to this process, and calls `report` with what was
    /// written. Positions are in the lake, so a partition that comes from another process is continued where that has ended. A partition that is not
    /// in the lake yet begins at the first offset that is left.
    ///
    /// # Errors
    /// [`ExportError`]; it ends with an error only.
    pub async fn follow(
        &self,
        every: Duration,
        report: impl Fn(Exported),
    ) -> Result<(), ExportError> {
        let topic = self.kafka.topic(Topic::Events);
        self.lake.agree(self.dataset, &topic, &self.privacy).await?;
        let reader = Arc::new(LogReader::new(&self.kafka)?);
        let (member, mut changes) = GroupMember::join(&self.kafka, &self.group(), Topic::Events)?;
        let mut owned = BTreeSet::new();
        let mut due = VecDeque::new();
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // A revoke waits for this loop: one partition is exported between two looks at the changes.
            tokio::select! {
                biased;
                change = changes.recv() => match change {
                    Some(GroupEvent::Assigned(partitions)) => {
                        due.extend(partitions.iter().copied());
                        owned.extend(partitions);
                    }
                    Some(GroupEvent::Revoked { partitions, guard }) => {
                        owned.retain(|one| !partitions.contains(one));
                        due.retain(|one| !partitions.contains(one));
                        drop(guard);
                    }
                    Some(GroupEvent::Failed(why)) => return Err(ExportError::Group(why)),
                    None => return Err(ExportError::Group("the membership has ended".to_owned())),
                },
                _ = ticks.tick() => due.extend(&owned),
                () = std::future::ready(()), if !due.is_empty() => {
                    let Some(partition) = due.pop_front() else { continue };
                    let (written, next) = self.export_new(&reader, partition).await?;
                    member.commit_offsets([(partition, NextOffset::new(next))].into_iter().collect());
                    if written != Exported::default() {
                        report(written);
                    }
                }
            }
        }
    }

    /// Exports what was appended to a partition since its last entry.
    async fn export_new(
        &self,
        reader: &Arc<LogReader>,
        partition: Partition,
    ) -> Result<(Exported, i64), ExportError> {
        let log = reader
            .blocking(move |reader| reader.bounds(Topic::Events, &[partition]))
            .await?;
        let OffsetRange { start, end } = log[partition];
        let entries = self.lake.entries(self.dataset, partition).await?;
        let from = entries.last().map_or(start, |last| last.from);
        let range: PartitionMap<_> = [(partition, from..end.max(from))].into_iter().collect();
        let plan = Plan::new((String::new(), String::new()), &range, |_| end);
        let gaps = self.gaps(&plan).await?;
        match self.fill_all(gaps, &log, Arc::new(|_| {})).await {
            Ok(written) => Ok((written, end)),
            // The owner before is still at it, and says what this process would say.
            Err(ExportError::Busy { .. }) => Ok((Exported::default(), from)),
            Err(error) => Err(error),
        }
    }
}
