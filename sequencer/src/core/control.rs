//! The bounds of the rules, and how a control record changes them (PROTOCOL S5).

use std::ops::RangeInclusive;

use schemas::{
    HashKey,
    command::Control,
    event::{Rules, UnknownRules, known_version},
};

use super::{
    dedup::{DEDUP_MAX_ENTRIES, MAX_WINDOW_MS},
    recent_messages,
};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Up to a century.
const DEDUP_WINDOW_MS: RangeInclusive<i64> = 0..=36_500 * DAY_MS;
/// From rule version 2 on.
const KEYED_DEDUP_WINDOW_MS: RangeInclusive<i64> = 0..=MAX_WINDOW_MS;
const PER_DAY: RangeInclusive<i64> = 0..=1_000_000;
/// −1 means always.
const RECALL_WINDOW_MS: RangeInclusive<i64> = -1..=recent_messages::MAX_WINDOW_MS;
/// A million members are about 60 MB.
const MAX_GROUP_MEMBERS: RangeInclusive<i64> = 1..=1_000_000;
const MAX_MEMBERSHIPS_BY_OTHERS: RangeInclusive<i64> = 0..=1_000_000;
/// The size of MySQL's TEXT, far below the maximum record of `chat.events` (PROTOCOL S6).
const MAX_MSG_BYTES: RangeInclusive<i64> = 1..=65_535;

/// Why a control record cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRules {
    /// A setting is wrong; the text says which one and what is valid.
    #[error("{0}")]
    Setting(String),
    /// This program does not know the version.
    #[error(transparent)]
    Unknown(#[from] UnknownRules),
}

/// The rules after a control record.
///
/// # Errors
/// [`InvalidRules`], after which `rules` stay in force.
pub fn change(rules: Rules, control: &Control) -> Result<Rules, InvalidRules> {
    let mut changed = rules.changed_by(control);
    known_version(changed.rule_version)?;
    if changed.rule_version >= 2 {
        let key = hash_key(rules.hash_key, control.hash_key.as_deref())
            .map_err(|wrong| InvalidRules::Setting(format!("hash_key: {wrong}")))?;
        changed.hash_key = Some(key);
    }
    check_bounds(&changed, rules.rule_version)?;
    Ok(changed)
}

/// The key of rule version 2. It never changes, because entries are found by it.
fn hash_key(in_force: Option<HashKey>, given: Option<&[u8]>) -> Result<HashKey, String> {
    let given = given.map(HashKey::try_from).transpose();
    match (in_force, given.map_err(|e| e.to_string())?) {
        (Some(key), None) => Ok(key),
        (Some(key), Some(given)) if given == key => Ok(key),
        (Some(_), Some(_)) => Err("another one is in force, and cannot be replaced".to_owned()),
        (None, given) => given.ok_or_else(|| "absent; must be 16 random bytes".to_owned()),
    }
}

/// Checks every setting of the version. The version cannot decrease.
fn check_bounds(rules: &Rules, version_before: u32) -> Result<(), InvalidRules> {
    let Rules {
        rule_version,
        hash_key: _,
        dedup_window_ms,
        dedup_max_entries,
        max_msg_bytes,
        dedup_max_per_sender,
        new_conversations_per_day,
        recall_window_ms,
        delete_for_all: _,
        max_group_members,
        new_memberships_per_day,
        max_memberships_by_others,
    } = *rules;
    let window = match rule_version {
        1 => DEDUP_WINDOW_MS,
        _ => KEYED_DEDUP_WINDOW_MS,
    };
    let versions = i64::from(version_before)..=i64::MAX;
    let settings = [
        (0, "rule_version", rule_version.into(), versions),
        (1, "dedup_window_ms", dedup_window_ms, window),
        (1, "dedup_max_entries", dedup_max_entries, DEDUP_MAX_ENTRIES),
        (1, "max_msg_bytes", max_msg_bytes, MAX_MSG_BYTES),
        (
            2,
            "dedup_max_per_sender",
            dedup_max_per_sender,
            DEDUP_MAX_ENTRIES,
        ),
        (
            2,
            "new_conversations_per_day",
            new_conversations_per_day,
            PER_DAY,
        ),
        (3, "recall_window_ms", recall_window_ms, RECALL_WINDOW_MS),
        (3, "max_group_members", max_group_members, MAX_GROUP_MEMBERS),
        (
            4,
            "new_memberships_per_day",
            new_memberships_per_day,
            PER_DAY,
        ),
        (
            4,
            "max_memberships_by_others",
            max_memberships_by_others,
            MAX_MEMBERSHIPS_BY_OTHERS,
        ),
    ];
    for (since, name, value, bounds) in settings {
        if rule_version >= since && !bounds.contains(&value) {
            let (start, end) = (bounds.start(), bounds.end());
            let wrong = format!("{name}: {value} is not within {start} and {end}");
            return Err(InvalidRules::Setting(wrong));
        }
    }
    Ok(())
}
