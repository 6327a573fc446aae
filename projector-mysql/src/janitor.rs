use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use event_log::{KafkaConfig, LogReader};
use message_store::{ClearedCursors, MessageStore, StoreError};
use schemas::{Partition, TimestampMs, topics::Topic};
use service_runtime::ReadinessCheck;
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// The interval of retries after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// How many of a user's devices stay: the newest.
const DEVICES_OF_USER: u32 = 100;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Adds months ahead of time, so that writers rarely have to, fails its readiness check if one is missing, and drops old ones if configured. It also deletes
/// changes whose months of messages were dropped, by whatever program, hidden messages once they are cleared, devices that have not been seen for long, and
/// rows of users who left a group long ago.
pub(crate) struct Janitor {
    pub(crate) store: MessageStore,
    pub(crate) months_ahead: u8,
    /// How many months before that of the newest message stay; `None`: all.
    pub(crate) months_kept: Option<u16>,
    /// For how many days devices that are not seen stay.
    pub(crate) devices_kept_days: u16,
    /// For how many days of log time rows of users who left a group stay.
    pub(crate) left_kept_days: u16,
    /// The log, which tells the offsets of that time.
    pub(crate) kafka: KafkaConfig,
    pub(crate) interval: Duration,
    pub(crate) gate: ReadinessCheck,
    pub(crate) clock: fn() -> TimestampMs,
    pub(crate) cleared: ClearedCursors,
}

