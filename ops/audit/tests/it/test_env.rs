//! A separate deployment whose stores the test fills from the story.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use audit::{Area, AuditError, Kind, Options, Report, Scope, ShadowAudit, Sources};
use dev_stack::TestServers;
use event_log::{KafkaConfig, LogReader, TestTopics};
use message_store::{
    ChangeRow, ContactDelta, ConversationRows, FlagsAt, LastMessage, Membership, MessageRow,
    MessageStore, OffsetUpdate, ReadRow, ReadUpTo, Shard, Sink, TestDatabases, UserRows,
};
use schemas::{
    Change, ContactFlags, ConversationId, DeviceClass, DirectConversation, LogPosition,
    MessageChange, Mid, NextOffset, Partition, PartitionMap, PerDevice, Recipient, StoredProfile,
    TableNumber, TimestampMs, UserId,
    dead_letter::Reason,
    event::{Body, Message, ReadPosition},
    topics::Topic,
};
use sqlx::Connection as _;
use unread_store::{
    BeginOutcome, Connection, PositionMove, ProfileUpdate, RedisConfig, StoredPosition,
    UnreadStore, UserUpdate,
};

use crate::{
    group_rows,
    story::{LoggedEvent, Story, now, user},
};

/// A change that breaks a store, its repair, and what the audit finds in between.
pub struct Harm {
    pub area: Area,
    pub kind: Kind,
    pub what: &'static str,
    pub harm: &'static str,
    pub cure: &'static str,
}

pub struct TestEnv {
    pub kafka: KafkaConfig,
    pub sources: Sources,
    pub story: Story,
    pub database_prefix: String,
    pub key_prefix: String,
    topic: String,
    /// How many events of the story the stores have.
    projected: usize,
    positions: BTreeMap<(Shard, Sink, Partition), LogPosition>,
    redis: Connection,
    _topics: TestTopics,
    _databases: TestDatabases,
}

impl TestEnv {
    pub async fn new() -> Self {
        let servers = TestServers::shared();
        let name = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
        let topics = TestTopics::create(&servers.kafka_brokers).await;
        let kafka = topics.config().clone();
        let databases = TestDatabases::new(&[&servers.mysql_url], 2);
        let redis = RedisConfig {
            url: servers.redis_url.clone(),
            key_prefix: format!("t{name}-"),
            ..RedisConfig::default()
        };
        let messages = MessageStore::connect(databases.config());
        messages.apply_schema(now()).await.unwrap();
        let unread = UnreadStore::new(&redis).unwrap();
        let connection = unread.slots()[0].connect().await.unwrap();
        connection
            .initialise_positions(&PartitionMap::new())
            .await
            .unwrap();
        Self {
            story: Story::new(&kafka),
            topic: kafka.topic(Topic::Events),
            sources: Sources {
                kafka: kafka.clone(),
                messages,
                unread,
            },
            kafka,
            database_prefix: databases.config().database_prefix.clone(),
            key_prefix: redis.key_prefix,
            projected: 0,
            positions: BTreeMap::new(),
            redis: connection,
            _topics: topics,
            _databases: databases,
        }
    }

    /// A few users who talk and read, in both databases, with a note to oneself and each kind of record without an event.
    pub async fn with_story() -> Self {
        let mut env = Self::new().await;
        let story = &mut env.story;
        for i in 0..3 {
            story.send(1001, 1000, &format!("it's \u{1f30a} {i}")).await;
            story.send(1000, 1001, "an answer").await;
            story.send(40, 7, "elsewhere").await;
        }
        story.send(7, 7, "a note to myself").await;
        story.read(1000, 1001, DeviceClass::Mobile, 3).await;
        story.read(1000, 1001, DeviceClass::Mobile, 4).await;
        story.read(1001, 1000, DeviceClass::Pc, 6).await;
        story.read(7, 40, DeviceClass::Pc, 1).await;
        env.be_silent().await;
        env.catch_up().await;
        env.make_users(&[1000, 1001, 7, 40]).await;
        env
    }

