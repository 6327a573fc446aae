//! The changes of an event in a group to the tables, written by the test.

use message_store::{ConversationRows, GroupMemberRow, LastMessage, Membership, SettingsAt};
use schemas::{Change, ConversationId, GroupId, Mid, TimestampMs, event::Body};

use crate::story::LoggedEvent;

/// Applies an event to the rows of the group; the rows of messages and their changes are as outside groups.
pub fn absorb(rows: &mut ConversationRows, id: i64, ts: TimestampMs, gid: GroupId, body: &Body) {
    if let Body::ReadPosition(_) = body {
        return;
    }
    let group = rows.groups.entry(gid).or_default();
    group.event_offset = id;
    match body {
        Body::Message(message) => {
            let (mid, srcid) = (message.mid, message.srcid);
            group.merge_last(LastMessage::new(mid, srcid, &message.msg, ts));
        }
        Body::MessageChange(made) => {
            group.change_seq = made.change_seq;
            let last = LastMessage::changed(made.mid, made.by, &made.change, made.change_seq, ts);
            if let Some(last) = last {
                group.merge_last(last);
            }
        }
        Body::GroupChange(change) => {
            group.settings = Some(SettingsAt {
                event_offset: id,
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
                    ..GroupMemberRow::new(gid, member.uid, id)
                };
                let known = rows.members.entry((gid, member.uid)).or_insert(row);
                known.merge(row);
            }
        }
        _ => {}
    }
}

pub fn memberships(LoggedEvent { offset, event, .. }: &LoggedEvent) -> Vec<Membership> {
    let Some(ConversationId::Group(gid)) = event.conversation() else {
        return Vec::new();
    };
    let of = |uid| Membership {
        event_offset: *offset,
        ..Membership::new(uid, gid)
    };
    match &event.body {
        Body::Message(message) => vec![Membership {
            own_last_mid: message.mid,
            ..of(message.srcid)
        }],
        Body::ReadPosition(position) => {
            let mut own = of(position.uid);
            own.read[position.device] = position.mid;
            vec![own]
        }
        Body::MessageChange(made) => {
            let mut own = of(made.by);
            match made.change {
                Change::Hide => drop(own.hidden.insert(made.mid)),
                Change::Clear => own.clear_mid = made.mid,
                _ => return Vec::new(),
            }
            vec![own]
        }
        Body::GroupChange(change) => {
            let rows = change.members.iter().map(|member| {
                let mut row = of(member.uid);
                if member.joined {
                    (row.join_pos, row.join_mid) = (*offset, change.last_mid);
                } else if member.role.is_none() {
                    row.left_pos = *offset;
                }
                row
            });
            rows.collect()
        }
        _ => Vec::new(),
    }
}
