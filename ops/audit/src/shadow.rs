//! Compares a shadow rebuild's tables with the log.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use event_log::{LogReader, Record};
use message_store::ContactRow;
use schemas::{
    ConversationId, DirectConversation, OffsetRange, Partition, PartitionMap, TableNumber, UserId,
    event::Body, topics::Topic,
};

use crate::{
    Area, AuditError, Check, Finding, Kind, Scope, Sources,
    compare::{
        GroupKey, GroupTable, MessageRows, MessageTable, PossibleMismatch, Rows, StoredValue,
        ValueKey, Values, compare_changes, compare_group_rows, compare_group_table,
        compare_messages, compare_profile_rows, compare_profile_table, compare_table,
        contact_keys_by, expected, group_keys_by, read_value,
    },
    fold::{Contact, FoldedEvent, LogState, Messages},
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
    compared_of_groups: HashSet<(GroupTable, TableNumber)>,
    compared_profiles: HashSet<TableNumber>,
    /// The offset up to which messages were compared.
    messages_to: PartitionMap<i64>,
}

struct Fold {
    log: LogState,
    /// All months, and the digests that are not compared yet.
    messages: PartitionMap<Messages>,
    /// Conversations of events since the last comparison.
    changed: HashSet<DirectConversation>,
    /// The same of rows about groups.
    changed_of_groups: HashSet<GroupKey>,
    changed_profiles: HashSet<UserId>,
    /// The checks of the log itself.
    events: Check,
}

impl Fold {
    fn new(partitions: &[Partition]) -> Self {
        Self {
            log: LogState::from_start(partitions),
            messages: PartitionMap::new(),
            changed: HashSet::new(),
            changed_of_groups: HashSet::new(),
            changed_profiles: HashSet::new(),
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
        match event.conversation() {
            Some(ConversationId::Direct(id)) => drop(self.changed.insert(id)),
            Some(ConversationId::Group(gid)) => {
                let keys = GroupKey::of_event(gid, &event.body);
                self.changed_of_groups.extend(keys);
            }
            None => {}
        }
        if let Body::Profile(profile) = &event.body {
            self.changed_profiles.insert(profile.uid);
        }
        let messages = self
            .messages
            .get_or_insert_with(record.partition, Messages::default);
        messages.add(record.offset, &event);
        Ok(())
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
            compared_of_groups: HashSet::new(),
            compared_profiles: HashSet::new(),
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
    /// [`AuditError`]: a server does not answer. Differences are no error.
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
        for of in [GroupTable::Groups, GroupTable::Members] {
            check.take(self.compare_of_groups(of, partition.into()).await?);
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
        check.take(self.compare_rows(Rows::Hidden, table).await?);
        for of in [GroupTable::Memberships, GroupTable::Hidden] {
            check.take(self.compare_of_groups(of, table).await?);
        }
        check.take(self.compare_profiles(table).await?);
        Ok(check)
    }

    async fn compare_profiles(&mut self, table: TableNumber) -> Result<Check, AuditError> {
        let (sources, log) = (&self.sources, &self.fold.log);
        let mut values = self.values();
        if self.compared_profiles.contains(&table) {
            let changed = self.fold.changed_profiles.iter().copied();
            let uids = changed.filter(|uid| TableNumber::of_user(*uid) == table);
            compare_profile_rows(sources, log, uids, &mut values).await?;
        } else {
            compare_profile_table(sources, log, table, &mut values).await?;
            self.compared_profiles.insert(table);
        }
        let possible = std::mem::take(&mut values.possible_profiles);
        values.confirm_profiles(log, &possible);
        Ok(values.checks.of(Area::Profiles).clone())
    }

    async fn compare_of_groups(
        &mut self,
        of: GroupTable,
        number: TableNumber,
    ) -> Result<Check, AuditError> {
        let (sources, log) = (&self.sources, &self.fold.log);
        let mut values = self.values();
        if self.compared_of_groups.contains(&(of, number)) {
            let changed = self.fold.changed_of_groups.iter().copied();
            let keys = changed.filter(|key| key.table == of && key.number() == number);
            compare_group_rows(sources, log, keys, &mut values).await?;
        } else {
            let expected = group_keys_by(log, of).remove(&number).unwrap_or_default();
            compare_group_table(sources, log, of, number, expected, &mut values).await?;
            self.compared_of_groups.insert((of, number));
        }
        let possible = std::mem::take(&mut values.possible_in_groups);
        values.confirm_in_groups(log, possible);
        Ok(values.checks.of(of.area()).clone())
    }

    async fn compare_rows(&mut self, of: Rows, table: TableNumber) -> Result<Check, AuditError> {
        let log = &self.fold.log;
        let mut values = self.values();
        if self.compared.contains(&(of, table)) {
            self.compare_changed(of, table, &mut values).await?;
        } else {
            let expected = contact_keys_by(log, of).remove(&table).unwrap_or_default();
            compare_table(&self.sources, log, of, table, expected, &mut values).await?;
            self.compared.insert((of, table));
        }
        // Nothing else writes to the table: a second read would find the same.
        let possible_mismatches = std::mem::take(&mut values.possible_mismatches);
        values.confirm(log, possible_mismatches);
        Ok(values.checks.of(of.area()).clone())
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
        values.checks.of(Area::Contacts).compared = found.len() as u64;
        let possible_mismatches = found.into_iter().map(|((uid, peer), contact)| {
            let of = Rows::Contacts;
            let key = ValueKey::Row { of, uid, peer };
            let low = expected(log, key);
            let stored = StoredValue::Contact(contact);
            PossibleMismatch { key, stored, low }
        });
        let possible_mismatches = possible_mismatches.collect();
        self.fold_to(ends).await?;
        values.confirm(&self.fold.log, possible_mismatches);
        Ok(values.checks.of(Area::Contacts).clone())
    }

    /// Ends the comparison of whole tables: from now on only rows of events that are folded later are compared.
    pub fn begin_tail(&mut self) {
        self.fold.changed.clear();
        self.fold.changed_of_groups.clear();
        self.fold.changed_profiles.clear();
    }

    /// Compares the rows of a table that changed.
    async fn compare_changed(
        &self,
        of: Rows,
        table: TableNumber,
        values: &mut Values,
    ) -> Result<(), AuditError> {
        let log = &self.fold.log;
        for conversation in &self.fold.changed {
            for uid in conversation.users() {
                let peer = conversation.peer_of(uid);
                if of.table_of(uid, peer) == table {
                    let key = ValueKey::Row { of, uid, peer };
                    let stored = read_value(&self.sources, log, key).await?;
                    values.check_value(log, key, stored);
                }
            }
        }
        Ok(())
    }

    fn values(&self) -> Values {
        Values::new(self.sources.kafka.topic(Topic::Events), EXAMPLES)
    }
}
