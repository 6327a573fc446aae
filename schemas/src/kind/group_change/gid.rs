//! The gids of groups that users create.

use uuid::Uuid;

use crate::{GroupId, UserId};

/// The namespace of the UUIDs from which gids are derived.
const GIDS: Uuid = Uuid::from_u128(0x6f2b_9c7e_54a1_4d0c_8a53_1e7d_c0b9_a2f4);

/// Every derived gid has this bit, so it never equals one that a service chose.
const MADE_HERE: i64 = 1 << 62;

impl GroupId {
    /// The gid of the group that `owner` calls `client_id`. It never changes (PROTOCOL G9): 2^62 plus the last 62 bits of the UUIDv5 of
    /// `<owner>/<client_id>` in the namespace 6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4.
    #[must_use]
    pub fn of_owner(owner: UserId, client_id: &str) -> Self {
        let name = format!("{owner}/{client_id}");
        let hash = Uuid::new_v5(&GIDS, name.as_bytes()).as_u128() as i64;
        Self(MADE_HERE | hash & (MADE_HERE - 1))
    }

    /// Whether the gid is in the range of derived gids, which nobody may choose.
    #[must_use]
    pub fn is_of_owner(self) -> bool {
        self.0 & MADE_HERE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_is_the_same_for_the_same_two_forever() {
        let gid = |owner: i64| GroupId::of_owner(owner.try_into().unwrap(), "a");
        // From Python's uuid: uuid5(UUID("6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4"), "1000/a").
        assert_eq!(gid(1000).get(), 8_036_488_198_483_334_796);
        assert_ne!(gid(1001), gid(1000));
        assert!(gid(1001).is_of_owner());
        assert!(!GroupId::try_from((1 << 62) - 1).unwrap().is_of_owner());
    }
}
