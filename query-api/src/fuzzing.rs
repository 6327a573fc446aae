//! The code under test of the fuzz targets in `fuzz/`, and of `tests/fuzzed.rs` with their findings. Not part of the API.

use schemas::{InboundPosition, UserId};

use crate::cursor;

/// Decodes a cursor: the first 8 bytes are the user, the rest is the text, which is also parsed as a position of `after=`.
///
/// # Panics
/// If a cursor is accepted that is not encoded the same, or that is of another user.
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
    if let Ok(decoded) = cursor::decode(uid, text) {
        let encoded = cursor::encode(uid, decoded);
        // A cursor of the previous version is shorter.
        assert!(encoded == text || text.len() < encoded.len());
        if let Ok(other) = UserId::try_from(uid.get() ^ 1) {
            assert!(
                cursor::decode(other, text).is_err(),
                "another user's cursor is accepted"
            );
        }
    }
    // Changing one byte of a valid cursor must invalidate it.
    let after = cursor::ListPosition {
        pinned: uid.get() % 2 == 0,
        last_ts: schemas::TimestampMs(uid.get()),
        number: uid.get(),
        kind: cursor::Kind::Group,
    };
    let mut damaged = cursor::encode(uid, after).into_bytes();
    let at = text.len() % damaged.len();
    damaged[at] = damaged[at].wrapping_add(1 + (text.len() % 254) as u8);
    if let Ok(damaged) = String::from_utf8(damaged) {
        assert!(cursor::decode(uid, &damaged).is_err(), "{damaged}");
    }
}
