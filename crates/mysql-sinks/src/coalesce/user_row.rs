//! The rows of a user: contacts, memberships of groups, a profile.

use message_store::{ContactDelta, Membership, OffsetUpdate, StoreError, UserRows};
use projection::LogEvent;
use schemas::{
    Change, ConversationId, GroupId, Partition, StoredProfile, TableNumber, UserId, event::Body,
};

use super::{MergedRow, contact};
use crate::destination::Destination;

/// A row of `contact_<n>`, `membership_<n>` or `user_<n>`.
#[derive(Clone)]
pub enum UserRow {
    Contact(ContactDelta),
    Membership(Membership),
    Profile(StoredProfile),
}

/// The user or group that a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    User(UserId),
    Group(GroupId),
    /// For the user's own profile.
    None,
}

impl MergedRow for UserRow {
    type Key = (UserId, Peer);

    fn for_each(LogEvent { offset, event }: &LogEvent, mut take: impl FnMut(Self)) {
        if let Some(ConversationId::Group(gid)) = event.conversation() {
            return memberships(gid, &event.body, *offset, |row| take(Self::Membership(row)));
        }
        if let Body::Profile(profile) = &event.body {
            return take(Self::Profile(StoredProfile {
                profile: profile.clone(),
                ts: event.ts,
                event_offset: *offset,
            }));
        }
        for row in contact::rows(*offset, event).into_iter().flatten() {
            take(Self::Contact(row));
        }
    }

    fn key(&self) -> Self::Key {
        match self {
            Self::Contact(row) => (row.uid, Peer::User(row.peer)),
            Self::Membership(row) => (row.uid, Peer::Group(row.gid)),
            Self::Profile(row) => (row.profile.uid, Peer::None),
        }
    }

    fn partition(&self) -> Partition {
        match self {
            Self::Contact(row) => contact::partition(row),
            Self::Membership(row) => row.gid.partition(),
            Self::Profile(row) => Partition::of_user(row.profile.uid),
        }
    }

    fn table(&self) -> TableNumber {
        match self {
            Self::Contact(row) => TableNumber::of_user(row.uid),
            Self::Membership(row) => TableNumber::of_user(row.uid),
            Self::Profile(row) => TableNumber::of_user(row.profile.uid),
        }
    }

    fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Contact(row), Self::Contact(other)) => row.merge(other),
            (Self::Membership(row), Self::Membership(other)) => row.merge(other),
            (Self::Profile(row), Self::Profile(other)) if other.event_offset > row.event_offset => {
                *row = other;
            }
            (Self::Profile(_), Self::Profile(_)) => {}
            _ => unreachable!("they have different keys"),
        }
    }

    async fn write<'a>(
        to: &Destination,
        rows: impl Iterator<Item = &'a Self> + Send,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let mut by_table = UserRows::default();
        for row in rows {
            match row {
                Self::Contact(row) => by_table.contacts.push(row),
                Self::Membership(row) => by_table.memberships.push(row),
                Self::Profile(row) => by_table.profiles.push(row),
            }
        }
        let (store, topic) = (&to.store, &to.topic);
        store
            .write_user_rows(to.shard, topic, by_table, updates)
            .await
    }
}

/// The membership rows that an event changes: those of users who join or leave, send, read, hide or clear, and no others.
fn memberships(gid: GroupId, body: &Body, offset: i64, mut take: impl FnMut(Membership)) {
    let of_user = |uid| Membership {
        event_offset: offset,
        ..Membership::new(uid, gid)
    };
    match body {
        Body::Message(message) => {
            let mut own = of_user(message.srcid);
            own.own_last_mid = message.mid;
            take(own);
        }
        Body::ReadPosition(position) => {
            let mut own = of_user(position.uid);
            own.read[position.device] = position.mid;
            take(own);
        }
        Body::MessageChange(change) => {
            let mut own = of_user(change.by);
            match change.change {
                Change::Hide => drop(own.hidden.insert(change.mid)),
                Change::Clear => own.clear_mid = change.mid,
                _ => return,
            }
            if change.is_own() {
                own.own_pos = offset;
            }
            take(own);
        }
        Body::GroupChange(change) => {
            for member in &change.members {
                let mut row = of_user(member.uid);
                if member.joined {
                    (row.join_pos, row.join_mid) = (offset, change.last_mid);
                } else if member.role.is_none() {
                    row.left_pos = offset;
                }
                take(row);
            }
        }
        Body::ContactChange(_) | Body::Profile(_) | Body::Control(_) | Body::Progress => {}
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        DeviceClass, GroupChange, GroupChangeKind, GroupMember, GroupRole, GroupSettings, Mid,
        Ordinal, PerDevice, Recipient,
        event::{Message, ReadPosition},
    };

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn mid(mid: i64) -> Mid {
        mid.try_into().unwrap()
    }

    fn gid() -> GroupId {
        GroupId::try_from(5000).unwrap()
    }

    fn rows(body: &Body) -> Vec<Membership> {
        let mut rows = Vec::new();
        memberships(gid(), body, 7, |row| rows.push(row));
        rows
    }

    fn changed(members: &[(i64, Option<GroupRole>, bool)]) -> Body {
        let members = members.iter().map(|(uid, role, joined)| GroupMember {
            uid: user(*uid),
            role: *role,
            muted: false,
            joined: *joined,
        });
        Body::GroupChange(Box::new(GroupChange {
            gid: gid(),
            by: user(1),
            kind: GroupChangeKind::Add,
            settings: GroupSettings {
                name: "Lunch".to_owned(),
                owner: user(1),
                open: false,
                whole_history: false,
                muted: false,
                dissolved: false,
            },
            member_count: 2,
            last_mid: mid(3),
            members: members.collect(),
        }))
    }

    #[test]
    fn a_message_touches_its_senders_row_only() {
        let message = Body::Message(Message {
            srcid: user(2),
            to: Recipient::Group(gid()),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "hello".to_owned(),
            mid: mid(4),
            ordinal: Ordinal::ZERO,
        });
        let [own] = rows(&message).try_into().unwrap();
        assert_eq!(
            (own.uid, own.own_last_mid, own.event_offset),
            (user(2), mid(4), 7)
        );
        let read = Body::ReadPosition(ReadPosition {
            uid: user(3),
            to: Recipient::Group(gid()),
            device: DeviceClass::Pc,
            mid: mid(4),
            ordinal: None,
        });
        let [own] = rows(&read).try_into().unwrap();
        assert_eq!(
            own.read,
            PerDevice {
                pc: mid(4),
                mobile: Mid::ZERO
            }
        );
    }

    #[test]
    fn who_joined_leaves_and_joins_again_by_the_order_of_the_log() {
        let member = Some(GroupRole::Member);
        let [joined, promoted] = rows(&changed(&[(2, member, true), (3, member, false)]))
            .try_into()
            .unwrap();
        assert_eq!((joined.join_pos, joined.join_mid), (7, mid(3)));
        assert_eq!((promoted.join_pos, promoted.event_offset), (-1, 7));
        let [left] = rows(&changed(&[(2, None, false)])).try_into().unwrap();
        let mut row = Membership {
            left_pos: 9,
            ..left
        };
        row.merge(joined);
        assert!(!row.is_member());
        row.join_pos = 12;
        assert!(row.is_member());
    }
}
