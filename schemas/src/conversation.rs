use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    InvalidValue, Partition, UserId,
    ids::{Excerpt, deserialize_id},
    malformed::{self, Malformed},
};

/// A conversation. All of its records are in one partition, and its messages are numbered in one sequence. Its text, `lo,hi` or `g:<gid>`,
/// is the key of its records. Groups come first, then direct conversations by the smaller uid: the order of `msg_change_<n>`.
///
/// The rules that differ between direct conversations and groups belong in this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConversationId {
    /// Between the members of a group.
    Group(GroupId),
    /// Between two users.
    Direct(DirectConversation),
}

impl ConversationId {
    /// The partition of all its records: (lo + hi) mod 64, or gid mod 64.
    #[must_use]
    pub fn partition(self) -> Partition {
        match self {
            Self::Direct(direct) => direct.partition(),
            Self::Group(gid) => gid.partition(),
        }
    }
}

impl From<DirectConversation> for ConversationId {
    fn from(direct: DirectConversation) -> Self {
        Self::Direct(direct)
    }
}

impl From<GroupId> for ConversationId {
    fn from(gid: GroupId) -> Self {
        Self::Group(gid)
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(direct) => direct.fmt(f),
            Self::Group(gid) => write!(f, "g:{gid}"),
        }
    }
}

impl FromStr for ConversationId {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text.strip_prefix("g:") {
            Some(gid) => gid.parse().map(Self::Group),
            None => text.parse().map(Self::Direct),
        }
    }
}

/// The addressee of a message, a change or a read position.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// A user; in a note to oneself, the author.
    User(UserId),
    /// The members of a group.
    Group(GroupId),
}

impl Recipient {
    /// The conversation in which `uid` addresses this recipient.
    #[must_use]
    pub fn conversation_with(self, uid: UserId) -> ConversationId {
        match self {
            Self::User(peer) => DirectConversation::new(uid, peer).into(),
            Self::Group(gid) => ConversationId::Group(gid),
        }
    }

    /// The uid or the gid.
    #[must_use]
    pub fn uid_or_gid(self) -> (Option<UserId>, Option<GroupId>) {
        match self {
            Self::User(uid) => (Some(uid), None),
            Self::Group(gid) => (None, Some(gid)),
        }
    }

    /// From the uid and the gid of a protobuf message, of which one must be 0. `field` is the name of the uid's field.
    pub(crate) fn from_proto(field: &'static str, uid: i64, gid: i64) -> Result<Self, Malformed> {
        match (uid, gid) {
            (_, 0) => malformed::uid(field, uid).map(Self::User),
            (0, _) => match GroupId::try_from(gid) {
                Ok(gid) => Ok(Self::Group(gid)),
                Err(error) => Err(Malformed::new("gid", error)),
            },
            _ => Err(Malformed::new(field, "is given beside gid; must be absent")),
        }
    }

    /// The uid and the gid of a protobuf message, of which one is 0.
    pub(crate) fn into_proto(self) -> (i64, i64) {
        match self {
            Self::User(uid) => (uid.get(), 0),
            Self::Group(gid) => (0, gid.get()),
        }
    }
}

/// The conversation of two users, the smaller uid first. Its text is `lo,hi`, as in the column `sessionId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectConversation {
    lo: UserId,
    hi: UserId,
}

/// One of the two users of a direct conversation. In a note to oneself the only user is `Lo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The user with the smaller uid.
    Lo,
    /// The user with the larger uid.
    Hi,
}

impl DirectConversation {
    /// The conversation of two users, in either order; both may be the same.
    #[must_use]
    pub fn new(one: UserId, other: UserId) -> Self {
        Self {
            lo: one.min(other),
            hi: one.max(other),
        }
    }

    /// The partition of all its records: (lo + hi) mod 64.
    #[must_use]
    pub fn partition(self) -> Partition {
        // Two positive i64 never overflow a u64.
        Partition::of_number(self.lo.get().unsigned_abs() + self.hi.get().unsigned_abs())
    }

    /// The smaller uid.
    #[must_use]
    pub fn lo(self) -> UserId {
        self.lo
    }

    /// The larger uid.
    #[must_use]
    pub fn hi(self) -> UserId {
        self.hi
    }

    /// Its two users, or the only one of a note to oneself.
    pub fn users(self) -> impl Iterator<Item = UserId> {
        [Some(self.lo), Some(self.hi).filter(|hi| *hi != self.lo)]
            .into_iter()
            .flatten()
    }

    /// Whether `uid` is one of its users.
    #[must_use]
    pub fn has(self, uid: UserId) -> bool {
        uid == self.lo || uid == self.hi
    }

