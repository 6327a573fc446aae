use std::{collections::BTreeMap, sync::Arc};

use event_log::{Bounds, LogReader};
use message_store::{MessageRow, Month, ReadTx, Sink, StoreError};
use schemas::{
    Partition,
    event::{Body, Event},
    topics::Topic,
};

use crate::{
    AuditError, Check, Finding, Kind, Scope, Sources,
    ends::{blocking, name},
    fold::message_digest,
};

const PAGE: u32 = 2_000;

/// One `chat_msg_<n>`, and what it must hold.
pub(crate) struct MessageTable<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) reader: &'a Arc<LogReader>,
    pub(crate) scope: Scope,
    pub(crate) partition: Partition,
    /// Offset and digest of every message within `bounds`, ascending.
    pub(crate) messages: &'a [(i64, u64)],
    /// The offset of the first message of each month.
    pub(crate) months: &'a BTreeMap<Month, i64>,
    pub(crate) bounds: Bounds,
    /// The first offset whose row is looked at.
    pub(crate) from: i64,
}

/// Compares the table with the log, both below the fixed end and below the resume offset of the same snapshot (PROTOCOL M5). Gives
/// the first month that is kept: what was dropped is not missing.
pub(crate) async fn compare_messages(
    table: &MessageTable<'_>,
    check: &mut Check,
) -> Result<Option<Month>, AuditError> {
    let store = &table.sources.messages;
    let shard = store.layout().shard_of(table.partition);
    let mut floor = store.kept_from(shard).await?;
    loop {
        let mut compared = check.anew();
        compare_above(table, floor, &mut compared).await?;
        // A month that is dropped meanwhile is gone for every snapshot.
        let now = store.kept_from(shard).await?;
        if now == floor {
            check.merge(compared);
            return Ok(floor);
        }
        floor = now;
    }
}

async fn compare_above(
    table: &MessageTable<'_>,
    floor: Option<Month>,
    check: &mut Check,
) -> Result<(), AuditError> {
    let store = &table.sources.messages;
    let topic = name(&table.sources.kafka, Topic::Events);
    let mut snapshot = store
        .snapshot(store.layout().shard_of(table.partition))
        .await?;
    let resume = snapshot
        .resume_offsets(Sink::Messages, &topic, &[table.partition])
        .await?;
    let next = resume.get(table.partition).map_or(0, |at| at.next.get());
    let below = table.messages.partition_point(|(id, _)| *id < next);
    let mut walk = Walk {
        table,
        topic,
        wanted: &table.messages[..below],
        next,
        floor,
        dropped_below: dropped_below(table.months, floor),
        check,
    };
    match walk.rows(&mut snapshot).await {
        // What no column can rightly hold, somebody else wrote.
        Err(AuditError::MySql(StoreError::Fatal(cause))) => {
            let what = format!("chat_msg_{} cannot be read: {cause}", table.partition);
            check.note(Finding::new(Kind::Different, what));
            Ok(())
        }
        outcome => outcome,
    }
}

/// The offset of the first message of a month that is kept. Time never goes back within a partition (PROTOCOL S2).
fn dropped_below(months: &BTreeMap<Month, i64>, floor: Option<Month>) -> i64 {
    floor.map_or(0, |floor| {
        let kept = months.range(floor..).next();
        kept.map_or(i64::MAX, |(_, first)| *first)
    })
}

/// Rows and messages side by side, both ascending by offset.
struct Walk<'a> {
    table: &'a MessageTable<'a>,
    topic: String,
    /// What was not met yet.
    wanted: &'a [(i64, u64)],
    /// The resume offset of the snapshot.
    next: i64,
    /// The first month that is kept, and the offset of its first message.
    floor: Option<Month>,
    dropped_below: i64,
    check: &'a mut Check,
}

impl Walk<'_> {
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
                    self.meet(row).await?;
                }
            }
        }
        self.miss_below(i64::MAX);
        Ok(())
    }

    async fn meet(&mut self, row: &MessageRow) -> Result<(), AuditError> {
        self.miss_below(row.id);
        match self.wanted.split_first() {
            Some(((id, digest), rest)) if *id == row.id => {
                self.wanted = rest;
                self.check.compared += 1;
                if *digest != message_digest(row.ts, &row.message) {
                    let what = self.what_differs(row).await?;
                    self.note(Kind::Different, row.id, what);
                }
            }
            // Of events that retention took from the log, or that came after its end was fixed.
            _ if row.id < self.table.bounds.start => {}
            // To be dropped, or being dropped.
            _ if Month::of(row.ts).ok() < self.floor => {}
            _ if (self.table.bounds.end..self.next).contains(&row.id) => {}
            _ => self.note(Kind::Extra, row.id, "no such message".to_owned()),
        }
        Ok(())
    }

    fn miss_below(&mut self, id: i64) {
        while let Some(((missing, _), rest)) = self.wanted.split_first()
            && *missing < id
        {
            self.wanted = rest;
            if *missing < self.dropped_below {
                continue;
            }
            self.check.compared += 1;
            self.note(Kind::Missing, *missing, "no row".to_owned());
        }
    }

    fn note(&mut self, kind: Kind, id: i64, what: String) {
        let partition = self.table.partition;
        let what = format!("chat_msg_{partition}: {what}");
        self.check
            .note(Finding::new(kind, what).at(&self.topic, partition, id));
    }

    /// The columns that differ; the record is read once more, and only for examples that will be shown.
    async fn what_differs(&self, row: &MessageRow) -> Result<String, AuditError> {
        if !self.check.wants_examples() {
            return Ok(String::new());
        }
        let (partition, offset) = (self.table.partition, row.id);
        let record = blocking(self.table.reader, move |reader| {
            reader.record(Topic::Events, partition, offset)
        });
        let event = record.await?.and_then(|record| record.event().ok());
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
    fn what_lies_before_the_first_month_that_is_kept_was_dropped() {
        let month = |text: &str| text.parse::<Month>().unwrap();
        let months = BTreeMap::from([(month("2026-10"), 3), (month("2026-12"), 70)]);
        let below = |floor: Option<&str>| dropped_below(&months, floor.map(month));
        assert_eq!(below(None), 0);
        assert_eq!(below(Some("2026-10")), 3);
        assert_eq!(below(Some("2026-11")), 70);
        assert_eq!(below(Some("2027-01")), i64::MAX);
    }
}
