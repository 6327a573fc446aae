use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use event_log::KafkaConfig;
use garde::Validate;
use message_store::MySqlConfig;
use projection::Settings;
use schemas::Partition;
use serde::{Deserialize, Serialize};
use service_runtime::{ConfigError, ConfigSource};

/// The configuration of projector-mysql.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Config {
    /// Section `projector_mysql`.
    pub projector_mysql: ProjectorMySqlConfig,
    /// Section `kafka`.
    pub kafka: KafkaConfig,
    /// Section `mysql`.
    pub mysql: MySqlConfig,
}

impl Config {
    /// Reads the sections that projector-mysql uses.
    ///
    /// # Errors
    /// A value of these sections that is unknown, of the wrong type or out of bounds.
    pub fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        Ok(Self {
            projector_mysql: source.section("projector_mysql")?,
            kafka: source.section("kafka")?,
            mysql: source.section("mysql")?,
        })
    }
}

/// What projector-mysql projects; each is a consumer group by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// `chat_msg_<n>`, with changes, the messages of groups, groups and their members.
    Messages,
    /// `read_chat_mid_<n>`.
    Reads,
    /// `contact_<n>`, with hidden messages, memberships of groups and profiles.
    Contacts,
}

/// Section `projector_mysql`.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectorMySqlConfig {
    /// Where health and metrics are served, `address:port`.
    #[garde(skip)]
    pub listen: SocketAddr,
    /// What this process projects; the rest is left to other processes.
    #[garde(length(min = 1))]
    pub projections: BTreeSet<Table>,
    /// How long a message may wait for others of its batch, milliseconds.
    #[garde(range(min = 1, max = 60_000))]
    pub messages_interval_ms: u32,
    /// How many sessions write into each database at the same time, each for its share of the tables. One keeps about one core of the database's
    /// server busy; several take more transactions for the same rows if few come.
    #[garde(range(min = 1, max = 16))]
    pub messages_writers: u8,
    /// How much may wait for one writer before it is written at once, bytes of text and row.
    #[garde(range(min = 65_536, max = 268_435_456))]
    pub messages_max_pending_bytes: usize,
    /// How often read positions are written, milliseconds.
    #[garde(range(min = 1, max = 3_600_000))]
    pub reads_interval_ms: u32,
    /// How many read positions may wait for one database before they are written at once.
    #[garde(range(min = 1, max = 10_000_000))]
    pub reads_max_pending_rows: usize,
    /// How often contacts are written, milliseconds.
    #[garde(range(min = 1, max = 3_600_000))]
    pub contacts_interval_ms: u32,
    /// How many contacts may wait before they are written at once.
    #[garde(range(min = 1, max = 10_000_000))]
    pub contacts_max_pending_rows: usize,
    /// How often each database is asked whether its offsets are still the expected ones, milliseconds.
    #[garde(range(min = 10, max = 3_600_000))]
    pub verify_interval_ms: u32,
    /// How much of the log may be read ahead for one worker, bytes.
    #[garde(range(min = 65_536, max = 1_073_741_824))]
    pub max_queued_bytes: usize,
    /// How many months after the current one every `chat_msg_<n>` and `group_msg_<n>` is to have.
    #[garde(range(min = 1, max = 60))]
    pub months_ahead: u8,
    /// How many months before that of the newest message are kept: older ones are dropped, for good, with all their messages. Absent: nothing is
    /// dropped.
    #[garde(inner(range(min = 1, max = 1_200)))]
    pub months_kept: Option<u16>,
    /// For how many days a device is remembered that no gateway has seen. One that comes back later syncs from the start.
    #[garde(range(min = 1, max = 3_650))]
    pub devices_kept_days: u16,
    /// For how many days of log time it is remembered who left a group. A device that was away for longer syncs from the start.
    #[garde(range(min = 1, max = 3_650))]
    pub left_kept_days: u16,
    /// How often the months are looked after, seconds.
    #[garde(range(min = 1, max = 86_400))]
    pub janitor_interval_s: u32,
}

impl Default for ProjectorMySqlConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7305)),
            projections: BTreeSet::from([Table::Messages, Table::Reads, Table::Contacts]),
            messages_interval_ms: 50,
            messages_writers: 1,
            messages_max_pending_bytes: 4 << 20,
            reads_interval_ms: 30_000,
            reads_max_pending_rows: 50_000,
            contacts_interval_ms: 500,
            contacts_max_pending_rows: 50_000,
            verify_interval_ms: 5_000,
            max_queued_bytes: 8 << 20,
            months_ahead: 2,
            months_kept: None,
            devices_kept_days: 30,
            left_kept_days: 30,
            janitor_interval_s: 3_600,
        }
    }
}

/// A duration out of a field that ends in `_ms`.
fn ms(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

impl ProjectorMySqlConfig {
    pub(crate) fn messages(&self) -> Settings {
        self.settings(
            "projector-mysql-messages",
            self.messages_max_pending_bytes,
            self.messages_interval_ms,
            |partition| rebuild("messages", partition),
        )
    }

    pub(crate) fn reads(&self) -> Settings {
        self.settings(
            "projector-mysql-reads",
            self.reads_max_pending_rows,
            self.reads_interval_ms,
            |partition| rebuild("reads", partition),
        )
    }

    pub(crate) fn contacts(&self) -> Settings {
        self.settings(
            "projector-mysql-contacts",
            self.contacts_max_pending_rows,
            self.contacts_interval_ms,
            // Events of any partition may change any user's contacts.
            |_partition| build_again("`tidemark rebuild contacts`"),
        )
    }

    pub(crate) fn janitor_interval(&self) -> Duration {
        Duration::from_secs(self.janitor_interval_s.into())
    }

    fn settings(
        &self,
        group: &str,
        max_pending: usize,
        interval_ms: u32,
        if_truncated: fn(Partition) -> String,
    ) -> Settings {
        Settings {
            group: group.to_owned(),
            max_pending,
            interval: ms(interval_ms),
            verify_every: ms(self.verify_interval_ms),
            max_queued_bytes: self.max_queued_bytes,
            if_deleted: "To go on without them, run `tidemark db skip-deleted`; and raise the topic's retention.ms",
            if_truncated,
        }
    }
}

/// The command for a table that is built from one partition.
fn rebuild(what: &str, partition: Partition) -> String {
    build_again(&format!(
        "`tidemark rebuild {what} --partition {partition}`"
    ))
}

fn build_again(command: &str) -> String {
    format!("{command}, which builds it again from the log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_unknown_keys_are_refused() {
        let config = Config::load(&ConfigSource::default()).unwrap();
        assert_eq!(config.projector_mysql.listen.to_string(), "127.0.0.1:7305");
        assert!(load("read_interval", "1").is_err());
    }

    #[test]
    fn a_process_projects_something() {
        let one = load("projections", r#"["messages"]"#).unwrap();
        assert_eq!(one.projector_mysql.projections, [Table::Messages].into());
        assert!(load("projections", "[]").is_err());
        assert!(load("projections", r#"["unread"]"#).is_err());
    }

    fn load(key: &str, value: &str) -> Result<Config, ConfigError> {
        let overrides = [(format!("projector_mysql.{key}"), value.to_owned())];
        Config::load(&ConfigSource::from_parts(None, [], &overrides)?)
    }
}
