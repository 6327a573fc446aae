//! Who made users members of groups (PROTOCOL G10).

use std::hash::Hash;

use hashbrown::{HashMap, hash_map::Entry};
use schemas::UserId;

/// From rule version 4 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memberships {
    /// How many users each user has made members on the day of the clock, himself included, while that is limited.
    pub(super) new: HashMap<UserId, u32>,
    /// Of how many groups each user is a member because others made him one.
    by_others: HashMap<UserId, u32>,
    /// The same by who made him one: `(uid, by)`.
    by: HashMap<(UserId, UserId), u32>,
}

impl Memberships {
    pub(super) fn count_new(&mut self, by: UserId) {
        *self.new.entry(by).or_default() += 1;
    }

    /// A membership of `uid` begins; `added_by` is who else made it.
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

    pub(super) fn by_others(&self, uid: UserId) -> u32 {
        self.by_others.get(&uid).copied().unwrap_or_default()
    }

    /// Of how many groups `uid` is a member because `by`, another user, made him one.
    pub(super) fn by(&self, by: UserId, uid: UserId) -> u32 {
        self.by.get(&(uid, by)).copied().unwrap_or_default()
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
