//! A device's token: how far it has followed each partition of `chat.events`.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{InvalidValue, NextOffset, PARTITIONS, Partition, PartitionMap};

/// Another version is another format.
const VERSION: u8 = 1;
/// Version, epoch, and how many bytes an offset has.
const HEADER_BYTES: usize = 6;

/// How far a device has followed each partition of `chat.events`: it knows everything of its user below these offsets. Opaque to devices: at most 512
/// characters while offsets are below 2^40.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncToken {
    epoch: u32,
    next: PartitionMap<NextOffset>,
    page: Option<SyncPage>,
}

/// Where a sync that has more pages goes on. Partitions below are done; those above are as they were before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPage {
    /// The partition whose rows come next.
    pub partition: Partition,
    /// Whether its direct conversations are done, and groups come next.
    pub in_groups: bool,
    /// The peer or gid of the last row that was returned of it; 0 before the first.
    pub after: i64,
    /// What the token says of the partition once it is done: how far the stores were when it was begun.
    pub applied: NextOffset,
    /// The sync returns everything, not what has changed.
    pub full: bool,
}

impl SyncToken {
    /// A partition without an entry is followed from its start.
    #[must_use]
    pub fn new(epoch: u32, next: &PartitionMap<NextOffset>) -> Self {
        let of = |partition| next.get(partition).copied().unwrap_or_default();
        Self {
            epoch,
            next: PartitionMap::full(of),
            page: None,
        }
    }

    /// The same token, in the middle of a sync.
    #[must_use]
    pub fn with_page(self, page: Option<SyncPage>) -> Self {
        Self { page, ..self }
    }

    /// Where a sync goes on; `None` where it is done.
    #[must_use]
    pub fn page(&self) -> Option<SyncPage> {
        self.page
    }

    /// The epoch of `chat.inbound` under which it was made. A token of another one is worth nothing.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The offset of the first event of a partition that the device may not know.
    #[must_use]
    pub fn get(&self, partition: Partition) -> NextOffset {
        self.next[partition]
    }

    /// Everything of a partition below `next` is known. A token never goes back.
    pub fn advance(&mut self, partition: Partition, next: NextOffset) {
        let known = &mut self.next[partition];
        *known = next.max(*known);
    }
}

impl fmt::Display for SyncToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = self.next.values().map(|next| next.get()).max().unwrap_or(0);
        let width = (8 - largest.leading_zeros() as usize / 8).max(1);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + width * PARTITIONS as usize);
        bytes.push(VERSION);
        bytes.extend(self.epoch.to_be_bytes());
        bytes.push(width as u8);
        for next in self.next.values() {
            bytes.extend(&next.get().to_be_bytes()[8 - width..]);
        }
        if let Some(page) = &self.page {
            let flags = u8::from(page.in_groups) | u8::from(page.full) << 1;
            bytes.extend([page.partition.get(), flags]);
            bytes.extend(page.after.to_be_bytes());
            bytes.extend(page.applied.get().to_be_bytes());
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for SyncToken {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        parse(text).ok_or_else(|| {
            InvalidValue::new(
                "is no token; must be one of an answer or a frame, as it came".to_owned(),
            )
        })
    }
}

fn parse(text: &str) -> Option<SyncToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (header, offsets) = bytes.split_at_checked(HEADER_BYTES)?;
    let (&[VERSION, ref epoch @ .., width], true) = (header, !offsets.is_empty()) else {
        return None;
    };
    let width = usize::from(width);
    if !(1..=8).contains(&width) {
        return None;
    }
    let (offsets, page) = offsets.split_at_checked(width * PARTITIONS as usize)?;
    let mut next = PartitionMap::new();
    for (partition, offset) in Partition::all().zip(offsets.chunks(width)) {
        let mut padded = [0; 8];
        padded[8 - width..].copy_from_slice(offset);
        let offset = i64::from_be_bytes(padded);
        next.insert(partition, (offset >= 0).then(|| NextOffset::new(offset))?);
    }
    let page = match page {
        [] => None,
        page => Some(parse_page(page)?),
    };
    Some(SyncToken {
        epoch: u32::from_be_bytes(epoch.try_into().ok()?),
        next,
        page,
    })
}

fn parse_page(bytes: &[u8]) -> Option<SyncPage> {
    let &[partition, flags @ 0..=3, ref numbers @ ..] = bytes else {
        return None;
    };
    let numbers: &[u8; 16] = numbers.try_into().ok()?;
    let (after, applied) = numbers.split_at(8);
    let after = i64::from_be_bytes(after.try_into().ok()?);
    let applied = i64::from_be_bytes(applied.try_into().ok()?);
    Some(SyncPage {
        partition: i64::from(partition).try_into().ok()?,
        in_groups: flags & 1 != 0,
        after: (after >= 0).then_some(after)?,
        applied: (applied >= 0).then(|| NextOffset::new(applied))?,
        full: flags & 2 != 0,
    })
}

impl Serialize for SyncToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SyncToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(epoch: u32, offsets: &[i64]) -> SyncToken {
        let offsets = Partition::all().zip(offsets.iter().cycle());
        let next = offsets.map(|(partition, offset)| (partition, NextOffset::new(*offset)));
        SyncToken::new(epoch, &next.collect())
    }

    proptest! {
        #[test]
        fn a_token_is_read_as_it_was_written(epoch: u32, offsets in prop::collection::vec(0..i64::MAX, 64), shift in 0..63) {
            let offsets: Vec<i64> = offsets.iter().map(|offset| offset >> shift).collect();
            let token = token(epoch, &offsets);
            prop_assert_eq!(token.to_string().parse::<SyncToken>().unwrap(), token);
        }

        #[test]
        fn whatever_comes_is_a_token_or_none(text in "[A-Za-z0-9_-]{0,600}") {
            if let Ok(token) = text.parse::<SyncToken>() {
                prop_assert_eq!(token.to_string().parse::<SyncToken>().unwrap(), token);
            }
        }
    }

    #[test]
    fn a_token_is_short() {
        let page = SyncPage {
            partition: Partition::try_from(63).unwrap(),
            in_groups: true,
            after: i64::MAX,
            applied: NextOffset::new((1 << 40) - 1),
            full: true,
        };
        let longest = token(u32::MAX, &[(1 << 40) - 1]).with_page(Some(page));
        assert!(longest.to_string().len() <= 512);
        assert_eq!(longest.to_string().parse::<SyncToken>().unwrap(), longest);
        assert!(token(0, &[0]).to_string().len() <= 100);
    }

    #[test]
    fn what_is_no_token_is_named() {
        let whole = token(1, &[5, 300]).to_string();
        for text in ["", "x", "AAAA", &whole[1..], &format!("{whole}AAAA"), "%%%"] {
            assert!(text.parse::<SyncToken>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_never_goes_back() {
        let mut token = token(0, &[7]);
        let partition = Partition::try_from(3).unwrap();
        token.advance(partition, NextOffset::new(5));
        assert_eq!(token.get(partition).get(), 7);
        token.advance(partition, NextOffset::new(9));
        assert_eq!(token.get(partition).get(), 9);
    }
}
