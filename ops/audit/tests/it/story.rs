//! The story of a test: appended to `chat.inbound` and `chat.events` as a sequencer would, and kept for the stores.

use std::{collections::BTreeMap, time::SystemTime};

use event_log::{AppendRecord, Appender, KafkaConfig, ProducerSettings};
use schemas::{
    Change, ChangeContact, ChangeMessage, ChangeSeq, ContactChange, ContactFlags, ConversationId,
    DeletedContact, DeviceClass, InboundPosition, MessageChange, Mid, Ordinal, Partition, Profile,
    Recipient, TimestampMs, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    dead_letter::{DeadLetterRecord, Origin, OriginalRecord, Reason},
    event::{Body, Event, Message, ReadPosition, Rules, Source, SourceOffset},
    topics::Topic,
};

type Headers = [(String, Option<Vec<u8>>)];

#[derive(Clone, Debug)]
pub struct LoggedEvent {
    pub partition: Partition,
    pub offset: i64,
    pub event: Event,
}

pub struct Story {
    kafka: KafkaConfig,
    appender: Appender,
    mids: BTreeMap<ConversationId, Mid>,
    /// The senders of the messages of a conversation.
    senders: BTreeMap<ConversationId, Vec<UserId>>,
    chgs: BTreeMap<ConversationId, ChangeSeq>,
    flags: BTreeMap<(UserId, UserId), ContactFlags>,
    /// The events in order, progress included.
    pub events: Vec<LoggedEvent>,
    /// How far ahead the log's clock is from now on, milliseconds.
    pub ahead_ms: i64,
    sends: u64,
}

pub fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

pub fn now() -> TimestampMs {
    SystemTime::now().into()
}

