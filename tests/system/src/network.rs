//! The network between services and servers: direct, or through proxies that can stop forwarding.

use anyhow::Result;
use dev_stack::{FreshServers, ServerOptions};

use crate::proxy::{Proxy, Reserved};

/// Where services find the servers.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// Kafka's bootstrap addresses.
    pub(crate) brokers: String,
    /// The URL.
    pub(crate) redis: String,
    pub(crate) mariadb: Vec<u16>,
}

impl Addresses {
    /// The addresses without proxies.
    pub(crate) fn direct(servers: &FreshServers) -> Self {
        Self {
            brokers: servers.endpoints().kafka_brokers,
            redis: servers.endpoints().redis_url,
            mariadb: mariadb_ports(servers),
        }
    }
}

/// A proxy before every broker and every MariaDB, and one before the Redis that is the primary; none before a Redis Cluster, whose nodes tell clients
/// their own addresses.
pub struct Network {
    /// First broker first.
    pub kafka: Vec<Proxy>,
    /// The proxy leads to one of the two Redis servers.
    pub redis: Proxy,
    /// First server first.
    pub mariadb: Vec<Proxy>,
}

/// Ports for proxies to servers that do not run yet.
pub(crate) struct Planned {
    kafka: Vec<Reserved>,
    redis: Reserved,
    mariadb: Vec<Reserved>,
}

impl Planned {
    pub(crate) fn new(kafka_nodes: u16, mariadb_nodes: u16) -> Result<Self> {
        let reserve = |count| (0..count).map(|_| Reserved::new()).collect::<Result<_>>();
        Ok(Self {
            kafka: reserve(kafka_nodes)?,
            redis: Reserved::new()?,
            mariadb: reserve(mariadb_nodes)?,
        })
    }

    /// Tells the brokers their proxies, which they have to know from the start.
    pub(crate) fn add_to(&self, options: &mut ServerOptions) {
        options.kafka_proxies = self.kafka.iter().map(Reserved::port).collect();
    }

    pub(crate) fn connect(self, servers: &FreshServers) -> Result<(Network, Addresses)> {
        let stack = servers.stack();
        let listeners = stack.proxied_listeners().iter().map(|one| one.port);
        let network = Network {
            kafka: all_forward(self.kafka, listeners)?,
            redis: self.redis.forward_to(stack.config().ports.redis)?,
            mariadb: all_forward(self.mariadb, mariadb_ports(servers).into_iter())?,
        };
        let brokers = network.kafka.iter();
        let brokers: Vec<String> = brokers
            .map(|proxy| format!("127.0.0.1:{}", proxy.port()))
            .collect();
        let addresses = Addresses {
            brokers: brokers.join(","),
            redis: if stack.config().redis_cluster {
                servers.endpoints().redis_url
            } else {
                format!("redis://127.0.0.1:{}", network.redis.port())
            },
            mariadb: network.mariadb.iter().map(Proxy::port).collect(),
        };
        Ok((network, addresses))
    }
}

fn all_forward(reserved: Vec<Reserved>, targets: impl Iterator<Item = u16>) -> Result<Vec<Proxy>> {
    let pairs = reserved.into_iter().zip(targets);
    pairs.map(|(one, target)| one.forward_to(target)).collect()
}

fn mariadb_ports(servers: &FreshServers) -> Vec<u16> {
    let config = servers.stack().config();
    (0..config.mariadb_nodes)
        .map(|index| config.ports.mariadb + index)
        .collect()
}
