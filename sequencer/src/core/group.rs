//! The state of one group.

use std::{
    collections::{BTreeSet, VecDeque},
    hash::Hasher as _,
};

use hashbrown::HashMap;
use schemas::{
    Change, ChangeSeq, DeviceClass, GroupChange, GroupChangeKind, GroupMember, GroupRole,
    GroupSettings, HashKey, MessageChange, Mid, PerDevice, UserId, event::Rules,
};
use siphasher::sip::SipHasher13;

use super::{changes::REACH, leavers::Leavers, memberships::Memberships};

/// One group, as its events left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) settings: GroupSettings,
    pub(super) last_mid: Mid,
    /// The number of the last change of a message.
    pub(super) change_seq: ChangeSeq,
    /// The place of the last message in the partition's [`RecentMessages`](super::recent_messages::RecentMessages); 0 if it never was there.
    pub(super) last_place: u64,
    /// The hash of the command that created it.
    pub(super) creation: u64,
    /// The authors of the newest 4,096 messages, oldest first.
    pub(super) authors: VecDeque<Author>,
    /// Empty if the group was dissolved under rule version 3.
    pub(super) members: HashMap<UserId, Member>,
    /// Former members who were muted when they left; they are muted again if they join.
    pub(super) muted_who_left: BTreeSet<UserId>,
    /// Users who left voluntarily, from rule version 4 on: other users cannot add them.
    pub(super) leavers: Leavers,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) role: GroupRole,
    pub(super) muted: bool,
    /// The user who added this member, if another user did; from rule version 4 on.
    pub(super) added_by: Option<UserId>,
    /// A user who joins or sends has read everything before that, so these are never below the mid at joining or the newest own message.
    pub(super) read: PerDevice<Mid>,
}

impl Member {
    /// An owner who has read nothing.
    pub(super) fn owner() -> Self {
        Self {
            role: GroupRole::Owner,
            muted: false,
            added_by: None,
            read: PerDevice::default(),
        }
    }
}

/// The author of a message; negative once the message is recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Author(pub(super) i64);

impl Author {
    pub(super) fn is(self, user: UserId) -> bool {
        self.0.unsigned_abs() == user.get().unsigned_abs()
    }

    pub(super) fn is_recalled(self) -> bool {
        self.0 < 0
    }
}

impl Group {
    pub(super) fn new(settings: GroupSettings) -> Self {
        Self {
            settings,
            last_mid: Mid::ZERO,
            change_seq: ChangeSeq::ZERO,
            last_place: 0,
            creation: 0,
            authors: VecDeque::new(),
            members: HashMap::new(),
            muted_who_left: BTreeSet::new(),
            leavers: Leavers::default(),
        }
    }

    /// Who wrote a message that exists; `None` if the state no longer knows.
    pub(super) fn author(&self, mid: Mid) -> Option<Author> {
        self.authors.get(self.place(mid)?).copied()
    }

    fn place(&self, mid: Mid) -> Option<usize> {
        let back = usize::try_from(self.last_mid.get() - mid.get()).ok()?;
        self.authors.len().checked_sub(back + 1)
    }

    /// Whether a member may not send.
    pub(super) fn silences(&self, member: &Member) -> bool {
        member.muted || (self.settings.muted && member.role == GroupRole::Member)
    }

    pub(super) fn push(&mut self, by: UserId) {
        self.last_mid = self.last_mid.next();
        self.authors.push_back(Author(by.get()));
        if self.authors.len() as i64 > REACH {
            self.authors.pop_front();
        }
        self.read_everywhere(by, self.last_mid);
    }

    pub(super) fn change_message(&mut self, change: &MessageChange) {
        if !change.is_own() {
            self.change_seq = self.change_seq.next();
        }
        if change.change.is_final() {
            self.recall(change.mid);
        }
        if change.change == Change::Clear {
            self.read_everywhere(change.by, change.mid);
        }
    }

    pub(super) fn change(
        &mut self,
        change: &GroupChange,
        rules: &Rules,
        memberships: &mut Memberships,
    ) {
        if change.kind == GroupChangeKind::Create {
            let members = change.members.iter().map(|member| member.uid);
            self.creation = creation(rules.hash_key.as_ref(), &change.settings, members);
        }
        self.settings.clone_from(&change.settings);
        for of_event in &change.members {
            match of_event.role {
                Some(role) => self.set_member(change, of_event, role, rules, memberships),
                None => self.remove_member(change, of_event, rules, memberships),
            }
        }
        if change.settings.dissolved {
            self.muted_who_left = BTreeSet::new();
            self.leavers = Leavers::default();
            if rules.rule_version < 4 {
                self.forget_members(memberships);
            }
        }
    }

