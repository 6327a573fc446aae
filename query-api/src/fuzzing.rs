//! What the fuzz targets in `fuzz/` run, and `tests/fuzzed.rs` over what they found. No part of the API.

use schemas::{InboundPosition, UserId};

use crate::cursor;

/// A cursor: the first 8 bytes are whose list it is of, the rest is the text. The text is read as a position of `after=`, too.
///
/// # Panics
/// A cursor is taken that is not written the same, or by another user than its own.
pub fn cursor(data: &[u8]) {
    let Some((uid, text)) = data.split_first_chunk::<8>() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if let Ok(position) = text.parse::<InboundPosition>() {
        assert_eq!(position.to_string().parse(), Ok(position));
    }
    let Ok(uid) = UserId::try_from(i64::from_be_bytes(*uid)) else {
        return;
    };
    if let Ok(place) = cursor::decode(uid, text) {
        assert_eq!(cursor::encode(uid, place), text);
        if let Ok(other) = UserId::try_from(uid.get() ^ 1) {
            assert!(
                cursor::decode(other, text).is_err(),
                "another user's cursor is taken"
            );
        }
    }
    // Flipping one bit of a good one must not make another good one.
    let place = message_store::ContactCursor {
        last_ts: schemas::TimestampMs(uid.get()),
        peer: uid,
    };
    let mut good = cursor::encode(uid, place).into_bytes();
    let at = text.len() % good.len();
    good[at] = good[at].wrapping_add(1 + (text.len() % 254) as u8);
    if let Ok(damaged) = String::from_utf8(good) {
        assert!(cursor::decode(uid, &damaged).is_err(), "{damaged}");
    }
}
