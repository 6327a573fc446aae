//! A log of a few events of each kind, with repeats by a former owner.

use std::collections::BTreeMap;

use dev_stack::TestServers;
use event_log::{AppendRecord, Appender, KafkaConfig, ProducerSettings, TestTopics};
use export::{Bounds, Dataset};
use schemas::{
    Change, ChangeSeq, ContactChange, ContactFlags, DeviceClass, GroupChange, GroupChangeKind,
    GroupSettings, MessageChange, Mid, Ordinal, Partition, PartitionMap, Profile, Recipient,
    TimestampMs, UserId,
    event::{Body, Event, Message, ReadPosition, Rules, Source, SourceOffset},
    topics::Topic,
};

pub const DAY_MS: i64 = 86_400_000;

pub struct Story {
    pub kafka: KafkaConfig,
    appender: Appender,
    /// Per partition the events that count, with their offsets, in order.
    events: BTreeMap<Partition, Vec<(i64, Event)>>,
    ends: PartitionMap<i64>,
    mid: Mid,
    _topics: TestTopics,
}

fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

impl Story {
    /// An event of each kind, on two days, each repeated later.
    pub async fn told() -> Self {
        let topics = TestTopics::create(&TestServers::shared().kafka_brokers).await;
        let kafka = topics.config().clone();
        let mut story = Self {
            appender: Appender::new(&kafka, &ProducerSettings::WITHOUT_TIMEOUT).unwrap(),
            kafka,
            events: BTreeMap::new(),
            ends: PartitionMap::new(),
            mid: Mid::ZERO,
            _topics: topics,
        };
        story.append(Body::Control(Rules::VERSION_1), 0).await;
        for msg in ["first", "to be recalled", "stays"] {
            story.send(1001, msg, DAY_MS - 10).await;
        }
        let edit = |text: &str| Change::Edit(text.to_owned());
        for (chg, mid, change) in [
            (1, 2, edit("edited before the recall")),
            (2, 1, edit("edited")),
            (3, 2, Change::Recall),
            (4, 3, Change::React("👎".to_owned())),
            (5, 3, Change::React("👍".to_owned())),
            (0, 3, Change::Hide),
        ] {
            story.change(chg, mid, change, DAY_MS - 5).await;
        }
        story.repeat_all().await;
        story.append_junk().await;
        story.send(1001, "the next day", DAY_MS + 1).await;
        for body in others() {
            story.append(body, DAY_MS + 2).await;
        }
        story.append(Body::Progress, DAY_MS + 3).await;
        story.repeat_all().await;
        story
    }

    pub async fn send(&mut self, srcid: i64, msg: &str, ts: i64) {
        self.mid = self.mid.next();
        let message = Body::Message(Message {
            srcid: user(srcid),
            to: Recipient::User(user(1000)),
            client_msg_id: format!("m-{}", self.mid.get()).try_into().unwrap(),
            msg: msg.to_owned(),
            mid: self.mid,
            ordinal: Ordinal::try_from(self.mid.get()).unwrap(),
        });
        self.append(message, ts).await;
    }

    pub async fn change(&mut self, chg: i64, mid: i64, change: Change, ts: i64) {
        let change = Body::MessageChange(MessageChange {
            by: user(1001),
            to: Recipient::User(user(1000)),
            mid: mid.try_into().unwrap(),
            change,
            change_seq: ChangeSeq::try_from(chg).unwrap(),
            ordinal: None,
        });
        self.append(change, ts).await;
    }

    async fn append(&mut self, body: Body, ts: i64) {
        let partition = body
            .scope()
            .and_then(|scope| scope.partition())
            .unwrap_or(partition_of_the_conversation());
        let events = self.events.entry(partition).or_default();
        let source = Source {
            offset: SourceOffset {
                epoch: 0,
                offset: events.len() as i64,
            },
            leader_epoch: 0,
        };
        let event = Event {
            src: source,
            ts: TimestampMs(ts),
            body,
            command: None,
            words: None,
        };
        let offset = self.put(partition, event.clone().encode(), ts).await;
        self.events
            .entry(partition)
            .or_default()
            .push((offset, event));
    }