    /// The side of `uid`, who must be one of the two.
    #[must_use]
    pub fn side_of(self, uid: UserId) -> Side {
        if uid == self.lo { Side::Lo } else { Side::Hi }
    }

    /// The other user, seen from `uid`, who must be one of the two. In a note to oneself that is `uid`.
    #[must_use]
    pub fn peer_of(self, uid: UserId) -> UserId {
        if uid == self.lo { self.hi } else { self.lo }
    }

    /// Whether it is a note to oneself, which is never unread.
    #[must_use]
    pub fn is_to_self(self) -> bool {
        self.lo == self.hi
    }
}

impl fmt::Display for DirectConversation {
    // Every record has it as its key. Formatting the numbers with `write!` would take three times as long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(itoa::Buffer::new().format(self.lo.get()))?;
        f.write_str(",")?;
        f.write_str(itoa::Buffer::new().format(self.hi.get()))
    }
}

impl FromStr for DirectConversation {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let (one, other) = text.split_once(',').ok_or_else(|| {
            InvalidValue::new(format!(
                "is {:?}; must be a conversation, two uids as 1000,1001",
                Excerpt(text)
            ))
        })?;
        Ok(Self::new(one.parse()?, other.parse()?))
    }
}

/// The id of a group: 1 … 2^63−1, in JSON as a [`UserId`]. A group and a user may have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub(crate) i64);

impl GroupId {
    /// 1 … 2^63−1.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl GroupId {
    /// The partition of all its records: gid mod 64.
    #[must_use]
    pub fn partition(self) -> Partition {
        Partition::of_number(self.0.unsigned_abs())
    }
}

impl TryFrom<i64> for GroupId {
    type Error = InvalidValue;

    fn try_from(gid: i64) -> Result<Self, InvalidValue> {
        if gid < 1 {
            return Err(InvalidValue::new(format!(
                "is {gid}; must be a gid, from 1 to 9223372036854775807"
            )));
        }
        Ok(Self(gid))
    }
}

impl FromStr for GroupId {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        // The same decimal integers as for users, so that a group has one text only.
        match text.parse::<UserId>() {
            Ok(number) => Ok(Self(number.get())),
            Err(_) => Err(InvalidValue::new(format!(
                "is {:?}; must be a gid, a decimal integer from 1 to 9223372036854775807",
                Excerpt(text)
            ))),
        }
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_id("gid", deserializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(uid: i64) -> UserId {
        UserId::try_from(uid).unwrap()
    }

    #[test]
    fn the_largest_uids_do_not_overflow() {
        let largest = DirectConversation::new(user(i64::MAX), user(i64::MAX));
        // 2 · (2^63 − 1) = 2^64 − 2
        assert_eq!(ConversationId::from(largest).partition().get(), 62);
    }

    #[test]
    fn each_user_has_the_other_as_peer() {
        let conversation = DirectConversation::new(user(7), user(3));
        assert_eq!(conversation.users().collect::<Vec<_>>(), [user(3), user(7)]);
        assert_eq!(conversation.peer_of(user(3)), user(7));
        assert_eq!(conversation.peer_of(user(7)), user(3));
        assert_eq!(conversation.side_of(user(7)), Side::Hi);
        assert!(!conversation.has(user(5)) && !conversation.is_to_self());
    }

    #[test]
    fn a_note_to_oneself_has_one_user() {
        let note = DirectConversation::new(user(7), user(7));
        assert_eq!(note.users().count(), 1);
        assert_eq!(
            (note.peer_of(user(7)), note.side_of(user(7))),
            (user(7), Side::Lo)
        );
        assert!(note.is_to_self());
    }

    #[test]
    fn a_group_has_the_partition_of_its_number() {
        let group: ConversationId = "g:5000".parse().unwrap();
        assert_eq!(
            (group.partition().get(), group.to_string().as_str()),
            (8, "g:5000")
        );
    }

    #[test]
    fn texts_that_name_no_conversation_are_refused() {
        for text in [
            "", "1", "1,", "1,0", "g:", "g:0", "g:+5", "g:05", "1,2,3", "-1,2",
        ] {
            assert!(text.parse::<ConversationId>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn both_directions_are_one_conversation(a in 1..=i64::MAX, b in 1..=i64::MAX) {
            let there = ConversationId::from(DirectConversation::new(user(a), user(b)));
            prop_assert_eq!(there, DirectConversation::new(user(b), user(a)).into());
            prop_assert_eq!(there.to_string().parse::<ConversationId>().unwrap(), there);
            let partition = i128::from(there.partition().get());
            prop_assert_eq!(partition, (i128::from(a) + i128::from(b)) % 64);
        }
    }
}
