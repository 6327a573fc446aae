//! The cursor of the conversation list: opaque to callers, versioned, and bound to the user to whom the list belongs.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use message_store::ContactCursor;
use problem::Problem;
use schemas::{GroupId, TimestampMs, UserId};

/// A cursor consists of the version, flags, the time, the number and the checksum.
const VERSION: u8 = 2;

/// The version before contacts could be pinned; its cursors have no byte of flags. They go on where they ended, among the contacts that are not
/// pinned: a list begun before an upgrade is read to its end, except for contacts pinned since.
const UNPINNED_VERSION: u8 = 1;

/// The largest time of a message: the last millisecond of the year 9999.
const LAST_TS: i64 = 253_402_300_799_999;

const PINNED: u8 = 1;
const GROUP: u8 = 2;

/// The checksum detects a damaged cursor, and a cursor of another user. It is not a secret: a cursor gives no access that its user lacks.
const CHECK_BYTES: usize = 8;

/// A position in a user's conversation list, which is in descending order: pinned ones first, then by the newest message, then by number; if a user
/// and a group have the same number, the user comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPosition {
    pub(crate) pinned: bool,
    pub(crate) last_ts: TimestampMs,
    /// The uid or gid, at least 1.
    pub(crate) number: i64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Group,
    User,
}

impl ListPosition {
    /// The position of a group, which cannot be pinned.
    pub(crate) fn of_group(gid: GroupId, last_ts: TimestampMs) -> Self {
        Self {
            pinned: false,
            last_ts,
            number: gid.get(),
            kind: Kind::Group,
        }
    }
}

impl From<ContactCursor> for ListPosition {
    fn from(cursor: ContactCursor) -> Self {
        Self {
            pinned: cursor.pinned,
            last_ts: cursor.last_ts,
            number: cursor.peer.get(),
            kind: Kind::User,
        }
    }
}

/// The contacts after the cursor are those after the position: the user with a group's number comes before the group.
impl From<ListPosition> for ContactCursor {
    fn from(position: ListPosition) -> Self {
        Self {
            pinned: position.pinned,
            last_ts: position.last_ts,
            peer: (position.number.try_into()).expect("a gid is 1 or more, as a uid is"),
        }
    }
}

/// Encodes the position after which the next page of `uid`'s list begins.
pub(crate) fn encode(uid: UserId, position: ListPosition) -> String {
    let mut bytes = Vec::new();
    bytes.push(VERSION);
    let kind = if position.kind == Kind::Group {
        GROUP
    } else {
        0
    };
    bytes.push(kind | u8::from(position.pinned));
    bytes.extend(position.last_ts.0.to_be_bytes());
    bytes.extend(position.number.to_be_bytes());
    bytes.extend(check(uid, &bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a cursor of `uid`.
///
/// # Errors
/// A problem that names the parameter.
pub(crate) fn decode(uid: UserId, text: &str) -> Result<ListPosition, Problem> {
    parse(uid, text).ok_or_else(|| {
        let right = "next of an earlier page of the same list, unchanged";
        Problem::invalid_field("cursor", "is not a cursor of this list", right)
    })
}

fn parse(uid: UserId, text: &str) -> Option<ListPosition> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (content, found) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    if *found != check(uid, content) {
        return None;
    }
    let (flags, position) = match content {
        [VERSION, flags @ 0..=3, position @ ..] => (*flags, position),
        [UNPINNED_VERSION, position @ ..] => (0, position),
        _ => return None,
    };
    let (last_ts, number) = position.split_first_chunk::<8>()?;
    let number = i64::from_be_bytes(number.try_into().ok()?);
    // The check is not secret, so a caller can make a cursor with any time.
    let last_ts = Some(i64::from_be_bytes(*last_ts)).filter(|ms| (0..=LAST_TS).contains(ms))?;
    Some(ListPosition {
        pinned: flags & PINNED != 0,
        last_ts: TimestampMs(last_ts),
        number: Some(number).filter(|number| *number > 0)?,
        kind: if flags & GROUP == 0 {
            Kind::User
        } else {
            Kind::Group
        },
    })
}

fn check(uid: UserId, content: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"conversations of ");
    hasher.update(&uid.get().to_be_bytes());
    hasher.update(content);
    let mut check = [0; CHECK_BYTES];
    hasher.finalize_xof().fill(&mut check);
    check
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn cursor(pinned: bool, last_ts: i64, number: i64, kind: Kind) -> ListPosition {
        ListPosition {
            pinned,
            last_ts: TimestampMs(last_ts),
            number,
            kind,
        }
    }

    fn kind(is_group: bool) -> Kind {
        if is_group { Kind::Group } else { Kind::User }
    }

    proptest! {
        #[test]
        fn cursors_round_trip(uid in 1..=i64::MAX, pinned in any::<bool>(), ts in 0..=LAST_TS, number in 1..=i64::MAX, group in any::<bool>()) {
            let position = cursor(pinned, ts, number, kind(group));
            prop_assert_eq!(decode(user(uid), &encode(user(uid), position)).unwrap(), position);
        }

        #[test]
        fn a_forged_cursor_is_of_a_time_that_a_list_has(ts in any::<i64>(), number in any::<i64>(), flags in any::<u8>(), version in 0..=VERSION) {
            let mut bytes = vec![version];
            bytes.extend((version == VERSION).then_some(flags));
            bytes.extend(ts.to_be_bytes());
            bytes.extend(number.to_be_bytes());
            bytes.extend(check(user(7), &bytes));
            if let Ok(position) = decode(user(7), &URL_SAFE_NO_PAD.encode(bytes)) {
                prop_assert!((0..=LAST_TS).contains(&position.last_ts.0) && position.number > 0);
                prop_assert!(ContactCursor::from(position).peer.get() > 0);
            }
        }

        #[test]
        fn one_changed_character_is_noticed(at in 0_usize..35, to in "[A-Za-z0-9_=+/ -]") {
            let good = encode(user(7), cursor(true, 1_763_712_000_000, 9, Kind::Group));
            let mut bad = good.clone();
            bad.replace_range(at..=at, &to);
            prop_assume!(bad != good);
            prop_assert!(decode(user(7), &bad).is_err());
        }

        #[test]
        fn no_text_panics(text in ".{0,80}") {
            let _ = decode(user(7), &text);
        }
    }

    #[test]
    fn the_list_of_another_user_is_another_list() {
        let cursor = encode(user(7), cursor(false, 5, 9, Kind::User));
        assert_eq!(cursor.len(), 35);
        assert!(decode(user(8), &cursor).is_err());
        assert_eq!(decode(user(7), "").unwrap_err().errors[0].field, "cursor");
    }

    #[test]
    fn a_list_that_was_begun_before_an_upgrade_goes_on() {
        let mut bytes = vec![UNPINNED_VERSION];
        bytes.extend(5_i64.to_be_bytes());
        bytes.extend(9_i64.to_be_bytes());
        let without_check = URL_SAFE_NO_PAD.encode(&bytes);
        assert!(decode(user(7), &without_check).is_err());
        bytes.extend(check(user(7), &bytes));
        let text = URL_SAFE_NO_PAD.encode(&bytes);
        assert_eq!(
            decode(user(7), &text).unwrap(),
            cursor(false, 5, 9, Kind::User)
        );
        assert!(decode(user(8), &text).is_err());
    }
}
