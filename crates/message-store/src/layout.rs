use std::fmt;

use schemas::{PARTITIONS, Partition, TableNumber, UserId};

use crate::{MySqlConfig, Sink};

/// The number of one database: 0, 1, 2 … below the configured count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u8);

impl Shard {
    /// 0, 1, 2 …
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "db{}", self.0)
    }
}

/// Which database holds a table, and which server holds a database.
///
/// All tables with the number `n` (`chat_msg_<n>`, `read_chat_mid_<n>`, `contact_<n>`) are in the database of `n`; with 4 databases
/// the first holds 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    databases: u8,
    servers: u8,
}

impl Layout {
    /// The layout that a valid configuration describes.
    #[must_use]
    pub fn new(config: &MySqlConfig) -> Self {
        Self {
            databases: config.databases,
            servers: u8::try_from(config.servers.len()).unwrap_or(u8::MAX),
        }
    }

    /// Every database, ascending.
    pub fn shards(self) -> impl DoubleEndedIterator<Item = Shard> + ExactSizeIterator {
        (0..self.databases).map(Shard)
    }

    /// The database with the tables of this number.
    #[must_use]
    pub fn shard_of(self, table: impl Into<TableNumber>) -> Shard {
        Shard(table.into().get() / self.tables_per_shard())
    }

    /// The database with the tables of this user.
    #[must_use]
    pub fn shard_of_user(self, uid: UserId) -> Shard {
        self.shard_of(TableNumber::of_user(uid))
    }

    /// The numbers of the tables in a database, ascending.
    pub fn tables_of(self, shard: Shard) -> impl Iterator<Item = TableNumber> {
        TableNumber::all().filter(move |table| self.shard_of(*table) == shard)
    }

    /// The partitions of the log from which `sink` fills the tables of a database. Messages and read positions are stored by conversation;
    /// contacts by user, whose conversations may be in any partition.
    pub fn source_partitions(self, sink: Sink, shard: Shard) -> impl Iterator<Item = Partition> {
        Partition::all()
            .filter(move |partition| sink == Sink::Contacts || self.shard_of(*partition) == shard)
    }

    /// Which of the configured servers has a database: contiguous runs, as even as they can be.
    #[must_use]
    pub fn server_of(self, shard: Shard) -> usize {
        usize::from(shard.0) * usize::from(self.servers) / usize::from(self.databases)
    }

    fn tables_per_shard(self) -> u8 {
        PARTITIONS / self.databases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(databases: u8, servers: u8) -> Layout {
        Layout { databases, servers }
    }

    #[test]
    fn four_databases_hold_sixteen_tables_each() {
        let layout = layout(4, 1);
        for shard in layout.shards() {
            let numbers: Vec<u8> = layout.tables_of(shard).map(TableNumber::get).collect();
            let first = shard.get() * 16;
            assert_eq!(numbers, (first..first + 16).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_table_has_one_database_and_every_server_a_run() {
        for databases in [1, 2, 4, 8, 16, 32, 64] {
            for servers in 1..=4.min(databases) {
                let layout = layout(databases, servers);
                let tables: usize = layout
                    .shards()
                    .map(|shard| layout.tables_of(shard).count())
                    .sum();
                assert_eq!(tables, 64);
                let mut runs: Vec<usize> = layout
                    .shards()
                    .map(|shard| layout.server_of(shard))
                    .collect();
                assert!(runs.is_sorted());
                runs.dedup();
                assert_eq!(runs, (0..usize::from(servers)).collect::<Vec<_>>());
            }
        }
    }
}
