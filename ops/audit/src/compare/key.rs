//! Which values are compared, and the value that the log gives for each.

use std::collections::{BTreeSet, HashMap, HashSet};

use schemas::TableNumber;

use super::value::{GroupColumns, Value};
use crate::{
    Area, Scope,
    fold::{LogState, Member, Subject},
};

/// The rows of a kind of tables, or the keys of a kind in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rows {
    ReadPositions,
    Contacts,
    /// All rows of a conversation in `hidden_<n>` are one value.
    Hidden,
    /// These rows are scanned separately: if a row of the others cannot be read, these can still be compared.
    HiddenInGroups,
    Groups,
    Members,
    Memberships,
    Profiles,
    CachedProfiles,
    /// All keys of a user.
    UnreadCounts,
}

impl Rows {
    pub(crate) fn area(self) -> Area {
        match self {
            Self::ReadPositions => Area::ReadPositions,
            Self::Contacts => Area::Contacts,
            Self::Hidden | Self::HiddenInGroups => Area::Hidden,
            Self::Groups => Area::Groups,
            Self::Members => Area::GroupMembers,
            Self::Memberships => Area::Memberships,
            Self::Profiles => Area::Profiles,
            Self::CachedProfiles => Area::CachedProfiles,
            Self::UnreadCounts => Area::UnreadStates,
        }
    }

    /// The tables that may have a row in scope.
    pub(super) fn tables(self, scope: Scope) -> BTreeSet<TableNumber> {
        match (self, scope) {
            (Self::ReadPositions, _) => {
                let partitions = scope.partitions().into_iter();
                partitions.map(TableNumber::from).collect()
            }
            (Self::Contacts | Self::Hidden, Scope::Conversation(one)) => {
                one.users().map(TableNumber::of_user).collect()
            }
            (_, Scope::Conversation(_)) | (Self::Groups, Scope::User(_)) => BTreeSet::new(),
            (_, Scope::All) | (Self::Members, _) => TableNumber::all().collect(),
            (_, Scope::User(uid)) => BTreeSet::from([TableNumber::of_user(uid)]),
        }
    }

    /// The subjects that may have a row, by the number of its table.
    pub(crate) fn subjects(self, log: &LogState) -> HashMap<TableNumber, HashSet<Subject>> {
        let mut tables: HashMap<TableNumber, HashSet<Subject>> = HashMap::new();
        for subject in log.subjects() {
            if let Some(number) = self.of(subject).number() {
                tables.entry(number).or_default().insert(subject);
            }
        }
        tables
    }

    pub(crate) fn of(self, subject: Subject) -> Key {
        let rows = self;
        Key { rows, subject }
    }
}

/// The key of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(super) rows: Rows,
    pub(super) subject: Subject,
}

impl Key {
    /// The number of the table that has the row; `None` for keys in Redis, and if these tables have no such subjects.
    pub(crate) fn number(self) -> Option<TableNumber> {
        match (self.rows, self.subject) {
            (Rows::ReadPositions, Subject::Contact(..))
            | (Rows::Groups, Subject::Group(_))
            | (Rows::Members, Subject::Member(..)) => Some(self.subject.partition().into()),
            (Rows::Contacts | Rows::Hidden, Subject::Contact(uid, _))
            | (Rows::Memberships | Rows::HiddenInGroups, Subject::Member(_, uid))
            | (Rows::Profiles, Subject::User(uid)) => Some(TableNumber::of_user(uid)),
            _ => None,
        }
    }

    /// The value that follows from the log; `None` if none is required.
    pub(crate) fn expected(self, log: &LogState) -> Option<Value> {
        match (self.rows, self.subject) {
            (Rows::UnreadCounts, Subject::User(uid)) => Some(Value::Contacts(log.contacts(uid))),
            (_, Subject::User(uid)) => log.profile(uid).copied().map(Value::Profile),
            (_, Subject::Group(gid)) => log.group(gid).map(GroupColumns::of).map(Value::Group),
            (rows, Subject::Contact(uid, peer)) => {
                let contact = log.contact(uid, peer)?;
                match rows {
                    Rows::Hidden => Value::hidden(contact.hidden, contact.clear_mid),
                    // There was no read-ack.
                    Rows::ReadPositions if contact.reads.iter().all(|(_, read)| read.mid == 0) => {
                        None
                    }
                    _ => Some(Value::Contact(contact)),
                }
            }
            (rows, Subject::Member(gid, uid)) => {
                let member = log.group(gid)?.of_user(uid)?.clone();
                match rows {
                    Rows::HiddenInGroups => Value::hidden(member.hidden, member.clear_mid),
                    Rows::Members if member.changed_at < 0 => None,
                    Rows::Members => Some(Value::Member(Member {
                        role: member.role,
                        muted: member.muted,
                        join_mid: member.join_mid,
                        event_offset: member.changed_at,
                        ..Member::default()
                    })),
                    _ => Some(Value::Member(Member {
                        role: None,
                        muted: false,
                        ..member
                    })),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DirectConversation, UserId};

    use super::*;

    #[test]
    fn what_is_in_scope_has_its_row_in_a_table_in_scope() {
        let [one, other] = [7, 40].map(|uid| UserId::try_from(uid).unwrap());
        let (conversation, gid) = (DirectConversation::new(one, other), 5.try_into().unwrap());
        let rows_of = |subject| match subject {
            Subject::Contact(..) => vec![Rows::ReadPositions, Rows::Contacts, Rows::Hidden],
            Subject::Group(_) => vec![Rows::Groups],
            Subject::Member(..) => vec![Rows::Members, Rows::Memberships, Rows::HiddenInGroups],
            Subject::User(_) => vec![Rows::Profiles],
        };
        for (scope, covered) in [
            (Scope::All, 5),
            (Scope::User(one), 3),
            (Scope::Conversation(conversation), 2),
        ] {
            let log = LogState::new(scope);
            let subjects = [
                Subject::Contact(one, other),
                Subject::Contact(other, one),
                Subject::Group(gid),
                Subject::Member(gid, one),
                Subject::User(one),
            ];
            let subjects = subjects.into_iter().filter(|one| log.covers(*one));
            assert_eq!(subjects.clone().count(), covered, "{scope}");
            for subject in subjects {
                for rows in rows_of(subject) {
                    let number = rows.of(subject).number().unwrap();
                    assert!(rows.tables(scope).contains(&number), "{rows:?} of {scope}");
                }
            }
        }
        assert!(Rows::Groups.tables(Scope::User(one)).is_empty());
    }
}
