//! Changes to messages: their rows in `msg_change_<n>`, and what becomes of the messages in `chat_msg_<n>`.

use std::collections::BTreeMap;

use schemas::{Change, Mid, TableNumber, TimestampMs, UserId};

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

/// The rows of one `msg_change_<n>`, but for those that are older than what is kept, and their keys.
pub(super) fn inserts(
    table: &str,
    changes: &[(TableNumber, &ChangeRow)],
    kept_from: Option<Month>,
) -> Result<(Vec<MultiRow>, RemovedKeys), StoreError> {
    let mut rows = Vec::new();
    for (_, row) in changes {
        if Some(Month::of(row.ts)?) >= kept_from {
            rows.push(*row);
        }
    }
    let insert = Insert {
        table,
        columns: "lo, hi, chg, mid, uid, change_kind, ts, id",
        tail: "",
        sizes: Preparation::Once,
    };
    let keys = rows.iter().map(|row| {
        let conversation = row.change.conversation();
        let (lo, hi) = (conversation.lo(), conversation.hi());
        (lo.get(), hi.get(), row.change.chg.get())
    });
    let keys = RemovedKeys::Changes(keys.collect());
    Ok((insert.statements(&rows, bind_row)?, keys))
}

fn bind_row(arguments: Arguments, row: &&ChangeRow) -> Result<Arguments, StoreError> {
    let change = &row.change;
    let conversation = change.conversation();
    Ok(arguments
        .with(conversation.lo().get())
        .with(conversation.hi().get())
        .with(change.chg.get())
        .with(change.mid.get())
        .with(change.by.get())
        .with(ChangeKind::of(&change.change).as_str())
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

/// A message by its author; only the author changes it.
type Place = (UserId, UserId, Mid);

/// What changes in one `chat_msg_<n>`; `changes` are in the order of the log. Messages that are gone are left out in silence, and so are those
/// that were recalled or deleted: where the log is read again, an edit from before that brings no text back.
pub(super) fn updates(
    table: &str,
    changes: &[(TableNumber, &ChangeRow)],
) -> Result<Vec<MultiRow>, StoreError> {
    let outcomes = outcomes(changes);
    let mut edited = Vec::new();
    let mut gone: BTreeMap<i8, Vec<Place>> = BTreeMap::new();
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
                .replace("{places}", &any_of(places, condition));
            statements.push(update(table, sql, Arguments::default())?);
        }
    }
    for edits in edited.chunks(EDITED_AT_ONCE) {
        statements.push(edit(table, edits)?);
    }
    Ok(statements)
}

/// The last change to each message.
fn outcomes<'a>(changes: &[(TableNumber, &'a ChangeRow)]) -> BTreeMap<Place, Outcome<'a>> {
    let mut outcomes = BTreeMap::new();
    for (_, ChangeRow { ts, change, .. }) in changes {
        let outcome = match &change.change {
            Change::Edit(msg) => Outcome::Edited { msg, ts: *ts },
            Change::Recall => Outcome::Gone(MessageState::Recalled),
            Change::Delete => Outcome::Gone(MessageState::Deleted),
            Change::Hide | Change::Clear => continue,
        };
        let last = outcomes
            .entry((change.by, change.peer, change.mid))
            .or_insert(outcome);
        if matches!(last, Outcome::Edited { .. }) {
            *last = outcome;
        }
    }
    outcomes
}

fn edit(table: &str, edits: &[(Place, &str, TimestampMs)]) -> Result<MultiRow, StoreError> {
    let cases: Vec<String> = edits
        .iter()
        .map(|(place, ..)| format!("WHEN {} THEN ?", condition(place)))
        .collect();
    let sql = include_str!("../../sql/write/edit_messages.sql")
        .replace("{table}", table)
        .replace("{cases}", &cases.join(" "))
        .replace("{places}", &any_of(edits, |(place, ..)| condition(place)));
    let mut arguments = Arguments::default();
    for (_, msg, _) in edits {
        arguments = arguments.with(*msg);
    }
    for (.., ts) in edits {
        arguments = arguments.with(datetime::to_column(*ts)?);
    }
    update(table, sql, arguments)
}

fn condition((author, receiver, mid): &Place) -> String {
    format!("srcid = {author} AND destid = {receiver} AND mid = {mid}")
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
    use schemas::{Chg, MessageChange};

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
        let n = TableNumber::try_from(3).unwrap();
        let rows: Vec<ChangeRow> = (1..=1000)
            .map(|number| change(number, what(number)))
            .collect();
        let rows: Vec<(TableNumber, &ChangeRow)> = rows.iter().map(|row| (n, row)).collect();
        let (inserts, _) = inserts("c", &rows, None).unwrap();
        (inserts.len(), updates("t", &rows).unwrap().len())
    }

    #[test]
    fn a_thousand_changes_are_a_few_statements() {
        assert_eq!(statements(|_| Change::Recall), (1, 1));
        assert_eq!(statements(|_| Change::Hide), (1, 0));
        let edits = statements(|number| Change::Edit(number.to_string()));
        assert_eq!(edits, (1, 1000_usize.div_ceil(EDITED_AT_ONCE)));
    }
}
