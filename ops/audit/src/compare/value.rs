//! The values that are compared, as the log or a store has them.

use std::collections::BTreeMap;

use message_store::{ContactRow, GroupMemberRow, GroupRow, Membership};
use schemas::{DeviceClass, GroupSettings, Mid, PerDevice, StoredProfile, UserId};

use super::redis_keys::RedisKeys;
use crate::fold::{Contact, Group, LastMessage, LastRead, Member, ProfileVersion, Subject};

/// The contacts that the stores should have for a user at some point of the log, by peer.
pub(super) type ExpectedContacts = BTreeMap<UserId, Contact>;

/// A value. For a row, only the columns of its table are set.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A row of `contact_<n>`, or the mids of `read_chat_mid_<n>`.
    Contact(Contact),
    /// The hidden mids, ascending, and the mid up to which the log has them cleared; 0 in a store.
    Hidden {
        mids: Vec<i64>,
        clear_mid: i64,
    },
    Group(GroupColumns),
    /// A row of `group_member_<n>` or `membership_<n>`.
    Member(Member),
    Profile(ProfileVersion),
    /// A user's keys in Redis.
    Keys(RedisKeys),
    /// The contacts from which those keys follow.
    Contacts(ExpectedContacts),
}

#[derive(Clone, Debug)]
pub(crate) struct GroupColumns {
    /// `None` if the start of the log is gone and the settings were not changed since.
    settings: Option<GroupSettings>,
    member_count: i64,
    last: LastMessage,
    change_seq: i64,
    event_offset: i64,
}

/// A row as a value, and its subject.
pub(crate) type Row = (Subject, Value);

impl Value {
    pub(super) fn reads(mids: PerDevice<Mid>) -> Self {
        let read = |mid: Mid| LastRead {
            mid: mid.get(),
            ordinal: None,
        };
        Self::Contact(Contact {
            reads: mids.map(read),
            ..Contact::default()
        })
    }

    pub(super) fn hidden(mids: Vec<i64>, clear_mid: i64) -> Option<Self> {
        (!mids.is_empty()).then_some(Self::Hidden { mids, clear_mid })
    }

    pub(crate) fn contact(row: &ContactRow) -> Row {
        let subject = Subject::Contact(row.contact.uid, row.contact.peer);
        (subject, Self::Contact(Contact::of_row(row)))
    }

    pub(super) fn group(row: &GroupRow) -> Row {
        let columns = GroupColumns {
            settings: row.settings.clone(),
            member_count: row.member_count,
            last: LastMessage::of_row(row.last.as_ref()),
            change_seq: row.change_seq.get(),
            event_offset: row.event_offset,
        };
        (Subject::Group(row.gid), Self::Group(columns))
    }

    pub(super) fn member(row: &GroupMemberRow) -> Row {
        let columns = Member {
            role: row.role,
            muted: row.muted,
            join_mid: row.join_mid.get(),
            event_offset: row.event_offset,
            ..Member::default()
        };
        (Subject::Member(row.gid, row.uid), Self::Member(columns))
    }

    pub(super) fn membership(row: &Membership) -> Row {
        let columns = Member {
            joined_at: row.join_pos,
            left_at: row.left_pos,
            join_mid: row.join_mid.get(),
            own_last_mid: row.own_last_mid.get(),
            reads: row.read.map(Mid::get),
            clear_mid: row.clear_mid.get(),
            own_pos: row.own_pos,
            event_offset: row.event_offset,
            ..Member::default()
        };
        (Subject::Member(row.gid, row.uid), Self::Member(columns))
    }

    pub(super) fn profile(row: &StoredProfile) -> Row {
        let version = ProfileVersion::of_stored(row);
        (Subject::User(row.profile.uid), Self::Profile(version))
    }

    /// The offset of the event that the row names as the last that changed it; −1 for none.
    pub(super) fn event_offset(&self) -> i64 {
        match self {
            Self::Group(group) => group.event_offset,
            Self::Member(member) => member.event_offset,
            Self::Profile(version) => version.at,
            _ => -1,
        }
    }

    /// The first column of the row that differs.
    pub(super) fn different(&self, expected: &Self) -> Option<&'static str> {
        match (self, expected) {
            (Self::Group(found), Self::Group(expected)) => first_unequal(&found.equal(expected)),
            (Self::Member(found), Self::Member(expected)) => first_unequal(&equal(found, expected)),
            (Self::Profile(found), Self::Profile(expected)) => found.different(expected),
            _ => Some("the row"),
        }
    }
}

fn first_unequal(columns: &[(&'static str, bool)]) -> Option<&'static str> {
    let (name, _) = columns.iter().find(|(_, equal)| !equal)?;
    Some(name)
}

impl GroupColumns {
    pub(super) fn of(group: &Group) -> Self {
        Self {
            settings: group.settings.clone(),
            member_count: group.member_count,
            last: group.last,
            change_seq: group.change_seq,
            event_offset: group.event_offset,
        }
    }

    fn equal(&self, expected: &Self) -> [(&'static str, bool); 15] {
        fn same<T: PartialEq>(
            one: &GroupColumns,
            other: &GroupColumns,
            of: impl Fn(&GroupSettings) -> T,
        ) -> bool {
            one.settings.as_ref().map(&of) == other.settings.as_ref().map(&of)
        }
        let (last, expected_last) = (&self.last, &expected.last);
        [
            ("name", same(self, expected, |set| set.name.clone())),
            ("owner", same(self, expected, |set| set.owner)),
            ("open", same(self, expected, |set| set.open)),
            (
                "whole_history",
                same(self, expected, |set| set.whole_history),
            ),
            ("muted", same(self, expected, |set| set.muted)),
            ("dissolved", same(self, expected, |set| set.dissolved)),
            ("member_count", self.member_count == expected.member_count),
            ("last_mid", last.mid == expected_last.mid),
            ("chg", self.change_seq == expected.change_seq),
            ("last_srcid", last.srcid == expected_last.srcid),
            ("last_ts", last.ts == expected_last.ts),
            ("preview", last.preview == expected_last.preview),
            ("last_chg", last.change_seq == expected_last.change_seq),
            ("last_state", last.state == expected_last.state),
            ("pos", self.event_offset == expected.event_offset),
        ]
    }
}

/// The columns of `group_member_<n>` and of `membership_<n>`.
fn equal(found: &Member, expected: &Member) -> [(&'static str, bool); 11] {
    let read = |device| found.reads[device] == expected.reads[device];
    [
        ("role", found.role == expected.role),
        ("muted", found.muted == expected.muted),
        ("join_pos", found.joined_at == expected.joined_at),
        ("left_pos", found.left_at == expected.left_at),
        ("join_mid", found.join_mid == expected.join_mid),
        ("own_last_mid", found.own_last_mid == expected.own_last_mid),
        ("pc_read_mid", read(DeviceClass::Pc)),
        ("mobile_read_mid", read(DeviceClass::Mobile)),
        ("clear_mid", found.clear_mid == expected.clear_mid),
        ("own_pos", found.own_pos == expected.own_pos),
        ("pos", found.event_offset == expected.event_offset),
    ]
}
