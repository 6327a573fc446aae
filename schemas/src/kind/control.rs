//! The rules of a partition, and the control record that changes them.

use serde::Serialize;

use crate::{
    HashKey,
    kind::{CommandKind, CommandScope, EventKind, Redrive, first_unequal},
    malformed::Malformed,
    proto,
};

/// A change of the sequencer's rules in one partition. `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The version of the rules that holds from this record on.
    pub rule_version: Option<u32>,
    /// How long, in log time, a client_msg_id is remembered, milliseconds.
    pub dedup_window_ms: Option<i64>,
    /// The largest number of dedup entries of the partition.
    pub dedup_max_entries: Option<i64>,
    /// The largest msg that is sequenced, bytes.
    pub max_msg_bytes: Option<i64>,
    /// The key of the hashes by which repeats are recognised. Its length is checked where it counts: rule version 1 ignores it.
    pub hash_key: Option<Vec<u8>>,
    /// The largest number of a sender's entries among the shared ones, and again as many of the sender's own. Rule version 1 ignores it.
    pub dedup_max_per_sender: Option<i64>,
    /// How many conversations a user may begin in the partition in a day of log time, 0 for any number. Rule version 1 ignores it.
    pub new_conversations_per_day: Option<i64>,
    /// How long, in log time, an author may recall a message, milliseconds; 0 for never, −1 for always. Ignored below rule version 3.
    pub recall_window_ms: Option<i64>,
    /// Whether a message may be deleted for both sides. Ignored below rule version 3.
    pub delete_for_all: Option<bool>,
    /// The most members of a group. Ignored below rule version 3.
    pub max_group_members: Option<i64>,
    /// The largest number of users, oneself included, that a user may make members of groups in the partition in a day of log time; 0 for any number.
    /// Ignored below rule version 4.
    pub new_memberships_per_day: Option<i64>,
    /// The largest number of groups of the partition that a user may be in by being added by others; 0 for any number. Ignored below rule version 4.
    pub max_memberships_by_others: Option<i64>,
}

/// The settings of the sequencer in one partition, as of a control event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// The version of the rules; a program that does not know it stops.
    pub rule_version: u32,
    /// How long, in log time, a client_msg_id is remembered, milliseconds.
    pub dedup_window_ms: i64,
    /// The largest number of dedup entries of the partition.
    pub dedup_max_entries: i64,
    /// The largest msg that is sequenced, bytes.
    pub max_msg_bytes: i64,
    /// The key of the hashes by which repeats are recognised; `None` below rule version 2.
    #[serde(skip)]
    pub hash_key: Option<HashKey>,
    /// The largest number of a sender's entries among the shared ones, and again as many of the sender's own; 0 below rule version 2.
    pub dedup_max_per_sender: i64,
    /// How many conversations a user may begin in the partition in a day of log time; 0 for any number.
    pub new_conversations_per_day: i64,
    /// How long, in log time, an author may recall a message, milliseconds; 0 for never, −1 for always. 0 below rule version 3.
    pub recall_window_ms: i64,
    /// Whether a message may be deleted for both sides; false below rule version 3.
    pub delete_for_all: bool,
    /// The most members of a group; 0 below rule version 3.
    pub max_group_members: i64,
    /// The largest number of users, oneself included, that a user may make members of groups in the partition in a day of log time; 0 for any number,
    /// and below rule version 4.
    pub new_memberships_per_day: i64,
    /// The largest number of groups of the partition that a user may be in by being added by others; 0 for any number, and below rule version 4.
    pub max_memberships_by_others: i64,
}

impl Rules {
    /// Rule version 1, which holds in a partition until a control record changes it. 65,535 bytes are what MySQL's TEXT holds.
    pub const VERSION_1: Self = Self {
        rule_version: 1,
        dedup_window_ms: 3 * 24 * 3600 * 1000,
        dedup_max_entries: 1_000_000,
        max_msg_bytes: 65_535,
        hash_key: None,
        dedup_max_per_sender: 0,
        new_conversations_per_day: 0,
        recall_window_ms: 0,
        delete_for_all: false,
        max_group_members: 0,
        new_memberships_per_day: 0,
        max_memberships_by_others: 0,
    };
}

impl TryFrom<proto::Control> for Control {
    type Error = Malformed;

    fn try_from(control: proto::Control) -> Result<Self, Malformed> {
        let settings = [
            ("dedup_window_ms", control.dedup_window_ms),
            ("dedup_max_entries", control.dedup_max_entries),
            ("max_msg_bytes", control.max_msg_bytes),
        ];
        for (field, value) in settings {
            if value.is_some_and(|value| value < 0) {
                return Err(Malformed::new(field, "is below 0; must be 0 or more"));
            }
        }
        Ok(Self {
            rule_version: control.rule_version,
            dedup_window_ms: control.dedup_window_ms,
            dedup_max_entries: control.dedup_max_entries,
            max_msg_bytes: control.max_msg_bytes,
            hash_key: control.hash_key,
            dedup_max_per_sender: control.dedup_max_per_sender,
            new_conversations_per_day: control.new_conversations_per_day,
            recall_window_ms: control.recall_window_ms,
            delete_for_all: control.delete_for_all,
            max_group_members: control.max_group_members,
            new_memberships_per_day: control.new_memberships_per_day,
            max_memberships_by_others: control.max_memberships_by_others,
        })
    }
}

