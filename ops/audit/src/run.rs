use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use event_log::{Bounds, LogReader};
use schemas::{Partition, topics::Topic};

use crate::{
    Area, AuditError, Check, InboundAccount, Options, Progress, Report, Sources,
    compare::{MessageTable, Values, compare_messages, compare_values, look_again},
    ends::{DeadLetters, Ends, blocking, name},
    fold::{FoldedPartition, Known, PartitionFold, PartitionInput},
    stream, wait,
};

/// Compares everything in scope with the fold of the log; see the crate's docs for what that is.
///
/// # Errors
/// [`AuditError`]: a server that does not answer, or a projection that does not catch up in time. Differences are no error.
pub async fn run(
    sources: &Sources,
    options: &Options,
    progress: impl Fn(Progress) + Send + Sync,
) -> Result<Report, AuditError> {
    let mut audit = Audit::begin(sources, options).await?;
    audit.fix_ends(&progress).await?;
    audit.fold_and_compare_messages(&progress).await?;
    audit.compare_values(&progress).await?;
    Ok(audit.report())
}

struct Audit<'a> {
    sources: &'a Sources,
    options: &'a Options,
    partitions: Vec<Partition>,
    /// Two, since events and inbound are read side by side.
    events_reader: Arc<LogReader>,
    inbound_reader: Arc<LogReader>,
    ends: Ends,
    known: Known,
    events: Check,
    inbound: Check,
    messages: Check,
    account: InboundAccount,
    repeated: u64,
    values: Values,
    unchecked: Vec<String>,
}

impl<'a> Audit<'a> {
    async fn begin(sources: &'a Sources, options: &'a Options) -> Result<Self, AuditError> {
        let events_reader = Arc::new(LogReader::new(&sources.kafka)?);
        let partitions = options.scope.partitions();
        let asked = partitions.clone();
        let ends = blocking(&events_reader, move |reader| Ends::fix(reader, &asked)).await?;
        let check = |area| Check::new(area, options.examples);
        Ok(Self {
            sources,
            options,
            partitions,
            events_reader,
            inbound_reader: Arc::new(LogReader::new(&sources.kafka)?),
            ends,
            known: Known::new(options.scope),
            events: check(Area::Events),
            inbound: check(Area::Inbound),
            messages: check(Area::Messages),
            account: InboundAccount::default(),
            repeated: 0,
            values: Values::new(name(&sources.kafka, Topic::Events), options.examples),
            unchecked: Vec::new(),
        })
    }

    /// Sees to it that the sequencer has answered for all of inbound and every projection has passed the ends: by waiting, or by looking
    /// no further than they have come.
    async fn fix_ends(&mut self, progress: &(impl Fn(Progress) + Sync)) -> Result<(), AuditError> {
        if let Some(patience) = self.options.wait {
            let reader = &self.events_reader;
            wait::until_sequenced(reader, &self.ends.inbound, patience, progress).await?;
            let partitions = self.partitions.clone();
            let bounds = move |reader: &LogReader| reader.bounds(Topic::Events, &partitions);
            self.ends.events = blocking(reader, bounds).await?;
            progress(self.ends.fixed());
            let ends = self.ends.of_events();
            return wait::until_passed(self.sources, &ends, patience, progress).await;
        }
        progress(self.ends.fixed());
        let positions = wait::lowest(self.sources, &self.partitions).await?;
        let before: i64 = self.ends.of_events().values().sum();
        self.ends.cut(&positions);
        let left: i64 = before - self.ends.of_events().values().sum::<i64>();
        if left > 0 {
            let why = format!("the last {left} events: not every projection has passed them");
            self.unchecked.push(why);
        }
        Ok(())
    }

    async fn fold_and_compare_messages(
        &mut self,
        progress: &(impl Fn(Progress) + Sync),
    ) -> Result<(), AuditError> {
        let asked = self.partitions.clone();
        let read = move |reader: &LogReader| DeadLetters::read(reader, &asked);
        let dead_letters = blocking(&self.inbound_reader, read).await?;
        let of = self.partitions.len();
        for (done, partition) in self.partitions.clone().into_iter().enumerate() {
            progress(Progress::Partition { done, of });
            let input = self.input(partition, &dead_letters);
            let bounds = self.ends.events[&partition];
            if bounds.start > 0 {
                let start = bounds.start;
                let why = format!(
                    "what hangs on partition {partition} of chat.events before {start}, where it begins"
                );
                self.unchecked.push(why);
            }
            let folded = self.fold(input, bounds.start..bounds.end).await?;
            self.take_partition(partition, bounds, folded).await?;
        }
        Ok(())
    }

