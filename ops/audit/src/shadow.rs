//! Compares a shadow rebuild's tables with the log.

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use event_log::{LogReader, Record};
use message_store::{ContactRow, Month};
use schemas::{
    ConversationId, DirectConversation, OffsetRange, Partition, PartitionMap, TableNumber, UserId,
    event::Body, topics::Topic,
};

use crate::{
    Area, AuditError, Check, Finding, Kind, Scope, Sources,
    compare::{
        MessageTable, PossibleMismatch, StoredValue, ValueKey, Values, compare_messages,
        contact_keys_by, contacts_of, expected, read_value, reads_of,
    },
    ends::blocking,
    fold::{Contact, FoldedEvent, LogState, message_digest},
};

const EXAMPLES: usize = 5;

/// Compares shadow tables with the log: each table as a whole the first time, then the rows that later events change. Nothing may write
/// to the tables during a comparison, so every mismatch is a difference and needs no second read.
pub struct ShadowAudit {
    sources: Sources,
    reader: Arc<LogReader>,
    fold: Fold,
    /// Tables that were compared as a whole.
    compared: HashSet<TableNumber>,
    /// The offset up to which messages were compared.
    messages_to: PartitionMap<i64>,
}

struct Fold {
    log: LogState,
    /// Offset and digest of every message that is not compared yet.
    messages: PartitionMap<Vec<(i64, u64)>>,
    /// The offset of the first message of each month.
    months: PartitionMap<BTreeMap<Month, i64>>,
    /// Conversations of events since the last comparison.
    changed: HashSet<DirectConversation>,
    /// The checks of the log itself.
    events: Check,
}

impl Fold {
    fn new(partitions: &[Partition]) -> Self {
        Self {
            log: LogState::from_start(partitions),
            messages: PartitionMap::new(),
            months: PartitionMap::new(),
            changed: HashSet::new(),
            events: Check::new(Area::Events, EXAMPLES),
        }
    }

    fn take(&mut self, topic: &str, record: &Record) {
        self.events.compared += 1;
        let Some(FoldedEvent { event, wrong }) = self.log.extend(record) else {
            return;
        };
        if let Some(what) = wrong {
            let finding = Finding::new(Kind::Different, what);
            self.events
                .add(finding.at(topic, record.partition, record.offset));
        }
        if let Some(ConversationId::Direct(id)) = event.conversation() {
            self.changed.insert(id);
        }
        if let Body::Message(message) = &event.body {
            let digest = message_digest(event.ts, message);
            let messages = self.messages.get_or_insert_with(record.partition, Vec::new);
            messages.push((record.offset, digest));
            if let Ok(month) = Month::of(event.ts) {
                let months = self
                    .months
                    .get_or_insert_with(record.partition, BTreeMap::new);
                months.entry(month).or_insert(record.offset);
            }
        }
    }
}

impl ShadowAudit {
    /// For tables that follow from these partitions of the log. `sources.messages` is the store with the shadow tables; Redis is not read.
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
    /// [`AuditError::Kafka`].
    pub async fn fold_to(&mut self, ends: &PartitionMap<i64>) -> Result<Check, AuditError> {
        let mut fold = std::mem::replace(&mut self.fold, Fold::new(&[]));
        let next = fold.log.next_offsets();
        let ranges: Vec<_> = next
            .into_iter()
            .filter_map(|(partition, next)| Some((partition, next..*ends.get(partition)?)))
            .collect();
        let topic = self.sources.kafka.topic(Topic::Events);
        let read = move |reader: &LogReader| {
            reader.scan(Topic::Events, &ranges, |record| {
                fold.take(&topic, &record);
                ControlFlow::Continue(())
            })?;
            Ok(fold)
        };
        self.fold = blocking(&self.reader, read).await?;
        Ok(self.fold.events.clone())
    }

    /// Compares `chat_msg_<n>`: the whole table the first time, then the rows of the events folded since.
    ///
    /// # Errors
    /// [`AuditError`]: a server does not answer. Differences are no error.
    pub async fn messages(&mut self, partition: Partition) -> Result<Check, AuditError> {
        let messages = self.fold.messages.get(partition);
        let none = BTreeMap::new();
        let end = self.fold.log.next_offsets().get(partition).copied();
        let end = end.unwrap_or_default();
        let table = MessageTable {
            sources: &self.sources,
            reader: &self.reader,
            scope: Scope::All,
            partition,
            messages: messages.map(Vec::as_slice).unwrap_or_default(),
            months: self.fold.months.get(partition).unwrap_or(&none),
            bounds: OffsetRange { start: 0, end },
            from: self.messages_to.get(partition).copied().unwrap_or_default(),
        };
        let mut check = Check::new(Area::Messages, EXAMPLES);
        compare_messages(&table, &mut check).await?;
        self.fold.messages.remove(partition);
        self.messages_to.insert(partition, end);
        Ok(check)
    }

