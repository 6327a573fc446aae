//! The names of databases and tables. They consist of the configured prefix (a-z, 0-9, _), fixed words and numbers, so they may stand in a statement.

use schemas::Partition;

use crate::{Layout, MySqlConfig, Shard};

/// The tables that exist 64 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    ChatMsg,
    ReadChatMid,
    Contact,
}

impl Table {
    fn stem(self) -> &'static str {
        match self {
            Self::ChatMsg => "chat_msg",
            Self::ReadChatMid => "read_chat_mid",
            Self::Contact => "contact",
        }
    }

    /// The table's name within its database.
    pub(crate) fn name(self, partition: Partition) -> String {
        format!("{}_{partition}", self.stem())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
    layout: Layout,
}

impl Names {
    pub(crate) fn new(config: &MySqlConfig) -> Self {
        Self {
            prefix: config.database_prefix.clone(),
            layout: Layout::new(config),
        }
    }

    pub(crate) fn database(&self, shard: Shard) -> String {
        format!("{}{}", self.prefix, shard.get())
    }

    pub(crate) fn table(&self, table: Table, partition: Partition) -> String {
        let shard = self.layout.shard_of(partition);
        format!("{}.{}", self.database(shard), table.name(partition))
    }

    pub(crate) fn resume_offset(&self, shard: Shard) -> String {
        format!("{}.resume_offset", self.database(shard))
    }
}
