//! What the sequencer remembers of one group.

use std::{
    collections::{BTreeSet, VecDeque},
    hash::Hasher as _,
};

use hashbrown::HashMap;
use schemas::{
    Change, Chg, DeviceClass, GroupChange, GroupChangeKind, GroupRole, GroupSettings, HashKey,
    MessageChange, Mid, PerDevice, UserId,
};
use siphasher::sip::SipHasher13;

use super::changes::REACH;

/// One group, as its events left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) settings: GroupSettings,
    pub(super) last_mid: Mid,
    /// The number of the last change of a message.
    pub(super) chg: Chg,
    /// The place of the last message in the partition's [`RecentMessages`](super::recent_messages::RecentMessages); 0 where it never was there.
    pub(super) last_place: u64,
    /// The hash of what its creation asked for.
    pub(super) creation: u64,
    /// Of the newest 4,096 messages, oldest first.
    pub(super) authors: VecDeque<Author>,
    /// None once it is dissolved.
    pub(super) members: HashMap<UserId, Member>,
    /// Those who were members and muted, and are muted again when they join.
    pub(super) muted_who_left: BTreeSet<UserId>,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) role: GroupRole,
    pub(super) muted: bool,
    /// Who joins or sends has read everything before it, so these are never below the mid at joining or the newest own message.
    pub(super) read: PerDevice<Mid>,
}

/// Who wrote a message, negative once it is recalled.
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
            chg: Chg::ZERO,
            last_place: 0,
            creation: 0,
            authors: VecDeque::new(),
            members: HashMap::new(),
            muted_who_left: BTreeSet::new(),
        }
    }

    /// Who wrote a message, which is there; `None` where that is no longer known.
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
        self.chg = self.chg.next();
        match change.change {
            Change::Recall | Change::Delete => self.recall(change.mid),
            Change::Clear => self.read_everywhere(change.by, change.mid),
            Change::Edit(_) | Change::Hide => {}
        }
    }

    pub(super) fn change(&mut self, change: &GroupChange, hash_key: Option<&HashKey>) {
        if change.kind == GroupChangeKind::Create {
            let members = change.members.iter().map(|member| member.uid);
            self.creation = creation(hash_key, &change.settings, members);
        }
        self.settings.clone_from(&change.settings);
        for of_event in &change.members {
            let Some(role) = of_event.role else {
                self.members.remove(&of_event.uid);
                if of_event.muted {
                    self.muted_who_left.insert(of_event.uid);
                }
                continue;
            };
            self.muted_who_left.remove(&of_event.uid);
            let read = PerDevice {
                pc: self.last_mid,
                mobile: self.last_mid,
            };
            let member = self.members.entry(of_event.uid).or_insert(Member {
                role,
                muted: false,
                read,
            });
            member.role = role;
            member.muted = of_event.muted;
        }
        if change.settings.dissolved {
            self.members = HashMap::new();
            self.authors = VecDeque::new();
            self.muted_who_left = BTreeSet::new();
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

    /// Never goes back or past the last message, whatever the log says.
    pub(super) fn read(&mut self, user: UserId, device: DeviceClass, mid: Mid) {
        if let Some(member) = self.members.get_mut(&user) {
            let position = &mut member.read[device];
            *position = (*position).max(mid.min(self.last_mid));
        }
    }
}

/// SipHash-1-3 over what a creation asks for: who repeats one is recognised by it. `members` may have the owner among them, and anybody twice.
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
    // 0 is no user, so the members end here.
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
                    read: PerDevice::default(),
                })
            });
            assert_eq!(found, silenced, "{of_group} {of_member}");
        }
    }

    #[test]
    fn a_dissolved_group_keeps_what_says_that_it_was_there() {
        let mut group = Group::new(settings());
        group.change(&changed(GroupChangeKind::Create, settings(), &[1, 2]), None);
        group.push(user(1));
        let created = group.creation;
        let dissolved = GroupSettings {
            dissolved: true,
            ..settings()
        };
        group.change(&changed(GroupChangeKind::Dissolve, dissolved, &[]), None);
        assert_eq!((group.members.len(), group.authors.len()), (0, 0));
        assert_eq!((group.creation, group.last_mid.get()), (created, 1));
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
        assert_eq!(size_of::<(UserId, Member)>() + 1, 33);
    }
}