    /// 1000 and 1001 change their messages and views in every way, and 7 and 40 their contacts.
    pub async fn with_changes() -> Self {
        let mut env = Self::new().await;
        let story = &mut env.story;
        for partition in [17, 40, 47] {
            story.begin_version_3(partition.try_into().unwrap()).await;
        }
        for i in 0..4 {
            story.send(1001, 1000, &format!("question {i}")).await;
            story.send(1000, 1001, &format!("answer {i}")).await;
            story.send(40, 7, "elsewhere").await;
        }
        env.catch_up().await;
        let story = &mut env.story;
        let edit = |msg: &str| Change::Edit(msg.to_owned());
        story.change(1001, 1000, 1, edit("a better question")).await;
        story.change(1001, 1000, 1, edit("the best question")).await;
        story.change(1000, 1001, 2, Change::Delete).await;
        story.change(1001, 1000, 3, edit("to be recalled")).await;
        story.change(1001, 1000, 3, Change::Recall).await;
        story.change(1000, 1001, 5, Change::Hide).await;
        story.change(1000, 1001, 7, Change::Hide).await;
        story.change(1001, 1000, 4, Change::Clear).await;
        story.change(1000, 1001, 8, edit("the last answer")).await;
        let pinned = |flags: &mut ContactFlags| (flags.pinned, flags.muted) = (true, true);
        story.contact(1000, 1001, Some(pinned)).await;
        // A contact with whom nobody has talked.
        story
            .contact(1000, 937, Some(|flags| flags.blocked = true))
            .await;
        story.profile(1000, "Ann").await;
        story.profile(40, "Bob").await;
        story.profile(1000, "Anne").await;
        story.contact(7, 40, None).await;
        story
            .contact(40, 7, Some(|flags| flags.favourite = true))
            .await;
        env.catch_up().await;
        env.make_users(&[1000, 1001, 7, 40]).await;
        env
    }

    /// A repeat, acks that move nothing, junk: each has its outcome, none has an event.
    async fn be_silent(&mut self) {
        use schemas::command::Command;

        let send = self.story.send(1000, 1001, "said twice").await;
        self.story.post(Command::Send(send)).await;
        let back = crate::story::ack(1000, 1001, DeviceClass::Mobile, 2);
        self.story.post(Command::ReadAck(back)).await;
        let unknown = crate::story::ack(1000, 937, DeviceClass::Mobile, 2);
        self.story.post(Command::ReadAck(unknown)).await;
        let partition = back.conversation().partition();
        assert_eq!(partition, unknown.conversation().partition());
        let last = self.story.post_junk(partition).await;
        self.story.refuse(last, b"junk", Reason::Malformed).await;
        self.story.progress(last).await;
    }

    /// Writes everything that was appended since the last call to every store.
    pub async fn catch_up(&mut self) {
        let logged: Vec<LoggedEvent> = self.story.events[self.projected..].to_vec();
        self.projected = self.story.events.len();
        let ends = self.ends().await;
        for shard in self.sources.messages.layout().shards() {
            self.write_shard(shard, &logged, &ends).await;
        }
        self.write_redis(&logged, &ends).await;
    }

    /// An audit of the tables as if they were those of a rebuild, folded up to the present end.
    pub async fn shadow_audit(&self) -> ShadowAudit {
        let sources = Sources {
            kafka: self.kafka.clone(),
            messages: self.sources.messages.clone(),
            unread: self.sources.unread.clone(),
        };
        let all: Vec<Partition> = Partition::all().collect();
        let mut audit = ShadowAudit::new(sources, &all).unwrap();
        self.fold(&mut audit).await;
        audit
    }

    pub async fn fold(&self, audit: &mut ShadowAudit) {
        let ends = self.ends().await;
        let ends = ends.iter().map(|(p, end)| (p, end.next.get())).collect();
        let check = audit.fold_to(&ends).await.unwrap();
        assert_eq!(check.differences(), 0, "{check:?}");
    }

    async fn ends(&self) -> PartitionMap<LogPosition> {
        let reader = Arc::new(LogReader::new(&self.kafka).unwrap());
        let ends = reader.ends(Topic::Events).await.unwrap();
        let mark_of = |partition| {
            let watermarks = self
                .story
                .events
                .iter()
                .filter(|logged| logged.partition == partition);
            watermarks
                .map(|logged| logged.event.src.offset)
                .max()
                .unwrap_or_default()
        };
        ends.into_iter()
            .map(|(partition, next)| {
                (
                    partition,
                    LogPosition {
                        next: NextOffset::new(next),
                        watermark: mark_of(partition),
                    },
                )
            })
            .collect()
    }

