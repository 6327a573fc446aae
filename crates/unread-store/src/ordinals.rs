use std::{fmt, str::FromStr};

use schemas::{DeviceClass, InvalidValue, Ordinal, PerDevice};

/// A peer in a user's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOrdinals {
    /// The ordinal of the peer's newest message.
    pub ordinal: Ordinal,
    /// The ordinal of the last message read; `None` if it is unknown (PROTOCOL R5).
    pub read: PerDevice<Option<Ordinal>>,
}

/// How an unknown ordinal is written.
const UNKNOWN: &str = "?";

impl PeerOrdinals {
    /// A peer that has sent nothing.
    pub const NONE: Self = Self {
        ordinal: Ordinal::ZERO,
        read: PerDevice {
            pc: Some(Ordinal::ZERO),
            mobile: Some(Ordinal::ZERO),
        },
    };

    /// The number of unread messages on a class; `None` if it is unknown.
    #[must_use]
    pub fn unread(&self, device: DeviceClass) -> Option<i64> {
        let read = self.read[device]?;
        Some((self.ordinal.get() - read.get()).max(0))
    }

    /// `n`, `pc_n` and `mobile_n` as arguments of the scripts.
    pub(crate) fn as_args(&self) -> [String; 3] {
        let PerDevice { pc, mobile } = self.read.map(format_read);
        [self.ordinal.to_string(), pc, mobile]
    }
}

fn format_read(read: Option<Ordinal>) -> String {
    read.map_or_else(|| UNKNOWN.to_owned(), |n| n.to_string())
}

fn parse_read(text: &str) -> Result<Option<Ordinal>, InvalidValue> {
    if text == UNKNOWN {
        return Ok(None);
    }
    parse(text).map(Some)
}

fn parse(text: &str) -> Result<Ordinal, InvalidValue> {
    // A text that is not a number is rejected like a negative number.
    Ordinal::try_from(text.parse().unwrap_or(-1))
}

/// `n,pc_n,mobile_n`, as in the state.
impl fmt::Display for PeerOrdinals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_args().join(","))
    }
}

/// A text that is not `n,pc_n,mobile_n`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not n,pc_n,mobile_n")]
pub struct InvalidOrdinals(String);

impl FromStr for PeerOrdinals {
    type Err = InvalidOrdinals;

    fn from_str(text: &str) -> Result<Self, InvalidOrdinals> {
        let invalid = || InvalidOrdinals(text.to_owned());
        let parts: Vec<&str> = text.split(',').collect();
        let &[n, pc, mobile] = parts.as_slice() else {
            return Err(invalid());
        };
        Ok(Self {
            ordinal: parse(n).map_err(|_| invalid())?,
            read: PerDevice {
                pc: parse_read(pc).map_err(|_| invalid())?,
                mobile: parse_read(mobile).map_err(|_| invalid())?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_ordinal() -> impl Strategy<Value = Ordinal> {
        (0..1_i64 << 53).prop_map(|n| Ordinal::try_from(n).unwrap())
    }

    proptest! {
        #[test]
        fn ordinals_round_trip(
            n in any_ordinal(),
            pc in proptest::option::of(any_ordinal()),
            mobile in proptest::option::of(any_ordinal()),
        ) {
            let ordinals = PeerOrdinals { ordinal: n, read: PerDevice { pc, mobile } };
            prop_assert_eq!(ordinals.to_string().parse::<PeerOrdinals>().unwrap(), ordinals);
        }

        #[test]
        fn any_text_is_accepted_or_rejected(text in "[0-9?,x-]{0,12}") {
            if let Ok(ordinals) = text.parse::<PeerOrdinals>() {
                prop_assert_eq!(ordinals.to_string().parse::<PeerOrdinals>().unwrap(), ordinals);
            }
        }
    }

    #[test]
    fn unread_is_newest_minus_read_and_never_below_zero() {
        let ordinals: PeerOrdinals = "3,0,5".parse().unwrap();
        assert_eq!(ordinals.unread(DeviceClass::Pc), Some(3));
        assert_eq!(ordinals.unread(DeviceClass::Mobile), Some(0));
        let unknown: PeerOrdinals = "3,?,3".parse().unwrap();
        assert_eq!(unknown.unread(DeviceClass::Pc), None);
    }

    #[test]
    fn a_text_that_is_not_three_ordinals_is_rejected() {
        for text in [
            "", "1", "1,2", "1,2,3,4", "?,1,1", "1,-1,1", "a,b,c", "1,,1",
        ] {
            assert!(text.parse::<PeerOrdinals>().is_err(), "{text:?}");
        }
    }
}
