//! Topics and databases for all tests, and what a sequencer would append. Each test keeps to a partition of its own.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime},
};

use dev_stack::TestServers;
use event_log::{Admin, AppendRecord, Appender, ProducerSettings};
use gateway::Config;
use message_store::{
    ContactDelta, ConversationRows, DeviceRow, GroupDelta, MessageStore, MySqlConfig, OffsetUpdate,
    SettingsAt, Sink, UserRows,
};
use schemas::{
    ClientMsgId, ContactChange, ContactFlags, DeviceClass, GroupChange, GroupChangeKind, GroupId,
    GroupMember, GroupRole, GroupSettings, InboundPosition, LogPosition, Mid, NextOffset, Ordinal,
    Partition, PartitionMap, Recipient, SyncToken, TimestampMs, UserId,
    dead_letter::{DeadLetterRecord, Origin, OriginalRecord, Reason},
    event::{Body, Event, Message, Source, SourceOffset},
    topics::Topic,
};
use tokio::sync::OnceCell;

/// Longer than anything here takes; a test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Deployment {
    pub config: Config,
    appender: Appender,
}

impl Deployment {
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Deployment> = OnceCell::const_new();
        SHARED.get_or_init(Self::new).await
    }

    pub async fn new() -> Self {
        let servers = TestServers::shared();
        let id = uuid::Uuid::new_v4().simple().to_string();
        let mut config = Config::default();
        config.kafka.brokers = servers.kafka_brokers.clone();
        config.kafka.prefix = format!("t{id}.");
        let admin = Admin::new(&config.kafka).unwrap();
        admin.apply().await.unwrap();
        config.mysql = MySqlConfig {
            servers: vec![servers.mysql_url.parse().unwrap()],
            database_prefix: format!("w{}_", &id[..12]),
            connections_per_server: 4,
            ..MySqlConfig::default()
        };
        config.gateway.lease_ms = 1_000;
        config.redis.url.clone_from(&servers.redis_url);
        config.redis.key_prefix = format!("t{id}:");
        let store = MessageStore::connect(&config.mysql);
        store.apply_schema(now()).await.unwrap();
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 20_000,
            queue_bytes: 32 << 20,
            max_message_bytes: 1_000_000,
            gapless: false,
        };
        let appender = Appender::new(&config.kafka, &settings).unwrap();
        Self { config, appender }
    }

    /// Two users whose conversation is in this partition; no test before had them.
    pub fn users(partition: i64) -> [UserId; 2] {
        static NEXT: AtomicI64 = AtomicI64::new(1_000);
        let base = 64 * NEXT.fetch_add(2, Ordering::Relaxed);
        [base, base + 64 + partition].map(|uid| uid.try_into().unwrap())
    }

    /// Appends a record to `chat.inbound` and the event that it causes.
    pub async fn emit(&self, body: Body) -> i64 {
        let partition = of_body(&body);
        let cause = self.append(Topic::Inbound, partition, b"", &[]).await;
        self.emit_for(cause, body).await
    }

    /// Appends the event of a record of `chat.inbound`; its offset.
    pub async fn emit_for(&self, cause: i64, body: Body) -> i64 {
        let partition = of_body(&body);
        let event = event(cause, body).encode();
        self.append(Topic::Events, partition, &event, &[]).await
    }

    /// Appends the dead letter of a record of `chat.inbound`.
    pub async fn refuse(&self, at: InboundPosition, reason: Reason) {
        let topic = self.config.kafka.topic(Topic::Inbound);
        let origin = Origin::of_inbound(&topic, at);
        let letter =
            DeadLetterRecord::new(&origin, reason, "in a test", &OriginalRecord::default());
        self.append(Topic::DeadLetters, at.partition, b"", &letter.headers)
            .await;
    }

    /// MySQL has everything below this offset of a partition.
    pub async fn store_contacts_up_to(&self, partition: i64, next: i64) {
        let store = MessageStore::connect(&self.config.mysql);
        let topic = self.config.kafka.topic(Topic::Events);
        let to = LogPosition {
            next: NextOffset::new(next),
            watermark: SourceOffset::START,
        };
        let moves = [OffsetUpdate {
            partition: partition.try_into().unwrap(),
            from: LogPosition::default(),
            to,
        }];
        for shard in store.layout().shards() {
            let moved = store.update_resume_offsets(shard, Sink::Contacts, &topic, &moves);
            moved.await.unwrap();
        }
    }

    /// MySQL has that this user has written to the other one.
    pub async fn store_contact(&self, [uid, peer]: [UserId; 2]) {
        let store = MessageStore::connect(&self.config.mysql);
        let topic = self.config.kafka.topic(Topic::Events);
        let mut contact = ContactDelta::new(uid, peer);
        contact.own_ordinal = Ordinal::ZERO.next();
        let rows = UserRows {
            contacts: vec![&contact],
            ..UserRows::default()
        };
        let shard = store.layout().shard_of_user(uid);
        let written = store.write_user_rows(shard, &topic, rows, &[]);
        written.await.unwrap();
    }

    /// MySQL has that a group is dissolved.
    pub async fn store_dissolved(&self, gid: i64, owner: UserId) {
        let store = MessageStore::connect(&self.config.mysql);
        let topic = self.config.kafka.topic(Topic::Events);
        let settings = GroupSettings {
            name: "Lunch".to_owned(),
            owner,
            open: true,
            whole_history: false,
            muted: false,
            dissolved: true,
        };
        let group = GroupDelta {
            settings: Some(SettingsAt {
                event_offset: 1,
                settings,
                member_count: 0,
            }),
            event_offset: 1,
            ..GroupDelta::default()
        };
        let gid: GroupId = gid.try_into().unwrap();
        let rows = ConversationRows {
            groups: [(gid, group)].into(),
            ..ConversationRows::default()
        };
        let shard = store.layout().shard_of(gid.partition());
        let written = store.write_messages(shard, &topic, &rows, &[]);
        written.await.unwrap();
    }

    /// The devices of a user that are kept.
    pub async fn devices(&self, uid: UserId) -> Vec<DeviceRow> {
        let store = MessageStore::connect(&self.config.mysql);
        let shard = store.layout().shard_of_user(uid);
        let mut snapshot = store.snapshot(shard).await.unwrap();
        snapshot.devices(uid, 1_000).await.unwrap()
    }

    /// So many other devices of a user, which were seen a minute later.
    pub async fn keep_others(&self, uid: UserId, count: usize) {
        let store = MessageStore::connect(&self.config.mysql);
        let rows: Vec<DeviceRow> = (0..count)
            .map(|n| DeviceRow {
                uid,
                device: format!("other-{n}").try_into().unwrap(),
                class: DeviceClass::Mobile,
                name: String::new(),
                token: token(0, 0),
                seen_at: TimestampMs(now().0 + 60_000),
            })
            .collect();
        let shard = store.layout().shard_of_user(uid);
        store.write_devices(shard, &rows).await.unwrap();
    }

    async fn append(
        &self,
        topic: Topic,
        partition: Partition,
        value: &[u8],
        headers: &[(String, Option<Vec<u8>>)],
    ) -> i64 {
        let record = AppendRecord {
            topic: &self.config.kafka.topic(topic),
            partition,
            key: b"",
            value: Some(value),
            timestamp: None,
            headers,
        };
        self.appender.append(record).await.unwrap()
    }
}

