//! The tokens of devices in `device_<n>`: a device that has lost its own token continues from the one stored there.

use std::collections::{BTreeMap, HashMap, hash_map::Entry};

use message_store::{DeviceRow, MessageStore, Shard, StoreError};
use parking_lot::Mutex;
use schemas::{DeviceId, TimestampMs, UserId};

use crate::hub::DeviceOf;

/// Devices whose newest token is not in MySQL yet.
pub(crate) struct Devices {
    unsaved: Mutex<HashMap<(UserId, DeviceId), DeviceRow>>,
    /// How many are kept while MySQL is away.
    max: usize,
}

impl Devices {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            unsaved: Mutex::default(),
            max,
        }
    }

    /// A device had handled everything that `token` covers at `seen_at`.
    pub(crate) fn save(&self, device: &DeviceOf, name: &str, token: &str, seen_at: TimestampMs) {
        self.add(DeviceRow {
            uid: device.uid,
            device: device.id.clone(),
            class: device.class,
            name: name.to_owned(),
            token: token.to_owned(),
            seen_at,
        });
    }

    /// Keeps the later of two rows of a device: when a connection ends, it saves what it knew, although a newer connection of the device may have
    /// saved a later token.
    fn add(&self, row: DeviceRow) {
        let mut unsaved = self.unsaved.lock();
        let has_room = unsaved.len() < self.max;
        match unsaved.entry((row.uid, row.device.clone())) {
            Entry::Occupied(mut known) if known.get().seen_at < row.seen_at => {
                known.insert(row);
            }
            Entry::Vacant(place) if has_room => {
                place.insert(row);
            }
            Entry::Occupied(_) | Entry::Vacant(_) => {}
        }
    }

    /// The newest token of a device that is known here or to MySQL.
    pub(crate) async fn token_of(
        &self,
        store: &MessageStore,
        device: &DeviceOf,
    ) -> Result<Option<String>, StoreError> {
        let key = (device.uid, device.id.clone());
        if let Some(row) = self.unsaved.lock().get(&key) {
            return Ok(Some(row.token.clone()));
        }
        let shard = store.layout().shard_of_user(device.uid);
        let found = store.snapshot(shard).await?;
        let found = { found }.device(device.uid, &device.id).await?;
        Ok(found.map(|row| row.token))
    }

    /// Writes what is not in MySQL yet; what fails is kept for the next time.
    pub(crate) async fn write(&self, store: &MessageStore) {
        let rows = std::mem::take(&mut *self.unsaved.lock());
        let mut by_shard: BTreeMap<Shard, Vec<DeviceRow>> = BTreeMap::new();
        for row in rows.into_values() {
            let shard = store.layout().shard_of_user(row.uid);
            by_shard.entry(shard).or_default().push(row);
        }
        for (shard, rows) in by_shard {
            if let Err(error) = store.write_devices(shard, &rows).await {
                tracing::debug!(%error, "the tokens of devices are not written");
                rows.into_iter().for_each(|row| self.add(row));
            }
        }
    }

    /// How many are not in MySQL yet.
    pub(crate) fn unsaved_count(&self) -> usize {
        self.unsaved.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use schemas::DeviceClass;

    use super::*;

    fn device(id: &str) -> DeviceOf {
        DeviceOf {
            uid: 1.try_into().unwrap(),
            id: id.to_owned().try_into().unwrap(),
            class: DeviceClass::Pc,
        }
    }

    #[test]
    fn of_two_saves_the_later_one_is_kept_in_whatever_order_they_come() {
        let devices = Devices::new(1);
        for (token, ms, kept) in [("b", 2, "b"), ("a", 1, "b"), ("c", 3, "c")] {
            // There is room for one.
            for id in ["a", "b"] {
                devices.save(&device(id), "", token, TimestampMs(ms));
            }
            let unsaved = devices.unsaved.lock();
            let tokens: Vec<&str> = unsaved.values().map(|row| row.token.as_str()).collect();
            assert_eq!(tokens, [kept]);
        }
    }
}