impl Janitor {
    pub(crate) async fn run(mut self, soft: CancellationToken) -> anyhow::Result<()> {
        loop {
            // Another program may hold the schema's lock for minutes.
            let outcome = tokio::select! {
                () = soft.cancelled() => return Ok(()),
                outcome = self.look_after((self.clock)()) => outcome,
            };
            let next = match outcome {
                Ok(()) => {
                    self.gate.ready();
                    self.interval
                }
                Err(why) => {
                    self.gate.not_ready(why);
                    RETRY
                }
            };
            tokio::select! {
                () = soft.cancelled() => return Ok(()),
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    async fn look_after(&mut self, now: TimestampMs) -> Result<(), String> {
        self.maintain(now).await?;
        let forgotten = self.forget_left(now).await;
        let deleted =
            forgotten.map_err(|why| format!("who left groups is not forgotten: {why}"))?;
        if deleted > 0 {
            let days = self.left_kept_days;
            tracing::info!(days, deleted, "rows of who left groups deleted");
        }
        Ok(())
    }

    /// Deletes rows of users who left a group more than `left_kept_days` before the newest message (PROTOCOL Y8).
    async fn forget_left(&self, now: TimestampMs) -> anyhow::Result<u64> {
        let Some(present) = self.store.present(now).await? else {
            return Ok(0);
        };
        let since = TimestampMs(present.0 - i64::from(self.left_kept_days) * DAY_MS);
        let reader = Arc::new(LogReader::new(&self.kafka)?);
        let all: Vec<Partition> = Partition::all().collect();
        let below = reader.blocking(move |reader| reader.offsets_at(Topic::Events, &all, since));
        let below = below.await?;
        let topic = self.kafka.topic(Topic::Events);
        Ok(self.store.forget_left(&topic, &below).await?)
    }

    /// Adds missing months, and reports those that stay missing. If none does, drops and deletes what is old.
    async fn maintain(&mut self, now: TimestampMs) -> Result<(), String> {
        let added = self.store.ensure_months(now, self.months_ahead).await;
        if let Ok(added) = &added
            && *added > 0
        {
            tracing::info!(added, "months added");
        }
        let missing = self.missing(now).await.map_err(|error| error.to_string())?;
        metrics::missing_months(missing.len());
        added.map_err(|error| format!("months cannot be added: {error}"))?;
        match missing.first() {
            None => {
                self.drop_old(now).await?;
                self.delete_old_changes().await?;
                self.delete_cleared().await?;
                self.delete_unseen_devices(now).await
            }
            Some(first) => Err(format!(
                "{} months are missing, {first} among them",
                missing.len()
            )),
        }
    }

    /// Called only when no month is missing: the last one of a table cannot be dropped.
    async fn drop_old(&self, now: TimestampMs) -> Result<(), String> {
        let Some(kept) = self.months_kept else {
            return Ok(());
        };
        let dropped = self.store.keep_months(kept, now).await;
        let dropped = dropped.map_err(|error| format!("months cannot be dropped: {error}"))?;
        if dropped > 0 {
            tracing::info!(kept, dropped, "months dropped, as configured");
        }
        Ok(())
    }

    async fn delete_old_changes(&self) -> Result<(), String> {
        let deleted = self.store.delete_old_changes().await;
        let deleted = deleted.map_err(|error| format!("changes cannot be deleted: {error}"))?;
        if deleted > 0 {
            tracing::info!(deleted, "changes deleted, as the months of their time");
        }
        Ok(())
    }

    async fn delete_cleared(&mut self) -> Result<(), String> {
        let deleted = self.store.delete_cleared(&mut self.cleared).await;
        let deleted =
            deleted.map_err(|error| format!("hidden messages cannot be deleted: {error}"))?;
        if deleted > 0 {
            tracing::info!(deleted, "hidden messages deleted, as they were cleared");
        }
        Ok(())
    }

    async fn delete_unseen_devices(&self, now: TimestampMs) -> Result<(), String> {
        let days = self.devices_kept_days;
        let time = TimestampMs(now.0 - i64::from(days) * DAY_MS);
        let deleted = self.store.delete_devices_unseen_since(time).await;
        let deleted = deleted.map_err(|error| format!("devices cannot be deleted: {error}"))?;
        if deleted > 0 {
            tracing::info!(days, deleted, "devices deleted, as they were not seen");
        }
        let deleted = self.store.delete_devices_beyond(DEVICES_OF_USER).await;
        let deleted = deleted.map_err(|error| format!("devices cannot be deleted: {error}"))?;
        if deleted > 0 {
            tracing::info!(
                deleted,
                "devices deleted, as their users have many newer ones"
            );
        }
        Ok(())
    }

    async fn missing(&self, now: TimestampMs) -> Result<Vec<String>, StoreError> {
        let by_table = self.store.missing_months(now, self.months_ahead).await?;
        Ok(by_table
            .into_iter()
            .flat_map(|(n, months)| {
                months
                    .into_iter()
                    .map(move |month| format!("{month} of chat_msg_{n}"))
            })
            .collect())
    }
}

/// Log time follows the brokers' clocks, which differ from this machine's only by their error. Months are added much further ahead than that.
pub(crate) fn wall_clock() -> TimestampMs {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use dev_stack::TestServers;
    use event_log::{AppendRecord, Appender, ProducerSettings, TestTopics};
    use message_store::{
        ContactDelta, ConversationRows, DeviceRow, Membership, MessageRow, OffsetUpdate, Shard,
        Sink, TestDatabases, UserRows,
    };
    use schemas::{
        DeviceClass, DeviceId, GroupId, LogPosition, Mid, NextOffset, Ordinal, Recipient,
        TableNumber, UserId,
        event::{Message, SourceOffset},
    };
    use service_runtime::Health;
    use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

    use super::*;

    /// 2027-01-01T00:00:00Z
    const NEW_YEAR: i64 = 1_798_761_600_000;
    const DAY: i64 = 24 * 3_600_000;

    fn row(id: i64, ts: i64) -> MessageRow {
        let (srcid, destid) = (1.try_into().unwrap(), 2.try_into().unwrap());
        let message = Message {
            srcid,
            to: Recipient::User(destid),
            client_msg_id: id.to_string().try_into().unwrap(),
            msg: "x".to_owned(),
            mid: Mid::try_from(id).unwrap(),
            ordinal: Ordinal::try_from(id).unwrap(),
        };
        MessageRow::new(id, TimestampMs(ts), message)
    }

    struct TestEnv {
        janitor: Janitor,
        url: String,
        prefix: String,
        _databases: TestDatabases,
        shard: Shard,
        table: TableNumber,
    }

    impl TestEnv {
        /// Made at the end of November; the clock shows the last millisecond of the year.
        async fn new() -> Self {
            let servers = tokio::task::spawn_blocking(TestServers::shared)
                .await
                .unwrap();
            let databases = TestDatabases::new(&[&servers.mysql_url], 1);
            let store = MessageStore::connect(databases.config());
            let november = TimestampMs(NEW_YEAR - 40 * DAY);
            store.apply_schema(november).await.unwrap();
            let table = TableNumber::try_from(3).unwrap();
            Self {
                shard: store.layout().shard_of(table),
                janitor: Janitor {
                    store,
                    months_ahead: 2,
                    months_kept: None,
                    devices_kept_days: 30,
                    left_kept_days: 30,
                    kafka: KafkaConfig::default(),
                    interval: Duration::from_secs(1),
                    gate: Health::default().check("months"),
                    clock: || TimestampMs(NEW_YEAR - 1),
                    cleared: ClearedCursors::default(),
                },
                url: servers.mysql_url.clone(),
                prefix: databases.config().database_prefix.clone(),
                _databases: databases,
                table,
            }
        }

        async fn write(&self, rows: &[MessageRow]) -> Result<(), StoreError> {
            let store = &self.janitor.store;
            let rows = ConversationRows {
                messages: rows.to_vec(),
                ..ConversationRows::default()
            };
            store.write_messages(self.shard, "t", &rows, &[]).await
        }

        async fn ids(&self) -> Vec<i64> {
            let mut snapshot = self.janitor.store.snapshot(self.shard).await.unwrap();
            let rows = snapshot.scan_messages(self.table, -1, 100).await;
            rows.unwrap().iter().map(|row| row.id).collect()
        }

        async fn months(&self) -> Vec<String> {
            let all = self.janitor.store.list_months().await.unwrap();
            all[&self.table].keys().map(ToString::to_string).collect()
        }
    }

    #[tokio::test]
    async fn the_year_ends() {
        let mut env = TestEnv::new().await;
        env.janitor
            .maintain(TimestampMs(NEW_YEAR - 1))
            .await
            .unwrap();
        let months = ["2026-11", "2026-12", "2027-01", "2027-02"];
        assert_eq!(env.months().await, months);

        // The log's clock may be ahead of the janitor's, by months.
        let all = [
            row(1, NEW_YEAR - 1),
            row(2, NEW_YEAR),
            row(3, NEW_YEAR + 50 * DAY),
        ];
        env.write(&all).await.unwrap();
        assert_eq!(env.months().await, months);

        env.janitor.maintain(TimestampMs(NEW_YEAR)).await.unwrap();
        assert_eq!(env.months().await, [&months[..], &["2027-03"]].concat());
        assert_eq!(env.ids().await, [1, 2, 3]);
    }

    /// Appends records of these times to a partition of `chat.events`.
    async fn append_at(kafka: &KafkaConfig, partition: Partition, times: &[i64]) {
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 20_000,
            queue_bytes: 1 << 20,
            max_message_bytes: 1_000_000,
            gapless: false,
        };
        let appender = Appender::new(kafka, &settings).unwrap();
        for ts in times {
            let record = AppendRecord {
                topic: &kafka.topic(Topic::Events),
                partition,
                key: b"",
                value: Some(b""),
                headers: &[],
                timestamp: Some(TimestampMs(*ts)),
            };
            appender.append(record).await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_left_long_before_the_newest_message_is_forgotten() {
        let env = TestEnv::new().await;
        let topics = TestTopics::create(&TestServers::shared().kafka_brokers).await;
        let (kafka, store) = (topics.config().clone(), &env.janitor.store);
        let topic = kafka.topic(Topic::Events);
        let gid = GroupId::try_from(3).unwrap();
        let days_ago = [31, 31, 29].map(|days| NEW_YEAR - days * DAY);
        append_at(&kafka, gid.partition(), &days_ago).await;
        let users: [UserId; 3] = [5, 6, 7].map(|uid| uid.try_into().unwrap());
        let rows = users.iter().zip(0..).map(|(uid, offset)| Membership {
            left_pos: offset,
            event_offset: offset,
            ..Membership::new(*uid, gid)
        });
        let rows: Vec<Membership> = rows.collect();
        let rows = UserRows {
            memberships: rows.iter().collect(),
            ..UserRows::default()
        };
        let moves = [OffsetUpdate {
            partition: gid.partition(),
            from: LogPosition::default(),
            to: LogPosition {
                next: NextOffset::new(3),
                watermark: SourceOffset::START,
            },
        }];
        let written = store.write_user_rows(env.shard, &topic, rows, &moves);
        written.await.unwrap();
        let moved = store.update_resume_offsets(env.shard, Sink::Messages, &topic, &moves);
        moved.await.unwrap();
        let janitor = Janitor {
            kafka,
            ..env.janitor
        };
        let forget = async |now| janitor.forget_left(TimestampMs(now)).await.unwrap();
        assert_eq!(forget(NEW_YEAR).await, 0, "nobody says what time it is");
        let (newest, shard) = ([row(1, NEW_YEAR - 1)], env.shard);
        let newest = ConversationRows {
            messages: newest.to_vec(),
            ..ConversationRows::default()
        };
        let written = janitor.store.write_messages(shard, "t", &newest, &[]);
        written.await.unwrap();
        // With a clock that is behind nobody is forgotten, and with one that is ahead nobody too early.
        for (now, deleted) in [(NEW_YEAR - 2 * DAY, 0), (NEW_YEAR + 365 * DAY, 2)] {
            assert_eq!(forget(now).await, deleted);
        }
        let mut snapshot = janitor.store.snapshot(shard).await.unwrap();
        let left = snapshot.memberships_of(users[2], &[gid]).await.unwrap();
        assert_eq!(left.len(), 1);
    }

    #[tokio::test]
    async fn hidden_messages_go_once_they_are_cleared() {
        let mut env = TestEnv::new().await;
        let (uid, peer) = (3.try_into().unwrap(), 4.try_into().unwrap());
        let mut row = ContactDelta::new(uid, peer);
        row.hidden
            .extend([1, 2, 3].map(|mid| Mid::try_from(mid).unwrap()));
        row.clear_mid = 2.try_into().unwrap();
        let store = env.janitor.store.clone();
        let rows = UserRows {
            contacts: vec![&row],
            ..UserRows::default()
        };
        let written = store.write_user_rows(env.shard, "t", rows, &[]);
        written.await.unwrap();
        env.janitor.maintain(TimestampMs(NEW_YEAR)).await.unwrap();
        let mut snapshot = store.snapshot(env.shard).await.unwrap();
        let left = snapshot.scan_hidden(env.table, None, 9).await.unwrap();
        assert_eq!(left, [(uid, peer, 3.try_into().unwrap())]);
    }

    #[tokio::test]
    async fn devices_go_once_nobody_has_seen_them_for_30_days() {
        let mut env = TestEnv::new().await;
        let uid = 3.try_into().unwrap();
        let device = |id: &str, seen_at: i64| DeviceRow {
            uid,
            device: DeviceId::try_from(id.to_owned()).unwrap(),
            class: DeviceClass::Pc,
            name: String::new(),
            token: "t".to_owned(),
            seen_at: TimestampMs(seen_at),
        };
        let oldest_kept = NEW_YEAR - 30 * DAY;
        let devices = [
            device("gone", oldest_kept - 1),
            device("stays", oldest_kept),
        ];
        let store = env.janitor.store.clone();
        store.write_devices(env.shard, &devices).await.unwrap();
        env.janitor.maintain(TimestampMs(NEW_YEAR)).await.unwrap();
        let mut snapshot = store.snapshot(env.shard).await.unwrap();
        assert_eq!(snapshot.devices(uid, 9).await.unwrap(), devices[1..]);
    }

    #[tokio::test]
    async fn old_months_go_only_when_told_to_and_do_not_come_back() {
        let mut env = TestEnv::new().await;
        let year_before = NEW_YEAR - 365 * DAY;
        // Older than every month: it gets one of its own, and does not lie in the first one in silence.
        let rows = [
            row(1, year_before),
            row(2, NEW_YEAR - 40 * DAY),
            row(3, NEW_YEAR - 1),
        ];
        env.write(&rows).await.unwrap();
        env.write(&[row(4, year_before + 100 * DAY)]).await.unwrap();
        env.janitor
            .maintain(TimestampMs(NEW_YEAR - 1))
            .await
            .unwrap();
        let all = [
            "2026-01", "2026-04", "2026-11", "2026-12", "2027-01", "2027-02",
        ];
        assert_eq!(env.months().await, all);

        env.janitor.months_kept = Some(1);
        env.write(&[row(5, NEW_YEAR)]).await.unwrap();
        env.janitor.maintain(TimestampMs(NEW_YEAR)).await.unwrap();
        assert_eq!(
            env.months().await,
            ["2026-12", "2027-01", "2027-02", "2027-03"]
        );
        assert_eq!(env.ids().await, [3, 5]);

        // A projector reads the log again, and does not know that the months were dropped.
        let late = [
            row(1, year_before),
            row(2, NEW_YEAR - 40 * DAY),
            row(6, NEW_YEAR),
        ];
        env.write(&late).await.unwrap();
        assert_eq!(env.ids().await, [3, 5, 6]);
        let other = env
            .janitor
            .store
            .drop_months("2027-02".parse().unwrap(), TimestampMs(NEW_YEAR));
        assert!(
            other
                .await
                .unwrap_err()
                .to_string()
                .contains("has not begun")
        );
    }

    #[tokio::test]
    async fn a_clock_that_is_ahead_ends_no_month() {
        let mut env = TestEnv::new().await;
        env.janitor.months_kept = Some(3);
        env.write(&[row(1, NEW_YEAR - 40 * DAY)]).await.unwrap();
        let a_year_ahead = TimestampMs(NEW_YEAR + 325 * DAY);
        env.janitor.maintain(a_year_ahead).await.unwrap();
        env.write(&[row(2, NEW_YEAR - 1)]).await.unwrap();
        assert_eq!(env.ids().await, [1, 2]);
        // The log's clock may be ahead, too.
        env.write(&[row(3, a_year_ahead.0)]).await.unwrap();
        env.janitor.maintain(TimestampMs(NEW_YEAR)).await.unwrap();
        assert_eq!(env.ids().await, [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_month_that_somebody_dropped_is_missed_and_made_again() {
        let env = TestEnv::new().await;
        let mut admin = MySqlConnection::connect(&env.url).await.unwrap();
        let sql = format!(
            "ALTER TABLE {}0.chat_msg_3 DROP PARTITION p202612",
            env.prefix
        );
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut admin)
            .await
            .unwrap();
        let (store, now) = (&env.janitor.store, TimestampMs(NEW_YEAR - 40 * DAY));
        let missing = store.missing_months(now, 2).await.unwrap();
        let missing: Vec<_> = missing
            .into_iter()
            .map(|(n, m)| (n, m[0].to_string()))
            .collect();
        assert_eq!(missing, [(env.table, "2026-12".to_owned())]);
        // The next month does not take its rows.
        let rows = [row(1, NEW_YEAR - 1)];
        env.write(&rows).await.unwrap();
        assert_eq!(env.months().await, ["2026-11", "2026-12", "2027-01"]);
        assert_eq!(store.ensure_months(now, 2).await.unwrap(), 0);
    }
}
