//! Who made users members of groups (PROTOCOL G10).

use hashbrown::HashMap;
use schemas::UserId;

/// From rule version 4 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memberships {
    /// How many users each user has made members on the day of the clock, himself included, while that is limited.
    pub(super) new: HashMap<UserId, u32>,
    /// Of how many groups each user is a member because others made him one.
    by_others: HashMap<UserId, u32>,
}

impl Memberships {
    pub(super) fn count_new(&mut self, by: UserId) {
        *self.new.entry(by).or_default() += 1;
    }

    pub(super) fn add_by_others(&mut self, uid: UserId) {
        *self.by_others.entry(uid).or_default() += 1;
    }

    pub(super) fn remove_by_others(&mut self, uid: UserId) {
        if let Some(count) = self.by_others.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.by_others.remove(&uid);
            }
        }
    }

    pub(super) fn by_others(&self, uid: UserId) -> u32 {
        self.by_others.get(&uid).copied().unwrap_or_default()
    }
}
