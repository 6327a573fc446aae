//! Goes on exporting what is appended.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    panic::resume_unwind,
    sync::Arc,
    time::Duration,
};

use event_log::{GroupEvent, GroupMember, LogReader};
use parking_lot::Mutex;
use schemas::{NextOffset, OffsetRange, Partition, topics::Topic};
use tokio::{
    runtime::Handle,
    time::{MissedTickBehavior, interval},
};

use crate::{Export, ExportError, Exported, file_entry::FileEntry, run::check_retained};

impl Export {
    /// At the interval `every`, exports what was appended to the partitions that the consumer group of this dataset and lake has assigned to this
    /// process, and calls `report` with what was written. Positions are in the lake, so a partition that comes from another process is continued
    /// where that process has ended. A partition that is not in the lake yet begins at the first offset that is left.
    ///
    /// # Errors
    /// [`ExportError`]; it ends with an error only.
    pub async fn follow(
        &self,
        every: Duration,
        report: impl Fn(Exported),
    ) -> Result<(), ExportError> {
        let topic = self.kafka.topic(Topic::Events);
        let id = self.lake.agree(self.dataset, &topic, &self.privacy).await?;
        self.lake.clear_staged(self.dataset).await?;
        let reader = Arc::new(LogReader::new(&self.kafka)?);
        let group = format!("export-{}-{id}", self.dataset);
        let (member, mut changes) = GroupMember::join(&self.kafka, &group, Topic::Events)?;
        // The partitions of this process, each with its entries once they were read.
        let mut owned: BTreeMap<Partition, Option<Vec<FileEntry>>> = BTreeMap::new();
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
                        owned.extend(partitions.into_iter().map(|partition| (partition, None)));
                    }
                    Some(GroupEvent::Revoked { partitions, guard }) => {
                        owned.retain(|one, _| !partitions.contains(one));
                        due.retain(|one| !partitions.contains(one));
                        drop(guard);
                    }
                    Some(GroupEvent::Failed(why)) => return Err(ExportError::Group(why)),
                    None => return Err(ExportError::Group("the membership has ended".to_owned())),
                },
                _ = ticks.tick(), if due.is_empty() => due.extend(owned.keys()),
                () = std::future::ready(()), if !due.is_empty() => {
                    let Some(partition) = due.pop_front() else { continue };
                    let entries = owned.entry(partition).or_default();
                    let (written, next) = self.export_new(&reader, partition, entries).await?;
                    member.commit_offsets([(partition, NextOffset::new(next))].into_iter().collect());
                    if written != Exported::default() {
                        report(written);
                    }
                }
            }
        }
    }

    /// Exports what was appended to a partition since its last entry, and what other processes have claimed and not written.
    async fn export_new(
        &self,
        reader: &Arc<LogReader>,
        partition: Partition,
        entries: &mut Option<Vec<FileEntry>>,
    ) -> Result<(Exported, i64), ExportError> {
        let log = reader
            .blocking(move |reader| reader.bounds(Topic::Events, &[partition]))
            .await?;
        let OffsetRange { start, end } = log[partition];
        let (known, looked_at) = match entries {
            Some(known) => {
                let looked_at = known.len();
                self.lake.read_newer(self.dataset, partition, known).await?;
                (known, looked_at)
            }
            none => (
                none.insert(self.lake.entries(self.dataset, partition).await?),
                0,
            ),
        };
        // Another process may have been killed between the entry and its file.
        let mut missing = HashSet::new();
        for path in known[looked_at..]
            .iter()
            .filter_map(|entry| entry.path(self.dataset))
        {
            if !self.lake.has(&path).await? {
                missing.insert(path);
            }
        }
        let from = known.iter().map(|entry| entry.to).max().unwrap_or(start);
        let planned = (from..end.max(from), end);
        let is_there = |path: &str| !missing.contains(path);
        let gaps = self.gaps_of(partition, planned, known, is_there)?;
        check_retained(&gaps, &log)?;
        let (export, reader, handle) = (self.clone(), Arc::clone(reader), Handle::current());
        let filled = tokio::task::spawn_blocking(move || {
            let written = Mutex::default();
            for gap in gaps {
                export.fill(&reader, &handle, &gap, &written, &|_| {})?;
            }
            Ok(written.into_inner())
        });
        match filled
            .await
            .unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
        {
            Ok(written) => Ok((written, end)),
            // The former owner still writes this range, and reports it itself.
            Err(ExportError::Busy { .. }) => Ok((Exported::default(), from)),
            Err(error) => Err(error),
        }
    }
}
