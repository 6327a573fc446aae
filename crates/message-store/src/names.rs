//! The names of databases and tables. They consist of the configured prefix (a-z, 0-9, _), fixed words and numbers, so they can be put into a
//! statement.

use schemas::TableNumber;

use crate::{Layout, MySqlConfig, Shard, Sink};

/// The tables that exist 64 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    ChatMsg,
    MsgChange,
    ReadChatMid,
    Contact,
    Hidden,
    GroupMsg,
    Group,
    GroupMember,
    Membership,
    User,
    Device,
}

impl Table {
    pub(crate) const ALL: [Self; 11] = [
        Self::ChatMsg,
        Self::MsgChange,
        Self::ReadChatMid,
        Self::Contact,
        Self::Hidden,
        Self::GroupMsg,
        Self::Group,
        Self::GroupMember,
        Self::Membership,
        Self::User,
        Self::Device,
    ];

    /// The tables with months.
    pub(crate) const BY_MONTH: [Self; 2] = [Self::ChatMsg, Self::GroupMsg];

    fn stem(self) -> &'static str {
        match self {
            Self::ChatMsg => "chat_msg",
            Self::MsgChange => "msg_change",
            Self::ReadChatMid => "read_chat_mid",
            Self::Contact => "contact",
            Self::Hidden => "hidden",
            Self::GroupMsg => "group_msg",
            Self::Group => "group",
            Self::GroupMember => "group_member",
            Self::Membership => "membership",
            Self::User => "user",
            Self::Device => "device",
        }
    }

    /// The kinds of tables that a sink writes; they share its offsets. The first one gives the sink's rows their name.
    pub(crate) fn of(sink: Sink) -> &'static [Self] {
        match sink {
            Sink::Messages => &[
                Self::ChatMsg,
                Self::MsgChange,
                Self::GroupMsg,
                Self::Group,
                Self::GroupMember,
            ],
            Sink::Reads => &[Self::ReadChatMid],
            Sink::Contacts => &[Self::Contact, Self::Hidden, Self::Membership, Self::User],
        }
    }

    /// Whether a sink writes this table. Other tables do not follow from the log, and are not rebuilt from it.
    pub(crate) fn is_projected(self) -> bool {
        Sink::ALL.iter().any(|sink| Self::of(*sink).contains(&self))
    }

    /// The index by which a row of two stores is the same row, and the columns that do not follow from the log.
    pub(crate) fn identity(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::ReadChatMid => ("inx_2", &["id", "ts"]),
            _ => ("PRIMARY", &[]),
        }
    }

    /// The table's name within its database.
    pub(crate) fn name(self, number: TableNumber) -> String {
        format!("{}_{number}", self.stem())
    }

    /// The name of its shadow table.
    pub(crate) fn shadow(self, number: TableNumber) -> String {
        format!("{}_{SHADOW}", self.name(number))
    }

    /// The name of a replaced table.
    pub(crate) fn retired(self, number: TableNumber) -> String {
        format!("{}_old", self.name(number))
    }
}

/// The suffix of shadow tables.
pub(crate) const SHADOW: &str = "new";

/// The name of the table of a scratch's note within its database.
pub(crate) const SCRATCH: &str = "scratch";

#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
    layout: Layout,
    /// The sink whose tables and offsets are the shadow ones.
    shadow: Option<Sink>,
}

impl Names {
    pub(crate) fn new(config: &MySqlConfig) -> Self {
        Self {
            prefix: config.database_prefix.clone(),
            layout: Layout::new(config),
            shadow: None,
        }
    }

    /// The same names, with the shadow tables of `sink` in place of the live ones.
    pub(crate) fn with_shadow(&self, sink: Sink) -> Self {
        Self {
            shadow: Some(sink),
            ..self.clone()
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn database(&self, shard: Shard) -> String {
        format!("{}{}", self.prefix, shard.get())
    }

    pub(crate) fn table(&self, table: Table, number: TableNumber) -> String {
        let (database, name) = self.split(table, number);
        format!("{database}.{name}")
    }

    /// The database of a table, and its name there.
    pub(crate) fn split(&self, table: Table, number: TableNumber) -> (String, String) {
        let name = match self.shadow {
            Some(sink) if Table::of(sink).contains(&table) => table.shadow(number),
            _ => table.name(number),
        };
        (self.database(self.layout.shard_of(number)), name)
    }

    /// The full name of a table of the database that holds those of `number`.
    pub(crate) fn within(&self, number: TableNumber, name: &str) -> String {
        let shard = self.layout.shard_of(number);
        format!("{}.{name}", self.database(shard))
    }

    pub(crate) fn retention(&self, shard: Shard) -> String {
        format!("{}.retention", self.database(shard))
    }

    /// The table of a scratch's note.
    pub(crate) fn scratch(&self, shard: Shard) -> String {
        format!("{}.{SCRATCH}", self.database(shard))
    }

    /// The name of a sink in `resume_offset`.
    pub(crate) fn sink_name(&self, sink: Sink) -> String {
        if self.shadow == Some(sink) {
            shadow_sink_name(sink)
        } else {
            sink.name().to_owned()
        }
    }

    pub(crate) fn unresolved_read(&self, shard: Shard) -> String {
        format!("{}.unresolved_read", self.database(shard))
    }

    pub(crate) fn resume_offset(&self, shard: Shard) -> String {
        format!("{}.resume_offset", self.database(shard))
    }
}

/// The name of a sink's shadow tables in `resume_offset`.
pub(crate) fn shadow_sink_name(sink: Sink) -> String {
    format!("{}.{SHADOW}", sink.name())
}