    /// Compares `read_chat_mid_<n>`: the whole table the first time, then the rows that changed since.
    ///
    /// # Errors
    /// As [`Self::messages`].
    pub async fn reads(&mut self, table: TableNumber) -> Result<Check, AuditError> {
        let table_of = |uid, peer| DirectConversation::new(uid, peer).partition().into();
        if self.compared.contains(&table) {
            let key = |uid, peer| ValueKey::ReadPosition { uid, peer };
            let values = self.compare_changed(table_of, table, key).await?;
            return Ok(values.reads);
        }
        let log = &self.fold.log;
        let mut values = self.values();
        let keys = contact_keys_by(log, table_of)
            .remove(&table)
            .unwrap_or_default();
        reads_of(&self.sources, log, table, keys, &mut values).await?;
        self.compared.insert(table);
        Ok(self.confirmed(values).reads)
    }

    /// Compares `contact_<n>`: the whole table the first time, then the rows that changed since.
    ///
    /// # Errors
    /// As [`Self::messages`].
    pub async fn contacts(&mut self, table: TableNumber) -> Result<Check, AuditError> {
        let table_of = |uid, _| TableNumber::of_user(uid);
        if self.compared.contains(&table) {
            let key = |uid, peer| ValueKey::Contact { uid, peer };
            let values = self.compare_changed(table_of, table, key).await?;
            return Ok(values.contacts);
        }
        let log = &self.fold.log;
        let mut values = self.values();
        let keys = contact_keys_by(log, table_of)
            .remove(&table)
            .unwrap_or_default();
        contacts_of(&self.sources, log, table, keys, &mut values).await?;
        self.compared.insert(table);
        Ok(self.confirmed(values).contacts)
    }

    /// Compares `rows`, which are all rows of `uids` in the live `contact_<n>`. They were read after the log was folded: they must have at
    /// least what was folded, and may have later events up to `ends`.
    ///
    /// # Errors
    /// [`AuditError::Kafka`]. Differences are no error.
    pub async fn rows(
        &mut self,
        uids: &[UserId],
        rows: &[ContactRow],
        ends: &PartitionMap<i64>,
    ) -> Result<Check, AuditError> {
        let log = &self.fold.log;
        let of_rows = rows.iter().map(|row| {
            let (uid, peer) = (row.contact.uid, row.contact.peer);
            ((uid, peer), Some(Contact::of_row(row)))
        });
        let keys = uids
            .iter()
            .flat_map(|uid| log.contacts(*uid).into_keys().map(|peer| (*uid, peer)));
        let mut found: BTreeMap<_, _> = keys.map(|key| (key, None)).collect();
        found.extend(of_rows);
        let mut values = self.values();
        values.contacts.compared = found.len() as u64;
        let possible_mismatches = found.into_iter().map(|((uid, peer), contact)| {
            let key = ValueKey::Contact { uid, peer };
            let low = expected(log, key);
            let stored = StoredValue::Contact(contact);
            PossibleMismatch { key, stored, low }
        });
        let possible_mismatches = possible_mismatches.collect();
        self.fold_to(ends).await?;
        values.confirm(&self.fold.log, possible_mismatches);
        Ok(values.contacts)
    }

    /// Ends the comparison of whole tables: from now on only rows of events that are folded later are compared.
    pub fn begin_tail(&mut self) {
        self.fold.changed.clear();
    }

    /// Compares the rows of a table that changed.
    async fn compare_changed(
        &self,
        table_of: impl Fn(UserId, UserId) -> TableNumber,
        table: TableNumber,
        key: impl Fn(UserId, UserId) -> ValueKey,
    ) -> Result<Values, AuditError> {
        let log = &self.fold.log;
        let mut values = self.values();
        for conversation in &self.fold.changed {
            for uid in conversation.users() {
                let peer = conversation.peer_of(uid);
                if table_of(uid, peer) == table {
                    let key = key(uid, peer);
                    let stored = read_value(&self.sources, log, key).await?;
                    values.check_value(log, key, stored);
                }
            }
        }
        Ok(self.confirmed(values))
    }

    fn values(&self) -> Values {
        Values::new(self.sources.kafka.topic(Topic::Events), EXAMPLES)
    }

    /// Confirms the mismatches without a second read, since nothing else writes to the tables.
    fn confirmed(&self, mut values: Values) -> Values {
        let possible_mismatches = std::mem::take(&mut values.possible_mismatches);
        values.confirm(&self.fold.log, possible_mismatches);
        values
    }
}
