use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use garde::Validate;
use serde::{Deserialize, Serialize};
use service_runtime::{ConfigError, ConfigSource};

use crate::{
    byte_budget::{ByteBudget, cost_bytes},
    fair_pool::PoolLimits,
};

/// A single post that takes no more is small: it has a part of the budget that larger ones cannot take.
const SMALL_BODY_BYTES: usize = 4_608;

/// What posts are configured by.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Config {
    /// Section `ingest`.
    pub ingest: IngestConfig,
    /// Section `groups`: who may be added to them.
    pub groups: GroupsConfig,
}

impl Config {
    /// Reads the two sections.
    ///
    /// # Errors
    /// A value of one of them that is unknown, of the wrong type or out of bounds.
    pub fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        Ok(Self {
            ingest: source.section("ingest")?,
            groups: source.section("groups")?,
        })
    }
}

/// Section `groups`: who may be added to groups by other users. Services may always add everybody (PROTOCOL G13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct GroupsConfig {
    /// Who may add a user. With `contacts` ingest reads MySQL.
    #[garde(skip)]
    pub added_by: AddedBy,
    /// Whether the member `groups_added_by` of the extra of a user's profile counts, too, if it allows fewer. Then ingest reads MySQL.
    #[garde(skip)]
    pub users_decide: bool,
}

/// Who may add a user to a group. A later one allows fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddedBy {
    /// Every user.
    #[default]
    Anybody,
    /// Users to whom the user has written, or who are a favourite or pinned, and whom the user does not block.
    Contacts,
    /// No user: a user joins, or is added by a service.
    Nobody,
}

/// Section `ingest`.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct IngestConfig {
    /// Where the calls are served, `address:port`.
    #[garde(skip)]
    pub listen: SocketAddr,
    /// The longest msg that is accepted, bytes of UTF-8. MySQL's TEXT holds 65,535. An escaped JSON text may take six times as much of a
    /// line or a body as the msg itself.
    #[garde(range(min = 1, max = 65_535))]
    pub max_msg_bytes: usize,
    /// The largest body of a single post, bytes.
    #[garde(range(min = 1_024, max = 1_048_576))]
    pub max_body_bytes: u32,
    /// The largest body of a batch, bytes.
    #[garde(range(min = 1_024, max = 1_073_741_824))]
    pub max_batch_bytes: u32,
    /// The longest line of an NDJSON batch, without its line ending, and the largest item of a protobuf batch, bytes.
    #[garde(range(min = 256, max = 1_048_576))]
    pub max_line_bytes: usize,
    /// How many batches are read at a time. Users, and services, hold three quarters of them at most. Above that a batch of the caller that has most
    /// of them is ended, or one without a line for a second; if there is none, the new one is answered 429.
    #[garde(range(min = 1, max = 10_000))]
    pub max_batches: usize,
    /// How many of them may be one user's, by their token; never more than half of what users may hold.
    #[garde(range(min = 1, max = 10_000))]
    pub max_batches_of_user: usize,
    /// The byte budget of all requests together, bytes: a quarter for single posts, the rest for batches. Users together hold at most three quarters of that
    /// quarter and a quarter of that rest, and one user at most half of this. One user's part has to take one of the largest bodies or lines.
    #[garde(
        range(min = 4_194_304, max = 2_147_483_648_u32),
        custom(leaves_a_user_enough(self))
    )]
    pub in_flight_bytes: u32,
    /// How much one user may hold (by their token) of the budget for single posts, and as much of the budget for batches, bytes. It has to take one of the
    /// largest bodies or lines.
    #[garde(
        range(min = 4_096, max = 2_147_483_648_u32),
        custom(holds_the_largest(self))
    )]
    pub in_flight_bytes_of_user: u32,
    /// After how long a single post is answered, whatever is known by then, milliseconds.
    #[garde(range(min = 100, max = 600_000))]
    pub request_deadline_ms: u32,
    /// After how long an append that Kafka has not confirmed fails, milliseconds; below request_deadline_ms.
    #[garde(
        range(min = 50, max = 600_000),
        custom(is_below(&self.request_deadline_ms))
    )]
    pub message_timeout_ms: u32,
    /// How long a batch may make no progress before it is ended, milliseconds: no line of it is completed, or no result is read.
    #[garde(range(min = 100, max = 600_000))]
    pub stall_ms: u32,
    /// How long a line of a batch may wait for others of its partition, milliseconds.
    #[garde(range(max = 1_000))]
    pub batch_linger_ms: u32,
    /// A file with words and what is done with texts that have them; see crates/word-filter. Read again when it changes; texts are not checked if
    /// this is absent.
    #[garde(skip)]
    pub word_dictionary: Option<PathBuf>,
}