    async fn write_shard(
        &mut self,
        shard: Shard,
        logged: &[LoggedEvent],
        ends: &PartitionMap<LogPosition>,
    ) {
        let layout = self.sources.messages.layout();
        let is_here = |table: TableNumber| layout.shard_of(table) == shard;
        let mut reads = Vec::new();
        let mut contacts: BTreeMap<_, ContactDelta> = BTreeMap::new();
        let mut rows = ConversationRows::default();
        let mut profiles = Vec::new();
        let mut memberships: BTreeMap<_, Membership> = BTreeMap::new();
        for one in logged {
            for row in group_rows::memberships(one) {
                if is_here(TableNumber::of_user(row.uid)) {
                    memberships
                        .entry((row.uid, row.gid))
                        .or_insert_with(|| Membership::new(row.uid, row.gid))
                        .merge(row);
                }
            }
            for contact in self.contacts_of(one) {
                if is_here(TableNumber::of_user(contact.uid)) {
                    contacts
                        .entry((contact.uid, contact.peer))
                        .or_insert_with(|| ContactDelta::new(contact.uid, contact.peer))
                        .merge(contact);
                }
            }
            if let Body::Profile(profile) = &one.event.body
                && is_here(TableNumber::of_user(profile.uid))
            {
                let row = StoredProfile {
                    profile: profile.clone(),
                    ts: one.event.ts,
                    event_offset: one.offset,
                };
                profiles.push(row);
            }
            let LoggedEvent {
                partition,
                offset: id,
                event,
            } = one;
            if !is_here((*partition).into()) {
                continue;
            }
            match &event.body {
                Body::Message(message) => {
                    rows.messages
                        .push(MessageRow::new(*id, event.ts, message.clone()));
                }
                Body::MessageChange(change) => {
                    rows.changes
                        .push(ChangeRow::new(*id, event.ts, change.clone()));
                }
                _ => {}
            }
            if let Some(ConversationId::Group(gid)) = event.conversation() {
                group_rows::absorb(&mut rows, *id, event.ts, gid, &event.body);
            }
            reads.extend(event.body.read_positions().map(|one| read_row(&one)));
        }
        let contacts: Vec<ContactDelta> = contacts.into_values().collect();
        let own: PartitionMap<_> = ends
            .iter()
            .filter(|(p, _)| is_here((*p).into()))
            .map(|(p, e)| (p, *e))
            .collect();
        let (store, topic) = (self.sources.messages.clone(), self.topic.clone());
        let moves = self.moves(shard, Sink::Messages, &own);
        store
            .write_messages(shard, &topic, &rows, &moves)
            .await
            .unwrap();
        let moves = self.moves(shard, Sink::Reads, &own);
        store
            .write_reads(shard, &topic, &reads, &moves)
            .await
            .unwrap();
        let moves = self.moves(shard, Sink::Contacts, ends);
        let rows = UserRows {
            contacts: contacts.iter().collect(),
            memberships: memberships.values().collect(),
            profiles: profiles.iter().collect(),
        };
        store
            .write_user_rows(shard, &topic, rows, &moves)
            .await
            .unwrap();
    }

    fn moves(
        &mut self,
        shard: Shard,
        sink: Sink,
        ends: &PartitionMap<LogPosition>,
    ) -> Vec<OffsetUpdate> {
        let mut moves = Vec::new();
        for (partition, to) in ends.iter() {
            let held = self.positions.entry((shard, sink, partition)).or_default();
            if held.next < to.next {
                moves.push(OffsetUpdate {
                    partition,
                    from: *held,
                    to: *to,
                });
                *held = *to;
            }
        }
        moves
    }

    /// The changes of an event to the contacts of its users.
    fn contacts_of(&self, LoggedEvent { offset, event, .. }: &LoggedEvent) -> Vec<ContactDelta> {
        let Some(ConversationId::Direct(id)) = event.conversation() else {
            return Vec::new();
        };
        let mut contacts = match &event.body {
            Body::Message(message) => contacts_of_message(id, event.ts, message),
            Body::MessageChange(change) => contacts_of_change(id, event.ts, change),
            Body::ContactChange(change) => {
                let mut contact = ContactDelta::new(change.uid, change.peer);
                contact.flags = Some(FlagsAt {
                    event_offset: *offset,
                    flags: change.flags,
                });
                contact.deleted_mid = change.deleted.map_or(Mid::ZERO, |deleted| deleted.mid);
                vec![contact]
            }
            Body::ReadPosition(position) => {
                vec![ContactDelta::new(position.uid, id.peer_of(position.uid))]
            }
            Body::Control(_) | Body::Progress | Body::GroupChange(_) | Body::Profile(_) => {
                Vec::new()
            }
        };
        for position in event.body.read_positions() {
            contacts[0].read[position.device] = ReadUpTo {
                mid: position.mid,
                ordinal: Some(self.story.ordinal(&position)),
            };
        }
        for contact in &mut contacts {
            contact.event_offset = *offset;
        }
        contacts
    }

