//! Tables that are yet to take the place of live ones, held against the log.

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use event_log::{Bounds, LogReader, Record};
use message_store::{ContactRow, Month};
use schemas::{
    ConversationId, DirectConversation, Partition, TableNumber, UserId, event::Body, topics::Topic,
};

use crate::{
    Area, AuditError, Check, Finding, Kind, Scope, Sources,
    compare::{
        MessageTable, Observed, Subject, Suspect, Values, again, compare_messages, contacts_of,
        reads_of, sides_by, view,
    },
    ends::{blocking, name},
    fold::{Contact, Known, Taken, message_digest},
};

/// How many examples of differences are named.
const EXAMPLES: usize = 5;

/// Compares tables with a fold of the log of its own, all of them at first and then what has come since. Nobody may write to them
/// meanwhile, so that whatever differs is wrong.
pub struct Proof {
    sources: Sources,
    reader: Arc<LogReader>,
    fold: Fold,
    /// Tables that were compared whole.
    compared: HashSet<TableNumber>,
    /// Up to which offset messages were compared.
    messages_to: BTreeMap<Partition, i64>,
}

struct Fold {
    known: Known,
    /// Offset and digest of every message that was not compared yet.
    messages: BTreeMap<Partition, Vec<(i64, u64)>>,
    /// The offset of the first message of each month.
    months: BTreeMap<Partition, BTreeMap<Month, i64>>,
    /// Conversations that something was said of since the last comparison.
    touched: HashSet<DirectConversation>,
    /// What is wrong with the log itself.
    events: Check,
}

impl Fold {
    fn new(partitions: &[Partition]) -> Self {
        Self {
            known: Known::from_start(partitions),
            messages: BTreeMap::new(),
            months: BTreeMap::new(),
            touched: HashSet::new(),
            events: Check::new(Area::Events, EXAMPLES),
        }
    }

    fn take(&mut self, topic: &str, record: &Record) {
        self.events.compared += 1;
        let Some(Taken { event, wrong }) = self.known.extend(record) else {
            return;
        };
        if let Some(what) = wrong {
            let finding = Finding::new(Kind::Different, what);
            self.events
                .note(finding.at(topic, record.partition, record.offset));
        }
        if let Some(ConversationId::Direct(id)) = event.conversation() {
            self.touched.insert(id);
        }
        if let Body::Message(message) = &event.body {
            let digest = message_digest(event.ts, message);
            let messages = self.messages.entry(record.partition).or_default();
            messages.push((record.offset, digest));
            if let Ok(month) = Month::of(event.ts) {
                let months = self.months.entry(record.partition).or_default();
                months.entry(month).or_insert(record.offset);
            }
        }
    }
}

impl Proof {
    /// Of tables that follow from these partitions of the log. `sources.messages` is a store whose tables are the ones to be
    /// compared; Redis is not looked at.
    ///
    /// # Errors
    /// [`AuditError::Kafka`].
    pub fn new(sources: Sources, partitions: &[Partition]) -> Result<Self, AuditError> {
        Ok(Self {
            reader: Arc::new(LogReader::new(&sources.kafka)?),
            sources,
            fold: Fold::new(partitions),
            compared: HashSet::new(),
            messages_to: BTreeMap::new(),
        })
    }

