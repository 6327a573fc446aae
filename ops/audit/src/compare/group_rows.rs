//! Compares a row about a group, or about somebody in one, with the state that follows from the log. Pure.

use schemas::{
    ConversationId, DeviceClass, GroupId, GroupRole, GroupSettings, PerDevice, TableNumber, UserId,
    event::Body,
};

use super::mismatch::Mismatch;
use crate::{
    Area, Kind,
    fold::{Group, LastInGroup, LogState, Member},
};

/// The tables about groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GroupTable {
    /// `group_<n>`.
    Groups,
    /// `group_member_<n>`.
    Members,
    /// `membership_<n>`.
    Memberships,
    /// `hidden_<n>`: a row for each message.
    Hidden,
}

/// Which row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) table: GroupTable,
    pub(crate) gid: GroupId,
    /// The member; `None` in [`GroupTable::Groups`].
    pub(crate) uid: Option<UserId>,
}

/// A row, as the log or a store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupRow {
    Group(Box<GroupColumns>),
    Member(MemberColumns),
    Membership(MembershipColumns),
    /// The mids, ascending.
    Hidden {
        mids: Vec<i64>,
        /// Up to which the log has them cleared; 0 in a store.
        clear_mid: i64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupColumns {
    /// `None` where the start of the log is gone, and nothing was changed since.
    pub(crate) settings: Option<GroupSettings>,
    pub(crate) member_count: i64,
    pub(crate) last: LastInGroup,
    pub(crate) chg: i64,
    pub(crate) pos: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberColumns {
    pub(crate) role: Option<GroupRole>,
    pub(crate) muted: bool,
    pub(crate) join_mid: i64,
    pub(crate) pos: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MembershipColumns {
    pub(crate) join_pos: i64,
    pub(crate) left_pos: i64,
    pub(crate) join_mid: i64,
    pub(crate) own_last_mid: i64,
    pub(crate) reads: PerDevice<i64>,
    pub(crate) clear_mid: i64,
    pub(crate) pos: i64,
}

impl GroupTable {
    pub(crate) const ALL: [Self; 4] =
        [Self::Groups, Self::Members, Self::Memberships, Self::Hidden];

    pub(crate) fn area(self) -> Area {
        match self {
            Self::Groups => Area::Groups,
            Self::Members => Area::GroupMembers,
            Self::Memberships => Area::Memberships,
            Self::Hidden => Area::Hidden,
        }
    }
}

impl GroupKey {
    pub(crate) fn of_group(gid: GroupId) -> Self {
        let (table, uid) = (GroupTable::Groups, None);
        Self { table, gid, uid }
    }

    pub(crate) fn of_member(table: GroupTable, gid: GroupId, uid: UserId) -> Self {
        let uid = Some(uid);
        Self { table, gid, uid }
    }

    /// The rows that an event may change.
    pub(crate) fn of_event(gid: GroupId, body: &Body) -> Vec<Self> {
        let uids = match body {
            Body::Message(message) => vec![message.srcid],
            Body::ReadPosition(position) => vec![position.uid],
            Body::MessageChange(change) => vec![change.by],
            Body::GroupChange(change) => {
                let members = change.members.iter().map(|member| member.uid);
                members.chain([change.by]).collect()
            }
            _ => Vec::new(),
        };
        let tables = [
            GroupTable::Members,
            GroupTable::Memberships,
            GroupTable::Hidden,
        ];
        let of_members = tables.into_iter().flat_map(|table| {
            uids.iter()
                .map(move |uid| Self::of_member(table, gid, *uid))
        });
        of_members.chain([Self::of_group(gid)]).collect()
    }

    /// The number of the table that has the row.
    pub(crate) fn number(self) -> TableNumber {
        match (self.table, self.uid) {
            (GroupTable::Memberships | GroupTable::Hidden, Some(uid)) => TableNumber::of_user(uid),
            _ => ConversationId::Group(self.gid).partition().into(),
        }
    }

    pub(crate) fn mismatch(self, kind: Kind, what: &str) -> Mismatch {
        let whose = match self.uid {
            None => format!("g:{}", self.gid),
            Some(uid) => format!("{uid} in g:{}", self.gid),
        };
        let area = self.table.area();
        Mismatch {
            area,
            kind,
            what: format!("{} of {whose}: {what}", area.name()),
            conversation: Some(ConversationId::Group(self.gid)),
        }
    }

    /// The row that follows from the log.
    pub(crate) fn expected(self, log: &LogState) -> Option<GroupRow> {
        let group = log.group(self.gid)?;
        match (self.table, self.uid) {
            (GroupTable::Groups, _) => Some(GroupRow::Group(Box::new(GroupColumns::of(group)))),
            (table, Some(uid)) => GroupRow::of_member(table, group.of_user(uid)?),
            (_, None) => None,
        }
    }
}

impl GroupRow {
    /// `None` where the table has no row of the member.
    pub(crate) fn of_member(table: GroupTable, member: &Member) -> Option<Self> {
        match table {
            GroupTable::Groups => None,
            GroupTable::Members => {
                (member.changed_at >= 0).then_some(Self::Member(MemberColumns {
                    role: member.role,
                    muted: member.muted,
                    join_mid: member.join_mid,
                    pos: member.changed_at,
                }))
            }
            GroupTable::Memberships => Some(Self::Membership(MembershipColumns {
                join_pos: member.joined_at,
                left_pos: member.left_at,
                join_mid: member.join_mid,
                own_last_mid: member.own_last_mid,
                reads: member.reads,
                clear_mid: member.clear_mid,
                pos: member.pos,
            })),
            GroupTable::Hidden => (!member.hidden.is_empty()).then(|| Self::Hidden {
                mids: member.hidden.clone(),
                clear_mid: member.clear_mid,
            }),
        }
    }

    fn pos(&self) -> Option<i64> {
        match self {
            Self::Group(group) => Some(group.pos),
            Self::Member(member) => Some(member.pos),
            Self::Membership(membership) => Some(membership.pos),
            Self::Hidden { .. } => None,
        }
    }

    /// The first column that differs.
    fn different(&self, right: &Self) -> Option<&'static str> {
        let columns: Vec<(&'static str, bool)> = match (self, right) {
            (Self::Group(found), Self::Group(right)) => found.equal(right).into(),
            (Self::Member(found), Self::Member(right)) => found.equal(right).into(),
            (Self::Membership(found), Self::Membership(right)) => found.equal(right).into(),
            _ => return Some("the row"),
        };
        let (name, _) = columns.into_iter().find(|(_, equal)| !equal)?;
        Some(name)
    }
}

impl GroupColumns {
    fn of(group: &Group) -> Self {
        Self {
            settings: group.settings.clone(),
            member_count: group.member_count,
            last: group.last,
            chg: group.chg,
            pos: group.pos,
        }
    }

    fn equal(&self, right: &Self) -> [(&'static str, bool); 15] {
        fn same<T: PartialEq>(
            one: &GroupColumns,
            other: &GroupColumns,
            of: impl Fn(&GroupSettings) -> T,
        ) -> bool {
            one.settings.as_ref().map(&of) == other.settings.as_ref().map(&of)
        }
        let (last, right_last) = (&self.last, &right.last);
        [
            ("name", same(self, right, |set| set.name.clone())),
            ("owner", same(self, right, |set| set.owner)),
            ("open", same(self, right, |set| set.open)),
            ("whole_history", same(self, right, |set| set.whole_history)),
            ("muted", same(self, right, |set| set.muted)),
            ("dissolved", same(self, right, |set| set.dissolved)),
            ("member_count", self.member_count == right.member_count),
            ("last_mid", last.mid == right_last.mid),
            ("chg", self.chg == right.chg),
            ("last_srcid", last.srcid == right_last.srcid),
            ("last_ts", last.ts == right_last.ts),
            ("preview", last.preview == right_last.preview),
            ("last_chg", last.chg == right_last.chg),
            ("last_state", last.state == right_last.state),
            ("pos", self.pos == right.pos),
        ]
    }
}

impl MemberColumns {
    fn equal(&self, right: &Self) -> [(&'static str, bool); 4] {
        [
            ("role", self.role == right.role),
            ("muted", self.muted == right.muted),
            ("join_mid", self.join_mid == right.join_mid),
            ("pos", self.pos == right.pos),
        ]
    }
}

impl MembershipColumns {
    fn equal(&self, right: &Self) -> [(&'static str, bool); 8] {
        let read = |device| self.reads[device] == right.reads[device];
        [
            ("join_pos", self.join_pos == right.join_pos),
            ("left_pos", self.left_pos == right.left_pos),
            ("join_mid", self.join_mid == right.join_mid),
            ("own_last_mid", self.own_last_mid == right.own_last_mid),
            ("pc_read_mid", read(DeviceClass::Pc)),
            ("mobile_read_mid", read(DeviceClass::Mobile)),
            ("clear_mid", self.clear_mid == right.clear_mid),
            ("pos", self.pos == right.pos),
        ]
    }
}

/// Compares a row with what the log had before it was read (`low`) and after (`high`). A row names the event that changed it last.
pub(super) fn group_mismatches(
    key: GroupKey,
    found: Option<&GroupRow>,
    low: Option<&GroupRow>,
    high: Option<&GroupRow>,
) -> Vec<Mismatch> {
    if key.table == GroupTable::Hidden {
        return hidden_mismatches(key, hidden(found), hidden(low), hidden(high));
    }
    let (kind, what) = match (found, low, high) {
        (None, None, _) => return Vec::new(),
        (None, Some(_), _) => (Kind::Missing, "no row"),
        (Some(_), _, None) => (Kind::Extra, "it is not in the log"),
        (Some(found), low, Some(high)) => match outside(found, low, high) {
            None => return Vec::new(),
            Some(column) => (Kind::Different, column),
        },
    };
    vec![key.mismatch(kind, what)]
}

fn hidden(row: Option<&GroupRow>) -> (&[i64], i64) {
    match row {
        Some(GroupRow::Hidden { mids, clear_mid }) => (mids, *clear_mid),
        _ => (&[], 0),
    }
}

/// What is hidden stays so. What is cleared may be deleted.
fn hidden_mismatches(
    key: GroupKey,
    (found, _): (&[i64], i64),
    (low, _): (&[i64], i64),
    (high, clear_mid): (&[i64], i64),
) -> Vec<Mismatch> {
    let kept = low.iter().filter(|mid| **mid > clear_mid);
    let missing = kept.filter(|mid| !found.contains(mid));
    let missing = missing.map(|mid| (Kind::Missing, mid));
    let extra = found.iter().filter(|mid| !high.contains(mid));
    let extra = extra.map(|mid| (Kind::Extra, mid));
    missing
        .chain(extra)
        .map(|(kind, mid)| key.mismatch(kind, &format!("mid {mid}")))
        .collect()
}

/// A row between the two states may be any.
fn outside(found: &GroupRow, low: Option<&GroupRow>, high: &GroupRow) -> Option<&'static str> {
    if found.pos() == high.pos() {
        return found.different(high);
    }
    match low {
        Some(low) if found.pos() == low.pos() => found.different(low),
        low => {
            let is_between = found.pos() > low.and_then(GroupRow::pos) && found.pos() < high.pos();
            (!is_between).then(|| found.different(high).unwrap_or("pos"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(read: i64, pos: i64) -> GroupRow {
        GroupRow::Membership(MembershipColumns {
            join_pos: 1,
            left_pos: -1,
            join_mid: 0,
            own_last_mid: 0,
            reads: PerDevice::from_fn(|_| read),
            clear_mid: 0,
            pos,
        })
    }

    fn kinds(table: GroupTable, rows: [Option<GroupRow>; 3]) -> Vec<Kind> {
        let key = GroupKey {
            table,
            gid: 5.try_into().unwrap(),
            uid: Some(7.try_into().unwrap()),
        };
        let [found, low, high] = rows.each_ref().map(Option::as_ref);
        let mismatches = group_mismatches(key, found, low, high);
        mismatches.into_iter().map(|one| one.kind).collect()
    }

    #[test]
    fn a_row_is_as_the_event_left_it_that_it_names() {
        let kinds = |found, low, high| kinds(GroupTable::Memberships, [found, low, high]);
        let (one, two) = (row(3, 5), row(4, 9));
        let [low, high] = [&one, &two].map(|row| Some(row.clone()));
        for right in [one, two, row(4, 7)] {
            assert_eq!(kinds(Some(right), low.clone(), high.clone()), []);
        }
        for wrong in [row(4, 5), row(3, 9), row(3, 4), row(4, 10)] {
            let found = kinds(Some(wrong.clone()), low.clone(), high.clone());
            assert_eq!(found, [Kind::Different], "{wrong:?}");
        }
        assert_eq!(kinds(None, low.clone(), high.clone()), [Kind::Missing]);
        assert_eq!(kinds(None, None, high.clone()), []);
        assert_eq!(kinds(high.clone(), None, high.clone()), []);
        assert_eq!(kinds(high, None, None), [Kind::Extra]);
    }

    #[test]
    fn a_message_hidden_in_a_group_is_missing_or_extra() {
        let kinds_of = |found: &[i64], low: &[i64], high: &[i64], cleared: i64| {
            let row = |mids: &[i64], clear_mid| {
                let mids = mids.to_vec();
                Some(GroupRow::Hidden { mids, clear_mid })
            };
            let rows = [row(found, 0), row(low, 0), row(high, cleared)];
            kinds(GroupTable::Hidden, rows)
        };
        let kinds = |found: &[i64], low: &[i64], high: &[i64]| kinds_of(found, low, high, 0);
        assert_eq!(kinds(&[3], &[3], &[3, 5]), []);
        assert_eq!(kinds(&[3, 5], &[3], &[3, 5]), []);
        assert_eq!(kinds(&[5], &[3], &[3, 5]), [Kind::Missing]);
        assert_eq!(kinds(&[3, 6], &[3], &[3, 5]), [Kind::Extra]);

        let hidden = [3, 5, 7];
        for (found, kinds) in [
            (vec![7], vec![]),
            (vec![3, 5, 7], vec![]),
            (vec![3, 5], vec![Kind::Missing]),
            (vec![4, 7], vec![Kind::Extra]),
        ] {
            assert_eq!(kinds_of(&found, &hidden, &hidden, 5), kinds);
        }
    }
}