    fn forget_members(&mut self, memberships: &mut Memberships) {
        let members = std::mem::take(&mut self.members);
        for (uid, member) in &members {
            memberships.end(*uid, member.added_by);
        }
        self.authors = VecDeque::new();
    }

    fn set_member(
        &mut self,
        change: &GroupChange,
        of_event: &GroupMember,
        role: GroupRole,
        rules: &Rules,
        memberships: &mut Memberships,
    ) {
        let uid = of_event.uid;
        self.muted_who_left.remove(&uid);
        self.leavers.remove(uid);
        if let Some(member) = self.members.get_mut(&uid) {
            (member.role, member.muted) = (role, of_event.muted);
            return;
        }
        let by_another = rules.rule_version >= 4 && uid != change.by;
        let added_by = by_another.then_some(change.by);
        memberships.begin(uid, added_by);
        // A user who creates a group begins a conversation (PROTOCOL S14).
        let begins = change.kind == GroupChangeKind::Create && uid == change.by;
        if rules.new_memberships_per_day > 0 && !begins {
            memberships.count_new(change.by);
        }
        let member = Member {
            role,
            muted: of_event.muted,
            added_by,
            read: PerDevice {
                pc: self.last_mid,
                mobile: self.last_mid,
            },
        };
        self.members.insert(uid, member);
    }

    fn remove_member(
        &mut self,
        change: &GroupChange,
        of_event: &GroupMember,
        rules: &Rules,
        memberships: &mut Memberships,
    ) {
        let uid = of_event.uid;
        match self.members.remove(&uid) {
            Some(member) if change.kind == GroupChangeKind::Remove => {
                memberships.end_by_others(uid, member.added_by);
            }
            Some(member) => memberships.end(uid, member.added_by),
            None => {}
        }
        if of_event.muted {
            self.muted_who_left.insert(uid);
        }
        if rules.rule_version >= 4 && change.kind == GroupChangeKind::Leave {
            let most = usize::try_from(rules.max_group_members).unwrap_or_default();
            self.leavers.push(uid, most);
        }
    }

    fn recall(&mut self, mid: Mid) {
        let author = self
            .place(mid)
            .and_then(|place| self.authors.get_mut(place));
        if let Some(author) = author {
            author.0 = -author.0.abs();
        }
    }

    fn read_everywhere(&mut self, user: UserId, mid: Mid) {
        for device in DeviceClass::ALL {
            self.read(user, device, mid);
        }
    }

    /// A read position never goes back or past the last message, whatever the log says.
    pub(super) fn read(&mut self, user: UserId, device: DeviceClass, mid: Mid) {
        if let Some(member) = self.members.get_mut(&user) {
            let position = &mut member.read[device];
            *position = (*position).max(mid.min(self.last_mid));
        }
    }
}

