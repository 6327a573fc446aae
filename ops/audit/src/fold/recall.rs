//! Whether a message may still be recalled.

use schemas::dead_letter::Reason;

use super::{expected::Expected, state_before::StateBefore};

/// The expected outcome of an author's recall. The message is `back` messages before the newest, whose place in the recall window is `last_place`.
pub(super) fn expected_by_window(
    (last_place, back): (u64, i64),
    before: &StateBefore<'_>,
) -> Expected {
    let window = match before.rules.recall_window_ms {
        ..0 => return Expected::Event,
        0 => return Expected::Refused(Reason::NotAllowed),
        window => window,
    };
    match before.recent.written(last_place, back) {
        Some(ts) if before.now.saturating_sub(ts) <= window => Expected::Event,
        _ => Expected::Refused(Reason::TooLate),
    }
}
