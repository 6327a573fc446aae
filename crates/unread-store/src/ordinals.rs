use std::{fmt, str::FromStr};

use schemas::{DeviceClass, InvalidId, Ordinal};

/// What a state holds of one peer: how many messages that peer sent, and how many of them were read on each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOrdinals {
    /// Of the peer's newest message.
    pub n: Ordinal,
    /// Of the last one read on a PC; `None` where that is unknown (PROTOCOL R5).
    pub pc_n: Option<Ordinal>,
    /// Of the last one read on a mobile; `None` where that is unknown.
    pub mobile_n: Option<Ordinal>,
}

/// How an unknown read ordinal is written.
const UNKNOWN: &str = "?";

impl PeerOrdinals {
    /// How many are unread on a class; `None` where that is unknown.
    #[must_use]
    pub fn unread(&self, device: DeviceClass) -> Option<i64> {
        let read = self.read(device)?;
        Some((self.n.get() - read.get()).max(0))
    }

    /// The ordinal read on a class.
    #[must_use]
    pub fn read(&self, device: DeviceClass) -> Option<Ordinal> {
        match device {
            DeviceClass::Pc => self.pc_n,
            DeviceClass::Mobile => self.mobile_n,
        }
    }

    /// `n`, `pc_n` and `mobile_n` as the scripts take them.
    pub(crate) fn as_args(&self) -> [String; 3] {
        [self.n.to_string(), spell(self.pc_n), spell(self.mobile_n)]
    }
}

fn spell(read: Option<Ordinal>) -> String {
    read.map_or_else(|| UNKNOWN.to_owned(), |n| n.to_string())
}

fn read(text: &str) -> Result<Option<Ordinal>, InvalidId> {
    if text == UNKNOWN {
        return Ok(None);
    }
    ordinal(text).map(Some)
}

fn ordinal(text: &str) -> Result<Ordinal, InvalidId> {
    // What is no number at all is refused as a number below 0 is.
    Ordinal::try_from(text.parse().unwrap_or(-1))
}

/// `n,pc_n,mobile_n`, as it stands in the state.
impl fmt::Display for PeerOrdinals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_args().join(","))
    }
}

/// A text that is not `n,pc_n,mobile_n`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not n,pc_n,mobile_n")]
pub struct NotOrdinals(String);

impl FromStr for PeerOrdinals {
    type Err = NotOrdinals;

    fn from_str(text: &str) -> Result<Self, NotOrdinals> {
        let wrong = || NotOrdinals(text.to_owned());
        let mut parts = text.split(',');
        let mut next = || parts.next().ok_or_else(wrong);
        let ordinals = Self {
            n: ordinal(next()?).map_err(|_| wrong())?,
            pc_n: read(next()?).map_err(|_| wrong())?,
            mobile_n: read(next()?).map_err(|_| wrong())?,
        };
        match parts.next() {
            None => Ok(ordinals),
            Some(_) => Err(wrong()),
        }
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
        fn they_round_trip(
            n in any_ordinal(),
            pc_n in proptest::option::of(any_ordinal()),
            mobile_n in proptest::option::of(any_ordinal()),
        ) {
            let ordinals = PeerOrdinals { n, pc_n, mobile_n };
            prop_assert_eq!(ordinals.to_string().parse::<PeerOrdinals>().unwrap(), ordinals);
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "[0-9?,x-]{0,12}") {
            if let Ok(ordinals) = text.parse::<PeerOrdinals>() {
                prop_assert_eq!(ordinals.to_string().parse::<PeerOrdinals>().unwrap(), ordinals);
            }
        }
    }

    #[test]
    fn unread_is_newest_less_read_and_never_below_zero() {
        let ordinals: PeerOrdinals = "3,0,5".parse().unwrap();
        assert_eq!(ordinals.unread(DeviceClass::Pc), Some(3));
        assert_eq!(ordinals.unread(DeviceClass::Mobile), Some(0));
        let unknown: PeerOrdinals = "3,?,3".parse().unwrap();
        assert_eq!(unknown.unread(DeviceClass::Pc), None);
    }

    #[test]
    fn what_is_not_three_ordinals_is_refused() {
        for text in [
            "", "1", "1,2", "1,2,3,4", "?,1,1", "1,-1,1", "a,b,c", "1,,1",
        ] {
            assert!(text.parse::<PeerOrdinals>().is_err(), "{text:?}");
        }
    }
}
