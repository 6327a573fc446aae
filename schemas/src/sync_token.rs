//! A device's token: how far it has followed each partition of `chat.events`.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{InvalidValue, NextOffset, PARTITIONS, Partition, PartitionMap};

/// Another version has another format.
const VERSION: u8 = 1;
/// Versions up to this one may come from another version of the program. Bytes that begin with another number are not a token.
const LAST_VERSION: u8 = 15;
/// Version, epoch, and the number of bytes of an offset.
const HEADER_BYTES: usize = 6;

/// How far a device has followed each partition of `chat.events`: it knows everything of its user below these offsets. Opaque to devices: at most 512
/// characters while offsets are below 2^40.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncToken {
    epoch: u32,
    next: PartitionMap<NextOffset>,
    page: Option<SyncPage>,
}

/// Where a sync with more pages continues. Partitions below `partition` are done; those above are as they were before the sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPage {
    /// The partition whose rows come next.
    pub partition: Partition,
    /// Whether its direct conversations are done, and groups come next.
    pub in_groups: bool,
    /// The peer or gid of the partition's last row that was returned; 0 before the first.
    pub after: i64,
    /// The partition's entry in the token once it is done: how far the stores were when it was begun.
    pub applied: NextOffset,
    /// Whether the sync returns everything, not only what has changed.
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

    /// Parses a token that another version of this program may have made: `None` if its version is not known here.
    ///
    /// # Errors
    /// [`InvalidValue`] if the text is not a token of any version.
    pub fn parse_any_version(text: &str) -> Result<Option<Self>, InvalidValue> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| no_token())?;
        match bytes.first() {
            Some(&VERSION) => parse(&bytes).map(Some).ok_or_else(no_token),
            Some(1..=LAST_VERSION) => Ok(None),
            Some(_) | None => Err(no_token()),
        }
    }

    /// The same token, in the middle of a sync.
    #[must_use]
    pub fn with_page(self, page: Option<SyncPage>) -> Self {
        Self { page, ..self }
    }

    /// Where the current sync continues; `None` if no sync is under way.
    #[must_use]
    pub fn page(&self) -> Option<SyncPage> {
        self.page
    }

    /// Whether a sync is under way that returns everything.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.page.is_some_and(|page| page.full)
    }

    /// The epoch of `chat.inbound` under which the token was made. A token of another epoch is worthless.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The offset of the first event of a partition that the device may not know.
    #[must_use]
    pub fn get(&self, partition: Partition) -> NextOffset {
        self.next[partition]
    }

    /// Whether the device knows the event at `offset`, if the event concerns its user.
    #[must_use]
    pub fn covers(&self, partition: Partition, offset: i64) -> bool {
        offset < self.get(partition).get()
    }

    /// Marks everything of a partition below `next` as known. A token never goes back.
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

/// Parses a token of this version only.
impl FromStr for SyncToken {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::parse_any_version(text)?.ok_or_else(no_token)
    }
}

fn no_token() -> InvalidValue {
    InvalidValue::new("is no token; must be the token of an answer, as it came")
}

fn parse(bytes: &[u8]) -> Option<SyncToken> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let &[VERSION, ref epoch @ .., width @ 1..=8] = header else {
        return None;
    };
    let width = usize::from(width);
    let (offsets, page) = rest.split_at_checked(width * PARTITIONS as usize)?;
    let mut next = PartitionMap::new();
    for (partition, offset) in Partition::all().zip(offsets.chunks(width)) {
        let mut padded = [0; 8];
        padded[8 - width..].copy_from_slice(offset);
        next.insert(partition, offset_of(padded)?);
    }
    let page = match page {
        [] => None,
        page => Some(parse_page(page)?),
    };
    Some(SyncToken {
        epoch: u32::from_be_bytes(*epoch),
        next,
        page,
    })
}

fn parse_page(bytes: &[u8]) -> Option<SyncPage> {
    let &[partition, flags @ 0..=3, ref numbers @ ..] = bytes else {
        return None;
    };
    let (after, applied) = numbers.split_first_chunk::<8>()?;
    let after = i64::from_be_bytes(*after);
    Some(SyncPage {
        partition: i64::from(partition).try_into().ok()?,
        in_groups: flags & 1 != 0,
        after: (after >= 0).then_some(after)?,
        applied: offset_of(applied.try_into().ok()?)?,
        full: flags & 2 != 0,
    })
}

