//! The rules that follow from the log for a control record.

use schemas::{command::Control, dead_letter::Reason, event::Rules};

use super::expected::Expected;

pub(super) fn expected_of_control(control: &Control, rules: &Rules) -> Expected {
    let after = rules_after(control, rules);
    let longest_window = match after.rule_version {
        1 => 36_500 * 86_400_000,
        _ => 49 * 86_400_000,
    };
    let is_valid = after.rule_version >= rules.rule_version.max(1)
        && (0..=longest_window).contains(&after.dedup_window_ms)
        && (1..=10_000_000).contains(&after.dedup_max_entries)
        && (1..=65_535).contains(&after.max_msg_bytes)
        && (after.rule_version < 2 || is_valid_version_2(control, rules, &after))
        && (after.rule_version < 3 || is_valid_version_3(&after))
        && (0..=1_000_000).contains(&after.new_memberships_per_day)
        && (0..=1_000_000).contains(&after.max_memberships_by_others);
    if is_valid {
        Expected::Event
    } else {
        Expected::Refused(Reason::InvalidControl)
    }
}

fn is_valid_version_2(control: &Control, before: &Rules, after: &Rules) -> bool {
    has_the_key(control, before)
        && (1..=10_000_000).contains(&after.dedup_max_per_sender)
        && (0..=1_000_000).contains(&after.new_conversations_per_day)
}

fn is_valid_version_3(after: &Rules) -> bool {
    (-1..=86_400_000).contains(&after.recall_window_ms)
        && (1..=1_000_000).contains(&after.max_group_members)
}

/// The rules that a valid control record leads to: what it asks for, and the rest unchanged, or the defaults of its version.
fn rules_after(control: &Control, before: &Rules) -> Rules {
    let version = control.rule_version.unwrap_or(before.rule_version);
    let mut after = Rules {
        rule_version: version,
        dedup_window_ms: control.dedup_window_ms.unwrap_or(before.dedup_window_ms),
        dedup_max_entries: control
            .dedup_max_entries
            .unwrap_or(before.dedup_max_entries),
        max_msg_bytes: control.max_msg_bytes.unwrap_or(before.max_msg_bytes),
        ..*before
    };
    let or = |since, begin, goes_on| {
        if before.rule_version < since {
            begin
        } else {
            goes_on
        }
    };
    if version >= 2 {
        let given = control.hash_key.as_deref();
        after.hash_key = before
            .hash_key
            .or_else(|| given.and_then(|key| key.try_into().ok()));
        after.dedup_max_per_sender =
            control
                .dedup_max_per_sender
                .unwrap_or(or(2, 100_000, before.dedup_max_per_sender));
        after.new_conversations_per_day = control.new_conversations_per_day.unwrap_or(or(
            2,
            20,
            before.new_conversations_per_day,
        ));
    }
    if version >= 3 {
        after.recall_window_ms =
            control
                .recall_window_ms
                .unwrap_or(or(3, 120_000, before.recall_window_ms));
        after.delete_for_all = control.delete_for_all.unwrap_or(before.delete_for_all);
        after.max_group_members =
            control
                .max_group_members
                .unwrap_or(or(3, 10_000, before.max_group_members));
    }
    if version >= 4 {
        after.new_memberships_per_day =
            control
                .new_memberships_per_day
                .unwrap_or(or(4, 1_000, before.new_memberships_per_day));
        after.max_memberships_by_others = control.max_memberships_by_others.unwrap_or(or(
            4,
            100,
            before.max_memberships_by_others,
        ));
    }
    after
}

/// The first rule of an event that does not follow from its control record.
pub(super) fn mismatched_rule(
    control: &Control,
    before: &Rules,
    found: &Rules,
) -> Option<&'static str> {
    rules_after(control, before).first_difference(found)
}

/// Whether there is a valid key after the control record, as from version 2 on, and a key in force does not change.
fn has_the_key(control: &Control, rules: &Rules) -> bool {
    match (&control.hash_key, &rules.hash_key) {
        (None, in_force) => in_force.is_some(),
        (Some(given), None) => given.len() == 16,
        (Some(given), Some(key)) => given == key.bytes(),
    }
}
