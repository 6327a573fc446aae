//! Compares a shadow rebuild's tables with the log.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use event_log::{LogReader, Record};
use message_store::ContactRow;
use schemas::{OffsetRange, Partition, PartitionMap, TableNumber, UserId, topics::Topic};

use crate::{
    Area, AuditError, Check, Finding, Kind, Scope, Sources,
    compare::{
        Comparison, MessageRows, MessageTable, PossibleMismatch, Rows, Value, compare_changed,
        compare_changes, compare_messages, compare_table,
    },
    fold::{FoldedEvent, LogState, Messages, Subject},
    stream,
};

const EXAMPLES: usize = 5;

/// Compares shadow tables with the log: each table as a whole the first time, then the rows that later events change. Nothing may write
/// to the tables during a comparison, so every mismatch is a difference and needs no second read.
pub struct ShadowAudit {
    sources: Sources,
    reader: Arc<LogReader>,
    fold: Fold,
    /// Tables that were compared as a whole.
    compared: HashSet<(Rows, TableNumber)>,
    /// The offset up to which messages were compared.
    messages_to: PartitionMap<i64>,
}

struct Fold {
    log: LogState,
    /// All months, and the digests that are not compared yet.
    messages: PartitionMap<Messages>,
    /// Subjects of events since the last comparison.
    changed: HashSet<Subject>,
    /// The checks of the log itself.
    events: Check,
}

impl Fold {
    fn new(partitions: &[Partition]) -> Self {
        Self {
            log: LogState::from_start(partitions),
            messages: PartitionMap::new(),
            changed: HashSet::new(),
            events: Check::new(Area::Events, EXAMPLES),
        }
    }

    fn take(&mut self, topic: &str, record: &Record) -> Result<(), AuditError> {
        self.events.compared += 1;
        let Some(FoldedEvent { event, wrong }) = self.log.extend(record)? else {
            return Ok(());
        };
        if let Some(what) = wrong {
            let finding = Finding::new(Kind::Different, what);
            self.events
                .add(finding.at(topic, record.partition, record.offset));
        }
        self.changed.extend(Subject::of_event(&event));
        let messages = self
            .messages
            .get_or_insert_with(record.partition, Messages::default);
        messages.add(record.offset, &event);
        Ok(())
    }
}

impl ShadowAudit {
    /// An audit of the tables that follow from these partitions of the log. `sources.messages` is the store with the shadow tables; Redis is not
    /// read.
    ///
    /// # Errors
    /// [`AuditError::Kafka`].
    pub fn new(sources: Sources, partitions: &[Partition]) -> Result<Self, AuditError> {
        Ok(Self {
            reader: Arc::new(LogReader::new(&sources.kafka)?),
            sources,
            fold: Fold::new(partitions),
            compared: HashSet::new(),
            messages_to: PartitionMap::new(),
        })
    }

    /// Folds the log up to these ends; returns the check of the log so far.
    ///
    /// # Errors
    /// [`AuditError::Kafka`], [`AuditError::UnknownRules`].
    pub async fn fold_to(&mut self, ends: &PartitionMap<i64>) -> Result<Check, AuditError> {
        let mut fold = std::mem::replace(&mut self.fold, Fold::new(&[]));
        let left = fold.log.left_to(ends);
        let topic = self.sources.kafka.topic(Topic::Events);
        let read = self.reader.blocking(move |reader| {
            let read = stream::fold_events(reader, &left, |record| fold.take(&topic, record));
            (fold, read)
        });
        let (fold, read) = read.await;
        self.fold = fold;
        read?;
        Ok(self.fold.events.clone())
    }

    /// Compares `chat_msg_<n>`, `group_msg_<n>`, `msg_change_<n>`, `group_<n>` and `group_member_<n>`: the whole tables the first time, then the
    /// rows of the events folded since.
    ///
    /// # Errors
    /// [`AuditError`]: a server does not answer. Differences are not errors.
    pub async fn messages(&mut self, partition: Partition) -> Result<Check, AuditError> {
        let messages = self
            .fold
            .messages
            .get_or_insert_with(partition, Messages::default);
        let end = self.fold.log.next_offsets().get(partition).copied();
        let end = end.unwrap_or_default();
        let mut table = MessageTable {
            rows: MessageRows::Direct,
            sources: &self.sources,
            reader: &self.reader,
            scope: Scope::All,
            partition,
            messages,
            bounds: OffsetRange { start: 0, end },
            watermark: self.fold.log.watermark(partition),
            from: self.messages_to.get(partition).copied().unwrap_or_default(),
        };
        let mut check = Check::new(Area::Messages, EXAMPLES);
        compare_messages(&table, &mut check).await?;
        compare_changes(&table, &mut check).await?;
        table.rows = MessageRows::InGroups;
        compare_messages(&table, &mut check).await?;
        messages.digests = Vec::new();
        messages.group_digests = Vec::new();
        messages.changes = Vec::new();
        self.messages_to.insert(partition, end);
        for rows in [Rows::Groups, Rows::Members] {
            check.take(self.compare_rows(rows, partition.into()).await?);
        }
        Ok(check)
    }