fn offset_of(bytes: [u8; 8]) -> Option<NextOffset> {
    let offset = i64::from_be_bytes(bytes);
    (offset >= 0).then(|| NextOffset::new(offset))
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
    use proptest::{option, prelude::*};

    use super::*;

    fn token(epoch: u32, offsets: &[i64]) -> SyncToken {
        let offsets = Partition::all().zip(offsets.iter().cycle());
        let next = offsets.map(|(partition, offset)| (partition, NextOffset::new(*offset)));
        SyncToken::new(epoch, &next.collect())
    }

    fn page() -> impl Strategy<Value = SyncPage> {
        let numbers = (0..64_i64, 0..=i64::MAX, 0..=i64::MAX);
        (numbers, any::<bool>(), any::<bool>()).prop_map(
            |((partition, after, applied), in_groups, full)| SyncPage {
                partition: partition.try_into().unwrap(),
                in_groups,
                after,
                applied: NextOffset::new(applied),
                full,
            },
        )
    }

    fn partition(number: i64) -> Partition {
        number.try_into().unwrap()
    }

    proptest! {
        #[test]
        fn a_token_is_read_as_it_was_written(
            epoch: u32,
            offsets in prop::collection::vec(0..=i64::MAX, 64),
            shift in 0..63,
            page in option::of(page()),
        ) {
            let offsets: Vec<i64> = offsets.iter().map(|offset| offset >> shift).collect();
            let token = token(epoch, &offsets).with_page(page);
            prop_assert_eq!(&token.to_string().parse::<SyncToken>().unwrap(), &token);
            let json = serde_json::to_string(&token).unwrap();
            prop_assert_eq!(&serde_json::from_str::<SyncToken>(&json).unwrap(), &token);
        }

        #[test]
        fn offsets_below_2_to_the_40_take_at_most_512_characters(
            offsets in prop::collection::vec(0..1_i64 << 40, 64),
            page in option::of(page()),
        ) {
            let text = token(u32::MAX, &offsets).with_page(page).to_string();
            prop_assert!(text.len() <= 512, "{}", text.len());
            prop_assert!(text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_'));
        }

        #[test]
        fn whatever_comes_is_a_token_or_none(text in "A[Q-f][A-Za-z0-9_-]{0,600}") {
            if let Ok(token) = text.parse::<SyncToken>() {
                prop_assert_eq!(token.to_string().parse::<SyncToken>().unwrap(), token);
            }
        }

        #[test]
        fn what_is_covered_is_below_the_entry_and_an_entry_only_rises(
            first in 0..1_000_i64,
            second in 0..1_000_i64,
            offset in 0..1_000_i64,
        ) {
            let mut token = token(0, &[first]);
            token.advance(partition(3), NextOffset::new(second));
            prop_assert_eq!(token.get(partition(3)).get(), first.max(second));
            prop_assert_eq!(token.get(partition(4)).get(), first);
            prop_assert_eq!(token.covers(partition(3), offset), offset < first.max(second));
        }
    }

    #[test]
    fn a_new_token_is_as_short_as_its_offsets() {
        assert_eq!(token(0, &[0]).to_string().len(), 94);
        assert_eq!(token(0, &[255]).to_string().len(), 94);
        assert_eq!(token(0, &[256]).to_string().len(), 179);
    }

    #[test]
    fn what_is_no_token_is_named() {
        let whole = token(1, &[5, 300]).to_string();
        let (cut, longer) = (&whole[..whole.len() - 4], format!("{whole}AAAA"));
        for text in ["", "x", "AAAA", "garbage", &whole[4..], cut, &longer, "%%%"] {
            let error = text.parse::<SyncToken>().unwrap_err().to_string();
            assert!(error.contains("as it came"), "{text}: {error}");
            assert!(SyncToken::parse_any_version(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_of_another_version_is_one_and_says_nothing_here() {
        let mut bytes = URL_SAFE_NO_PAD.decode(token(1, &[5]).to_string()).unwrap();
        bytes[0] = VERSION + 1;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        assert_eq!(SyncToken::parse_any_version(&text), Ok(None));
        assert!(text.parse::<SyncToken>().is_err());
    }
}
