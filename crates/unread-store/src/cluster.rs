//! Finds the node of a Redis Cluster that has a slot.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue as _, RedisError, RedisResult,
    Value,
};
use tokio::{sync::Mutex, time::Instant};

/// How long an answer, or the failure to get one, serves all connection attempts: 64 slots often connect at a time.
const FRESH: Duration = Duration::from_millis(100);

/// The nodes of a cluster.
pub(crate) struct Cluster {
    /// The nodes of the configuration.
    seeds: Vec<Client>,
    timeouts: AsyncConnectionConfig,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Every node that the newest answer named.
    nodes: Vec<Client>,
    masters: Option<(Instant, RedisResult<Vec<Master>>)>,
    /// The node with which the next search begins: a node that is cut off from the others would give the same old answer each time.
    next: usize,
}

/// The master of a range of hash slots.
#[derive(Clone)]
struct Master {
    first: u16,
    last: u16,
    client: Client,
}

impl Cluster {
    pub(crate) fn new(seeds: Vec<Client>, timeouts: AsyncConnectionConfig) -> Self {
        Self {
            seeds,
            timeouts,
            known: Mutex::default(),
        }
    }

    /// The master of a hash slot, as a node of the cluster named it within the last tenth of a second. If that node is no longer the master, it refuses
    /// commands.
    pub(crate) async fn master(&self, hash_slot: u16) -> RedisResult<Client> {
        let mut known = self.known.lock().await;
        let masters = match &known.masters {
            Some((at, masters)) if at.elapsed() < FRESH => masters.clone()?,
            _ => {
                let masters = self.ask(&mut known).await;
                known.masters = Some((Instant::now(), masters.clone()));
                masters?
            }
        };
        let has_slot = |master: &Master| (master.first..=master.last).contains(&hash_slot);
        match masters.into_iter().find(has_slot) {
            Some(master) => Ok(master.client),
            None => Err(failure(format!(
                "no master of the cluster has hash slot {hash_slot}"
            ))),
        }
    }

    /// Asks one node after the other until one answers.
    async fn ask(&self, known: &mut Known) -> RedisResult<Vec<Master>> {
        let mut nodes = known.nodes.clone();
        nodes.extend(self.seeds.iter().cloned());
        known.next += 1;
        let mut outcome = Err(failure("redis.url names no node".to_owned()));
        for index in 0..nodes.len() {
            let node = &nodes[(known.next + index) % nodes.len()];
            outcome = self.ask_node(node, &mut known.nodes).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn ask_node(&self, node: &Client, nodes: &mut Vec<Client>) -> RedisResult<Vec<Master>> {
        let connect = node.get_multiplexed_async_connection_with_config(&self.timeouts);
        let mut connection = connect.await?;
        let mut cmd = redis::cmd("CLUSTER");
        let ranges: Vec<Vec<Value>> = cmd.arg("SLOTS").query_async(&mut connection).await?;
        let mut found = Vec::new();
        let mut masters = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut parts = range.into_iter();
            let [Some(first), Some(last)] = [parts.next(), parts.next()] else {
                return Err(failure("CLUSTER SLOTS has a range without ends".to_owned()));
            };
            let clients: Vec<Client> = parts
                .map(|endpoint| client(node, endpoint))
                .collect::<RedisResult<_>>()?;
            // The master comes first.
            if let Some(client) = clients.first().cloned() {
                masters.push(Master {
                    first: u16::from_redis_value(first)?,
                    last: u16::from_redis_value(last)?,
                    client,
                });
            }
            found.extend(clients);
        }
        *nodes = distinct(found);
        Ok(masters)
    }
}

/// The client of a node that `asked` named: host, port and more. Without a host, the host is that of `asked`.
fn client(asked: &Client, endpoint: Value) -> RedisResult<Client> {
    let parts: Vec<Value> = Vec::from_redis_value(endpoint)?;
    let mut parts = parts.into_iter();
    let [Some(host), Some(port)] = [parts.next(), parts.next()] else {
        return Err(failure(
            "CLUSTER SLOTS has a node without a port".to_owned(),
        ));
    };
    let host: Option<String> = Option::from_redis_value(host)?;
    let named = host.filter(|host| !host.is_empty() && host != "?");
    let port = u16::from_redis_value(port)?;
    let info = asked.get_connection_info().clone();
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls {
            host,
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host: named.unwrap_or(host),
            port,
            insecure,
            tls_params,
        },
        ConnectionAddr::Tcp(host, _) => ConnectionAddr::Tcp(named.unwrap_or(host), port),
        other => other,
    };
    Client::open(info.set_addr(address))
}

fn distinct(clients: Vec<Client>) -> Vec<Client> {
    let mut distinct: Vec<Client> = Vec::new();
    for client in clients {
        let address = client.get_connection_info().addr();
        if !distinct
            .iter()
            .any(|known| known.get_connection_info().addr() == address)
        {
            distinct.push(client);
        }
    }
    distinct
}

fn failure(what: String) -> RedisError {
    std::io::Error::other(what).into()
}

/// The hash slot of keys with this hash tag: CRC-16/XMODEM modulo the number of slots.
pub(crate) fn hash_slot(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_slots_are_those_of_redis() {
        // The specification's own example.
        assert_eq!(hash_slot("123456789"), 0x31C3);
        assert_eq!(hash_slot("user1000"), 3443);
    }
}
