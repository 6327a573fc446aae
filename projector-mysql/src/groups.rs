//! What an event in a group changes in the tables of its partition.

use message_store::{
    ChangeRow, ConversationRows, GroupMemberRow, LastMessage, MessageRow, MessageState, SettingsAt,
};
use schemas::{GroupBody, GroupChange, GroupEvent, GroupId, Mid, Recipient, TimestampMs};

/// Adds the rows of the event at the offset `id`; about how many bytes they take besides the usual.
pub(crate) fn absorb(
    rows: &mut ConversationRows,
    id: i64,
    ts: TimestampMs,
    event: GroupEvent,
) -> usize {
    let GroupEvent { gid, by, body } = event;
    let bytes = match &body {
        GroupBody::Message { msg, .. } => msg.len(),
        GroupBody::MessageChange { change, .. } => change.msg().map_or(0, str::len),
        GroupBody::Change(change) => size_of_val(change.members.as_slice()),
        // Only its reader's own row has it.
        GroupBody::ReadPosition { .. } => return 0,
    };
    let group = rows.groups.entry(gid).or_default();
    group.pos = id;
    match body {
        GroupBody::Message {
            client_msg_id,
            msg,
            mid,
        } => {
            group.merge_last(LastMessage::new(mid, by, &msg, ts));
            rows.messages.push(MessageRow {
                id,
                ts,
                srcid: by,
                to: Recipient::Group(gid),
                client_msg_id,
                msg,
                mid,
                n: None,
                state: MessageState::Shown,
                edited_ts: None,
            });
        }
        GroupBody::MessageChange { mid, change, chg } => {
            group.chg = chg;
            if let Some(last) = LastMessage::changed(mid, by, &change, chg, ts) {
                group.merge_last(last);
            }
            rows.changes.push(ChangeRow {
                id,
                ts,
                conversation: gid.into(),
                by,
                mid,
                change,
                chg,
            });
        }
        GroupBody::Change(change) => {
            group.settings = Some(SettingsAt {
                pos: id,
                settings: change.settings.clone(),
                member_count: change.member_count,
            });
            absorb_members(rows, id, gid, &change);
        }
        GroupBody::ReadPosition { .. } => {}
    }
    bytes
}

fn absorb_members(rows: &mut ConversationRows, pos: i64, gid: GroupId, change: &GroupChange) {
    for member in &change.members {
        let row = GroupMemberRow {
            gid,
            uid: member.uid,
            role: member.role,
            muted: member.muted,
            join_mid: if member.joined {
                change.last_mid
            } else {
                Mid::ZERO
            },
            pos,
        };
        let known = rows.members.entry((gid, member.uid)).or_insert(row);
        if known.pos < pos {
            known.merge(row);
        }
    }
}
