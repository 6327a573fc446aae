use std::{collections::BTreeMap, fmt::Write as _};

use schemas::{Partition, event::SourceOffset};
use serde::Serialize;

use crate::StoreError;

/// Who keeps resume offsets here; each kind of rows has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sink {
    /// Writes `chat_msg_<n>`.
    Messages,
    /// Writes `read_chat_mid_<n>`.
    Reads,
    /// Writes `contact_<n>`.
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

/// How far a database has taken in one partition of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resume {
    /// The offset of the next record to take in.
    pub next_offset: i64,
    /// The highest source among the records before it.
    pub watermark: SourceOffset,
}

impl Resume {
    /// Before everything; what a missing row counts as.
    pub const START: Self = Self {
        next_offset: 0,
        watermark: SourceOffset::START,
    };
}

/// A step of one resume offset, which holds only if it is still `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeMove {
    /// Of which partition.
    pub partition: Partition,
    /// What the writer remembers of this database.
    pub from: Resume,
    /// What it is to be.
    pub to: Resume,
}

/// The moves of one transaction as statements.
#[derive(Debug)]
pub(crate) struct Moves {
    pub(crate) table: String,
    /// Makes rows for moves from the start, so that the update has something to match. One who comes second finds a
    /// row that is no longer at the start, and matches nothing.
    pub(crate) insert_missing: Option<String>,
    /// Matches as many rows as there are moves, or the writer's memory is out of date.
    pub(crate) update: String,
    pub(crate) count: u64,
}

impl Moves {
    /// `None` where nothing moves.
    pub(crate) fn new(
        table: &str,
        feed: &str,
        topic: &str,
        moves: &[ResumeMove],
    ) -> Result<Option<Self>, StoreError> {
        if moves.is_empty() {
            return Ok(None);
        }
        // The statements are different every time, so they are not prepared, and the topic stands in them.
        check_topic(topic)?;
        Ok(Some(Self {
            table: table.to_owned(),
            insert_missing: insert_missing(table, feed, topic, moves),
            update: update(table, feed, topic, moves),
            count: moves.len() as u64,
        }))
    }
}

/// A name of a topic may stand in a statement.
pub(crate) fn check_topic(topic: &str) -> Result<(), StoreError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.chars().all(plain) {
        return Ok(());
    }
    Err(StoreError::fatal(format!(
        "{topic:?} is not the name of a topic"
    )))
}

fn insert_missing(table: &str, feed: &str, topic: &str, moves: &[ResumeMove]) -> Option<String> {
    let unmoved = moves.iter().filter(|step| step.from == Resume::START);
    let partitions: Vec<Partition> = unmoved.map(|step| step.partition).collect();
    (!partitions.is_empty()).then(|| insert_starts(table, feed, topic, &partitions))
}

/// Makes the rows of these partitions, where they are missing, and locks them.
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
    // The update of nothing takes the exclusive lock at once; INSERT IGNORE would take a shared one and deadlock.
    format!(
        "INSERT INTO {table} (sink, topic, partition_no, next_offset, src_epoch, src_offset) VALUES {} \
         ON DUPLICATE KEY UPDATE partition_no = partition_no",
        rows.join(", ")
    )
}

/// One statement for all moves.
fn update(table: &str, feed: &str, topic: &str, moves: &[ResumeMove]) -> String {
    let mut sql = format!("UPDATE {table} SET next_offset = ");
    push_case(&mut sql, moves, |to| to.next_offset);
    sql.push_str(", src_epoch = ");
    push_case(&mut sql, moves, |to| to.watermark.epoch.into());
    sql.push_str(", src_offset = ");
    push_case(&mut sql, moves, |to| to.watermark.offset);
    let conditions: Vec<String> = moves.iter().map(condition).collect();
    let conditions = conditions.join(" OR ");
    write!(
        sql,
        " WHERE sink = '{feed}' AND topic = '{topic}' AND ({conditions})"
    )
    .expect("a String takes everything");
    sql
}

fn condition(step: &ResumeMove) -> String {
    let ResumeMove {
        partition, from, ..
    } = step;
    let (next, SourceOffset { epoch, offset }) = (from.next_offset, from.watermark);
    format!(
        "(partition_no = {partition} AND next_offset = {next} AND src_epoch = {epoch} AND src_offset = {offset})"
    )
}

fn push_case(sql: &mut String, moves: &[ResumeMove], value: impl Fn(&Resume) -> i64) {
    sql.push_str("CASE partition_no");
    for step in moves {
        write!(sql, " WHEN {} THEN {}", step.partition, value(&step.to))
            .expect("a String takes everything");
    }
    sql.push_str(" END");
}

/// Every wanted partition with what was found, or the start.
pub(crate) fn with_missing(
    wanted: &[Partition],
    found: &BTreeMap<Partition, Resume>,
) -> BTreeMap<Partition, Resume> {
    wanted
        .iter()
        .map(|partition| {
            (
                *partition,
                found.get(partition).copied().unwrap_or_default(),
            )
        })
        .collect()
}
