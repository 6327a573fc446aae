//! What the sequencer remembers of one group.

use std::{collections::VecDeque, hash::Hasher as _};

use hashbrown::HashMap;
use schemas::{
    Change, Chg, DeviceClass, GroupBody, GroupChange, GroupChangeKind, GroupEvent, GroupRole,
    GroupSettings, HashKey, Mid, PerDevice, UserId,
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
        member.role == GroupRole::Member && (member.muted || self.settings.muted)
    }

    pub(super) fn push(&mut self, by: UserId) {
        self.last_mid = self.last_mid.next();
        self.authors.push_back(Author(by.get()));
        if self.authors.len() as i64 > REACH {
            self.authors.pop_front();
        }
        self.read_everywhere(by, self.last_mid);
    }

    /// Folds anything but a message in.
    pub(super) fn apply(&mut self, event: &GroupEvent, hash_key: Option<&HashKey>) {
        match &event.body {
            GroupBody::Message { .. } => {}
            GroupBody::ReadPosition { device, mid } => self.read(event.by, *device, *mid),
            GroupBody::MessageChange { mid, change, .. } => {
                self.chg = self.chg.next();
                match change {
                    Change::Recall | Change::Delete => self.recall(*mid),
                    Change::Clear => self.read_everywhere(event.by, *mid),
                    Change::Edit(_) | Change::Hide => {}
                }
            }
            GroupBody::Change(change) => {
                self.change(change);
                if change.kind == GroupChangeKind::Create {
                    let members = change.members.iter().map(|member| member.uid);
                    self.creation = creation(hash_key, &change.settings, members);
                }
            }
        }
    }

    fn change(&mut self, change: &GroupChange) {
        self.settings.clone_from(&change.settings);
        for of_event in &change.members {
            let Some(role) = of_event.role else {
                self.members.remove(&of_event.uid);
                continue;
            };
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
    fn read(&mut self, user: UserId, device: DeviceClass, mid: Mid) {
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