impl Default for IngestConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7301)),
            max_msg_bytes: 16 * 1024,
            max_body_bytes: 256 * 1024,
            max_batch_bytes: 64 * 1024 * 1024,
            max_line_bytes: 128 * 1024,
            max_batches: 256,
            max_batches_of_user: 8,
            in_flight_bytes: 64 * 1024 * 1024,
            in_flight_bytes_of_user: 2 * 1024 * 1024,
            request_deadline_ms: 10_000,
            message_timeout_ms: 8_000,
            stall_ms: 30_000,
            batch_linger_ms: 5,
            word_dictionary: None,
        }
    }
}

impl IngestConfig {
    /// How long a post may take.
    #[must_use]
    pub fn request_deadline(&self) -> Duration {
        Duration::from_millis(self.request_deadline_ms.into())
    }

    /// How long a batch may make no progress.
    #[must_use]
    pub fn stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms.into())
    }

    /// The bytes of single posts.
    pub fn singles(&self) -> PoolLimits {
        let of_user = self.in_flight_bytes_of_user as usize;
        PoolLimits::new(self.singles_bytes() as usize, of_user).with_small(SMALL_BODY_BYTES)
    }

    /// The bytes of batches.
    pub fn batches(&self) -> ByteBudget {
        let bytes = self.in_flight_bytes - self.singles_bytes();
        ByteBudget::new(bytes, self.in_flight_bytes_of_user)
    }

    /// The number of batches.
    pub fn places(&self) -> PoolLimits {
        PoolLimits::new(self.max_batches, self.max_batches_of_user)
    }

    fn singles_bytes(&self) -> u32 {
        self.in_flight_bytes / 4
    }

    /// What the largest body or line takes, bytes.
    fn largest_cost(&self) -> u32 {
        cost_bytes(self.max_line_bytes.max(self.max_body_bytes as usize))
    }
}

fn is_below(limit: &u32) -> impl FnOnce(&u32, &()) -> garde::Result + '_ {
    move |value, _context| {
        if value < limit {
            return Ok(());
        }
        Err(garde::Error::new(format!(
            "not below request_deadline_ms, which is {limit}"
        )))
    }
}

fn holds_the_largest(config: &IngestConfig) -> impl FnOnce(&u32, &()) -> garde::Result + '_ {
    move |value, _context| {
        let least = config.largest_cost();
        if *value >= least {
            return Ok(());
        }
        Err(garde::Error::new(format!(
            "lower than {least}, which a body of max_body_bytes or a line of max_line_bytes takes"
        )))
    }
}

fn leaves_a_user_enough(config: &IngestConfig) -> impl FnOnce(&u32, &()) -> garde::Result + '_ {
    move |_value, _context| {
        let share = config.singles().of_user().min(config.batches().of_user());
        let least = config.largest_cost();
        // If `in_flight_bytes_of_user` is too low, the check of that setting says so.
        if share >= least as usize || config.in_flight_bytes_of_user < least {
            return Ok(());
        }
        Err(garde::Error::new(format!(
            "too low: a user's share of it is {share}, and a body of max_body_bytes or a line of max_line_bytes takes {least}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(key: &str, value: &str) -> Result<Config, ConfigError> {
        let overrides = [(key.to_owned(), value.to_owned())];
        Config::load(&ConfigSource::from_parts(None, [], &overrides)?)
    }

    #[test]
    fn the_defaults_are_valid() {
        let config = Config::load(&ConfigSource::default()).unwrap();
        assert_eq!(config.ingest.listen.to_string(), "127.0.0.1:7301");
    }

    #[test]
    fn bounds_are_exact() {
        assert!(load("ingest.max_msg_bytes", "65535").is_ok());
        assert!(load("ingest.max_msg_bytes", "65536").is_err());
        assert!(load("ingest.max_msg_bytes", "0").is_err());
        assert!(load("ingest.no_such_key", "1").is_err());
    }

    #[test]
    fn an_append_is_given_up_before_its_request() {
        assert!(load("ingest.message_timeout_ms", "9999").is_ok());
        let error = load("ingest.message_timeout_ms", "10000").unwrap_err();
        assert!(error.to_string().contains("request_deadline_ms"), "{error}");
    }

    #[test]
    fn a_user_may_post_one_of_the_largest_bodies() {
        let least = cost_bytes(IngestConfig::default().max_body_bytes as usize);
        assert!(load("ingest.in_flight_bytes_of_user", &least.to_string()).is_ok());
        let below = (least - 1).to_string();
        let error = load("ingest.in_flight_bytes_of_user", &below).unwrap_err();
        assert!(error.to_string().contains("max_body_bytes"), "{error}");
        assert!(load("ingest.max_body_bytes", "1048576").is_ok());
        assert!(load("ingest.in_flight_bytes", "4194304").is_ok());
        let all = [
            ("in_flight_bytes", "8388608"),
            ("max_body_bytes", "1048576"),
        ];
        let all = all.map(|(key, value)| (format!("ingest.{key}"), value.to_owned()));
        let source = ConfigSource::from_parts(None, [], &all).unwrap();
        let error = Config::load(&source).unwrap_err().to_string();
        assert!(error.contains("a user's share of it is 786432"), "{error}");
    }
}