    fn input(&self, partition: Partition, dead_letters: &DeadLetters) -> PartitionInput {
        let events_topic = name(&self.sources.kafka, Topic::Events);
        let inbound_topic = name(&self.sources.kafka, Topic::Inbound);
        let inbound = self.ends.inbound[&partition];
        PartitionInput {
            partition,
            scope: self.options.scope,
            events_start: self.ends.events[&partition].start,
            inbound: inbound.start..inbound.end,
            refused: dead_letters.of(&inbound_topic, partition),
            buried: dead_letters.of(&events_topic, partition),
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
                || stream::records(&inbound_reader, Topic::Inbound, partition, inbound.clone());
            let events = stream::records(&events_reader, Topic::Events, partition, events);
            PartitionFold::new(&input, &open_inbound).run(events)
        };
        let folded = tokio::task::spawn_blocking(fold).await;
        Ok(folded.expect("folding does not panic")?)
    }

    async fn take_partition(
        &mut self,
        partition: Partition,
        bounds: Bounds,
        folded: FoldedPartition,
    ) -> Result<(), AuditError> {
        let FoldedPartition {
            conversations,
            messages,
            months,
            watermarks,
            events,
            inbound,
            account,
            repeated,
        } = folded;
        self.events.merge(events);
        self.inbound.merge(inbound);
        self.account.merge(account);
        self.repeated += repeated;
        let table = MessageTable {
            sources: self.sources,
            reader: &self.events_reader,
            scope: self.options.scope,
            partition,
            messages: &messages,
            months: &months,
            bounds,
            from: 0,
        };
        if let Some(floor) = compare_messages(&table, &mut self.messages).await? {
            let why =
                format!("messages before {floor} of partition {partition}, which were dropped");
            self.unchecked.push(why);
        }
        self.known.add(partition, bounds, watermarks, conversations);
        Ok(())
    }

    async fn compare_values(
        &mut self,
        progress: &(impl Fn(Progress) + Sync),
    ) -> Result<(), AuditError> {
        let scope = self.options.scope;
        compare_values(self.sources, scope, &self.known, &mut self.values, progress).await?;
        if self.values.suspects.is_empty() {
            return Ok(());
        }
        self.fold_on().await?;
        self.values.acquit(&self.known);
        let suspects = std::mem::take(&mut self.values.suspects);
        if suspects.is_empty() {
            return Ok(());
        }
        progress(Progress::SecondLook {
            values: suspects.len(),
        });
        tokio::time::sleep(self.options.pause).await;
        if let Some(patience) = self.options.wait {
            let ends = self.known.next_offsets();
            wait::until_passed(self.sources, &ends, patience, progress).await?;
        }
        let again = look_again(
            self.sources,
            &self.known,
            suspects,
            self.options.wait.is_some(),
        )
        .await?;
        self.fold_on().await?;
        self.values.convict(&self.known, again);
        Ok(())
    }

    /// Folds what has come since.
    async fn fold_on(&mut self) -> Result<(), AuditError> {
        let mut known = std::mem::replace(&mut self.known, Known::new(self.options.scope));
        let read = move |reader: &LogReader| {
            let next = known.next_offsets();
            let partitions: Vec<Partition> = next.keys().copied().collect();
            let bounds = reader.bounds(Topic::Events, &partitions)?;
            let ranges: Vec<_> = next
                .into_iter()
                .filter_map(|(partition, next)| {
                    Some((partition, next..bounds.get(&partition)?.end))
                })
                .collect();
            reader.scan(Topic::Events, &ranges, |record| {
                known.extend(&record);
                ControlFlow::Continue(())
            })?;
            Ok(known)
        };
        self.known = blocking(&self.events_reader, read).await?;
        Ok(())
    }

    fn report(self) -> Report {
        let Values {
            reads,
            contacts,
            states,
            views,
            unchecked,
            ..
        } = self.values;
        let checks = vec![
            self.events,
            self.inbound,
            self.messages,
            reads,
            contacts,
            states,
            views,
        ];
        Report {
            scope: self.options.scope,
            differences: checks.iter().map(Check::differences).sum(),
            checks,
            inbound: self.account,
            repeated_events: self.repeated,
            unchecked: self.unchecked.into_iter().chain(unchecked).collect(),
        }
    }
}
