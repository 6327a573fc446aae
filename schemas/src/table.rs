use std::fmt;

use serde::Serialize;

use crate::{InvalidValue, PARTITIONS, Partition, UserId};

/// The number of a sharded table, 0 … 63: the `17` of `chat_msg_17`. A conversation's tables have the number of its partition, a user's
/// tables uid mod 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TableNumber(u8);

impl TableNumber {
    /// All 64, ascending.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..PARTITIONS).map(Self)
    }

    /// The number of a user's own tables (`contact_<n>`): uid mod 64.
    #[must_use]
    pub fn of_user(uid: UserId) -> Self {
        Self((uid.get().unsigned_abs() % u64::from(PARTITIONS)) as u8)
    }

    /// 0 … 63.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }

    /// 0 … 63, for indexing.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The tables of the conversations of a partition.
impl From<Partition> for TableNumber {
    fn from(partition: Partition) -> Self {
        Self(partition.get())
    }
}

impl TryFrom<i64> for TableNumber {
    type Error = InvalidValue;

    fn try_from(value: i64) -> Result<Self, InvalidValue> {
        u8::try_from(value)
            .ok()
            .filter(|n| *n < PARTITIONS)
            .map(Self)
            .ok_or_else(|| {
                InvalidValue::new(format!(
                    "is {value}; must be a table's number, from 0 to 63"
                ))
            })
    }
}

impl fmt::Display for TableNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TableNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}
