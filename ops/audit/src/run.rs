use std::{collections::BTreeMap, ops::Range, sync::Arc};

use event_log::LogReader;
use message_store::Month;
use schemas::{OffsetRange, Partition, PartitionMap, TimestampMs, event::Body, topics::Topic};

use crate::{
    Area, AuditError, Check, Finding, InboundAccount, Kind, Options, Progress, Report, Scope,
    Sources,
    compare::{
        Comparison, MessageRows, MessageTable, UnresolvedReads, compare_changes, compare_messages,
        compare_resume_offsets, compare_retention, compare_values, read_again,
    },
    dead_letters::DeadLetters,
    ends::Ends,
    fold::{FoldedPartition, LogState, PartitionFold, PartitionInput},
    read, stream, wait,
};

/// Compares everything in scope with the fold of the log; see the crate's documentation.
///
/// # Errors
/// [`AuditError`]: a server does not answer, or a projection does not catch up in time. Differences are not errors.
pub async fn run(
    sources: &Sources,
    options: &Options,
    progress: impl Fn(Progress) + Send + Sync,
) -> Result<Report, AuditError> {
    let mut audit = Audit::begin(sources, options).await?;
    audit.decide_ends(&progress).await?;
    audit.fold_and_compare_messages(&progress).await?;
    audit.compare_values(&progress).await?;
    audit.compare_positions().await?;
    audit.compare_unresolved_reads().await?;
    Ok(audit.report())
}

struct Audit<'a> {
    sources: &'a Sources,
    options: &'a Options,
    partitions: Vec<Partition>,
    /// Two readers, since events and inbound are read at the same time.
    events_reader: Arc<LogReader>,
    inbound_reader: Arc<LogReader>,
    ends: Ends,
    log: LogState,
    account: InboundAccount,
    repeated: u64,
    comparison: Comparison,
    not_compared: Vec<Partition>,
    unchecked: Vec<String>,
    /// Partitions whose months before this one were dropped.
    dropped: BTreeMap<Month, Vec<Partition>>,
    /// The month of the newest message.
    newest_month: Option<Month>,
    /// When the newest message was sent.
    newest: Option<TimestampMs>,
    /// Partitions whose oldest dead letters were deleted.
    letters_deleted: Vec<Partition>,
}

impl<'a> Audit<'a> {
    async fn begin(sources: &'a Sources, options: &'a Options) -> Result<Self, AuditError> {
        let events_reader = Arc::new(LogReader::new(&sources.kafka)?);
        let partitions = options.scope.partitions();
        let read = partitions.clone();
        let ends = events_reader.blocking(move |reader| Ends::read(reader, &read));
        let ends = ends.await?;
        Ok(Self {
            sources,
            options,
            partitions,
            events_reader,
            inbound_reader: Arc::new(LogReader::new(&sources.kafka)?),
            ends,
            log: LogState::new(options.scope),
            account: InboundAccount::default(),
            repeated: 0,
            comparison: Comparison::new(sources.kafka.topic(Topic::Events), options.examples),
            not_compared: Vec::new(),
            unchecked: Vec::new(),
            dropped: BTreeMap::new(),
            newest_month: None,
            newest: None,
            letters_deleted: Vec::new(),
        })
    }

    /// Decides up to which ends the logs are compared. With `wait`, up to their present ends, once the sequencer and every projection have passed
    /// them; otherwise up to the slowest projection.
    async fn decide_ends(
        &mut self,
        progress: &(impl Fn(Progress) + Sync),
    ) -> Result<(), AuditError> {
        if let Some(timeout) = self.options.wait {
            let reader = &self.events_reader;
            wait::until_sequenced(reader, &self.ends.inbound, timeout, progress).await?;
            let partitions = self.partitions.clone();
            let bounds = reader.blocking(move |reader| reader.bounds(Topic::Events, &partitions));
            self.ends.events = bounds.await?;
            progress(self.ends.progress());
            let ends = self.ends.event_ends();
            return wait::until_passed(self.sources, &ends, timeout, progress).await;
        }
        progress(self.ends.progress());
        let positions = wait::lowest(self.sources, &self.partitions).await?;
        let before: i64 = self.ends.event_ends().values().sum();
        self.not_compared = self.ends.limit_to(&positions);
        let left: i64 = before - self.ends.event_ends().values().sum::<i64>();
        if left > 0 {
            let why = format!("the last {left} events: not every projection has passed them");
            self.unchecked.push(why);
        }
        if !self.not_compared.is_empty() {
            let why = format!(
                "partitions {}: not every projection has passed an event of theirs",
                ranges(&self.not_compared)
            );
            self.unchecked.push(why);
        }
        Ok(())
    }

