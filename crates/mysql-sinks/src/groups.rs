//! The changes of an event in a group to the tables of its partition.

use message_store::{ConversationRows, GroupMemberRow, LastMessage, SettingsAt};
use schemas::{GroupChange, MessageChange, Mid, Recipient, TimestampMs, event::Message};

/// Adds the effect of a message at the offset `id` on its group, if it is to a group.
pub(crate) fn message(rows: &mut ConversationRows, id: i64, ts: TimestampMs, message: &Message) {
    if let Recipient::Group(gid) = message.to {
        let group = rows.groups.entry(gid).or_default();
        group.event_offset = id;
        let Message { mid, srcid, .. } = *message;
        group.merge_last(LastMessage::new(mid, srcid, &message.msg, ts));
    }
}

/// Adds the effect of a change to a message on its group: none if it concerns its author alone and has no number.
pub(crate) fn message_change(
    rows: &mut ConversationRows,
    id: i64,
    ts: TimestampMs,
    change: &MessageChange,
) {
    if let Recipient::Group(gid) = change.to
        && !change.is_own()
    {
        let group = rows.groups.entry(gid).or_default();
        group.event_offset = id;
        group.change_seq = change.change_seq;
        let MessageChange {
            mid,
            by,
            change_seq,
            ..
        } = *change;
        if let Some(last) = LastMessage::changed(mid, by, &change.change, change_seq, ts) {
            group.merge_last(last);
        }
    }
}

/// Adds the effect of a change to the group, with its members.
pub(crate) fn change(rows: &mut ConversationRows, event_offset: i64, change: &GroupChange) {
    let gid = change.gid;
    let group = rows.groups.entry(gid).or_default();
    group.event_offset = event_offset;
    group.settings = Some(SettingsAt {
        event_offset,
        settings: change.settings.clone(),
        member_count: change.member_count,
    });
    for member in &change.members {
        let row = GroupMemberRow {
            role: member.role,
            muted: member.muted,
            join_mid: if member.joined {
                change.last_mid
            } else {
                Mid::ZERO
            },
            ..GroupMemberRow::new(gid, member.uid, event_offset)
        };
        let known = rows.members.entry((gid, member.uid)).or_insert(row);
        if known.event_offset < event_offset {
            known.merge(row);
        }
    }
}
