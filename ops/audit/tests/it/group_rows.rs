//! What an event in a group changes in the tables, by the hand of the test.

use message_store::{
    ChangeRow, ConversationRows, GroupMemberRow, LastMessage, Membership, MessageRow, MessageState,
    SettingsAt,
};
use schemas::{Change, Chg, GroupBody, GroupEvent, Mid, Recipient, TimestampMs, event::Body};

use crate::story::LoggedEvent;

pub fn absorb(rows: &mut ConversationRows, id: i64, ts: TimestampMs, event: &GroupEvent) {
    let (gid, by) = (event.gid, event.by);
    if let GroupBody::ReadPosition { .. } = event.body {
        return;
    }
    let group = rows.groups.entry(gid).or_default();
    group.pos = id;
    let last = |mid, msg: &str, chg, state| LastMessage {
        mid,
        ts,
        srcid: by,
        preview: msg.to_owned(),
        chg,
        state,
    };
    match &event.body {
        GroupBody::Message {
            client_msg_id,
            msg,
            mid,
        } => {
            group.merge_last(last(*mid, msg, Chg::ZERO, MessageState::Shown));
            rows.messages.push(MessageRow {
                id,
                ts,
                srcid: by,
                to: Recipient::Group(gid),
                client_msg_id: client_msg_id.clone(),
                msg: msg.clone(),
                mid: *mid,
                n: None,
                state: MessageState::Shown,
                edited_ts: None,
            });
        }
        GroupBody::MessageChange { mid, change, chg } => {
            group.chg = *chg;
            if let Some(state) = MessageState::after(change) {
                let msg = match change {
                    Change::Edit(msg) => msg,
                    _ => "",
                };
                group.merge_last(last(*mid, msg, *chg, state));
            }
            rows.changes.push(ChangeRow {
                id,
                ts,
                conversation: gid.into(),
                by,
                mid: *mid,
                change: change.clone(),
                chg: *chg,
            });
        }
        GroupBody::Change(change) => {
            group.settings = Some(SettingsAt {
                pos: id,
                settings: change.settings.clone(),
                member_count: change.member_count,
            });
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
                    pos: id,
                };
                let known = rows.members.entry((gid, member.uid)).or_insert(row);
                known.merge(row);
            }
        }
        GroupBody::ReadPosition { .. } => {}
    }
}

pub fn memberships(LoggedEvent { offset, event, .. }: &LoggedEvent) -> Vec<Membership> {
    let Body::Group(event) = &event.body else {
        return Vec::new();
    };
    let of = |uid| Membership {
        pos: *offset,
        ..Membership::new(uid, event.gid)
    };
    let mut own = of(event.by);
    match &event.body {
        GroupBody::Message { mid, .. } => own.own_last_mid = *mid,
        GroupBody::ReadPosition { device, mid } => own.read[*device] = *mid,
        GroupBody::MessageChange { mid, change, .. } => match change {
            Change::Hide => drop(own.hidden.insert(*mid)),
            Change::Clear => own.clear_mid = *mid,
            Change::Recall | Change::Delete | Change::Edit(_) => return Vec::new(),
        },
        GroupBody::Change(change) => {
            let rows = change.members.iter().map(|member| {
                let mut row = of(member.uid);
                if member.joined {
                    (row.join_pos, row.join_mid) = (*offset, change.last_mid);
                } else if member.role.is_none() {
                    row.left_pos = *offset;
                }
                row
            });
            return rows.collect();
        }
    }
    vec![own]
}