fn event(cause: i64, body: Body) -> Event {
    Event {
        src: Source {
            offset: SourceOffset {
                epoch: 0,
                offset: cause,
            },
            leader_epoch: 0,
        },
        ts: now(),
        body,
        command: None,
        words: None,
    }
}

fn of_body(body: &Body) -> Partition {
    event(0, body.clone()).partition().unwrap()
}

fn now() -> TimestampMs {
    SystemTime::now().into()
}

/// A token that covers nothing but what is below this offset of one partition.
pub fn token(partition: i64, next: i64) -> String {
    let partition = Partition::try_from(partition).unwrap();
    let next: PartitionMap<NextOffset> = [(partition, NextOffset::new(next))].into();
    SyncToken::new(0, &next).to_string()
}

pub fn message([from, to]: [UserId; 2], id: &str, mid: i64) -> Body {
    Body::Message(Message {
        srcid: from,
        to: Recipient::User(to),
        client_msg_id: client_msg_id(id),
        msg: format!("text {mid}"),
        mid: Mid::try_from(mid).unwrap(),
        ordinal: Ordinal::ZERO.next(),
    })
}

pub fn group_message(gid: i64, by: UserId, msg: &str, mid: i64) -> Body {
    Body::Message(Message {
        srcid: by,
        to: Recipient::Group(gid.try_into().unwrap()),
        client_msg_id: client_msg_id(&format!("{mid}")),
        msg: msg.to_owned(),
        mid: Mid::try_from(mid).unwrap(),
        ordinal: Ordinal::ZERO,
    })
}

/// A user joins, or leaves.
pub fn member(gid: i64, who: UserId, joins: bool) -> Body {
    let kind = match joins {
        true => GroupChangeKind::Join,
        false => GroupChangeKind::Leave,
    };
    Body::GroupChange(Box::new(GroupChange {
        gid: gid.try_into().unwrap(),
        by: who,
        kind,
        settings: GroupSettings {
            name: "Lunch".to_owned(),
            owner: who,
            open: true,
            whole_history: false,
            muted: false,
            dissolved: false,
        },
        member_count: 1,
        last_mid: Mid::ZERO,
        members: vec![GroupMember {
            uid: who,
            role: joins.then_some(GroupRole::Member),
            muted: false,
            joined: joins,
        }],
    }))
}

/// The owner dissolves a group.
pub fn dissolve(gid: i64, owner: UserId) -> Body {
    let mut body = member(gid, owner, false);
    if let Body::GroupChange(change) = &mut body {
        change.kind = GroupChangeKind::Dissolve;
        change.settings.dissolved = true;
        change.member_count = 0;
        change.members.clear();
    }
    body
}

/// A user says about another one that he is blocked, or is not.
pub fn block([uid, peer]: [UserId; 2], blocked: bool) -> Body {
    let flags = ContactFlags {
        blocked,
        ..ContactFlags::default()
    };
    Body::ContactChange(ContactChange {
        uid,
        peer,
        flags,
        deleted: None,
    })
}

fn client_msg_id(id: &str) -> ClientMsgId {
    id.to_owned().try_into().unwrap()
}
