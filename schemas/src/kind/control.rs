//! The rules of a partition, and the control record that changes them.

use serde::Serialize;

use crate::{
    HashKey,
    kind::{CommandKind, CommandScope, EventKind, Redrive, first_unequal},
    malformed::Malformed,
    proto,
};

/// The value of a setting below the rule version that has it first.
trait Setting {
    const ABSENT: Self;
}

impl Setting for i64 {
    const ABSENT: Self = 0;
}

impl Setting for bool {
    const ABSENT: Self = false;
}

/// The settings: the first rule version that has them, and the value with which they begin then. All that follows from a setting's name is written
/// here once. A new setting also needs its bounds (`sequencer::core`), its argument (`tidemark rules set`), and the audit's opinion.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty, since $since:literal, begins with $begin:expr;)*) => {
        /// A change of the sequencer's rules in one partition. `None` leaves a setting as it is. Below the rule version that has it first a setting is
        /// ignored.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Control {
            /// The version of the rules that holds from this record on.
            pub rule_version: Option<u32>,
            /// The key of the hashes by which repeats are recognised. Its length is checked where it counts: rule version 1 ignores it.
            pub hash_key: Option<Vec<u8>>,
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        /// The settings of the sequencer in one partition, as of a control event. A setting is 0 or false below the rule version that has it first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub struct Rules {
            /// The version of the rules; a program that does not know it stops.
            pub rule_version: u32,
            /// The key of the hashes by which repeats are recognised; `None` below rule version 2.
            #[serde(skip)]
            pub hash_key: Option<HashKey>,
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Rules {
            /// Rule version 1, which holds in a partition until a control record changes it.
            pub const VERSION_1: Self = Self {
                rule_version: 1,
                hash_key: None,
                $($name: if $since == 1 { $begin } else { <$type as Setting>::ABSENT },)*
            };

            /// The rules after `control`, whether it is valid or not. The settings of a later version begin with their defaults. The key stays as it is.
            #[must_use]
            pub fn changed_by(self, control: &Control) -> Self {
                let version = control.rule_version.unwrap_or(self.rule_version);
                Self {
                    rule_version: version,
                    hash_key: self.hash_key,
                    $($name: {
                        let begins = self.rule_version < $since;
                        let before = if begins { $begin } else { self.$name };
                        if version < $since { self.$name } else { control.$name.unwrap_or(before) }
                    },)*
                }
            }

            /// The first setting in which two differ.
            #[must_use]
            pub fn first_difference(&self, other: &Self) -> Option<&'static str> {
                first_unequal([
                    ("rule_version", self.rule_version == other.rule_version),
                    ("hash_key", self.hash_key == other.hash_key),
                    $((stringify!($name), self.$name == other.$name),)*
                ])
            }
        }

        impl Control {
            /// The settings that this control record gives although `version` ignores them, with the versions that have them first.
            pub fn ignored_by(&self, version: u32) -> impl Iterator<Item = (&'static str, u32)> {
                let given = [$((stringify!($name), $since, self.$name.is_some()),)*];
                let ignored = move |(name, since, is_given)| {
                    (is_given && version < since).then_some((name, since))
                };
                given.into_iter().filter_map(ignored)
            }

            /// The first field in which the event differs from the command.
            pub(crate) fn mismatch(&self, rules: &Rules) -> Option<&'static str> {
                fn matches<T: PartialEq>(asked: Option<T>, found: T) -> bool {
                    asked.is_none_or(|asked| asked == found)
                }
                let (version, hash_key) = (rules.rule_version, rules.hash_key.as_ref());
                let hash_key = hash_key.map_or(&[][..], |key| key.bytes());
                first_unequal([
                    ("rule_version", matches(self.rule_version, version)),
                    ("hash_key", version < 2 || matches(self.hash_key.as_deref(), hash_key)),
                    $((stringify!($name), version < $since || matches(self.$name, rules.$name)),)*
                ])
            }
        }

        impl TryFrom<proto::Control> for Control {
            type Error = Malformed;

            fn try_from(control: proto::Control) -> Result<Self, Malformed> {
                let control = Self {
                    rule_version: control.rule_version,
                    hash_key: control.hash_key,
                    $($name: control.$name,)*
                };
                control.check_signs()?;
                Ok(control)
            }
        }

        impl From<Control> for proto::Control {
            fn from(control: Control) -> Self {
                Self {
                    rule_version: control.rule_version,
                    hash_key: control.hash_key,
                    $($name: control.$name,)*
                }
            }
        }

        impl TryFrom<proto::ControlApplied> for Rules {
            type Error = Malformed;

            fn try_from(rules: proto::ControlApplied) -> Result<Self, Malformed> {
                let hash_key = Some(rules.hash_key.as_slice()).filter(|key| !key.is_empty());
                let hash_key = hash_key.map(HashKey::try_from).transpose();
                Ok(Self {
                    rule_version: rules.rule_version,
                    hash_key: hash_key.map_err(|e| Malformed::new("hash_key", e))?,
                    $($name: rules.$name,)*
                })
            }
        }

        impl From<Rules> for proto::ControlApplied {
            fn from(rules: Rules) -> Self {
                let hash_key = rules.hash_key.map(|key| key.bytes().to_vec());
                Self {
                    rule_version: rules.rule_version,
                    hash_key: hash_key.unwrap_or_default(),
                    $($name: rules.$name,)*
                }
            }
        }
    };
}

