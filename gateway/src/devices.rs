//! The tokens of devices in `device_<n>`: a device that has lost its own goes on from there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use message_store::{DeviceRow, MessageStore, Shard, StoreError};
use schemas::{DeviceId, TableNumber, UserId};
use tokio::time::interval;

use crate::{hub::DeviceOf, metrics, state::Gateway};

/// How often they are written: of one device the newest token.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Of a user's devices those are looked at that were seen last.
const LOOKED_AT: u32 = 100;

/// Devices whose newest token is not in MySQL yet.
pub(crate) struct Devices {
    unsaved: Mutex<HashMap<(UserId, DeviceId), DeviceRow>>,
    /// While MySQL is away: more are not kept.
    max: usize,
}

impl Devices {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            unsaved: Mutex::default(),
            max,
        }
    }

    /// A device has handled everything that its token covers.
    pub(crate) fn save(&self, device: &DeviceOf, name: &str, token: &str) {
        let key = (device.uid, device.id.clone());
        let mut unsaved = self.unsaved();
        if unsaved.len() < self.max || unsaved.contains_key(&key) {
            let row = DeviceRow {
                uid: device.uid,
                device: device.id.clone(),
                class: device.class,
                name: name.to_owned(),
                token: token.to_owned(),
                seen_at: SystemTime::now().into(),
            };
            unsaved.insert(key, row);
        }
    }

    /// The newest token of a device that is known here or to MySQL.
    pub(crate) async fn token_of(
        &self,
        store: &MessageStore,
        device: &DeviceOf,
    ) -> Result<Option<String>, StoreError> {
        let key = (device.uid, device.id.clone());
        if let Some(row) = self.unsaved().get(&key) {
            return Ok(Some(row.token.clone()));
        }
        let shard = store.layout().shard_of(TableNumber::of_user(device.uid));
        let rows = store.snapshot(shard).await?;
        let rows = { rows }.devices(device.uid, LOOKED_AT).await?;
        let found = rows.into_iter().find(|row| row.device == device.id);
        Ok(found.map(|row| row.token))
    }

    async fn write(&self, store: &MessageStore) {
        let rows = std::mem::take(&mut *self.unsaved());
        let mut by_shard: BTreeMap<Shard, Vec<DeviceRow>> = BTreeMap::new();
        for row in rows.into_values() {
            let shard = store.layout().shard_of(TableNumber::of_user(row.uid));
            by_shard.entry(shard).or_default().push(row);
        }
        for (shard, rows) in by_shard {
            if let Err(error) = store.write_devices(shard, &rows).await {
                tracing::debug!(%error, "the tokens of devices are not written");
                self.put_back(rows);
            }
        }
        metrics::unsaved(self.unsaved().len());
    }

    fn put_back(&self, rows: Vec<DeviceRow>) {
        let mut unsaved = self.unsaved();
        for row in rows {
            if unsaved.len() < self.max {
                let key = (row.uid, row.device.clone());
                // What came meanwhile is newer.
                unsaved.entry(key).or_insert(row);
            }
        }
    }

    fn unsaved(&self) -> MutexGuard<'_, HashMap<(UserId, DeviceId), DeviceRow>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes them until the shutdown, and once more when the last connection has ended. Shows the gateway's size in the metrics.
pub(crate) async fn keep(gateway: Arc<Gateway>) -> anyhow::Result<()> {
    let mut ticks = interval(WRITE_INTERVAL);
    while !gateway.shutdown.soft().is_cancelled() {
        tokio::select! {
            _ = ticks.tick() => {}
            () = gateway.shutdown.soft().cancelled() => {}
        }
        if let Some(hub) = gateway.hub() {
            metrics::sample(
                gateway.connection_count(),
                hub.stream_count(),
                hub.ring_bytes(),
                gateway.presence.lease_count(),
            );
        }
        gateway.devices.write(&gateway.store).await;
    }
    tokio::select! {
        () = gateway.all_closed() => {}
        () = gateway.shutdown.hard().cancelled() => {}
    }
    gateway.devices.write(&gateway.store).await;
    Ok(())
}
