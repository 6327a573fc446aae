//! The users who left a group voluntarily (PROTOCOL G11).

use std::collections::BTreeMap;

use schemas::UserId;

/// Users in the order in which they left, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Leavers {
    places: BTreeMap<UserId, u64>,
    in_order: BTreeMap<u64, UserId>,
}

impl PartialEq for Leavers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Leavers {}

impl Leavers {
    /// Adds the newest leaver. Beyond `most`, those who left longest ago are forgotten.
    pub(super) fn push(&mut self, uid: UserId, most: usize) {
        self.remove(uid);
        let last = self.in_order.last_key_value();
        let place = last.map_or(0, |(place, _)| place + 1);
        self.places.insert(uid, place);
        self.in_order.insert(place, uid);
        while self.places.len() > most {
            if let Some((_, oldest)) = self.in_order.pop_first() {
                self.places.remove(&oldest);
            }
        }
    }

    pub(super) fn remove(&mut self, uid: UserId) {
        if let Some(place) = self.places.remove(&uid) {
            self.in_order.remove(&place);
        }
    }

    pub(super) fn contains(&self, uid: UserId) -> bool {
        self.places.contains_key(&uid)
    }

    /// The users in the order in which they left.
    pub(super) fn iter(&self) -> impl Iterator<Item = UserId> {
        self.in_order.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_left_longest_ago_is_forgotten_first() {
        let user = |uid: i64| UserId::try_from(uid).unwrap();
        let mut leavers = Leavers::default();
        for uid in [1, 2, 3, 1] {
            leavers.push(user(uid), 3);
        }
        assert!(leavers.iter().eq([2, 3, 1].map(user)));
        leavers.push(user(4), 2);
        assert!(leavers.iter().eq([1, 4].map(user)));
        leavers.remove(user(1));
        assert!(!leavers.contains(user(1)) && leavers.contains(user(4)));
        leavers.push(user(5), 0);
        assert_eq!(leavers, Leavers::default());
    }
}