    /// Compares `read_chat_mid_<n>`: the whole table the first time, then the rows that changed since.
    ///
    /// # Errors
    /// As [`Self::messages`].
    pub async fn reads(&mut self, table: TableNumber) -> Result<Check, AuditError> {
        self.compare_rows(Rows::ReadPositions, table).await
    }

    /// Compares `contact_<n>`, `membership_<n>`, `hidden_<n>` and `user_<n>`: the whole tables the first time, then the rows that changed since.
    ///
    /// # Errors
    /// As [`Self::messages`].
    pub async fn contacts(&mut self, table: TableNumber) -> Result<Check, AuditError> {
        let mut check = self.compare_rows(Rows::Contacts, table).await?;
        for rows in [
            Rows::Hidden,
            Rows::Memberships,
            Rows::HiddenInGroups,
            Rows::Profiles,
        ] {
            check.take(self.compare_rows(rows, table).await?);
        }
        Ok(check)
    }

    async fn compare_rows(&mut self, rows: Rows, number: TableNumber) -> Result<Check, AuditError> {
        let (sources, log, table) = (&self.sources, &self.fold.log, (rows, number));
        let mut comparison = self.comparison();
        if self.compared.contains(&table) {
            let changed = self.fold.changed.iter();
            let keys = changed.flat_map(|subject| subject.sides().map(|side| rows.of(side)));
            let keys = keys.filter(|key| key.number() == Some(number));
            compare_changed(sources, log, keys, &mut comparison).await?;
        } else {
            let expected = rows.subjects(log).remove(&number).unwrap_or_default();
            compare_table(sources, log, table, expected, &mut comparison).await?;
            self.compared.insert(table);
        }
        // Nothing else writes to the table, so a second read would find the same.
        let possible_mismatches = std::mem::take(&mut comparison.possible_mismatches);
        comparison.confirm(log, possible_mismatches);
        Ok(comparison.checks.of(rows.area()).clone())
    }

    /// Compares `rows`, which are all rows of `uids` in the live `contact_<n>`. They were read after the log was folded: they must have at
    /// least what was folded, and may have later events up to `ends`.
    ///
    /// # Errors
    /// [`AuditError::Kafka`]. Differences are not errors.
    pub async fn rows(
        &mut self,
        uids: &[UserId],
        rows: &[ContactRow],
        ends: &PartitionMap<i64>,
    ) -> Result<Check, AuditError> {
        let log = &self.fold.log;
        let subjects = uids.iter().flat_map(|uid| {
            let peers = log.contacts(*uid).into_keys();
            peers.map(|peer| Subject::Contact(*uid, peer))
        });
        let mut found: BTreeMap<_, _> = subjects.map(|subject| (subject, None)).collect();
        found.extend(rows.iter().map(|row| {
            let (subject, value) = Value::contact(row);
            (subject, Some(value))
        }));
        let mut comparison = self.comparison();
        comparison.checks.of(Area::Contacts).compared = found.len() as u64;
        let possible_mismatches = found.into_iter().map(|(subject, found)| {
            let key = Rows::Contacts.of(subject);
            let (found, lower) = (Ok(found), key.expected(log));
            PossibleMismatch { key, found, lower }
        });
        let possible_mismatches = possible_mismatches.collect();
        self.fold_to(ends).await?;
        comparison.confirm(&self.fold.log, possible_mismatches);
        Ok(comparison.checks.of(Area::Contacts).clone())
    }

    /// Ends the comparison of whole tables: from now on only the rows of events folded later are compared.
    pub fn begin_tail(&mut self) {
        self.fold.changed.clear();
    }

    fn comparison(&self) -> Comparison {
        Comparison::new(self.sources.kafka.topic(Topic::Events), EXAMPLES)
    }
}
