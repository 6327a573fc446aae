use std::{collections::BTreeMap, sync::Arc};

use event_log::LogReader;
use message_store::{MessageRow, Month, ReadTx, Sink, StoreError};
use schemas::{
    OffsetRange, Partition, TableNumber,
    event::{Body, Event},
    topics::Topic,
};

use crate::{
    AuditError, Check, Finding, Kind, Scope, Sources,
    fold::{Messages, message_digest},
    read,
};

const PAGE: u32 = 2_000;

/// One `chat_msg_<n>` and the messages that it must have.
pub(crate) struct MessageTable<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) reader: &'a Arc<LogReader>,
    pub(crate) scope: Scope,
    pub(crate) partition: Partition,
    /// Those within `bounds`.
    pub(crate) messages: &'a Messages,
    pub(crate) bounds: OffsetRange,
    /// The first offset to compare.
    pub(crate) from: i64,
}

/// Compares the table with the log, up to the smaller of the log's end and the resume offset of the same snapshot (PROTOCOL M5). Returns
/// the first month that is retained: rows of dropped months are not missing.
pub(crate) async fn compare_messages(
    table: &MessageTable<'_>,
    check: &mut Check,
) -> Result<Option<Month>, AuditError> {
    let store = &table.sources.messages;
    let shard = store.layout().shard_of(table.partition);
    let mut first_month = store.kept_from(shard).await?;
    loop {
        let mut compared = check.empty();
        compare_above(table, first_month, &mut compared).await?;
        // Dropping a month affects open snapshots too: if one was dropped meanwhile, compare again.
        let now = store.kept_from(shard).await?;
        if now == first_month {
            check.merge(compared);
            return Ok(first_month);
        }
        first_month = now;
    }
}

async fn compare_above(
    table: &MessageTable<'_>,
    first_month: Option<Month>,
    check: &mut Check,
) -> Result<(), AuditError> {
    let store = &table.sources.messages;
    let topic = table.sources.kafka.topic(Topic::Events);
    let mut snapshot = store
        .snapshot(store.layout().shard_of(table.partition))
        .await?;
    let resume = snapshot
        .resume_offsets(Sink::Messages, &topic, &[table.partition])
        .await?;
    let next = resume.get(table.partition).map_or(0, |at| at.next.get());
    let digests = &table.messages.digests;
    let below = digests.partition_point(|(id, _)| *id < next);
    let mut merge = RowMerge {
        table,
        topic,
        expected: &digests[..below],
        next,
        first_month,
        dropped_below: dropped_below(&table.messages.months, first_month),
        check,
    };
    let compared = match merge.rows(&mut snapshot).await {
        // A row that cannot be decoded was not written by a projection.
        Err(AuditError::MySql(StoreError::Fatal(cause))) => {
            let what = format!("chat_msg_{} cannot be read: {cause}", table.partition);
            check.add(Finding::new(Kind::Different, what));
            Ok(())
        }
        outcome => outcome,
    };
    compared?;
    if table.from == 0 && table.scope == Scope::All {
        let number = table.partition.into();
        check_misfits(&mut snapshot, Sink::Messages, number, check).await?;
    }
    Ok(())
}

/// Counts the rows of a table whose `hashvalue` or `kind` no projection writes.
pub(crate) async fn check_misfits(
    snapshot: &mut ReadTx,
    sink: Sink,
    number: TableNumber,
    check: &mut Check,
) -> Result<(), StoreError> {
    let misfits = snapshot.count_misfits(sink, number).await?;
    if misfits > 0 {
        let column = match sink {
            Sink::Messages | Sink::Reads => "hashvalue",
            Sink::Contacts => "kind",
        };
        let what = format!("{}_{number}: {column} of {misfits} rows", check.area.name());
        check.add(Finding::new(Kind::Different, what));
    }
    Ok(())
}

/// The offset of the first message that is retained. Time never falls within a partition (PROTOCOL S2).
fn dropped_below(months: &BTreeMap<Month, i64>, first_month: Option<Month>) -> i64 {
    first_month.map_or(0, |first_month| {
        let kept = months.range(first_month..).next();
        kept.map_or(i64::MAX, |(_, first)| *first)
    })
}

