use std::{collections::BTreeMap, sync::Arc};

use event_log::LogReader;
use message_store::{Month, ReadTx, Sink, StoreError};
use schemas::{
    OffsetRange, Partition, TableNumber,
    event::{Body, Event},
    topics::Topic,
};

use super::message_rows::{MessageRows, StoredMessage};
use crate::{
    AuditError, Check, Finding, Kind, Scope, Sources,
    fold::{ChangedTexts, MessageDigest, Messages, Place, SentMessage, Watermark},
    read, stream,
};

const PAGE: u32 = 2_000;

/// One table of messages, and the messages that it must have.
pub(crate) struct MessageTable<'a> {
    pub(crate) rows: MessageRows,
    pub(crate) sources: &'a Sources,
    pub(crate) reader: &'a Arc<LogReader>,
    pub(crate) scope: Scope,
    pub(crate) partition: Partition,
    /// The messages within `bounds`.
    pub(crate) messages: &'a Messages,
    pub(crate) bounds: OffsetRange,
    /// The highest source offset below the end of `bounds`.
    pub(crate) watermark: Watermark,
    /// The first offset to compare.
    pub(crate) from: i64,
}

impl MessageTable<'_> {
    /// A snapshot of the database that has the table, and the resume offset in it (PROTOCOL M5).
    pub(crate) async fn snapshot(&self) -> Result<(ReadTx, i64), StoreError> {
        let store = &self.sources.messages;
        let topic = self.sources.kafka.topic(Topic::Events);
        let shard = store.layout().shard_of(self.partition);
        let mut snapshot = store.snapshot(shard).await?;
        let resume = snapshot
            .resume_offsets(Sink::Messages, &topic, &[self.partition])
            .await?;
        let next = resume.get(self.partition).map_or(0, |at| at.next.get());
        Ok((snapshot, next))
    }
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
        // Dropping a month affects open snapshots too: if a month was dropped meanwhile, compare again.
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
    let (mut snapshot, next) = table.snapshot().await?;
    let digests = table.rows.digests(table.messages);
    let below = digests.partition_point(|(id, _)| *id < next);
    let mut merge = RowMerge {
        table,
        topic: table.sources.kafka.topic(Topic::Events),
        expected: &digests[..below],
        next,
        first_month,
        dropped_below: dropped_below(&table.messages.months, first_month),
        changed_later: Vec::new(),
        check,
    };
    let compared = match merge.rows(&mut snapshot).await {
        // A row that cannot be decoded was not written by a projection.
        Err(AuditError::MySql(StoreError::Fatal(cause))) => {
            let name = table.rows.area().name();
            let what = format!("{name}_{} cannot be read: {cause}", table.partition);
            check.add(Finding::new(Kind::Different, what));
            Ok(())
        }
        outcome => outcome,
    };
    compared?;
    let has_misfits = table.rows == MessageRows::Direct;
    if has_misfits && table.from == 0 && table.scope == Scope::All {
        let number = table.partition.into();
        check_misfits(&mut snapshot, Sink::Messages, number, check).await?;
    }
    Ok(())
}

/// Counts the rows of a table whose `hashvalue`, `kind`, `del_flag` or `pos` has a value that no projection writes.
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
            Sink::Contacts => "kind, del_flag or pos",
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
    /// The messages whose rows have not been read yet.
    expected: &'a [(i64, u64)],
    /// The resume offset of the snapshot.
    next: i64,
    /// The first month that is retained, and the offset of its first message.
    first_month: Option<Month>,
    dropped_below: i64,
    /// Rows with another text, which may come from an event after the log's end.
    changed_later: Vec<OtherText>,
    check: &'a mut Check,
}

struct OtherText {
    id: i64,
    place: Place,
    /// The digest of the message as it was sent.
    sent: MessageDigest,
    found: MessageDigest,
}