impl Story {
    pub fn new(kafka: &KafkaConfig) -> Self {
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 60_000,
            queue_bytes: 16 << 20,
            max_message_bytes: 1_000_000,
            gapless: false,
        };
        Self {
            kafka: kafka.clone(),
            appender: Appender::new(kafka, &settings).unwrap(),
            mids: BTreeMap::new(),
            senders: BTreeMap::new(),
            chgs: BTreeMap::new(),
            flags: BTreeMap::new(),
            events: Vec::new(),
            ahead_ms: 0,
            sends: 0,
        }
    }

    /// A send as it is posted.
    pub fn command(&mut self, srcid: i64, destid: i64, msg: &str) -> SendMessage {
        self.sends += 1;
        SendMessage {
            by_user: false,
            srcid: user(srcid),
            to: Recipient::User(user(destid)),
            client_msg_id: format!("c{}", self.sends).try_into().unwrap(),
            msg: msg.to_owned(),
        }
    }

    /// Appends a send that is sequenced; returns the command, so that a test can repeat it.
    pub async fn send(&mut self, srcid: i64, destid: i64, msg: &str) -> SendMessage {
        let command = self.command(srcid, destid, msg);
        let cause = self.post(Command::Send(command.clone())).await;
        let message = self.number(&command);
        self.tell(cause, Body::Message(message)).await;
        command
    }

    /// The next message of the send's conversation.
    pub fn number(&mut self, send: &SendMessage) -> Message {
        let id = send.conversation();
        let mid = self.mids.entry(id).or_default();
        *mid = mid.next();
        let senders = self.senders.entry(id).or_default();
        senders.push(send.srcid);
        let n = senders
            .iter()
            .filter(|sender| **sender == send.srcid)
            .count();
        Message {
            srcid: send.srcid,
            to: send.to,
            client_msg_id: send.client_msg_id.clone(),
            msg: send.msg.clone(),
            mid: *mid,
            ordinal: i64::try_from(n).unwrap().try_into().unwrap(),
        }
    }

    /// A read-ack that moves the position.
    pub async fn read(&mut self, uid: i64, peer: i64, device: DeviceClass, mid: i64) {
        let ack = ack(uid, peer, device, mid);
        let cause = self.post(Command::ReadAck(ack)).await;
        let n = self.sent_up_to(ack.conversation(), user(peer), mid);
        let position = ReadPosition {
            uid: user(uid),
            to: Recipient::User(user(peer)),
            device,
            mid: mid.try_into().unwrap(),
            ordinal: (mid % 2 == 0).then_some(n),
        };
        self.tell(cause, Body::ReadPosition(position)).await;
    }

    /// Begins rule version 3 in a partition.
    pub async fn begin_version_3(&mut self, partition: Partition) {
        let control = Control {
            rule_version: Some(3),
            hash_key: Some(vec![7; 16]),
            delete_for_all: Some(true),
            ..Control::default()
        };
        let rules = Rules {
            rule_version: 3,
            hash_key: Some([7; 16].into()),
            dedup_max_per_sender: 100_000,
            new_conversations_per_day: 20,
            recall_window_ms: 120_000,
            max_group_members: 10_000,
            delete_for_all: true,
            ..Rules::VERSION_1
        };
        let cause = self.post_to(partition, Command::Control(control)).await;
        self.tell(cause, Body::Control(rules)).await;
    }

    /// A change of a message.
    pub async fn change(&mut self, by: i64, peer: i64, mid: i64, change: Change) {
        let asked = ChangeMessage {
            by: user(by),
            to: Recipient::User(user(peer)),
            mid: mid.try_into().unwrap(),
            change: change.clone(),
        };
        let id = asked.conversation();
        let cause = self.post(Command::ChangeMessage(asked)).await;
        let change_seq = self.chgs.entry(id).or_default();
        *change_seq = change_seq.next();
        let change_seq = *change_seq;
        let n = (change == Change::Clear).then(|| self.sent_up_to(id, user(peer), mid));
        let change = MessageChange {
            by: user(by),
            to: Recipient::User(user(peer)),
            mid: mid.try_into().unwrap(),
            change,
            change_seq,
            ordinal: n,
        };
        self.tell(cause, Body::MessageChange(change)).await;
    }

    /// Appends a command in a group and its event.
    pub async fn in_group(&mut self, asked: Command, body: Body) {
        let cause = self.post(asked).await;
        self.tell(cause, body).await;
    }

    /// Sets a profile.
    pub async fn profile(&mut self, uid: i64, nick: &str) {
        let profile = Profile {
            uid: user(uid),
            nick: nick.to_owned(),
            avatar: None,
            extra: Some("{ \"a\": 1 }".to_owned()),
        };
        let cause = self.post(Command::SetProfile(profile.clone())).await;
        self.tell(cause, Body::Profile(profile)).await;
    }

    /// Changes a contact: sets its flags from now on, or deletes it.
    pub async fn contact(&mut self, uid: i64, peer: i64, set: Option<fn(&mut ContactFlags)>) {
        let (uid, peer) = (user(uid), user(peer));
        let flags = self.flags.entry((uid, peer)).or_default();
        if let Some(set) = set {
            set(flags);
        }
        let flags = *flags;
        let deleted = set.is_none();
        let ask = |flag| set.map(|_| flag);
        let asked = ChangeContact {
            uid,
            peer,
            favourite: ask(flags.favourite),
            pinned: ask(flags.pinned),
            muted: ask(flags.muted),
            blocked: ask(flags.blocked),
            deleted,
            by_user: true,
        };
        let id = ConversationId::from(asked.conversation());
        let cause = self.post(Command::ChangeContact(asked)).await;
        let mid = self.mids.get(&id).copied().unwrap_or_default();
        let deleted = deleted.then(|| DeletedContact {
            mid,
            ordinal: self.sent_up_to(id, peer, mid.get()),
        });
        let change = ContactChange {
            uid,
            peer,
            flags,
            deleted,
        };
        self.tell(cause, Body::ContactChange(change)).await;
    }

    fn sent_up_to(&self, id: ConversationId, sender: UserId, mid: i64) -> Ordinal {
        let senders = self.senders.get(&id).map_or(&[][..], Vec::as_slice);
        let upto = &senders[..usize::try_from(mid).unwrap()];
        let sent = upto.iter().filter(|by| **by == sender).count();
        i64::try_from(sent).unwrap().try_into().unwrap()
    }

    /// The ordinal that a position has or should have.
    pub fn ordinal(&self, position: &ReadPosition) -> Ordinal {
        let ConversationId::Direct(id) = position.conversation() else {
            unreachable!("nobody counts in a group");
        };
        let peer = id.peer_of(position.uid);
        self.sent_up_to(id.into(), peer, position.mid.get())
    }

    /// Puts a command on `chat.inbound`.
    pub async fn post(&self, command: Command) -> (Partition, i64) {
        let partition = command.partition().expect("a control has none");
        self.post_to(partition, command).await
    }

    async fn post_to(&self, partition: Partition, command: Command) -> (Partition, i64) {
        let offset = self
            .put(Topic::Inbound, partition, &command.encode(), None, &[])
            .await;
        (partition, offset)
    }

    /// Puts bytes on `chat.inbound` that are not a command.
    pub async fn post_junk(&self, partition: Partition) -> (Partition, i64) {
        let offset = self
            .put(Topic::Inbound, partition, b"junk", None, &[])
            .await;
        (partition, offset)
    }

    /// Puts the dead letter of a record of `chat.inbound` on its topic.
    pub async fn refuse(&self, (partition, offset): (Partition, i64), value: &[u8], why: Reason) {
        let topic = self.kafka.topic(Topic::Inbound);
        let position = InboundPosition { partition, offset };
        let origin = Origin::of_inbound(&topic, position);
        let original = OriginalRecord {
            value: Some(value),
            ..OriginalRecord::default()
        };
        let letter = DeadLetterRecord::new(&origin, why, "as it says", &original);
        self.put(Topic::DeadLetters, partition, value, None, &letter.headers)
            .await;
    }

    /// Puts the event that a record of `chat.inbound` causes on `chat.events`.
    pub async fn tell(&mut self, cause: (Partition, i64), body: Body) {
        let ts = TimestampMs(now().0 + self.ahead_ms);
        self.tell_at(cause, ts, body).await;
    }

    /// The same, at a given time.
    pub async fn tell_at(
        &mut self,
        (partition, cause): (Partition, i64),
        ts: TimestampMs,
        body: Body,
    ) {
        let watermark = SourceOffset {
            epoch: 0,
            offset: cause,
        };
        let event = Event {
            src: Source {
                offset: watermark,
                leader_epoch: 0,
            },
            ts,
            body,
            command: None,
            words: None,
        };
        let offset = self.append(partition, event.clone()).await;
        self.events.push(LoggedEvent {
            partition,
            offset,
            event,
        });
    }

    /// Appends progress: everything up to `cause` has its outcome.
    pub async fn progress(&mut self, cause: (Partition, i64)) {
        self.tell(cause, Body::Progress).await;
    }

    /// Puts an event on `chat.events`, whatever it is.
    pub async fn append(&self, partition: Partition, event: Event) -> i64 {
        let ts = event.ts;
        self.put(Topic::Events, partition, &event.encode(), Some(ts), &[])
            .await
    }

    /// Puts bytes on `chat.events` that are not an event.
    pub async fn append_junk(&self, partition: Partition) -> (Partition, i64) {
        let offset = self.put(Topic::Events, partition, b"junk", None, &[]).await;
        (partition, offset)
    }

    async fn put(
        &self,
        topic: Topic,
        partition: Partition,
        value: &[u8],
        timestamp: Option<TimestampMs>,
        headers: &Headers,
    ) -> i64 {
        let record = AppendRecord {
            topic: &self.kafka.topic(topic),
            partition,
            key: b"",
            value: Some(value),
            timestamp,
            headers,
        };
        self.appender.append(record).await.unwrap()
    }
}

pub fn ack(uid: i64, peer: i64, device: DeviceClass, mid: i64) -> ReadAck {
    ReadAck {
        uid: user(uid),
        to: Recipient::User(user(peer)),
        device,
        mid: Some(mid.try_into().unwrap()),
    }
}