    /// Folds the log up to these ends; what is wrong with it so far.
    ///
    /// # Errors
    /// [`AuditError::Kafka`].
    pub async fn fold_to(&mut self, ends: &BTreeMap<Partition, i64>) -> Result<Check, AuditError> {
        let mut fold = std::mem::replace(&mut self.fold, Fold::new(&[]));
        let next = fold.known.next_offsets();
        let ranges: Vec<_> = next
            .into_iter()
            .filter_map(|(partition, next)| Some((partition, next..*ends.get(&partition)?)))
            .collect();
        let topic = name(&self.sources.kafka, Topic::Events);
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

    /// Compares `chat_msg_<n>`: all of it the first time, then the rows of what was folded since. Every row has to be there,
    /// and no other, below where the fold ends.
    ///
    /// # Errors
    /// [`AuditError`]: a server does not answer. Differences are no error.
    pub async fn messages(&mut self, partition: Partition) -> Result<Check, AuditError> {
        let messages = self.fold.messages.get(&partition);
        let none = BTreeMap::new();
        let end = self.fold.known.next_offsets().get(&partition).copied();
        let end = end.unwrap_or_default();
        let table = MessageTable {
            sources: &self.sources,
            reader: &self.reader,
            scope: Scope::All,
            partition,
            messages: messages.map(Vec::as_slice).unwrap_or_default(),
            months: self.fold.months.get(&partition).unwrap_or(&none),
            bounds: Bounds { start: 0, end },
            from: self
                .messages_to
                .get(&partition)
                .copied()
                .unwrap_or_default(),
        };
        let mut check = Check::new(Area::Messages, EXAMPLES);
        compare_messages(&table, &mut check).await?;
        self.fold.messages.remove(&partition);
        self.messages_to.insert(partition, end);
        Ok(check)
    }

    /// Compares `read_chat_mid_<n>`: all of it the first time, then what was touched since.
    ///
    /// # Errors
    /// As [`Self::messages`].
    pub async fn reads(&mut self, table: TableNumber) -> Result<Check, AuditError> {
        let place = |uid, peer| DirectConversation::new(uid, peer).partition().into();
        if self.compared.contains(&table) {
            let subject = |uid, peer| Subject::ReadPosition { uid, peer };
            let values = self.touched(place, table, subject).await?;
            return Ok(values.reads);
        }
        let known = &self.fold.known;
        let mut values = self.values();
        let sides = sides_by(known, place).remove(&table).unwrap_or_default();
        reads_of(&self.sources, known, table, sides, &mut values).await?;
        self.compared.insert(table);
        Ok(self.judged(values).reads)
    }

    /// Compares `contact_<n>`: all of it the first time, then what was touched since.
    ///
    /// # Errors
    /// As [`Self::messages`].
    pub async fn contacts(&mut self, table: TableNumber) -> Result<Check, AuditError> {
        let place = |uid, _| TableNumber::of_user(uid);
        if self.compared.contains(&table) {
            let subject = |uid, peer| Subject::Contact { uid, peer };
            let values = self.touched(place, table, subject).await?;
            return Ok(values.contacts);
        }
        let known = &self.fold.known;
        let mut values = self.values();
        let sides = sides_by(known, place).remove(&table).unwrap_or_default();
        contacts_of(&self.sources, known, table, sides, &mut values).await?;
        self.compared.insert(table);
        Ok(self.judged(values).contacts)
    }

    /// Compares rows of the live `contact_<n>`, all that there are of `uids`. They were read after the log had been folded up to where it
    /// is by now, and have to hold at least that; they may hold what has come since, up to `ends`.
    ///
    /// # Errors
    /// [`AuditError::Kafka`]. Differences are no error.
    pub async fn rows(
        &mut self,
        uids: &[UserId],
        rows: &[ContactRow],
        ends: &BTreeMap<Partition, i64>,
    ) -> Result<Check, AuditError> {
        let known = &self.fold.known;
        let of_rows = rows.iter().map(|row| {
            let (uid, peer) = (row.contact.uid, row.contact.peer);
            ((uid, peer), Some(Contact::of_row(row)))
        });
        let expected = uids
            .iter()
            .flat_map(|uid| known.contacts(*uid).into_keys().map(|peer| (*uid, peer)));
        let mut found: BTreeMap<_, _> = expected.map(|side| (side, None)).collect();
        found.extend(of_rows);
        let mut values = self.values();
        values.contacts.compared = found.len() as u64;
        let suspects = found.into_iter().map(|((uid, peer), contact)| {
            let subject = Subject::Contact { uid, peer };
            let low = view(known, subject);
            let seen = Observed::Contact(contact);
            Suspect { subject, seen, low }
        });
        let suspects = suspects.collect();
        self.fold_to(ends).await?;
        values.convict(&self.fold.known, suspects);
        Ok(values.contacts)
    }

    /// All tables are compared: from now on only what is folded from here on is looked at.
    pub fn begin_tail(&mut self) {
        self.fold.touched.clear();
    }

    /// A look at what was touched of a table.
    async fn touched(
        &self,
        place: impl Fn(UserId, UserId) -> TableNumber,
        table: TableNumber,
        subject: impl Fn(UserId, UserId) -> Subject,
    ) -> Result<Values, AuditError> {
        let known = &self.fold.known;
        let mut values = self.values();
        for conversation in &self.fold.touched {
            let (lo, hi) = (conversation.lo(), conversation.hi());
            let sides: HashSet<_> = [(lo, hi), (hi, lo)].into();
            for (uid, peer) in sides {
                if place(uid, peer) == table {
                    let subject = subject(uid, peer);
                    let seen = again(&self.sources, known, subject).await?;
                    values.first_look(known, subject, seen);
                }
            }
        }
        Ok(self.judged(values))
    }

    fn values(&self) -> Values {
        Values::new(name(&self.sources.kafka, Topic::Events), EXAMPLES)
    }

    /// There is no second look: nobody else writes.
    fn judged(&self, mut values: Values) -> Values {
        let suspects = std::mem::take(&mut values.suspects);
        values.convict(&self.fold.known, suspects);
        values
    }
}
