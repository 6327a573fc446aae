//! The devices of users, as gateways store them. These rows do not follow from the log.

use schemas::{DeviceClass, DeviceId, TableNumber, TimestampMs, UserId};
use sqlx::{Row as _, mysql::MySqlRow};

use crate::{
    MessageStore, ReadTx, Shard, Sink, StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, Preparation},
    names::Table,
    read::decode,
    write::{Transaction, by_table},
};

/// A row of `device_<n>`, n = uid mod 64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRow {
    /// The user of the device.
    pub uid: UserId,
    /// The id of the device.
    pub device: DeviceId,
    /// Its class.
    pub class: DeviceClass,
    /// The user's name for the device: at most 64 characters. A longer one is an error of the write.
    pub name: String,
    /// The device's newest token as text, possibly one of another version: at most 1,024 characters of ASCII.
    pub token: String,
    /// When the device had handled everything that the token covers, by the clock of its gateway.
    pub seen_at: TimestampMs,
}

const ROWS_AT_ONCE: u64 = 1_000;

impl MessageStore {
    /// Stores devices of one database. If a device is written twice, the later `seen_at` wins, so that a token never moves back.
    ///
    /// # Errors
    /// As all writes.
    pub async fn write_devices(&self, shard: Shard, rows: &[DeviceRow]) -> Result<(), StoreError> {
        let mut sorted: Vec<&DeviceRow> = rows.iter().collect();
        sorted.sort_by(|a, b| a.device.cmp(&b.device));
        let table_of = |row: &DeviceRow| TableNumber::of_user(row.uid);
        let sorted = by_table(self, shard, sorted, table_of, |row| (row.uid.get(), 0))?;
        let mut statements = Vec::new();
        for (n, rows) in sorted {
            let insert = Insert {
                table: &self.names().table(Table::Device, n),
                columns: "uid, device, class, name, token, seen_at",
                tail: include_str!("../sql/write/merge_device.sql"),
                sizes: Preparation::Once,
            };
            statements.extend(insert.statements(&rows, |arguments, row| {
                Ok(arguments
                    .with(row.uid.get())
                    .with(row.device.as_str())
                    .with(to_column(row.class))
                    .with(row.name.as_str())
                    .with(row.token.as_str())
                    .with(datetime::to_column(row.seen_at)?))
            })?);
        }
        // Devices do not come from the log, so no sink's offsets move.
        let no_offsets = (Sink::Contacts, "");
        Transaction::new(self, shard, no_offsets, &[], statements)?
            .commit(self)
            .await
    }

    /// Deletes devices that were last seen before `time`. Returns how many over all tables.
    ///
    /// # Errors
    /// As all writes.
    pub async fn delete_devices_unseen_since(&self, time: TimestampMs) -> Result<u64, StoreError> {
        let time = datetime::to_column(time)?;
        let mut deleted = 0;
        for shard in self.layout().shards() {
            let mut session = self.session(shard).await?;
            for n in self.layout().tables_of(shard) {
                let table = self.names().table(Table::Device, n);
                let sql = include_str!("../sql/write/delete_unseen_devices.sql")
                    .replace("{table}", &table)
                    .replace("{time}", &time.to_string())
                    .replace("{limit}", &ROWS_AT_ONCE.to_string());
                loop {
                    let gone = session.execute(sql.clone()).await;
                    let gone = gone.map_err(|error| error.of(&table))?;
                    deleted += gone;
                    if gone < ROWS_AT_ONCE {
                        break;
                    }
                }
            }
        }
        Ok(deleted)
    }

    /// Deletes all but the newest `kept` devices of each user. Returns how many over all tables.
    ///
    /// # Errors
    /// As all writes.
    pub async fn delete_devices_beyond(&self, kept: u32) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for shard in self.layout().shards() {
            let mut session = self.session(shard).await?;
            for n in self.layout().tables_of(shard) {
                let table = self.names().table(Table::Device, n);
                let of_table = |sql: &str| {
                    sql.replace("{table}", &table)
                        .replace("{kept}", &kept.to_string())
                };
                let many = of_table(include_str!("../sql/read/users_of_many_devices.sql"));
                let many = session.fetch_text(many).await;
                for row in many.map_err(|error| error.of(&table))? {
                    let uid: UserId = decode::number(&row, "uid")?;
                    let sql = of_table(include_str!("../sql/write/delete_devices_beyond.sql"));
                    let gone = session
                        .execute(sql.replace("{uid}", &uid.to_string()))
                        .await;
                    deleted += gone.map_err(|error| error.of(&table))?;
                }
            }
        }
        Ok(deleted)
    }
}

impl ReadTx {
    /// The devices of a user that were seen last, up to `limit`, the newest first.
    pub async fn devices(&mut self, uid: UserId, limit: u32) -> Result<Vec<DeviceRow>, StoreError> {
        let table = self.table(Table::Device, TableNumber::of_user(uid))?;
        let arguments = Arguments::default().with(uid.get()).with(limit);
        let sql = include_str!("../sql/read/devices.sql");
        self.fetch(sql, &table, arguments, device).await
    }

    /// One device of a user.
    pub async fn device(
        &mut self,
        uid: UserId,
        id: &DeviceId,
    ) -> Result<Option<DeviceRow>, StoreError> {
        let table = self.table(Table::Device, TableNumber::of_user(uid))?;
        let arguments = Arguments::default().with(uid.get()).with(id.as_str());
        let sql = include_str!("../sql/read/device.sql");
        Ok(self.fetch(sql, &table, arguments, device).await?.pop())
    }
}

fn device(row: &MySqlRow) -> Result<DeviceRow, StoreError> {
    let id: String = row.try_get("device")?;
    Ok(DeviceRow {
        uid: decode::number(row, "uid")?,
        device: DeviceId::try_from(id).map_err(StoreError::fatal)?,
        class: from_column(row.try_get("class")?)?,
        name: row.try_get("name")?,
        token: row.try_get("token")?,
        seen_at: datetime::from_column(row.try_get("seen_at")?),
    })
}

fn to_column(class: DeviceClass) -> i8 {
    match class {
        DeviceClass::Pc => 1,
        DeviceClass::Mobile => 2,
    }
}

fn from_column(class: i8) -> Result<DeviceClass, StoreError> {
    let found = DeviceClass::ALL
        .into_iter()
        .find(|one| to_column(*one) == class);
    found.ok_or_else(|| StoreError::fatal(format!("column class: there is no {class}")))
}
