//! What an event in a group changes in the tables of its partition.

use message_store::{
    GroupChangeRow, GroupMemberRow, GroupMessageRow, GroupRows, LastMessage, MessageState,
    preview_of,
};
use schemas::{Change, Chg, GroupBody, GroupChange, GroupEvent, GroupId, Mid, TimestampMs, UserId};

/// Adds the rows of the event at the offset `id`; about how many bytes they take besides the usual.
pub(crate) fn absorb(rows: &mut GroupRows, id: i64, ts: TimestampMs, event: GroupEvent) -> usize {
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
            group.merge_last(LastMessage {
                mid,
                ts,
                srcid: by,
                preview: preview_of(&msg).to_owned(),
                chg: Chg::ZERO,
                state: MessageState::Shown,
            });
            rows.messages.push(GroupMessageRow {
                id,
                ts,
                gid,
                srcid: by,
                client_msg_id,
                msg,
                mid,
                state: MessageState::Shown,
                edited_ts: None,
            });
        }
        GroupBody::MessageChange { mid, change, chg } => {
            group.chg = chg;
            if let Some(last) = changed(by, ts, (mid, chg), &change) {
                group.merge_last(last);
            }
            rows.changes.push(GroupChangeRow {
                id,
                ts,
                gid,
                by,
                mid,
                change,
                chg,
            });
        }
        GroupBody::Change(change) => {
            group.settings = Some((id, change.settings.clone(), change.member_count));
            absorb_members(rows, id, gid, &change);
        }
        GroupBody::ReadPosition { .. } => {}
    }
    bytes
}

/// What a change says of its message, which may be the newest one.
fn changed(
    by: UserId,
    ts: TimestampMs,
    (mid, chg): (Mid, Chg),
    change: &Change,
) -> Option<LastMessage> {
    Some(LastMessage {
        mid,
        ts,
        srcid: by,
        preview: preview_of(change.msg().unwrap_or_default()).to_owned(),
        chg,
        state: MessageState::after(change)?,
    })
}

fn absorb_members(rows: &mut GroupRows, pos: i64, gid: GroupId, change: &GroupChange) {
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
