//! Changes to messages: their rows in `msg_change_<n>`, and their effect on the messages in `chat_msg_<n>` or `group_msg_<n>`.

use std::collections::BTreeMap;

use schemas::{Change, TimestampMs, UserId};

use super::transaction::{RemovedKeys, any_of};
use crate::{
    ChangeRow, MessageState, Month, StoreError,
    arguments::Arguments,
    conversation::{EMPTIED, lo_and_hi, message_key, message_keys},
    datetime,
    multi_row::{Insert, MultiRow, Preparation},
};

/// How many recalled messages a statement names, and how many edited ones with their texts, or with the reactions to them.
const RECALLED_AT_ONCE: usize = 1000;
const EDITED_AT_ONCE: usize = 64;

/// The rows of one `msg_change_<n>`, except those that are older than what is kept, and their keys.
pub(super) fn inserts(
    table: &str,
    changes: &[&ChangeRow],
    kept_from: Option<Month>,
) -> Result<(Vec<MultiRow>, RemovedKeys), StoreError> {
    let mut rows = Vec::new();
    for row in changes {
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
    let keys = rows.iter().map(|row| (row.conversation, row.number()));
    let keys = RemovedKeys::Changes(keys.collect());
    Ok((insert.statements(&rows, bind_row)?, keys))
}

fn bind_row(arguments: Arguments, row: &&ChangeRow) -> Result<Arguments, StoreError> {
    let (lo, hi) = lo_and_hi(row.conversation);
    Ok(arguments
        .with(lo)
        .with(hi)
        .with(row.number())
        .with(row.mid.get())
        .with(row.by.get())
        .with(row.change.kind())
        .with(datetime::to_column(row.ts)?)
        .with(row.id))
}

/// The effect of changes on a message.
#[derive(Clone, Copy)]
enum Outcome<'a> {
    Edited {
        msg: &'a str,
        ts: TimestampMs,
    },
    /// Recalled or deleted, which is final.
    Gone(MessageState),
}

/// The updates of one table of messages; `changes` are in the order of the log. Messages that are gone, recalled or deleted are silently left out:
/// when the log is read again, an edit from before a recall does not bring the text back.
pub(super) fn updates(table: &str, changes: &[&ChangeRow]) -> Result<Vec<MultiRow>, StoreError> {
    let mut edited = Vec::new();
    let mut gone: BTreeMap<i8, Vec<String>> = BTreeMap::new();
    for (key, outcome) in outcomes(changes) {
        match outcome {
            Outcome::Edited { msg, ts } => edited.push((key, msg, ts)),
            Outcome::Gone(state) => gone.entry(state.to_column()).or_default().push(key),
        }
    }
    let mut statements = Vec::new();
    for (state, keys) in gone {
        for keys in keys.chunks(RECALLED_AT_ONCE) {
            let sql = include_str!("../../sql/write/recall_messages.sql")
                .replace("{emptied}", EMPTIED)
                .replace("{table}", table)
                .replace("{state}", &state.to_string())
                .replace("{keys}", &any_of(keys, String::clone));
            statements.push(update(table, sql, Arguments::default())?);
        }
    }
    for edits in edited.chunks(EDITED_AT_ONCE) {
        statements.push(edit(table, edits)?);
    }
    let (mut given, mut taken_back) = (Vec::new(), Vec::new());
    for (key, reactions) in reactions(changes) {
        given.extend(reactions.given().map(|given| (key.clone(), given)));
        taken_back.extend(reactions.taken_back().map(|uids| (key, uids)));
    }
    for given in given.chunks(EDITED_AT_ONCE) {
        statements.push(react(table, given)?);
    }
    for taken_back in taken_back.chunks(EDITED_AT_ONCE) {
        statements.push(take_back(table, taken_back)?);
    }
    Ok(statements)
}

/// The last change to each message, by its key.
fn outcomes<'a>(changes: &[&'a ChangeRow]) -> BTreeMap<String, Outcome<'a>> {
    let mut outcomes = BTreeMap::new();
    for row in changes {
        let outcome = match &row.change {
            Change::Edit(msg) => Outcome::Edited { msg, ts: row.ts },
            Change::Recall => Outcome::Gone(MessageState::Recalled),
            Change::Delete => Outcome::Gone(MessageState::Deleted),
            Change::Hide | Change::Clear | Change::React(_) => continue,
        };
        // Between two users only its sender changes a message.
        let key = message_key(row.conversation, row.by, row.mid);
        let last = outcomes.entry(key).or_insert(outcome);
        if matches!(last, Outcome::Edited { .. }) {
            *last = outcome;
        }
    }
    outcomes
}

fn edit(table: &str, edits: &[(String, &str, TimestampMs)]) -> Result<MultiRow, StoreError> {
    let sql = include_str!("../../sql/write/edit_messages.sql")
        .replace("{table}", table)
        .replace("{cases}", &cases(edits, |(key, ..)| key))
        .replace("{keys}", &any_of(edits, |(key, ..)| key.clone()));
    let mut arguments = Arguments::default();
    for (_, msg, _) in edits {
        arguments = arguments.with(*msg);
    }
    for (.., ts) in edits {
        arguments = arguments.with(datetime::to_column(*ts)?);
    }
    update(table, sql, arguments)
}