    async fn fold_and_compare_messages(
        &mut self,
        progress: &(impl Fn(Progress) + Sync),
    ) -> Result<(), AuditError> {
        let (kafka, reader) = (&self.sources.kafka, &self.inbound_reader);
        let dead_letters = DeadLetters::read(kafka, reader, &self.partitions).await?;
        let of = self.partitions.len();
        for (done, partition) in self.partitions.clone().into_iter().enumerate() {
            progress(Progress::Partition { done, of });
            let input = self.input(partition, &dead_letters);
            let bounds = self.ends.events[partition];
            if bounds.start > 0 {
                let start = bounds.start;
                let why = format!(
                    "what depends on partition {partition} of chat.events before {start}, where it begins"
                );
                self.unchecked.push(why);
            }
            if input.dead_lettered_events.begins.is_some() {
                self.letters_deleted.push(partition);
            }
            let folded = self.fold(input, bounds.start..bounds.end).await?;
            self.add_partition(partition, bounds, folded).await?;
        }
        Ok(())
    }

    fn input(&self, partition: Partition, dead_letters: &DeadLetters) -> PartitionInput {
        let events_topic = self.sources.kafka.topic(Topic::Events);
        let inbound_topic = self.sources.kafka.topic(Topic::Inbound);
        let inbound = self.ends.inbound[partition];
        PartitionInput {
            partition,
            scope: self.options.scope,
            events_start: self.ends.events[partition].start,
            inbound: inbound.start..inbound.end,
            dead_lettered_inbound: dead_letters.of(&inbound_topic, partition),
            dead_lettered_events: dead_letters.of(&events_topic, partition),
            events_topic,
            inbound_topic,
            examples: self.options.examples,
        }
    }

    async fn fold(
        &self,
        input: PartitionInput,
        events: Range<i64>,
    ) -> Result<FoldedPartition, AuditError> {
        let (events_reader, inbound_reader) = (
            Arc::clone(&self.events_reader),
            Arc::clone(&self.inbound_reader),
        );
        let fold = move || {
            let (partition, inbound) = (input.partition, input.inbound.clone());
            let open_inbound =
                || inbound_reader.records(Topic::Inbound, partition, inbound.clone());
            let events = events_reader.records(Topic::Events, partition, events);
            PartitionFold::new(&input, &open_inbound).run(events)
        };
        let folded = tokio::task::spawn_blocking(fold).await;
        folded.expect("folding does not panic")
    }

    async fn add_partition(
        &mut self,
        partition: Partition,
        bounds: OffsetRange,
        folded: FoldedPartition,
    ) -> Result<(), AuditError> {
        let FoldedPartition {
            conversations,
            groups,
            profiles,
            messages,
            watermark,
            events,
            inbound,
            account,
            repeated,
        } = folded;
        let checks = &mut self.comparison.checks;
        checks.of(Area::Events).merge(events);
        checks.of(Area::Inbound).merge(inbound);
        self.account.merge(account);
        self.repeated += repeated;
        let newest = messages.months.keys().next_back();
        self.newest_month = self.newest_month.max(newest.copied());
        self.newest = self.newest.max(messages.newest);
        let mut table = MessageTable {
            rows: MessageRows::Direct,
            sources: self.sources,
            reader: &self.events_reader,
            scope: self.options.scope,
            partition,
            messages: &messages,
            bounds,
            watermark,
            from: 0,
        };
        if let Some(floor) = compare_messages(&table, checks.of(Area::Messages)).await? {
            self.dropped.entry(floor).or_default().push(partition);
        }
        compare_changes(&table, checks.of(Area::Changes)).await?;
        // The months of both are dropped together, so the floor is the same.
        table.rows = MessageRows::InGroups;
        compare_messages(&table, checks.of(Area::GroupMessages)).await?;
        self.log.add(
            partition,
            bounds,
            watermark,
            (conversations, groups, profiles),
        );
        Ok(())
    }

    async fn compare_values(
        &mut self,
        progress: &(impl Fn(Progress) + Sync),
    ) -> Result<(), AuditError> {
        let options = self.options;
        let (sources, comparison) = (self.sources, &mut self.comparison);
        compare_values(sources, options, &self.log, comparison, progress).await?;
        if self.comparison.possible_mismatches.is_empty() {
            return Ok(());
        }
        self.fold_new_events().await?;
        self.comparison.clear(&self.log);
        let possible_mismatches = std::mem::take(&mut self.comparison.possible_mismatches);
        if possible_mismatches.is_empty() {
            return Ok(());
        }
        progress(Progress::SecondLook {
            values: possible_mismatches.len(),
        });
        tokio::time::sleep(options.pause).await;
        if let Some(timeout) = options.wait {
            let ends = self.log.next_offsets();
            wait::until_passed(sources, &ends, timeout, progress).await?;
        }
        let has_passed = options.wait.is_some();
        let again = read_again(sources, &self.log, possible_mismatches, has_passed).await?;
        self.fold_new_events().await?;
        self.comparison.confirm(&self.log, again);
        Ok(())
    }