impl From<Control> for proto::Control {
    fn from(control: Control) -> Self {
        Self {
            rule_version: control.rule_version,
            dedup_window_ms: control.dedup_window_ms,
            dedup_max_entries: control.dedup_max_entries,
            max_msg_bytes: control.max_msg_bytes,
            hash_key: control.hash_key,
            dedup_max_per_sender: control.dedup_max_per_sender,
            new_conversations_per_day: control.new_conversations_per_day,
            recall_window_ms: control.recall_window_ms,
            delete_for_all: control.delete_for_all,
            max_group_members: control.max_group_members,
            new_memberships_per_day: control.new_memberships_per_day,
            max_memberships_by_others: control.max_memberships_by_others,
        }
    }
}

impl TryFrom<proto::ControlApplied> for Rules {
    type Error = Malformed;

    fn try_from(rules: proto::ControlApplied) -> Result<Self, Malformed> {
        let hash_key = match rules.hash_key.as_slice() {
            [] => None,
            bytes => Some(
                bytes
                    .try_into()
                    .map_err(|e| Malformed::new("hash_key", e))?,
            ),
        };
        Ok(Self {
            rule_version: rules.rule_version,
            dedup_window_ms: rules.dedup_window_ms,
            dedup_max_entries: rules.dedup_max_entries,
            max_msg_bytes: rules.max_msg_bytes,
            hash_key,
            dedup_max_per_sender: rules.dedup_max_per_sender,
            new_conversations_per_day: rules.new_conversations_per_day,
            recall_window_ms: rules.recall_window_ms,
            delete_for_all: rules.delete_for_all,
            max_group_members: rules.max_group_members,
            new_memberships_per_day: rules.new_memberships_per_day,
            max_memberships_by_others: rules.max_memberships_by_others,
        })
    }
}

impl From<Rules> for proto::ControlApplied {
    fn from(rules: Rules) -> Self {
        Self {
            rule_version: rules.rule_version,
            dedup_window_ms: rules.dedup_window_ms,
            dedup_max_entries: rules.dedup_max_entries,
            max_msg_bytes: rules.max_msg_bytes,
            hash_key: rules
                .hash_key
                .map_or_else(Vec::new, |key| key.bytes().to_vec()),
            dedup_max_per_sender: rules.dedup_max_per_sender,
            new_conversations_per_day: rules.new_conversations_per_day,
            recall_window_ms: rules.recall_window_ms,
            delete_for_all: rules.delete_for_all,
            max_group_members: rules.max_group_members,
            new_memberships_per_day: rules.new_memberships_per_day,
            max_memberships_by_others: rules.max_memberships_by_others,
        }
    }
}

impl Control {
    /// The first field in which the event differs from the command.
    pub(crate) fn mismatch(&self, rules: &Rules) -> Option<&'static str> {
        fn matches<T: PartialEq>(asked: Option<T>, found: T) -> bool {
            asked.is_none_or(|asked| asked == found)
        }
        let hash_key = rules.hash_key.as_ref().map_or(&[][..], |key| key.bytes());
        first_unequal([
            (
                "rule_version",
                matches(self.rule_version, rules.rule_version),
            ),
            (
                "dedup_window_ms",
                matches(self.dedup_window_ms, rules.dedup_window_ms),
            ),
            (
                "dedup_max_entries",
                matches(self.dedup_max_entries, rules.dedup_max_entries),
            ),
            (
                "max_msg_bytes",
                matches(self.max_msg_bytes, rules.max_msg_bytes),
            ),
            (
                "hash_key",
                rules.rule_version < 2 || matches(self.hash_key.as_deref(), hash_key),
            ),
            (
                "dedup_max_per_sender",
                rules.rule_version < 2
                    || matches(self.dedup_max_per_sender, rules.dedup_max_per_sender),
            ),
            (
                "new_conversations_per_day",
                rules.rule_version < 2
                    || matches(
                        self.new_conversations_per_day,
                        rules.new_conversations_per_day,
                    ),
            ),
            (
                "recall_window_ms",
                rules.rule_version < 3 || matches(self.recall_window_ms, rules.recall_window_ms),
            ),
            (
                "delete_for_all",
                rules.rule_version < 3 || matches(self.delete_for_all, rules.delete_for_all),
            ),
            (
                "max_group_members",
                rules.rule_version < 3 || matches(self.max_group_members, rules.max_group_members),
            ),
            (
                "new_memberships_per_day",
                rules.rule_version < 4
                    || matches(self.new_memberships_per_day, rules.new_memberships_per_day),
            ),
            (
                "max_memberships_by_others",
                rules.rule_version < 4
                    || matches(
                        self.max_memberships_by_others,
                        rules.max_memberships_by_others,
                    ),
            ),
        ])
    }
}

impl CommandKind for Control {
    fn label(&self) -> &'static str {
        "control"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::CONTROL
    }

    /// A control command has no author.
    fn author_field(&self) -> &'static str {
        "author"
    }

    fn rule_version(&self) -> u32 {
        1
    }

    fn set_by_user(&mut self, _by_user: bool) {}

    fn redrive(&self) -> Redrive {
        Redrive::Never("rules are changed by operators only")
    }
}

impl EventKind for Rules {
    fn scope(&self) -> CommandScope {
        CommandScope::CONTROL
    }

    fn is_for_author(&self) -> bool {
        true
    }
}
