use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use access::AuthConfig;
use event_log::KafkaConfig;
use garde::Validate;
use message_store::MySqlConfig;
use schemas::DeviceClass;
use serde::{Deserialize, Serialize};
use service_runtime::{ConfigError, ConfigSource};
use unread_store::RedisConfig;

use crate::{hub::HubLimits, page::PageConfig};

/// How many ring entries and groups the hub looks at in one turn, before other tasks can use it: some ten microseconds' work.
const TURN: usize = 256;

/// The configuration of the gateway.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Config {
    /// Section `gateway`.
    pub gateway: GatewayConfig,
    /// Section `redis`: what gateways tell each other.
    pub redis: RedisConfig,
    /// Section `kafka`.
    pub kafka: KafkaConfig,
    /// Section `mysql`: memberships, contacts, and what posts are checked by.
    pub mysql: MySqlConfig,
    /// Section `auth`: the callers.
    pub auth: AuthConfig,
    /// Sections `ingest` and `groups`: the limits of what devices send.
    #[serde(flatten)]
    pub posting: posting::Config,
}

impl Config {
    /// Reads the sections that the gateway uses.
    ///
    /// # Errors
    /// A value of one of them that is unknown, of the wrong type or out of bounds.
    pub fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        Ok(Self {
            gateway: source.section("gateway")?,
            redis: source.section("redis")?,
            kafka: source.section("kafka")?,
            mysql: source.section("mysql")?,
            auth: source.section("auth")?,
            posting: posting::Config::load(source)?,
        })
    }
}

/// Section `gateway`.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Address of the gateway, `address:port`.
    #[garde(skip)]
    pub listen: SocketAddr,
    /// For how long events are kept for devices that come back, seconds.
    #[garde(range(min = 1, max = 3_600))]
    pub ring_seconds: u64,
    /// The most memory that these events take, bytes.
    #[garde(range(min = 1 << 20, max = 1 << 40))]
    pub ring_bytes: usize,
    /// The most of that memory that one account's events take, bytes. Of the account's earlier events the ring keeps only where they were: a device
    /// that missed one of them syncs, or is told how far its group has come.
    #[garde(range(min = 1 << 16, max = 1 << 40))]
    pub ring_bytes_of_account: usize,
    /// How much may wait for one connection, bytes. If more waits, messages of groups collapse into heads; if that is too much, the connection is
    /// closed.
    #[garde(range(min = 1 << 14, max = 1 << 30))]
    pub queue_bytes: usize,
    /// The most connections; more are answered 503.
    #[garde(range(min = 1, max = 10_000_000))]
    pub max_connections: usize,
    /// The most devices of one user and class that are connected, over all gateways. If another one connects, the oldest is closed.
    #[garde(range(min = 1, max = 1_000))]
    pub max_devices: usize,
    /// Frames a second that one user's devices may send, in the long run; ten seconds' worth may come at once.
    #[garde(range(min = 1, max = 1_000_000))]
    pub user_frames_per_s: u32,
    /// Bytes a second that one user's devices may send.
    #[garde(range(min = 1_024, max = 1 << 30))]
    pub user_bytes_per_s: u32,
    /// Frames a second that all devices may send.
    #[garde(range(min = 1, max = 10_000_000))]
    pub frames_per_s: u32,
    /// Bytes a second that all devices may send.
    #[garde(range(min = 1_024, max = u32::MAX))]
    pub bytes_per_s: u32,
    /// Lease of a gateway's entries in Redis (presence), milliseconds. The gateway renews it after every third of it; the entries of a gateway that
    /// has died count until the lease ends.
    #[garde(range(min = 300, max = 600_000))]
    pub lease_ms: u64,
    /// How often a connection gets a ping with a token, seconds. Devices are told, and give up a connection that is silent for longer.
    #[garde(range(min = 1, max = 600))]
    pub ping_seconds: u32,
    /// How long a device may take for its hello, a pong, and to take a frame, seconds.
    #[garde(range(min = 1, max = 600))]
    pub answer_seconds: u64,
    /// The small chat at `/`, and where it finds the other services. If absent, there is no such page.
    #[garde(dive)]
    pub page: Option<PageConfig>,
    /// At a stop: over how much time the devices come to other gateways, milliseconds.
    #[garde(range(max = 600_000))]
    pub drain_ms: u64,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7308)),
            ring_seconds: 120,
            ring_bytes: 128 << 20,
            ring_bytes_of_account: 4 << 20,
            queue_bytes: 256 << 10,
            max_connections: 100_000,
            max_devices: 8,
            user_frames_per_s: 50,
            user_bytes_per_s: 256 << 10,
            frames_per_s: 50_000,
            bytes_per_s: 64 << 20,
            lease_ms: 10_000,
            ping_seconds: 25,
            answer_seconds: 8,
            page: None,
            drain_ms: 2_000,
        }
    }
}

impl GatewayConfig {
    /// `append` is how long an append of a device's send may take.
    pub(crate) fn limits(&self, append: Duration) -> HubLimits {
        HubLimits {
            ring_ms: self.ring_seconds * 1_000,
            ring_bytes: self.ring_bytes,
            ring_bytes_of_account: self.ring_bytes_of_account,
            max_devices: self.max_devices,
            dead_letters_ms: 2 * append.as_millis() as u64,
            turn: TURN,
        }
    }

    /// Twice a user's devices of all classes: those that are replaced end while others begin.
    pub(crate) fn max_connections_of_user(&self) -> usize {
        2 * DeviceClass::ALL.len() * self.max_devices
    }

    /// How many bytes a second are read from a connection at most: twice the limit of its user, so that the limit of messages is met first. This also
    /// limits fragments, which nothing else counts.
    pub fn read_bytes_per_s(&self) -> u32 {
        2 * self.user_bytes_per_s
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(crate) fn ping_interval(&self) -> Duration {
        Duration::from_secs(self.ping_seconds.into())
    }

    pub(crate) fn answer_time(&self) -> Duration {
        Duration::from_secs(self.answer_seconds)
    }
}
