//! Changes to messages: their rows in `msg_change_<n>`, and what becomes of the messages in `chat_msg_<n>`.

use std::collections::BTreeMap;

use schemas::{Change, MessageChange, Mid, TimestampMs, UserId};

use super::transaction::{RemovedKeys, any_of};
use crate::{
    ChangeKind, ChangeRow, MessageState, Month, StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, MultiRow, Preparation},
};

/// How many recalled messages a statement names, and how many edited ones with their texts.
const RECALLED_AT_ONCE: usize = 1000;
const EDITED_AT_ONCE: usize = 64;

/// What `msg_change_<n>` has of a change.
pub(super) struct ChangeRecord {
    /// (lo, hi, chg)
    pub(super) key: (i64, i64, i64),
    pub(super) mid: Mid,
    pub(super) by: UserId,
    pub(super) kind: ChangeKind,
    pub(super) ts: TimestampMs,
    pub(super) id: i64,
}

impl From<&ChangeRow> for ChangeRecord {
    fn from(ChangeRow { id, ts, change }: &ChangeRow) -> Self {
        let conversation = change.conversation();
        let (lo, hi) = (conversation.lo(), conversation.hi());
        Self {
            key: (lo.get(), hi.get(), change.chg.get()),
            mid: change.mid,
            by: change.by,
            kind: ChangeKind::of(&change.change),
            ts: *ts,
            id: *id,
        }
    }
}

/// The rows of one `msg_change_<n>`, but for those that are older than what is kept, and their keys.
pub(super) fn inserts(
    table: &str,
    changes: impl Iterator<Item = ChangeRecord>,
    kept_from: Option<Month>,
) -> Result<(Vec<MultiRow>, RemovedKeys), StoreError> {
    let mut rows = Vec::new();
    for row in changes {
        if Some(Month::of(row.ts)?) >= kept_from {
            rows.push(row);
        }
    }
    let insert = Insert {
        table,
        columns: "lo, hi, chg, mid, uid, change_kind, ts, id",
        tail: "",
        sizes: Preparation::Once,
    };
    let keys = RemovedKeys::Changes(rows.iter().map(|row| row.key).collect());
    Ok((insert.statements(&rows, bind_row)?, keys))
}

fn bind_row(arguments: Arguments, row: &ChangeRecord) -> Result<Arguments, StoreError> {
    let (lo, hi, chg) = row.key;
    Ok(arguments
        .with(lo)
        .with(hi)
        .with(chg)
        .with(row.mid.get())
        .with(row.by.get())
        .with(row.kind.as_str())
        .with(datetime::to_column(row.ts)?)
        .with(row.id))
}

/// What becomes of a message.
#[derive(Clone, Copy)]
enum Outcome<'a> {
    Edited {
        msg: &'a str,
        ts: TimestampMs,
    },
    /// Recalled or deleted, which is final.
    Gone(MessageState),
}

/// The message that a change is of: only its author changes a direct one.
pub(super) fn place(change: &ChangeRow) -> (String, &Change, TimestampMs) {
    let MessageChange {
        by,
        peer,
        mid,
        change: what,
        ..
    } = &change.change;
    let place = format!("srcid = {by} AND destid = {peer} AND mid = {mid}");
    (place, what, change.ts)
}

/// What changes in one table of messages; `changes` are in the order of the log, each with the condition that names its message. Messages that are
/// gone are left out in silence, and so are those that were recalled or deleted: where the log is read again, an edit from before that brings no
/// text back.
pub(super) fn updates<'a>(
    table: &str,
    changes: impl Iterator<Item = (String, &'a Change, TimestampMs)>,
) -> Result<Vec<MultiRow>, StoreError> {
    let outcomes = outcomes(changes);
    let mut edited = Vec::new();
    let mut gone: BTreeMap<i8, Vec<String>> = BTreeMap::new();
    for (place, outcome) in outcomes {
        match outcome {
            Outcome::Edited { msg, ts } => edited.push((place, msg, ts)),
            Outcome::Gone(state) => gone.entry(state.to_column()).or_default().push(place),
        }
    }
    let mut statements = Vec::new();
    for (state, places) in gone {
        for places in places.chunks(RECALLED_AT_ONCE) {
            let sql = include_str!("../../sql/write/recall_messages.sql")
                .replace("{table}", table)
                .replace("{state}", &state.to_string())
                .replace("{places}", &any_of(places, String::clone));
            statements.push(update(table, sql, Arguments::default())?);
        }
    }
    for edits in edited.chunks(EDITED_AT_ONCE) {
        statements.push(edit(table, edits)?);
    }
    Ok(statements)
}

/// The last change to each message.
fn outcomes<'a>(
    changes: impl Iterator<Item = (String, &'a Change, TimestampMs)>,
) -> BTreeMap<String, Outcome<'a>> {
    let mut outcomes = BTreeMap::new();
    for (place, change, ts) in changes {
        let outcome = match change {
            Change::Edit(msg) => Outcome::Edited { msg, ts },
            Change::Recall => Outcome::Gone(MessageState::Recalled),
            Change::Delete => Outcome::Gone(MessageState::Deleted),
            Change::Hide | Change::Clear => continue,
        };
        let last = outcomes.entry(place).or_insert(outcome);
        if matches!(last, Outcome::Edited { .. }) {
            *last = outcome;
        }
    }
    outcomes
}

fn edit(table: &str, edits: &[(String, &str, TimestampMs)]) -> Result<MultiRow, StoreError> {
    let cases: Vec<String> = edits
        .iter()
        .map(|(place, ..)| format!("WHEN {place} THEN ?"))
        .collect();
    let sql = include_str!("../../sql/write/edit_messages.sql")
        .replace("{table}", table)
        .replace("{cases}", &cases.join(" "))
        .replace("{places}", &any_of(edits, |(place, ..)| place.clone()));
    let mut arguments = Arguments::default();
    for (_, msg, _) in edits {
        arguments = arguments.with(*msg);
    }
    for (.., ts) in edits {
        arguments = arguments.with(datetime::to_column(*ts)?);
    }
    update(table, sql, arguments)
}

fn update(table: &str, sql: String, arguments: Arguments) -> Result<MultiRow, StoreError> {
    Ok(MultiRow {
        table: table.to_owned(),
        sql,
        arguments: arguments.finish()?,
        kept: false,
        rows: None,
    })
}

#[cfg(test)]
mod tests {
    use schemas::Chg;

    use super::*;

    fn change(number: i64, change: Change) -> ChangeRow {
        let of = Mid::try_from(number).unwrap();
        ChangeRow {
            id: number,
            ts: TimestampMs(0),
            change: MessageChange {
                by: 1.try_into().unwrap(),
                peer: 2.try_into().unwrap(),
                mid: of,
                change,
                chg: Chg::try_from(number).unwrap(),
                n: None,
            },
        }
    }

    fn statements(what: impl Fn(i64) -> Change) -> (usize, usize) {
        let rows: Vec<ChangeRow> = (1..=1000)
            .map(|number| change(number, what(number)))
            .collect();
        let (inserts, _) = inserts("c", rows.iter().map(ChangeRecord::from), None).unwrap();
        (
            inserts.len(),
            updates("t", rows.iter().map(place)).unwrap().len(),
        )
    }

    #[test]
    fn a_thousand_changes_are_a_few_statements() {
        assert_eq!(statements(|_| Change::Recall), (1, 1));
        assert_eq!(statements(|_| Change::Hide), (1, 0));
        let edits = statements(|number| Change::Edit(number.to_string()));
        assert_eq!(edits, (1, 1000_usize.div_ceil(EDITED_AT_ONCE)));
    }
}
