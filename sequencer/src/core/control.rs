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
/// The default of version 2: a tenth of that of `dedup_max_entries`.
const DEDUP_MAX_PER_SENDER: i64 = 100_000;
const NEW_CONVERSATIONS_PER_DAY: RangeInclusive<i64> = 0..=1_000_000;
/// The default of version 2: 1,280 over all partitions.
const DEFAULT_NEW_CONVERSATIONS_PER_DAY: i64 = 20;
/// −1 means always.
const RECALL_WINDOW_MS: RangeInclusive<i64> = -1..=recent_messages::MAX_WINDOW_MS;
/// The default of version 3: two minutes.
const DEFAULT_RECALL_WINDOW_MS: i64 = 120_000;
/// A million members are about 60 MB.
const MAX_GROUP_MEMBERS: RangeInclusive<i64> = 1..=1_000_000;
/// The default of version 3.
const DEFAULT_MAX_GROUP_MEMBERS: i64 = 10_000;
const NEW_MEMBERSHIPS_PER_DAY: RangeInclusive<i64> = 0..=1_000_000;
/// The default of version 4: one full command, 64,000 over all partitions.
const DEFAULT_NEW_MEMBERSHIPS_PER_DAY: i64 = 1_000;
const MAX_MEMBERSHIPS_BY_OTHERS: RangeInclusive<i64> = 0..=1_000_000;
/// The default of version 4: 6,400 over all partitions.
const DEFAULT_MAX_MEMBERSHIPS_BY_OTHERS: i64 = 100;
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
    let rule_version = control.rule_version.unwrap_or(rules.rule_version);
    known_version(rule_version)?;
    let changed = Rules {
        rule_version,
        dedup_window_ms: control.dedup_window_ms.unwrap_or(rules.dedup_window_ms),
        dedup_max_entries: control.dedup_max_entries.unwrap_or(rules.dedup_max_entries),
        max_msg_bytes: control.max_msg_bytes.unwrap_or(rules.max_msg_bytes),
        ..rules
    };
    let before = rules.rule_version;
    let changed = match rule_version {
        1 => changed,
        2 => version_2(changed, before, control)?,
        3 => version_3(version_2(changed, before, control)?, before, control),
        _ => version_4(
            version_3(version_2(changed, before, control)?, before, control),
            before,
            control,
        ),
    };
    check_bounds(&changed, rules.rule_version)?;
    Ok(changed)
}

/// Sets what version 2 adds.
fn version_2(rules: Rules, version_before: u32, control: &Control) -> Result<Rules, InvalidRules> {
    let (per_sender, per_day) = match version_before {
        1 => (DEDUP_MAX_PER_SENDER, DEFAULT_NEW_CONVERSATIONS_PER_DAY),
        _ => (rules.dedup_max_per_sender, rules.new_conversations_per_day),
    };
    let key = hash_key(rules.hash_key, control.hash_key.as_deref())
        .map_err(|wrong| InvalidRules::Setting(format!("hash_key: {wrong}")))?;
    Ok(Rules {
        hash_key: Some(key),
        dedup_max_per_sender: control.dedup_max_per_sender.unwrap_or(per_sender),
        new_conversations_per_day: control.new_conversations_per_day.unwrap_or(per_day),
        ..rules
    })
}

/// Sets what version 3 adds.
fn version_3(rules: Rules, version_before: u32, control: &Control) -> Rules {
    let (window_ms, members) = match version_before {
        1 | 2 => (DEFAULT_RECALL_WINDOW_MS, DEFAULT_MAX_GROUP_MEMBERS),
        _ => (rules.recall_window_ms, rules.max_group_members),
    };
    Rules {
        recall_window_ms: control.recall_window_ms.unwrap_or(window_ms),
        delete_for_all: control.delete_for_all.unwrap_or(rules.delete_for_all),
        max_group_members: control.max_group_members.unwrap_or(members),
        ..rules
    }
}

/// Sets what version 4 adds.
fn version_4(rules: Rules, version_before: u32, control: &Control) -> Rules {
    let (per_day, by_others) = match version_before {
        1..=3 => (
            DEFAULT_NEW_MEMBERSHIPS_PER_DAY,
            DEFAULT_MAX_MEMBERSHIPS_BY_OTHERS,
        ),
        _ => (
            rules.new_memberships_per_day,
            rules.max_memberships_by_others,
        ),
    };
    Rules {
        new_memberships_per_day: control.new_memberships_per_day.unwrap_or(per_day),
        max_memberships_by_others: control.max_memberships_by_others.unwrap_or(by_others),
        ..rules
    }
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
    let window_ms = match rules.rule_version {
        1 => DEDUP_WINDOW_MS,
        _ => KEYED_DEDUP_WINDOW_MS,
    };
    let version = i64::from(rules.rule_version);
    let of_version_1 = [
        ("rule_version", version, version_before.into()..=i64::MAX),
        ("dedup_window_ms", rules.dedup_window_ms, window_ms),
        (
            "dedup_max_entries",
            rules.dedup_max_entries,
            DEDUP_MAX_ENTRIES,
        ),
        ("max_msg_bytes", rules.max_msg_bytes, MAX_MSG_BYTES),
    ];
    let per_day = rules.new_conversations_per_day;
    let of_version_2 = [
        (
            "dedup_max_per_sender",
            rules.dedup_max_per_sender,
            DEDUP_MAX_ENTRIES,
        ),
        (
            "new_conversations_per_day",
            per_day,
            NEW_CONVERSATIONS_PER_DAY,
        ),
    ];
    let of_version_2 = of_version_2.into_iter().filter(|_| version >= 2);
    // Below version 3 it is 0, which is within the bounds.
    let window = ("recall_window_ms", rules.recall_window_ms, RECALL_WINDOW_MS);
    let members = (
        "max_group_members",
        rules.max_group_members,
        MAX_GROUP_MEMBERS,
    );
    let members = (version >= 3).then_some(members);
    // Below version 4 both are 0, which is within the bounds.
    let of_version_4 = [
        (
            "new_memberships_per_day",
            rules.new_memberships_per_day,
            NEW_MEMBERSHIPS_PER_DAY,
        ),
        (
            "max_memberships_by_others",
            rules.max_memberships_by_others,
            MAX_MEMBERSHIPS_BY_OTHERS,
        ),
    ];
    let later = of_version_2
        .chain([window])
        .chain(members)
        .chain(of_version_4);
    for (name, value, bounds) in of_version_1.into_iter().chain(later) {
        if !bounds.contains(&value) {
            let (start, end) = (bounds.start(), bounds.end());
            let wrong = format!("{name}: {value} is not within {start} and {end}");
            return Err(InvalidRules::Setting(wrong));
        }
    }
    Ok(())
}