    async fn write_redis(&mut self, logged: &[LoggedEvent], ends: &PartitionMap<LogPosition>) {
        let mut updates: BTreeMap<UserId, UserUpdate> = BTreeMap::new();
        for LoggedEvent { event, .. } in logged {
            if let Body::Message(message) = &event.body
                && let Recipient::User(destid) = message.to
            {
                updates
                    .entry(destid)
                    .or_insert_with(|| UserUpdate::new(destid))
                    .message(message.srcid, message.ordinal);
            }
            for position in event.body.read_positions() {
                let n = Some(self.story.ordinal(&position));
                updates
                    .entry(position.uid)
                    .or_insert_with(|| UserUpdate::new(position.uid))
                    .read(&ReadPosition {
                        ordinal: n,
                        ..position
                    });
            }
        }
        let positions = self.redis.read_positions().await.unwrap();
        let generation = positions.generation().unwrap();
        let moves: Vec<PositionMove> = ends
            .iter()
            .map(|(partition, end)| PositionMove {
                partition,
                from: positions.get(partition).unwrap(),
                to: StoredPosition {
                    generation,
                    position: *end,
                },
            })
            .collect();
        let updates: Vec<UserUpdate> = updates.into_values().collect();
        for LoggedEvent { offset, event, .. } in logged {
            if let Body::Profile(profile) = &event.body {
                let stored = StoredProfile {
                    profile: profile.clone(),
                    ts: event.ts,
                    event_offset: *offset,
                };
                let update = ProfileUpdate::of_event(stored);
                self.redis.cache_profiles(&[update]).await.unwrap();
            }
        }
        self.redis
            .apply_batch(generation, &updates, &moves)
            .await
            .unwrap();
    }

    /// Makes the Redis keys of users out of the contact rows.
    pub async fn make_users(&self, uids: &[i64]) {
        for uid in uids {
            let uid = user(*uid);
            let BeginOutcome::Begun(rebuild) = self.redis.begin_rebuild(uid, 10_000).await.unwrap()
            else {
                continue;
            };
            let table = TableNumber::of_user(uid);
            let shard = self.sources.messages.layout().shard_of(table);
            let mut snapshot = self.sources.messages.snapshot(shard).await.unwrap();
            let uids = [uid];
            let rows = snapshot.contacts_of(table, &uids, None, 1_000);
            let rows = rows.await.unwrap();
            let peers: Vec<_> = rows
                .iter()
                .filter(|row| row.contact.peer != uid)
                .map(|row| {
                    let ordinals = unread_store::PeerOrdinals {
                        ordinal: row.contact.peer_ordinal,
                        read: row.contact.read.map(|read| read.ordinal),
                    };
                    (row.contact.peer, ordinals)
                })
                .collect();
            assert!(self.redis.complete_rebuild(&rebuild, &peers).await.unwrap());
        }
    }

    pub async fn begin_rebuild(&self, uid: i64) {
        let begun = self.redis.begin_rebuild(user(uid), 60_000).await.unwrap();
        assert!(matches!(begun, BeginOutcome::Begun(_)));
    }

    pub async fn audit(&self) -> Report {
        self.audit_of(Scope::All).await
    }

    pub async fn audit_of(&self, scope: Scope) -> Report {
        self.try_audit(scope, Some(Duration::from_secs(10)))
            .await
            .unwrap()
    }

    pub async fn try_audit(
        &self,
        scope: Scope,
        wait: Option<Duration>,
    ) -> Result<Report, AuditError> {
        let options = Options {
            scope,
            wait,
            pause: Duration::from_millis(20),
            ..Options::default()
        };
        audit::run(&self.sources, &options, |_| {}).await
    }

    /// Asserts that the audit finds one difference, of this kind, in this area.
    pub async fn assert_finds(&self, area: Area, kind: Kind, what: &str) {
        let report = self.audit().await;
        assert_eq!(report.differences(), 1, "{report}");
        assert_first(&report, area, kind, what);
    }

