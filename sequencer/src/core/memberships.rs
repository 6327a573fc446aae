//! Which users made others members of groups (PROTOCOL G10).

use std::{collections::BTreeMap, hash::Hash, mem};

use hashbrown::{HashMap, hash_map::Entry};
use schemas::UserId;

/// Counts of memberships, from rule version 4 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memberships {
    /// How many users, oneself included, each user has made members on the day of the clock, while that is limited.
    pub(super) new: HashMap<UserId, u32>,
    /// How many memberships by others each user has: groups in which the user is because another user added them.
    by_others: HashMap<UserId, u32>,
    /// The same number by the user who added: `(uid, by)`.
    by: HashMap<(UserId, UserId), u32>,
    /// Memberships by others that others have ended on the day of the clock, by uid and by the user who began them. They count until the day is over.
    pub(super) removed: BTreeMap<UserId, BTreeMap<UserId, u32>>,
}

/// The number of groups that others have added a user to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddedTo {
    pub(super) by_all_others: i64,
    /// By the user who would add this one now.
    pub(super) by_actor: i64,
}

impl Memberships {
    pub(super) fn count_new(&mut self, by: UserId) {
        *self.new.entry(by).or_default() += 1;
    }

    /// A membership of `uid` begins; `added_by` is the other user who began it.
    pub(super) fn begin(&mut self, uid: UserId, added_by: Option<UserId>) {
        if let Some(by) = added_by {
            *self.by_others.entry(uid).or_default() += 1;
            *self.by.entry((uid, by)).or_default() += 1;
        }
    }

    pub(super) fn end(&mut self, uid: UserId, added_by: Option<UserId>) {
        if let Some(by) = added_by {
            count_down(&mut self.by_others, uid);
            count_down(&mut self.by, (uid, by));
        }
    }

    /// Others end the membership.
    pub(super) fn end_by_others(&mut self, uid: UserId, added_by: Option<UserId>) {
        if let Some(by) = added_by {
            *self.removed.entry(uid).or_default().entry(by).or_default() += 1;
        }
    }

    pub(super) fn begin_day(&mut self) {
        self.new = HashMap::new();
        for (uid, of_user) in mem::take(&mut self.removed) {
            for (by, count) in of_user {
                (0..count).for_each(|_| self.end(uid, Some(by)));
            }
        }
    }

    /// How many groups others have added `uid` to. After the day of the clock, groups from which others have removed `uid` no longer count.
    pub(super) fn by_others(&self, uid: UserId, by: UserId, is_today: bool) -> AddedTo {
        let all = self.by_others.get(&uid).copied().unwrap_or_default();
        let own = self.by.get(&(uid, by)).copied().unwrap_or_default();
        let removed = self.removed.get(&uid).filter(|_| !is_today);
        let all_removed: u32 = removed.into_iter().flat_map(BTreeMap::values).sum();
        let own_removed = removed.and_then(|of_user| of_user.get(&by)).copied();
        let standing = |count, removed| i64::from(count) - i64::from(removed);
        AddedTo {
            by_all_others: standing(all, all_removed),
            by_actor: standing(own, own_removed.unwrap_or_default()),
        }
    }
}

fn count_down<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}
