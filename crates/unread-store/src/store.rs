use std::{collections::BTreeMap, fmt, sync::Arc};

use redis::{AsyncConnectionConfig, Client, RedisResult};
use schemas::{TableNumber, UserId};

use crate::{
    Connection, KeyNames, RedisConfig, UnreadError,
    cluster::{Cluster, hash_slot},
};

/// Redis: the one slot of a server, or 64 slots of a Redis Cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct UnreadStore {
    slots: Arc<[Slot]>,
}

/// The keys of some users, with positions of their own, which are always on one server. Cheap to clone.
#[derive(Clone)]
pub struct Slot {
    settings: Arc<Settings>,
}

pub(crate) struct Settings {
    server: Server,
    pub(crate) timeouts: AsyncConnectionConfig,
    pub(crate) keys: KeyNames,
    pub(crate) expiry_ms: u64,
}

/// The server of a slot.
enum Server {
    One(Box<Client>),
    /// The master of the slot's hash slot, which may change.
    InCluster {
        cluster: Arc<Cluster>,
        n: TableNumber,
    },
}

impl UnreadStore {
    /// Does not connect yet.
    ///
    /// # Errors
    /// [`UnreadError::Url`], [`UnreadError::Tls`].
    pub fn new(config: &RedisConfig) -> Result<Self, UnreadError> {
        let clients = config.clients()?;
        let slot = |server, keys| Slot {
            settings: Arc::new(Settings {
                server,
                timeouts: config.timeouts(),
                keys,
                expiry_ms: config.expiry_ms,
            }),
        };
        let slots = if config.cluster {
            let cluster = Arc::new(Cluster::new(clients, config.timeouts()));
            let slots = TableNumber::all().map(|n| {
                let cluster = Arc::clone(&cluster);
                let keys = KeyNames::in_cluster(n, &config.key_prefix);
                slot(Server::InCluster { cluster, n }, keys)
            });
            slots.collect()
        } else {
            let keys = KeyNames {
                prefix: config.key_prefix.clone(),
            };
            let first = clients.into_iter().take(1);
            first
                .map(|client| slot(Server::One(Box::new(client)), keys.clone()))
                .collect()
        };
        Ok(Self { slots })
    }

    /// All slots: one, or 64 in a cluster.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slot of a user.
    #[must_use]
    pub fn slot_of(&self, uid: UserId) -> &Slot {
        &self.slots[self.index_of(uid)]
    }

    /// The index in [`Self::slots`] of a user's slot.
    #[must_use]
    pub fn index_of(&self, uid: UserId) -> usize {
        slot_index(TableNumber::of_user(uid), self.slots.len())
    }

    /// Groups items of users by the index of the user's slot.
    pub fn by_slot<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        uid: impl Fn(&T) -> UserId,
    ) -> BTreeMap<usize, Vec<T>> {
        let mut slots: BTreeMap<usize, Vec<T>> = BTreeMap::new();
        for item in items {
            slots
                .entry(self.index_of(uid(&item)))
                .or_default()
                .push(item);
        }
        slots
    }

    /// A new connection to each slot.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn connect(&self) -> Result<Vec<Connection>, UnreadError> {
        let mut connections = Vec::with_capacity(self.slots.len());
        for slot in self.slots() {
            connections.push(slot.connect().await?);
        }
        Ok(connections)
    }
}

/// The index of the slot of all users of `contact_<n>`, given the number of slots: 0 for a single one, otherwise n.
#[must_use]
pub fn slot_index(n: TableNumber, slots: usize) -> usize {
    n.index() % slots
}

impl Slot {
    /// The names of the slot's keys.
    #[must_use]
    pub fn keys(&self) -> &KeyNames {
        &self.settings.keys
    }

    /// A new connection to the slot's server, with the scripts loaded. A writer reads the positions first (PROTOCOL R1).
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn connect(&self) -> Result<Connection, UnreadError> {
        let client = self.client().await.map_err(UnreadError::Transient)?;
        Connection::open(self.clone(), &client).await
    }

    /// The slot's server.
    pub(crate) async fn client(&self) -> RedisResult<Client> {
        match &self.settings.server {
            Server::One(client) => Ok((**client).clone()),
            Server::InCluster { cluster, n } => cluster.master(hash_slot(&n.to_string())).await,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// The slot's name in messages.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.settings.server {
            Server::One(_) => f.write_str("Redis"),
            Server::InCluster { n, .. } => write!(f, "slot {{{n}}} of Redis"),
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.settings.server {
            Server::One(client) => write!(f, "Slot({})", client.get_connection_info().addr()),
            Server::InCluster { n, .. } => write!(f, "Slot({{{n}}})"),
        }
    }
}