    /// A former owner appends all its decisions again.
    pub async fn repeat_all(&mut self) {
        let again: Vec<(Partition, Event)> = self
            .events
            .iter()
            .flat_map(|(partition, events)| {
                events.iter().map(|(_, event)| (*partition, event.clone()))
            })
            .collect();
        for (partition, event) in again {
            let ts = event.ts.0;
            self.put(partition, event.encode(), ts).await;
        }
    }

    async fn append_junk(&mut self) {
        let partition = partition_of_the_conversation();
        self.put(partition, b"junk".to_vec(), DAY_MS).await;
    }

    async fn put(&mut self, partition: Partition, value: Vec<u8>, ts: i64) -> i64 {
        let record = AppendRecord {
            topic: &self.kafka.topic(Topic::Events),
            partition,
            key: b"",
            value: Some(&value),
            timestamp: Some(TimestampMs(ts)),
            headers: &[],
        };
        let offset = self.appender.append(record).await.unwrap();
        self.ends.insert(partition, offset + 1);
        offset
    }

    /// The end of the conversation's partition.
    pub fn end(&self) -> i64 {
        self.ends[partition_of_the_conversation()]
    }

    /// All partitions from their beginnings to their ends.
    pub fn everything(&self) -> Bounds {
        let range = |partition| {
            let end = self.ends.get(partition).copied().unwrap_or_default();
            (partition, 0..end)
        };
        Bounds {
            asked: ("earliest".to_owned(), "latest".to_owned()),
            ranges: Partition::all().map(range).collect(),
        }
    }

    /// Where the rows of a dataset have to be from.
    pub fn offsets(&self, dataset: Dataset) -> Vec<(i32, i64)> {
        let is_row = |body: &Body| match dataset {
            Dataset::Messages => matches!(body, Body::Message(_)),
            Dataset::Changes => matches!(body, Body::MessageChange(_)),
            Dataset::ReadPositions => matches!(body, Body::ReadPosition(_)),
            Dataset::Groups => matches!(body, Body::GroupChange(_)),
            Dataset::Contacts => matches!(body, Body::ContactChange(_)),
            Dataset::Profiles => matches!(body, Body::Profile(_)),
            Dataset::Events => true,
        };
        self.events
            .iter()
            .flat_map(|(partition, events)| {
                let rows = events.iter().filter(|(_, event)| is_row(&event.body));
                rows.map(|(offset, _)| (partition.get().into(), *offset))
            })
            .collect()
    }
}

/// Of 1000 and 1001.
pub fn partition_of_the_conversation() -> Partition {
    17.try_into().unwrap()
}

/// One of each kind besides messages and changes to them.
fn others() -> [Body; 4] {
    let (one, other) = (user(1000), user(1001));
    let gid = 5_000.try_into().unwrap();
    [
        Body::ReadPosition(ReadPosition {
            uid: one,
            to: Recipient::User(other),
            device: DeviceClass::Pc,
            mid: Mid::ZERO.next(),
            ordinal: Some(Ordinal::default()),
        }),
        Body::ContactChange(ContactChange {
            uid: one,
            peer: other,
            flags: ContactFlags {
                pinned: true,
                ..ContactFlags::default()
            },
            deleted: None,
        }),
        Body::Profile(Profile {
            uid: other,
            nick: "Ada".to_owned(),
            avatar: None,
            extra: None,
        }),
        Body::GroupChange(Box::new(GroupChange {
            gid,
            by: one,
            kind: GroupChangeKind::Create,
            settings: GroupSettings {
                name: "Lunch".to_owned(),
                owner: one,
                open: false,
                whole_history: false,
                muted: false,
                dissolved: false,
            },
            member_count: 1,
            last_mid: Mid::ZERO,
            members: Vec::new(),
        })),
    ]
}