/// Merges the rows with the log's messages; both ascend by offset.
struct RowMerge<'a> {
    table: &'a MessageTable<'a>,
    topic: String,
    /// The messages whose rows were not read yet.
    expected: &'a [(i64, u64)],
    /// The resume offset of the snapshot.
    next: i64,
    /// The first month that is retained, and the offset of its first message.
    first_month: Option<Month>,
    dropped_below: i64,
    check: &'a mut Check,
}

impl RowMerge<'_> {
    async fn rows(&mut self, snapshot: &mut ReadTx) -> Result<(), AuditError> {
        let mut after = self.table.from - 1;
        loop {
            let page = snapshot
                .scan_messages(self.table.partition.into(), after, PAGE)
                .await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for row in &page {
                if self
                    .table
                    .scope
                    .has_conversation(row.message.conversation())
                {
                    self.match_row(row).await?;
                }
            }
        }
        self.report_missing_below(i64::MAX);
        Ok(())
    }

    async fn match_row(&mut self, row: &MessageRow) -> Result<(), AuditError> {
        self.report_missing_below(row.id);
        match self.expected.split_first() {
            Some(((id, digest), rest)) if *id == row.id => {
                self.expected = rest;
                self.check.compared += 1;
                if *digest != message_digest(row.ts, &row.message) {
                    let what = self.what_differs(row).await?;
                    self.add(Kind::Different, row.id, what);
                }
            }
            // Its event was deleted from the log by retention.
            _ if row.id < self.table.bounds.start => {}
            // Its month is to be dropped.
            _ if Month::of(row.ts).ok() < self.first_month => {}
            // Its event was appended after the log's end was read.
            _ if (self.table.bounds.end..self.next).contains(&row.id) => {}
            _ => self.add(Kind::Extra, row.id, "no such message".to_owned()),
        }
        Ok(())
    }

    fn report_missing_below(&mut self, id: i64) {
        while let Some(((missing, _), rest)) = self.expected.split_first()
            && *missing < id
        {
            self.expected = rest;
            if *missing < self.dropped_below {
                continue;
            }
            self.check.compared += 1;
            self.add(Kind::Missing, *missing, "no row".to_owned());
        }
    }

    fn add(&mut self, kind: Kind, id: i64, what: String) {
        let partition = self.table.partition;
        let what = format!("chat_msg_{partition}: {what}");
        self.check
            .add(Finding::new(kind, what).at(&self.topic, partition, id));
    }

    /// The columns that differ. The record is read again for this, so only for examples that the report shows.
    async fn what_differs(&self, row: &MessageRow) -> Result<String, AuditError> {
        if !self.check.needs_examples() {
            return Ok(String::new());
        }
        let (partition, offset) = (self.table.partition, row.id);
        let reader = self.table.reader;
        let record = reader.blocking(move |reader| reader.record(Topic::Events, partition, offset));
        let event = record
            .await?
            .and_then(|record| read::event(&record).ok()?.ok());
        let Some(Event {
            ts,
            body: Body::Message(message),
            ..
        }) = event
        else {
            return Ok("the row".to_owned());
        };
        let columns = [
            ("srcid", message.srcid == row.message.srcid),
            ("destid", message.destid == row.message.destid),
            ("mid", message.mid == row.message.mid),
            ("msg", message.msg == row.message.msg),
            ("ts", ts == row.ts),
            (
                "client_msg_id",
                message.client_msg_id == row.message.client_msg_id,
            ),
            ("n", message.n == row.message.n),
        ];
        let names: Vec<&str> = columns
            .iter()
            .filter(|(_, equal)| !equal)
            .map(|(name, _)| *name)
            .collect();
        Ok(names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_before_the_first_retained_month_were_dropped() {
        let month = |text: &str| text.parse::<Month>().unwrap();
        let months = BTreeMap::from([(month("2026-10"), 3), (month("2026-12"), 70)]);
        let below = |first_month: Option<&str>| dropped_below(&months, first_month.map(month));
        assert_eq!(below(None), 0);
        assert_eq!(below(Some("2026-10")), 3);
        assert_eq!(below(Some("2026-11")), 70);
        assert_eq!(below(Some("2027-01")), i64::MAX);
    }
}