/// SipHash-1-3 over the content of a creation, by which a repeat is recognised. `members` may contain the owner, and duplicates.
pub(super) fn creation(
    key: Option<&HashKey>,
    settings: &GroupSettings,
    members: impl Iterator<Item = UserId>,
) -> u64 {
    let mut members: Vec<i64> = members.map(UserId::get).collect();
    members.retain(|one| *one != settings.owner.get());
    members.sort_unstable();
    members.dedup();
    let mut hasher = key.map_or_else(SipHasher13::new, |key| {
        SipHasher13::new_with_key(key.bytes())
    });
    hasher.write(&settings.owner.get().to_le_bytes());
    for member in members {
        hasher.write(&member.to_le_bytes());
    }
    // 0 is not a uid, so it ends the members.
    hasher.write(&[0; 8]);
    hasher.write(&[settings.open.into(), settings.whole_history.into()]);
    hasher.write(settings.name.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use schemas::{GroupId, GroupMember};

    use super::*;

    fn user(uid: i64) -> UserId {
        UserId::try_from(uid).unwrap()
    }

    fn settings() -> GroupSettings {
        GroupSettings {
            name: "Lunch".to_owned(),
            owner: user(1),
            open: false,
            whole_history: false,
            muted: false,
            dissolved: false,
        }
    }

    fn changed(kind: GroupChangeKind, settings: GroupSettings, members: &[i64]) -> GroupChange {
        let members = members.iter().map(|uid| GroupMember {
            uid: user(*uid),
            role: Some(GroupRole::Member),
            muted: false,
            joined: true,
        });
        let members: Vec<GroupMember> = members.collect();
        GroupChange {
            gid: GroupId::try_from(5000).unwrap(),
            by: user(1),
            kind,
            settings,
            member_count: members.len() as i64,
            last_mid: Mid::ZERO,
            members,
        }
    }

    #[test]
    fn a_muted_member_sends_nothing_and_in_a_muted_group_admins_send() {
        let mut group = Group::new(settings());
        for (of_group, of_member, silenced) in [
            (false, false, [false, false]),
            (false, true, [true, true]),
            (true, false, [true, false]),
            (true, true, [true, true]),
        ] {
            group.settings.muted = of_group;
            let found = [GroupRole::Member, GroupRole::Admin].map(|role| {
                group.silences(&Member {
                    role,
                    muted: of_member,
                    added_by: None,
                    read: PerDevice::default(),
                })
            });
            assert_eq!(found, silenced, "{of_group} {of_member}");
        }
    }

    #[test]
    fn a_dissolved_group_keeps_its_members_from_rule_version_4_on() {
        for (rule_version, kept) in [(3, (0, 0)), (4, (2, 1))] {
            let rules = Rules {
                rule_version,
                ..Rules::VERSION_1
            };
            let mut group = Group::new(settings());
            let change = |group: &mut Group, kind, settings, members: &[i64]| {
                let changed = changed(kind, settings, members);
                group.change(&changed, &rules, &mut Memberships::default());
            };
            change(&mut group, GroupChangeKind::Create, settings(), &[1, 2]);
            group.push(user(1));
            let created = group.creation;
            let dissolved = GroupSettings {
                dissolved: true,
                ..settings()
            };
            change(&mut group, GroupChangeKind::Dissolve, dissolved, &[]);
            assert_eq!((group.members.len(), group.authors.len()), kept);
            assert_eq!((group.creation, group.last_mid.get()), (created, 1));
        }
    }

    #[test]
    fn what_others_cause_is_counted_until_it_ends() {
        let rules = Rules {
            rule_version: 4,
            new_memberships_per_day: 9,
            ..Rules::VERSION_1
        };
        let (mut group, mut memberships) = (Group::new(settings()), Memberships::default());
        let mut change = |kind, members: &[i64], gone: bool, days: u32| {
            (0..days).for_each(|_| memberships.begin_day());
            let mut change = changed(kind, settings(), members);
            for member in change.members.iter_mut().filter(|_| gone) {
                (member.role, member.joined) = (None, false);
            }
            group.change(&change, &rules, &mut memberships);
            let counts = [true, false].map(|is_today| {
                [1, 2, 3].map(|uid| {
                    let added = memberships.by_others(user(uid), user(1), is_today);
                    assert_eq!(added.by_all_others, added.by_actor);
                    added.by_all_others
                })
            });
            (memberships.new.get(&user(1)).copied(), counts)
        };
        // The owner, user 1, makes two others members.
        let created = change(GroupChangeKind::Create, &[1, 2, 3], false, 0);
        assert_eq!(created, (Some(2), [[0, 1, 1]; 2]));
        let again = change(GroupChangeKind::Add, &[2, 3], false, 0);
        assert_eq!(again, created);
        let removed = change(GroupChangeKind::Remove, &[2], true, 0);
        // Until the end of the day.
        assert_eq!(removed, (Some(2), [[0, 1, 1], [0, 0, 1]]));
        let added = change(GroupChangeKind::Add, &[2], false, 0);
        assert_eq!(added, (Some(3), [[0, 2, 1], [0, 1, 1]]));
        let left = change(GroupChangeKind::Leave, &[2], true, 1);
        assert_eq!(left, (None, [[0, 0, 1]; 2]));
    }

    #[test]
    fn a_creation_is_known_by_what_it_asks_for_in_any_order() {
        let of = |settings: &GroupSettings, members: &[i64]| {
            creation(None, settings, members.iter().map(|uid| user(*uid)))
        };
        let first = of(&settings(), &[2, 3]);
        assert_eq!(of(&settings(), &[3, 1, 2, 2]), first);
        assert_ne!(of(&settings(), &[2]), first);
        for change in [
            |s: &mut GroupSettings| s.name.push('.'),
            |s: &mut GroupSettings| s.owner = user(4),
            |s: &mut GroupSettings| s.open = true,
            |s: &mut GroupSettings| s.whole_history = true,
        ] {
            let mut other = settings();
            change(&mut other);
            assert_ne!(of(&other, &[2, 3]), first, "{other:?}");
        }
    }

    #[test]
    fn authors_are_known_for_the_newest_4096_messages() {
        let mut group = Group::new(settings());
        for uid in 1..=5_000 {
            group.push(user(uid));
        }
        let author = |mid: i64| group.author(Mid::try_from(mid).unwrap());
        assert_eq!(author(5_000 - REACH), None);
        for mid in 5_000 - REACH + 1..=5_000 {
            assert!(author(mid).is_some_and(|author| author.is(user(mid))));
        }
        assert_eq!(author(5_001), None);
    }

    #[test]
    fn a_member_costs_what_the_docs_say() {
        // The slot, its key and the table's control byte.
        assert_eq!(size_of::<(UserId, Member)>() + 1, 41);
    }
}
