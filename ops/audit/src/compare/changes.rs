//! Compares `msg_change_<n>` with the changes of the log. Its rows are never changed.

use message_store::{Month, ReadTx, StoreError, StoredChange};
use schemas::{ChangeSeq, ConversationId, topics::Topic};

use super::messages::MessageTable;
use crate::{AuditError, Check, Finding, Kind, fold::LoggedChange};

const PAGE: u32 = 2_000;

/// Compares the table with the log, up to the smaller of the log's end and the resume offset of the same snapshot. Rows of dropped months may or may
/// not be there.
pub(crate) async fn compare_changes(
    table: &MessageTable<'_>,
    check: &mut Check,
) -> Result<(), AuditError> {
    let (mut snapshot, next) = table.snapshot().await?;
    let store = &table.sources.messages;
    let shard = store.layout().shard_of(table.partition);
    let first_month = store.kept_from(shard).await?;
    let mut expected: Vec<&LoggedChange> = table.messages.changes.iter().collect();
    expected.retain(|change| change.id < next);
    expected.sort_by_key(|change| key(change));
    let mut merge = ChangeMerge {
        table,
        next,
        first_month,
        expected: &expected,
        check,
    };
    let compared = if table.from == 0 {
        merge.all_rows(&mut snapshot).await
    } else {
        merge.new_rows(&mut snapshot).await
    };
    match compared {
        // A row that cannot be decoded was not written by a projection.
        Err(StoreError::Fatal(cause)) => {
            let what = format!("msg_change_{} cannot be read: {cause}", table.partition);
            check.add(Finding::new(Kind::Different, what));
            Ok(())
        }
        outcome => Ok(outcome?),
    }
}

/// The key of a change; like [`StoredChange::number`].
fn key(change: &LoggedChange) -> (ConversationId, i64) {
    let number = match change.change_seq {
        ChangeSeq::ZERO => -change.id,
        change_seq => change_seq.get(),
    };
    (change.conversation, number)
}

/// Merges the rows with the log's changes; both ascend by conversation and number.
struct ChangeMerge<'a> {
    table: &'a MessageTable<'a>,
    /// The resume offset of the snapshot.
    next: i64,
    first_month: Option<Month>,
    /// The changes whose rows have not been read yet.
    expected: &'a [&'a LoggedChange],
    check: &'a mut Check,
}

impl ChangeMerge<'_> {
    async fn all_rows(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        let (scope, mut after) = (self.table.scope, None);
        loop {
            let number = self.table.partition.into();
            let page = snapshot.scan_changes(number, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.conversation, last.number()));
            for row in &page {
                if scope.has(row.conversation) {
                    self.match_row(row);
                }
            }
        }
        self.report_missing_up_to(None);
        Ok(())
    }

    /// Compares the rows of the expected changes only; earlier rows were compared before.
    async fn new_rows(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        let changes = self.expected;
        // Between changes with a number and those without there may be earlier rows.
        let range =
            |change: &LoggedChange| (change.conversation, change.change_seq == ChangeSeq::ZERO);
        for of_one in changes.chunk_by(|one, next| range(one) == range(next)) {
            for some in of_one.chunks(PAGE as usize) {
                let ((conversation, first), (_, last)) = (key(some[0]), key(some[some.len() - 1]));
                let mut after = first - 1;
                while after < last {
                    let found = snapshot.changes_of_all(conversation, after, PAGE).await?;
                    let Some(newest) = found.last() else { break };
                    after = newest.number();
                    for row in found.iter().filter(|row| row.number() <= last) {
                        self.match_row(row);
                    }
                }
            }
        }
        self.report_missing_up_to(None);
        Ok(())
    }

    fn match_row(&mut self, row: &StoredChange) {
        let place = (row.conversation, row.number());
        self.report_missing_up_to(Some(place));
        match self.expected.split_first() {
            Some((change, rest)) if key(change) == place => {
                self.expected = rest;
                self.check.compared += 1;
                let columns = [
                    ("mid", change.mid == row.mid),
                    ("uid", change.by == row.by),
                    ("change_kind", change.kind == row.kind.as_str()),
                    ("ts", change.ts == row.ts),
                    ("id", change.id == row.id),
                ];
                let names = columns.iter().filter(|(_, equal)| !equal);
                let names: Vec<&str> = names.map(|(name, _)| *name).collect();
                if !names.is_empty() {
                    self.add(Kind::Different, change, &names.join(", "));
                }
            }
            // Its event was deleted from the log by retention.
            _ if row.id < self.table.bounds.start => {}
            // The row's month is to be dropped.
            _ if Month::of(row.ts).ok() < self.first_month => {}
            // Its event was appended after the log's end was read.
            _ if (self.table.bounds.end..self.next).contains(&row.id) => {}
            _ => {
                let what = format!("no change {} of {}", row.change_seq, row.conversation);
                self.note(Kind::Extra, row.id, &what);
            }
        }
    }

    /// Reports the changes before this one that have no row; `None` is the end.
    fn report_missing_up_to(&mut self, place: Option<(ConversationId, i64)>) {
        while let Some((missing, rest)) = self.expected.split_first()
            && place.is_none_or(|place| key(missing) < place)
        {
            self.expected = rest;
            if Month::of(missing.ts).ok() < self.first_month {
                self.check.excused += 1;
                continue;
            }
            self.check.compared += 1;
            self.add(Kind::Missing, missing, "no row");
        }
    }

    fn add(&mut self, kind: Kind, change: &LoggedChange, what: &str) {
        let LoggedChange {
            conversation,
            change_seq,
            id,
            ..
        } = change;
        self.note(
            kind,
            *id,
            &format!("change {change_seq} of {conversation}: {what}"),
        );
    }

    fn note(&mut self, kind: Kind, id: i64, what: &str) {
        let partition = self.table.partition;
        let topic = self.table.sources.kafka.topic(Topic::Events);
        let what = format!("msg_change_{partition}: {what}");
        self.check
            .add(Finding::new(kind, what).at(&topic, partition, id));
    }
}