    /// Compares the projections' own data, which does not belong to single users: only if everything is in scope.
    async fn compare_positions(&mut self) -> Result<(), AuditError> {
        if self.options.scope != Scope::All {
            return Ok(());
        }
        let (sources, reader) = (self.sources, &self.events_reader);
        let checks = &mut self.comparison.checks;
        let check = checks.of(Area::ResumeOffsets);
        compare_resume_offsets(sources, reader, self.newest, check).await?;
        let ends = self.ends.event_ends();
        let newest_now = async || newest_month_since(reader, &ends).await;
        let check = checks.of(Area::Retention);
        compare_retention(sources, self.newest_month, newest_now, check).await
    }

    /// A projection deletes an obsolete row within a second; a row that stays is a difference.
    async fn compare_unresolved_reads(&mut self) -> Result<(), AuditError> {
        let check = self.comparison.checks.of(Area::UnresolvedReads);
        for shard in self.sources.messages.layout().shards() {
            let mut reads = UnresolvedReads::read(self.sources, shard).await?;
            reads.limit_to(self.options.scope);
            check.compared += (reads.waiting.len() + reads.strays.len()) as u64;
            let mut looks = 0;
            while !reads.strays.is_empty() && looks < LOOKS_AT_STRAYS {
                tokio::time::sleep(self.options.pause).await;
                let again = UnresolvedReads::read(self.sources, shard).await?;
                reads.strays.retain(|stray| again.strays.contains(stray));
                looks += 1;
            }
            for (row, why) in reads.strays {
                let what = format!(
                    "unresolved_read in database {}: {:?} of {} with {}, {:?}, mid {}: {why}",
                    shard.get(),
                    row.sink,
                    row.uid,
                    row.peer,
                    row.device,
                    row.mid
                );
                check.add(Finding::new(Kind::Extra, what));
            }
        }
        Ok(())
    }

    /// Folds the events that were appended meanwhile.
    async fn fold_new_events(&mut self) -> Result<(), AuditError> {
        let ends = self.events_reader.ends(Topic::Events).await?;
        let mut log = std::mem::replace(&mut self.log, LogState::new(self.options.scope));
        let left = log.left_to(&ends);
        let read = self.events_reader.blocking(move |reader| {
            let read = stream::fold_events(reader, &left, |record| log.extend(record).map(drop));
            (log, read)
        });
        let (log, read) = read.await;
        self.log = log;
        read
    }

    fn report(mut self) -> Report {
        for (floor, partitions) in &self.dropped {
            let whose = match &partitions[..] {
                all if all.len() == self.partitions.len() => "all partitions".to_owned(),
                some => format!("partitions {}", ranges(some)),
            };
            let why = format!("messages before {floor} of {whose}, which were dropped");
            self.unchecked.push(why);
        }
        if !self.letters_deleted.is_empty() {
            let why = format!(
                "records of {} partitions ({}) that were refused or skipped so long ago that retention may have deleted their dead letters",
                self.letters_deleted.len(),
                ranges(&self.letters_deleted)
            );
            self.unchecked.push(why);
        }
        let unchecked = [self.unchecked, self.comparison.unchecked()].concat();
        let checks = self.comparison.checks.into_vec();
        Report {
            scope: self.options.scope,
            differences: checks.iter().map(Check::differences).sum(),
            checks,
            inbound: self.account,
            repeated_events: self.repeated,
            not_compared: self.not_compared,
            unchecked,
        }
    }
}

/// How often an obsolete row of `unresolved_read` is read again before it is a difference.
const LOOKS_AT_STRAYS: u8 = 5;

/// The month of the newest message at or above these offsets.
async fn newest_month_since(
    reader: &Arc<LogReader>,
    from: &PartitionMap<i64>,
) -> Result<Option<Month>, AuditError> {
    let ends = reader.ends(Topic::Events).await?;
    let ranges: Vec<(Partition, Range<i64>)> = from
        .iter()
        .map(|(partition, from)| (partition, *from..ends[partition]))
        .filter(|(_, range)| !range.is_empty())
        .collect();
    let read = reader.blocking(move |reader| {
        let mut newest = None;
        let read = stream::fold_events(reader, &ranges, |record| {
            if let Ok(event) = read::event(record)?
                && let Body::Message(_) = event.body
            {
                newest = newest.max(Month::of(event.ts).ok());
            }
            Ok(())
        });
        read.map(|()| newest)
    });
    read.await
}

/// `0 to 2, 17`.
fn ranges(partitions: &[Partition]) -> String {
    let ranges = partitions.chunk_by(|one, next| one.get() + 1 == next.get());
    let names: Vec<String> = ranges
        .map(|range| match range {
            [first, .., last] => format!("{first} to {last}"),
            one => one.iter().map(Partition::to_string).collect(),
        })
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_in_a_row_are_named_as_a_range() {
        let all: Vec<Partition> = Partition::all().collect();
        assert_eq!(ranges(&all), "0 to 63");
        assert_eq!(ranges(&[all[0], all[1], all[17]]), "0 to 1, 17");
    }
}
