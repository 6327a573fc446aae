//! The bounds of the rules, and how a control record changes them (PROTOCOL S5).

use std::ops::RangeInclusive;

use schemas::{
    command::Control,
    event::{Rules, UnknownRules},
};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Up to a century: a demonstration may want to find its own messages years later.
const DEDUP_WINDOW_MS: RangeInclusive<i64> = 0..=36_500 * DAY_MS;
/// Ten million entries are about a gigabyte.
const DEDUP_MAX_ENTRIES: RangeInclusive<i64> = 1..=10_000_000;
/// What MySQL's TEXT holds, and far below what fits a record of `chat.events` (PROTOCOL S6).
const MAX_MSG_BYTES: RangeInclusive<i64> = 1..=65_535;

/// The effect of a control record.
pub(super) enum Change {
    /// These rules hold from here on.
    To(Rules),
    /// A setting is outside its bounds; the text says which and what is right.
    OutOfBounds(String),
    /// A version that this binary lacks.
    Unknown(UnknownRules),
}

/// The rules after a control record.
pub(super) fn change(rules: Rules, control: &Control) -> Change {
    let changed = Rules {
        rule_version: control.rule_version.unwrap_or(rules.rule_version),
        dedup_window_ms: control.dedup_window_ms.unwrap_or(rules.dedup_window_ms),
        dedup_max_entries: control.dedup_max_entries.unwrap_or(rules.dedup_max_entries),
        max_msg_bytes: control.max_msg_bytes.unwrap_or(rules.max_msg_bytes),
    };
    if let Err(unknown) = changed.check_version() {
        return Change::Unknown(unknown);
    }
    match out_of_bounds(&changed) {
        Some(wrong) => Change::OutOfBounds(wrong),
        None => Change::To(changed),
    }
}

fn out_of_bounds(rules: &Rules) -> Option<String> {
    let settings = [
        ("rule_version", i64::from(rules.rule_version), 1..=i64::MAX),
        ("dedup_window_ms", rules.dedup_window_ms, DEDUP_WINDOW_MS),
        (
            "dedup_max_entries",
            rules.dedup_max_entries,
            DEDUP_MAX_ENTRIES,
        ),
        ("max_msg_bytes", rules.max_msg_bytes, MAX_MSG_BYTES),
    ];
    settings
        .into_iter()
        .find(|(_, value, bounds)| !bounds.contains(value))
        .map(|(name, value, bounds)| {
            format!(
                "{name}: {value} is not within {} and {}",
                bounds.start(),
                bounds.end()
            )
        })
}
