use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{InvalidValue, NextOffset, UserId};

/// The number of partitions of every topic, and of tables of every sharded table. It can never change.
pub const PARTITIONS: u8 = 64;

/// One of the 64 partitions of every topic; MySQL's `hashvalue` too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u8")]
pub struct Partition(u8);

impl Partition {
    /// The first, 0.
    pub const FIRST: Self = Self(0);

    /// All 64, ascending.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..PARTITIONS).map(Self)
    }

    /// `number` mod 64.
    pub(crate) fn of_number(number: u64) -> Self {
        Self((number % u64::from(PARTITIONS)) as u8)
    }

    /// The partition of what belongs to a user and not to a conversation: uid mod 64.
    #[must_use]
    pub fn of_user(uid: UserId) -> Self {
        Self::of_number(uid.get().unsigned_abs())
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

impl TryFrom<i64> for Partition {
    type Error = InvalidValue;

    fn try_from(value: i64) -> Result<Self, InvalidValue> {
        u8::try_from(value)
            .ok()
            .filter(|n| *n < PARTITIONS)
            .map(Self)
            .ok_or_else(|| {
                InvalidValue::new(format!("is {value}; must be a partition, from 0 to 63"))
            })
    }
}

impl From<Partition> for u8 {
    fn from(Partition(number): Partition) -> Self {
        number
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

macro_rules! position {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// The partition.
            pub partition: Partition,
            /// The offset, from 0.
            pub offset: i64,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{}", self.partition, self.offset)
            }
        }

        impl FromStr for $name {
            type Err = InvalidValue;

            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                let (partition, offset) = parse_position(text)?;
                Ok(Self { partition, offset })
            }
        }

        crate::serde_as_text!($name);
    };
}

position! {
    /// The position of a record of `chat.inbound`. A 202 returns it, and `after=` takes it. Its text is `<partition>:<offset>`.
    InboundPosition
}

position! {
    /// The position of an event in `chat.events`. Its text is `<partition>:<offset>`.
    EventPosition
}

impl EventPosition {
    /// The offset after it.
    #[must_use]
    pub fn next(self) -> NextOffset {
        NextOffset::after(self.offset)
    }
}

impl InboundPosition {
    /// The newest position of each partition: a reader that waits for these has waited for all.
    pub fn newest(positions: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let ascending: BTreeSet<Self> = positions.into_iter().collect();
        let newest: BTreeMap<Partition, Self> = ascending
            .into_iter()
            .map(|position| (position.partition, position))
            .collect();
        newest.into_values().collect()
    }
}

fn parse_position(text: &str) -> Result<(Partition, i64), InvalidValue> {
    let wrong = || {
        InvalidValue::new(format!(
            "is {text:?}; must be a position, <partition>:<offset> as 17:42"
        ))
    };
    let (partition, offset) = text.split_once(':').ok_or_else(wrong)?;
    let offset: i64 = offset.parse().map_err(|_| wrong())?;
    if offset < 0 {
        return Err(wrong());
    }
    let partition = partition.parse::<i64>().map_err(|_| wrong())?;
    Ok((partition.try_into()?, offset))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_round_trip(partition in 0..64_i64, offset in 0..=i64::MAX) {
            let position = InboundPosition { partition: partition.try_into().unwrap(), offset };
            prop_assert_eq!(position.to_string().parse::<InboundPosition>().unwrap(), position);
        }
    }

    #[test]
    fn positions_out_of_range_are_refused() {
        for text in ["64:1", "-1:1", "1:-1", "1", ":", "a:b", "1:2:3", ""] {
            assert!(text.parse::<InboundPosition>().is_err(), "{text}");
        }
    }
}
