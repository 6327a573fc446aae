//! The versions of a database's schema. A released version is never changed; a change is a new version.

use crate::names::Table;

/// The steps from one version to the next. It must be possible to run each statement again, since MySQL cannot roll back DDL: an ALTER TABLE counts
/// as done if the server answers that what it adds exists, or that what it drops does not. An ALTER TABLE is one change, or none.
pub(super) struct Migration {
    pub(super) version: u32,
    pub(super) name: &'static str,
    /// Executed once in a database; `{database}` stands for its name.
    pub(super) once: &'static [&'static str],
    /// Executed for every table of a kind in a database; `{n}` stands for its number, `{months}` for the first range partitions.
    pub(super) per_table: &'static [(Table, &'static str)],
}

/// The table of the applied versions; it is older than all of them.
pub(super) const SCHEMA_VERSION: &str = include_str!("../../sql/schema/schema_version.sql");

/// Ascending, from 1 without a gap.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "messages, read positions, contacts, resume offsets",
        once: &[include_str!("../../sql/schema/resume_offset.sql")],
        per_table: &[
            (
                Table::ChatMsg,
                include_str!("../../sql/schema/chat_msg.sql"),
            ),
            (
                Table::ReadChatMid,
                include_str!("../../sql/schema/read_chat_mid.sql"),
            ),
            (Table::Contact, include_str!("../../sql/schema/contact.sql")),
        ],
    },
    Migration {
        version: 2,
        name: "retention of messages",
        once: &[include_str!("../../sql/schema/retention.sql")],
        per_table: &[],
    },
    Migration {
        version: 3,
        name: "read positions without their ordinal",
        once: &[include_str!("../../sql/schema/unresolved_read.sql")],
        per_table: &[],
    },
    Migration {
        version: 4,
        name: "changes to messages and contacts, groups, and profiles",
        once: &[],
        per_table: &[
            (
                Table::ChatMsg,
                include_str!("../../sql/schema/chat_msg_changes.sql"),
            ),
            (
                Table::MsgChange,
                include_str!("../../sql/schema/msg_change.sql"),
            ),
            (
                Table::Contact,
                include_str!("../../sql/schema/contact_changes.sql"),
            ),
            (
                Table::Contact,
                include_str!("../../sql/schema/contact_list_order.sql"),
            ),
            (Table::Hidden, include_str!("../../sql/schema/hidden.sql")),
            (
                Table::GroupMsg,
                include_str!("../../sql/schema/group_msg.sql"),
            ),
            (Table::Group, include_str!("../../sql/schema/group.sql")),
            (
                Table::GroupMember,
                include_str!("../../sql/schema/group_member.sql"),
            ),
            (
                Table::Membership,
                include_str!("../../sql/schema/membership.sql"),
            ),
            (Table::User, include_str!("../../sql/schema/user.sql")),
        ],
    },
    Migration {
        version: 5,
        name: "devices",
        once: &[],
        per_table: &[(Table::Device, include_str!("../../sql/schema/device.sql"))],
    },
    Migration {
        version: 6,
        name: "reads that cost what they return",
        once: &[],
        per_table: &[
            (
                Table::MsgChange,
                include_str!("../../sql/schema/msg_change_seen_by.sql"),
            ),
            (
                Table::Group,
                include_str!("../../sql/schema/group_order.sql"),
            ),
        ],
    },
    Migration {
        version: 7,
        name: "own changes, and who left is forgotten",
        once: &[include_str!("../../sql/schema/forgotten_below.sql")],
        per_table: &[
            (
                Table::Contact,
                include_str!("../../sql/schema/contact_own_pos.sql"),
            ),
            (
                Table::Membership,
                include_str!("../../sql/schema/membership_left.sql"),
            ),
            (
                Table::GroupMember,
                include_str!("../../sql/schema/group_member_left.sql"),
            ),
        ],
    },
    Migration {
        version: 8,
        name: "reactions",
        once: &[],
        per_table: &[
            (
                Table::ChatMsg,
                "ALTER TABLE {database}.chat_msg_{n} ADD COLUMN reactions MEDIUMTEXT NULL COMMENT 'JSON: an emoji by uid'",
            ),
            (
                Table::GroupMsg,
                "ALTER TABLE {database}.group_msg_{n} ADD COLUMN reactions MEDIUMTEXT NULL COMMENT 'JSON: an emoji by uid'",
            ),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_no_gap() {
        let versions: Vec<u32> = MIGRATIONS
            .iter()
            .map(|migration| migration.version)
            .collect();
        assert_eq!(versions, (1..=MIGRATIONS.len() as u32).collect::<Vec<_>>());
    }
}