    /// Asserts that the audit finds each of these, and nothing else. An audit takes a second, so one audit finds one harm of every area.
    pub async fn assert_finds_each(&self, harms: &[Harm]) {
        let mut left: Vec<&Harm> = harms.iter().collect();
        while !left.is_empty() {
            let mut areas = BTreeSet::new();
            let now: Vec<&Harm>;
            (now, left) = left.into_iter().partition(|one| areas.insert(one.area));
            for one in &now {
                self.sql(one.harm).await;
            }
            let report = self.audit().await;
            for one in &now {
                assert_first(&report, one.area, one.kind, one.what);
            }
            assert_eq!(report.differences(), now.len() as u64, "{report}");
            for one in &now {
                self.sql(one.cure).await;
            }
        }
    }

    pub async fn assert_sound(&self) -> Report {
        let report = self.audit().await;
        assert_eq!(report.differences(), 0, "{report}");
        report
    }

    /// An audit that does not wait for a slow projection.
    pub async fn audit_for_a_moment(&self) -> Report {
        self.try_audit(Scope::All, None).await.unwrap()
    }

    pub async fn connect(&self) -> sqlx::MySqlConnection {
        let url = &TestServers::shared().mysql_url;
        sqlx::MySqlConnection::connect(url).await.unwrap()
    }

    /// Runs a statement in which `{p}` stands for the prefix of the database names.
    pub async fn sql(&self, statement: &str) {
        let mut connection = self.connect().await;
        let sql = statement.replace("{p}", &self.database_prefix);
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    }

    /// Runs a command on Redis; the key, its second word, is without the prefix.
    pub async fn redis(&self, command: &[&str]) {
        let client = redis::Client::open(TestServers::shared().redis_url.as_str()).unwrap();
        // The default of half a second is too short if the machine is busy.
        let config =
            redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connection.await.unwrap();
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(format!("{}{}", self.key_prefix, command[1]))
            .arg(&command[2..]);
        let _: redis::Value = cmd.query_async(&mut connection).await.unwrap();
    }
}

/// Asserts that the first difference in this area is of this kind.
fn assert_first(report: &Report, area: Area, kind: Kind, what: &str) {
    let finding = &report.check(area).unwrap().examples[0];
    assert_eq!(finding.kind, kind, "{report}");
    assert!(finding.what.contains(what), "{what} is not in {report}");
}

fn contacts_of_message(
    id: DirectConversation,
    ts: TimestampMs,
    message: &Message,
) -> Vec<ContactDelta> {
    let destid = id.peer_of(message.srcid);
    let with_last = |uid, peer| ContactDelta {
        last: Some(LastMessage::new(
            message.mid,
            message.srcid,
            &message.msg,
            ts,
        )),
        ..ContactDelta::new(uid, peer)
    };
    let mut own = with_last(message.srcid, destid);
    own.own_ordinal = message.ordinal;
    let mut theirs = with_last(destid, message.srcid);
    theirs.peer_ordinal = message.ordinal;
    let is_note = id.is_to_self();
    if is_note {
        vec![own]
    } else {
        vec![own, theirs]
    }
}

/// The contact of the user who made the change is first.
fn contacts_of_change(
    id: DirectConversation,
    ts: TimestampMs,
    change: &MessageChange,
) -> Vec<ContactDelta> {
    let (by, peer) = (change.by, id.peer_of(change.by));
    let of = |uid, peer| ContactDelta {
        change_seq: change.change_seq,
        last: LastMessage::changed(change.mid, change.by, &change.change, change.change_seq, ts),
        ..ContactDelta::new(uid, peer)
    };
    let mut contacts = vec![of(by, peer), of(peer, by)];
    match change.change {
        Change::Hide => drop(contacts[0].hidden.insert(change.mid)),
        Change::Clear => contacts[0].clear_mid = change.mid,
        _ => {}
    }
    contacts
}

fn read_row(position: &ReadPosition) -> ReadRow {
    let mut mids = PerDevice::<Mid>::default();
    match position.device {
        DeviceClass::Pc => mids.pc = position.mid,
        DeviceClass::Mobile => mids.mobile = position.mid,
    }
    let ConversationId::Direct(conversation) = position.conversation() else {
        unreachable!("it is between two users");
    };
    ReadRow {
        uid: position.uid,
        conversation,
        mids,
    }
}
