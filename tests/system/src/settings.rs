//! The configuration of an environment, beyond what follows from its ports.

use std::fs;

use access::test_issuer::{AUD, ISS, SECRET};
use anyhow::{Context as _, Result};
use dev_stack::{Ports, StackConfig};

use crate::network::Addresses;

/// The differences of an environment from the usual one.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `section.key=value`, overriding the configuration file, for services and commands.
    pub overrides: &'static [&'static str],
    /// Whether the test itself starts the services.
    pub without_services: bool,
    /// How many brokers: 1, or 3 with as many copies of every topic.
    pub kafka_nodes: u16,
    /// How many Redis servers; the services use the first, or the cluster.
    pub redis_nodes: u16,
    /// Whether the Redis servers are a cluster: half of them masters, the others their replicas.
    pub redis_cluster: bool,
    /// How many MariaDB servers share the databases.
    pub mariadb_nodes: u16,
    /// Whether services reach the servers through proxies ([`TestEnv::network`](crate::TestEnv::network)).
    pub proxied: bool,
    /// Whether wall clocks can be set ([`TestEnv::set_clock`](crate::TestEnv::set_clock)).
    pub clocks: bool,
    /// Whether services keep their default periods, and servers their default memory: for measuring.
    pub as_shipped: bool,
    /// Whether callers are authenticated, by tokens of `access::test_issuer`.
    pub authenticated: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self::USUAL
    }
}

impl Settings {
    /// All services, with one broker.
    pub const USUAL: Self = Self {
        overrides: &[],
        without_services: false,
        kafka_nodes: 1,
        redis_nodes: 1,
        redis_cluster: false,
        mariadb_nodes: 1,
        proxied: false,
        clocks: false,
        as_shipped: false,
        authenticated: false,
    };

    /// One broker; the test itself starts the services.
    pub const WITHOUT_SERVICES: Self = Self {
        without_services: true,
        ..Self::USUAL
    };
}

/// Writes the configuration file that the services and commands of an environment share, and returns their arguments.
pub(crate) fn write(
    settings: &Settings,
    stack: &StackConfig,
    addresses: &Addresses,
) -> Result<Vec<String>> {
    let path = stack.run_dir.join("tidemark.toml");
    fs::write(&path, text(stack, addresses))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let path = path.to_str().context("a path is no text")?;
    let mut args = vec!["--config".to_owned(), path.to_owned()];
    let soon = SOON.iter().filter(|_| !settings.as_shipped);
    for setting in soon.chain(settings.overrides) {
        args.extend(["--set".to_owned(), (*setting).to_owned()]);
    }
    if settings.authenticated {
        let secret = stack.run_dir.join("secret");
        fs::write(&secret, SECRET)?;
        let issuer = format!(
            "auth.issuers=[{{ iss = '{ISS}', aud = '{AUD}', algorithms = ['HS256'], secret_file = '{}' }}]",
            secret.display()
        );
        args.extend(["--set".to_owned(), issuer]);
    }
    Ok(args)
}

/// Shortens periods of many seconds, so that tests do not wait for them, and keeps an idle environment from using the processor.
const SOON: [&str; 7] = [
    "kafka.fetch_wait_ms=20",
    "kafka.session_timeout_ms=3000",
    "sequencer.snapshot_events=1000",
    "sequencer.snapshot_interval_ms=2000",
    "projector_mysql.reads_interval_ms=300",
    "projector_mysql.contacts_interval_ms=100",
    "projector_mysql.verify_interval_ms=500",
];

fn text(stack: &StackConfig, addresses: &Addresses) -> String {
    let Addresses {
        brokers,
        redis: redis_url,
        mariadb: mariadb_addresses,
    } = addresses;
    let mysql_servers: String = mariadb_addresses.iter().map(mysql_server).collect();
    let replication = stack.kafka_nodes.min(3);
    let redis_cluster = stack.redis_cluster;
    let run_dir = stack.run_dir.display();
    let Ports {
        ingest,
        query_api,
        gateway,
        sequencer,
        projector_unread,
        projector_mysql,
        kafka,
        redis,
        mariadb,
        kafka_controller,
    } = &stack.ports;
    format!(
        r#"
[kafka]
brokers = "{brokers}"
replication = {replication}

[redis]
url = "{redis_url}"
cluster = {redis_cluster}

{mysql_servers}
[ingest]
listen = "127.0.0.1:{ingest}"

[sequencer]
listen = "127.0.0.1:{sequencer}"

[projector_unread]
listen = "127.0.0.1:{projector_unread}"

[projector_mysql]
listen = "127.0.0.1:{projector_mysql}"

[query_api]
listen = "127.0.0.1:{query_api}"

[gateway]
listen = "127.0.0.1:{gateway}"

[stack]
run_dir = "{run_dir}"

[stack.ports]
ingest = {ingest}
query_api = {query_api}
gateway = {gateway}
sequencer = {sequencer}
projector_unread = {projector_unread}
projector_mysql = {projector_mysql}
kafka = {kafka}
kafka_controller = {kafka_controller}
redis = {redis}
mariadb = {mariadb}
"#
    )
}

fn mysql_server(port: &u16) -> String {
    format!(
        r#"
[[mysql.servers]]
host = "127.0.0.1"
port = {port}
user = "tidemark"
password = "tidemark"
"#
    )
}
