use std::fmt::Write as _;

use schemas::{LogPosition, Partition, PartitionMap, event::SourceOffset};
use serde::Serialize;

use crate::{StoreError, names::shadow_sink_name};

/// The writers that keep resume offsets here; each kind of rows has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sink {
    /// Writes `chat_msg_<n>`, `msg_change_<n>`, `group_msg_<n>`, `group_<n>` and `group_member_<n>`.
    Messages,
    /// Writes `read_chat_mid_<n>`.
    Reads,
    /// Writes `contact_<n>`, `hidden_<n>`, `membership_<n>` and `user_<n>`.
    Contacts,
}

impl Sink {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Messages, Self::Reads, Self::Contacts];

    /// Its name in `resume_offset`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Reads => "reads",
            Self::Contacts => "contacts",
        }
    }
}

/// A row of `resume_offset`, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOffset {
    /// The name of a [`Sink`], followed by `.new` if the position is that of tables that are being built.
    pub sink: String,
    /// The name of the topic.
    pub topic: String,
    /// The number of the partition.
    pub partition: u8,
    /// The position.
    pub position: LogPosition,
    /// Rows of the sink about users who left a group of the partition below this offset may have been deleted.
    pub forgotten_below: i64,
}

impl StoredOffset {
    /// The sink whose position in the live tables this is; `None` for an unknown sink, and for tables that are being built.
    #[must_use]
    pub fn sink(&self) -> Option<Sink> {
        Sink::ALL.into_iter().find(|sink| sink.name() == self.sink)
    }

    /// Whether this is the position of tables that are being built.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        let is_of = |sink| self.sink == shadow_sink_name(sink);
        Sink::ALL.into_iter().any(is_of)
    }
}

/// An update of one partition's resume offset, conditional on its being `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetUpdate {
    /// Its row.
    pub partition: Partition,
    /// What the writer expects the row to hold.
    pub from: LogPosition,
    /// What the row is to hold.
    pub to: LogPosition,
}

/// The offset updates of one transaction as statements.
#[derive(Debug)]
pub(crate) struct OffsetStatements {
    pub(crate) table: String,
    /// Inserts rows for updates from the start, so that the UPDATE has something to match. A second writer finds a
    /// row that is no longer at the start, and matches nothing.
    pub(crate) insert_missing: Option<String>,
    /// Matches fewer rows than `count` if a row does not hold what the writer expects.
    pub(crate) update: String,
    pub(crate) count: u64,
}

impl OffsetStatements {
    /// `None` without updates.
    pub(crate) fn new(
        table: &str,
        feed: &str,
        topic: &str,
        updates: &[OffsetUpdate],
    ) -> Result<Option<Self>, StoreError> {
        if updates.is_empty() {
            return Ok(None);
        }
        // The statements are different every time, so they are not prepared, and the topic is part of them.
        check_topic(topic)?;
        Ok(Some(Self {
            table: table.to_owned(),
            insert_missing: insert_missing(table, feed, topic, updates),
            update: update(table, feed, topic, updates),
            count: updates.len() as u64,
        }))
    }
}

/// Checks that a topic's name may stand in a statement.
pub(crate) fn check_topic(topic: &str) -> Result<(), StoreError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.chars().all(plain) {
        return Ok(());
    }
    Err(StoreError::fatal(format!(
        "{topic:?} is not the name of a topic"
    )))
}

fn insert_missing(
    table: &str,
    feed: &str,
    topic: &str,
    updates: &[OffsetUpdate],
) -> Option<String> {
    let from_start = updates
        .iter()
        .filter(|update| update.from == LogPosition::default());
    let partitions: Vec<Partition> = from_start.map(|update| update.partition).collect();
    (!partitions.is_empty()).then(|| insert_starts(table, feed, topic, &partitions))
}

/// Inserts the rows of these partitions that are missing, and locks the rows of all.
pub(crate) fn insert_starts(
    table: &str,
    feed: &str,
    topic: &str,
    partitions: &[Partition],
) -> String {
    let SourceOffset { epoch, offset } = SourceOffset::START;
    let rows: Vec<String> = partitions
        .iter()
        .map(|partition| format!("('{feed}', '{topic}', {partition}, 0, {epoch}, {offset})"))
        .collect();
    // An update, even one that changes nothing, takes the exclusive lock at once. INSERT IGNORE would take a shared lock and deadlock.
    format!(
        "INSERT INTO {table} (sink, topic, partition_no, next_offset, src_epoch, src_offset) VALUES {} \
         ON DUPLICATE KEY UPDATE partition_no = partition_no",
        rows.join(", ")
    )
}

/// One statement for all updates.
fn update(table: &str, feed: &str, topic: &str, updates: &[OffsetUpdate]) -> String {
    let mut sql = format!("UPDATE {table} SET next_offset = ");
    push_case(&mut sql, updates, |to| to.next.get());
    sql.push_str(", src_epoch = ");
    push_case(&mut sql, updates, |to| to.watermark.epoch.into());
    sql.push_str(", src_offset = ");
    push_case(&mut sql, updates, |to| to.watermark.offset);
    let conditions: Vec<String> = updates.iter().map(condition).collect();
    let conditions = conditions.join(" OR ");
    write!(
        sql,
        " WHERE sink = '{feed}' AND topic = '{topic}' AND ({conditions})"
    )
    .expect("a String takes everything");
    sql
}

fn condition(update: &OffsetUpdate) -> String {
    let OffsetUpdate {
        partition, from, ..
    } = update;
    let (next, SourceOffset { epoch, offset }) = (from.next, from.watermark);
    format!(
        "(partition_no = {partition} AND next_offset = {next} AND src_epoch = {epoch} AND src_offset = {offset})"
    )
}

fn push_case(sql: &mut String, updates: &[OffsetUpdate], value: impl Fn(&LogPosition) -> i64) {
    sql.push_str("CASE partition_no");
    for update in updates {
        write!(sql, " WHEN {} THEN {}", update.partition, value(&update.to))
            .expect("a String takes everything");
    }
    sql.push_str(" END");
}

/// The position of each requested partition: the one found, or the start.
pub(crate) fn or_start(
    partitions: &[Partition],
    found: &PartitionMap<LogPosition>,
) -> PartitionMap<LogPosition> {
    let position = |partition| found.get(partition).copied().unwrap_or_default();
    let partitions = partitions.iter().copied();
    partitions
        .map(|partition| (partition, position(partition)))
        .collect()
}