/// The last reaction of each user to a message; `None` if it was taken back.
#[derive(Default)]
struct LastReactions<'a>(BTreeMap<UserId, Option<&'a str>>);

impl<'a> LastReactions<'a> {
    fn given(&self) -> Option<BTreeMap<UserId, &'a str>> {
        let given = self.0.iter();
        let given: BTreeMap<_, _> = given
            .filter_map(|(uid, emoji)| Some((*uid, (*emoji)?)))
            .collect();
        (!given.is_empty()).then_some(given)
    }

    fn taken_back(&self) -> Option<Vec<UserId>> {
        let taken_back = self.0.iter().filter(|(_, emoji)| emoji.is_none());
        let taken_back: Vec<_> = taken_back.map(|(uid, _)| *uid).collect();
        (!taken_back.is_empty()).then_some(taken_back)
    }
}

/// The last reactions to each message, by its key.
fn reactions<'a>(changes: &[&'a ChangeRow]) -> BTreeMap<String, LastReactions<'a>> {
    let mut reactions: BTreeMap<String, LastReactions<'_>> = BTreeMap::new();
    for row in changes {
        if let Some(emoji) = row.change.emoji() {
            // Between two users either may have sent the message.
            let key = any_of(&message_keys(row.conversation, row.mid), String::clone);
            let LastReactions(to_message) = reactions.entry(key).or_default();
            to_message.insert(row.by, Some(emoji).filter(|emoji| !emoji.is_empty()));
        }
    }
    reactions
}

/// Merges reactions into those that messages have. Reactions that were taken back are not given here as nulls, which would remove them: `JSON_MERGE_PATCH` of
/// MariaDB 10.11 loses other members of a patch with a null.
fn react(table: &str, given: &[(String, BTreeMap<UserId, &str>)]) -> Result<MultiRow, StoreError> {
    let sql = include_str!("../../sql/write/react_to_messages.sql")
        .replace("{table}", table)
        .replace("{cases}", &cases(given, |(key, _)| key))
        .replace("{keys}", &any_of(given, |(key, _)| key.clone()));
    let mut arguments = Arguments::default();
    for (_, given) in given {
        let given = serde_json::to_string(given).map_err(StoreError::fatal)?;
        arguments = arguments.with(given);
    }
    update(table, sql, arguments)
}

/// Removes reactions from those that messages have.
fn take_back(table: &str, taken_back: &[(String, Vec<UserId>)]) -> Result<MultiRow, StoreError> {
    let case = |(key, uids): &(String, Vec<UserId>)| {
        let members: String = uids.iter().map(|uid| format!(", '$.\"{uid}\"'")).collect();
        format!("WHEN {key} THEN JSON_REMOVE(reactions{members})")
    };
    let cases: Vec<String> = taken_back.iter().map(case).collect();
    let sql = include_str!("../../sql/write/take_back_reactions.sql")
        .replace("{table}", table)
        .replace("{cases}", &cases.join(" "))
        .replace("{keys}", &any_of(taken_back, |(key, _)| key.clone()));
    update(table, sql, Arguments::default())
}

/// The branches of a CASE with a parameter for each message.
fn cases<T>(messages: &[T], key: impl Fn(&T) -> &String) -> String {
    let case = |message| format!("WHEN {} THEN ?", key(message));
    messages.iter().map(case).collect::<Vec<_>>().join(" ")
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
    use schemas::{ChangeSeq, DirectConversation, Mid};

    use super::*;

    fn change(number: i64, change: Change) -> ChangeRow {
        let [by, peer] = [1, 2].map(|uid: i64| uid.try_into().unwrap());
        ChangeRow {
            id: number,
            ts: TimestampMs(0),
            conversation: DirectConversation::new(by, peer).into(),
            by,
            mid: Mid::try_from(number).unwrap(),
            change,
            change_seq: ChangeSeq::try_from(number).unwrap(),
        }
    }

    fn statements(what: impl Fn(i64) -> Change) -> (usize, usize) {
        let rows: Vec<ChangeRow> = (1..=1000)
            .map(|number| change(number, what(number)))
            .collect();
        let rows: Vec<&ChangeRow> = rows.iter().collect();
        let (inserts, _) = inserts("c", &rows, None).unwrap();
        (inserts.len(), updates("t", &rows).unwrap().len())
    }

    #[test]
    fn a_thousand_changes_are_a_few_statements() {
        assert_eq!(statements(|_| Change::Recall), (1, 1));
        assert_eq!(statements(|_| Change::Hide), (1, 0));
        let at_once = 1000_usize.div_ceil(EDITED_AT_ONCE);
        let edits = statements(|number| Change::Edit(number.to_string()));
        assert_eq!(edits, (1, at_once));
        assert_eq!(statements(|_| Change::React("👍".to_owned())), (1, at_once));
    }
}