settings! {
    /// How long, in log time, a client_msg_id is remembered, milliseconds.
    dedup_window_ms: i64, since 1, begins with 3 * 24 * 3600 * 1000;
    /// The largest number of dedup entries of the partition.
    dedup_max_entries: i64, since 1, begins with 1_000_000;
    /// The largest msg that is sequenced, bytes. 65,535 bytes are what MySQL's TEXT holds.
    max_msg_bytes: i64, since 1, begins with 65_535;
    /// The largest number of a sender's entries among the shared ones, and again as many of the sender's own: at first a tenth of all.
    dedup_max_per_sender: i64, since 2, begins with 100_000;
    /// How many conversations a user may begin in the partition in a day of log time; 0 for any number. At first 1,280 over all partitions.
    new_conversations_per_day: i64, since 2, begins with 20;
    /// How long, in log time, an author may recall a message, milliseconds; 0 for never, −1 for always. At first two minutes.
    recall_window_ms: i64, since 3, begins with 120_000;
    /// Whether a message may be deleted for both sides.
    delete_for_all: bool, since 3, begins with false;
    /// The most members of a group.
    max_group_members: i64, since 3, begins with 10_000;
    /// The largest number of users, oneself included, that a user may make members of groups in the partition in a day of log time; 0 for any number. At
    /// first one full command, 64,000 over all partitions.
    new_memberships_per_day: i64, since 4, begins with 1_000;
    /// The largest number of groups of the partition that a user may be in by being added by others; 0 for any number. At first 6,400 over all partitions.
    max_memberships_by_others: i64, since 4, begins with 100;
}

impl Control {
    fn check_signs(&self) -> Result<(), Malformed> {
        let settings = [
            ("dedup_window_ms", self.dedup_window_ms),
            ("dedup_max_entries", self.dedup_max_entries),
            ("max_msg_bytes", self.max_msg_bytes),
        ];
        match settings
            .iter()
            .find(|(_, value)| value.is_some_and(|value| value < 0))
        {
            Some((field, _)) => Err(Malformed::new(field, "is below 0; must be 0 or more")),
            None => Ok(()),
        }
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
    fn label(&self) -> &'static str {
        "control"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::CONTROL
    }

    fn is_for_author(&self) -> bool {
        true
    }

    fn extra_bytes(&self) -> usize {
        0
    }
}
