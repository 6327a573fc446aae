//! The log as a sequencer would write it, and the counts that follow from it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use event_log::{AppendRecord, Appender, KafkaConfig, ProducerSettings};
use schemas::{
    Change, ChangeSeq, ContactChange, ContactFlags, DeletedContact, DeviceClass,
    DirectConversation, MessageChange, Mid, Ordinal, Partition, PartitionMap, Profile, Recipient,
    TimestampMs, UserId,
    event::{Body, Event, Message, ReadPosition, Source, SourceOffset},
    topics::Topic,
};

/// Unread messages of one user on one class, by sender.
pub type Counts = BTreeMap<UserId, i64>;

/// Writes events, and knows what they come to.
pub struct Story {
    topic: String,
    appender: Appender,
    last_mid: BTreeMap<DirectConversation, i64>,
    last_chg: BTreeMap<DirectConversation, ChangeSeq>,
    /// By receiver and sender.
    sent: BTreeMap<(UserId, UserId), i64>,
    /// By reader, sender and class.
    read: BTreeMap<(UserId, UserId, DeviceClass), i64>,
    /// The highest source of each partition.
    pub sources: PartitionMap<SourceOffset>,
}

impl Story {
    pub fn new(kafka: &KafkaConfig) -> Self {
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 30_000,
            queue_bytes: 1 << 20,
            max_message_bytes: 1_000_000,
            gapless: false,
        };
        Self {
            topic: kafka.topic(Topic::Events),
            appender: Appender::new(kafka, &settings).unwrap(),
            last_mid: BTreeMap::new(),
            last_chg: BTreeMap::new(),
            sent: BTreeMap::new(),
            read: BTreeMap::new(),
            sources: PartitionMap::new(),
        }
    }

    /// `srcid` sends one more message to `destid`.
    pub async fn message(&mut self, srcid: UserId, destid: UserId) {
        let conversation = DirectConversation::new(srcid, destid);
        let mid = self.last_mid.entry(conversation).or_default();
        *mid += 1;
        let n = self.sent.entry((destid, srcid)).or_default();
        *n += 1;
        let message = Message {
            srcid,
            to: Recipient::User(destid),
            client_msg_id: format!("{srcid}-{n}").try_into().unwrap(),
            msg: format!("message {n}"),
            mid: (*mid).try_into().unwrap(),
            ordinal: (*n).try_into().unwrap(),
        };
        self.append(conversation, Body::Message(message)).await;
    }

    /// `uid` has read everything of `peer`.
    pub async fn read_all(&mut self, uid: UserId, peer: UserId, device: DeviceClass) {
        let n = self.note_read(uid, peer, device);
        self.read_position(uid, peer, device, Some(n)).await;
    }

    /// The same, and the sequencer did not know any more how many messages that were.
    pub async fn read_all_without_ordinal(
        &mut self,
        uid: UserId,
        peer: UserId,
        device: DeviceClass,
    ) {
        self.note_read(uid, peer, device);
        self.read_position(uid, peer, device, None).await;
    }

    /// `by` clears the history with `peer`, or changes its newest message.
    pub async fn change(&mut self, by: UserId, peer: UserId, change: Change) {
        let n = (change == Change::Clear).then(|| self.note_read_everywhere(by, peer));
        let conversation = DirectConversation::new(by, peer);
        let mid = self.newest(conversation);
        let change_seq = self.last_chg.entry(conversation).or_default();
        *change_seq = change_seq.next();
        let change = MessageChange {
            by,
            to: Recipient::User(peer),
            mid,
            change,
            change_seq: *change_seq,
            ordinal: n,
        };
        self.append(conversation, Body::MessageChange(change)).await;
    }

    /// `uid` deletes the contact with `peer`.
    pub async fn delete_contact(&mut self, uid: UserId, peer: UserId) {
        let n = self.note_read_everywhere(uid, peer);
        let conversation = DirectConversation::new(uid, peer);
        let mid = self.newest(conversation);
        let change = ContactChange {
            uid,
            peer,
            flags: ContactFlags::default(),
            deleted: Some(DeletedContact { mid, ordinal: n }),
        };
        self.append(conversation, Body::ContactChange(change)).await;
    }

    fn note_read_everywhere(&mut self, uid: UserId, peer: UserId) -> Ordinal {
        self.note_read(uid, peer, DeviceClass::Pc);
        self.note_read(uid, peer, DeviceClass::Mobile)
    }

    fn newest(&self, conversation: DirectConversation) -> Mid {
        self.last_mid[&conversation].try_into().unwrap()
    }

    fn note_read(&mut self, uid: UserId, peer: UserId, device: DeviceClass) -> Ordinal {
        let n = self.sent[&(uid, peer)];
        self.read.insert((uid, peer, device), n);
        n.try_into().unwrap()
    }

    async fn read_position(
        &mut self,
        uid: UserId,
        peer: UserId,
        device: DeviceClass,
        n: Option<Ordinal>,
    ) {
        let conversation = DirectConversation::new(uid, peer);
        let mid = self.newest(conversation);
        let position = ReadPosition {
            uid,
            to: Recipient::User(peer),
            device,
            mid,
            ordinal: n,
        };
        self.append(conversation, Body::ReadPosition(position))
            .await;
    }

    /// A profile that is set.
    pub async fn profile(&mut self, profile: Profile) {
        let (partition, key) = (
            Partition::of_user(profile.uid),
            format!("u:{}", profile.uid),
        );
        self.append_to(partition, &key, Body::Profile(profile))
            .await;
    }

    async fn append(&mut self, conversation: DirectConversation, body: Body) {
        let key = conversation.to_string();
        self.append_to(conversation.partition(), &key, body).await;
    }

    async fn append_to(&mut self, partition: Partition, key: &str, body: Body) {
        let watermark = self.sources.get_or_insert_with(partition, Default::default);
        watermark.offset += 1;
        let src = Source {
            offset: *watermark,
            leader_epoch: 0,
        };
        let ts = now();
        let value = Event {
            src,
            ts,
            body,
            command: None,
            words: None,
        }
        .encode();
        self.append_record(partition, key.as_bytes(), &value, ts)
            .await;
    }

    /// A record that is no event, in some partition.
    pub async fn malformed_record(&mut self) {
        let partition = 3.try_into().unwrap();
        self.append_record(partition, b"", b"no event", now()).await;
    }

    async fn append_record(&self, partition: Partition, key: &[u8], value: &[u8], ts: TimestampMs) {
        let record = AppendRecord {
            topic: &self.topic,
            partition,
            key,
            value: Some(value),
            timestamp: Some(ts),
            headers: &[],
        };
        self.appender.append(record).await.unwrap();
    }

    /// What a user has to see on a class.
    pub fn unread(&self, uid: UserId, device: DeviceClass) -> Counts {
        self.sent
            .iter()
            .filter(|((receiver, sender), _)| *receiver == uid && *sender != uid)
            .map(|((_, sender), n)| {
                let read = self.read.get(&(uid, *sender, device)).copied();
                (*sender, n - read.unwrap_or(0))
            })
            .filter(|(_, unread)| *unread > 0)
            .collect()
    }
}

/// The time, but never the same twice in this process: rows of `chat_msg_<n>` are told apart by offset and time, and the tests share
/// tables.
pub fn now() -> TimestampMs {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let clock = i64::try_from(clock.as_millis()).unwrap();
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(clock.max(last + 1))
    });
    TimestampMs(clock.max(last.unwrap() + 1))
}