impl RowMerge<'_> {
    async fn rows(&mut self, snapshot: &mut ReadTx) -> Result<(), AuditError> {
        let mut after = self.table.from - 1;
        loop {
            let number = self.table.partition.into();
            let page = self.table.rows.scan(snapshot, number, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for row in &page {
                if self.table.scope.has(row.place().0) {
                    self.match_row(row).await?;
                }
            }
        }
        self.report_missing_below(i64::MAX);
        if self.table.from > 0 {
            self.changed_before(snapshot).await?;
        }
        self.check_changed_later().await
    }

    /// Compares the messages below `from` that were changed since.
    async fn changed_before(&mut self, snapshot: &mut ReadTx) -> Result<(), AuditError> {
        let changed = self.table.messages.changed.iter();
        let since: Vec<Place> = changed
            .filter(|(_, changed)| changed.at >= self.table.from)
            .map(|(place, _)| *place)
            .collect();
        for places in since.chunks(PAGE as usize) {
            for row in self.table.rows.by_mid(snapshot, places).await? {
                if row.id < self.table.from {
                    // All columns but the text were compared before.
                    self.match_text(row.id, row.place(), row.as_sent(), row.digest);
                }
            }
        }
        Ok(())
    }

    async fn match_row(&mut self, row: &StoredMessage) -> Result<(), AuditError> {
        self.report_missing_below(row.id);
        match self.expected.split_first() {
            Some(((id, digest), rest)) if *id == row.id => {
                self.expected = rest;
                let (sent, found) = (MessageDigest(*digest), row.digest);
                if sent.has_same_columns(found) {
                    self.match_text(row.id, row.place(), sent, found);
                } else {
                    self.check.compared += 1;
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

    fn match_text(&mut self, id: i64, place: Place, sent: MessageDigest, found: MessageDigest) {
        self.check.compared += 1;
        let changed = self.table.messages.changed.get(&place);
        if found == sent.changed(changed) {
            return;
        }
        if changed.is_some_and(|changed| changed.at >= self.next) {
            // The row is from before the change: whether it is right is no longer known.
            return;
        }
        self.changed_later.push(OtherText {
            id,
            place,
            sent,
            found,
        });
    }

    /// Reports the rows whose text follows from no event up to the snapshot.
    async fn check_changed_later(&mut self) -> Result<(), AuditError> {
        let suspects = std::mem::take(&mut self.changed_later);
        if suspects.is_empty() {
            return Ok(());
        }
        let changed = self.changed_up_to_the_snapshot().await?;
        for OtherText {
            id,
            place,
            sent,
            found,
        } in suspects
        {
            let changed = changed.get(&place);
            if found != sent.changed(changed) {
                let what = match changed {
                    None => "msg".to_owned(),
                    Some(changed) => format!("not as the change at {} left it", changed.at),
                };
                self.add(Kind::Different, id, what);
            }
        }
        Ok(())
    }

    /// The changed texts, including the events between the log's end and the snapshot.
    async fn changed_up_to_the_snapshot(&self) -> Result<ChangedTexts, AuditError> {
        let mut changed = self.table.messages.changed.clone();
        let mut watermark = self.table.watermark;
        let ranges = [(self.table.partition, self.table.bounds.end..self.next)];
        if ranges[0].1.is_empty() {
            return Ok(changed);
        }
        let read = self.table.reader.blocking(move |reader| {
            let read = stream::fold_events(reader, &ranges, |record| {
                let event = read::event(record)?.ok();
                if let Some(event) = event.filter(|event| watermark.rise_to(event.src.offset))
                    && let Body::MessageChange(change) = &event.body
                {
                    changed.add(record.offset, event.ts, change);
                }
                Ok(())
            });
            read.map(|()| changed)
        });
        read.await
    }

    fn report_missing_below(&mut self, id: i64) {
        while let Some(((missing, _), rest)) = self.expected.split_first()
            && *missing < id
        {
            self.expected = rest;
            if *missing < self.dropped_below {
                self.check.excused += 1;
                continue;
            }
            self.check.compared += 1;
            self.add(Kind::Missing, *missing, "no row".to_owned());
        }
    }

    fn add(&mut self, kind: Kind, id: i64, what: String) {
        let partition = self.table.partition;
        let name = self.table.rows.area().name();
        let what = format!("{name}_{partition}: {what}");
        self.check
            .add(Finding::new(kind, what).at(&self.topic, partition, id));
    }

    /// The columns that differ. This reads the record again, so call it only for examples that the report shows.
    async fn what_differs(&self, row: &StoredMessage) -> Result<String, AuditError> {
        if !self.check.needs_examples() {
            return Ok(String::new());
        }
        let (partition, offset) = (self.table.partition, row.id);
        let reader = self.table.reader;
        let record = reader.blocking(move |reader| reader.record(Topic::Events, partition, offset));
        let event = record
            .await?
            .and_then(|record| read::event(&record).ok()?.ok());
        let Some(Event { ts, body, .. }) = event else {
            return Ok("the row".to_owned());
        };
        let Some((sent, _)) = SentMessage::of_event(&body) else {
            return Ok("the row".to_owned());
        };
        Ok(row.different(&sent, ts))
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
