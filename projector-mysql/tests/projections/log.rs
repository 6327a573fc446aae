//! A sequencer's stand-in: appends well-formed events to `chat.events`.

use std::collections::BTreeMap;

use event_log::{AppendRecord, Appender, KafkaConfig, ProducerSettings};
use schemas::{
    Change, ChangeSeq, ContactChange, ContactFlags, DeletedContact, DeviceClass,
    DirectConversation, MessageChange, Mid, Ordinal, Partition, PartitionMap, Profile, Recipient,
    TimestampMs, UserId,
    event::{Body, Event, Message, ReadPosition, Source, SourceOffset},
    topics::Topic,
};

/// 2026-11-21.
pub const EPOCH_MS: i64 = 1_795_219_200_000;

#[derive(Clone, Debug)]
pub struct Appended {
    pub partition: Partition,
    pub offset: i64,
    pub event: Event,
}

pub struct Log {
    appender: Appender,
    topic: String,
    clock: i64,
    next_src: PartitionMap<i64>,
    mids: BTreeMap<DirectConversation, Mid>,
    ordinals: BTreeMap<(UserId, UserId), Ordinal>,
    chgs: BTreeMap<DirectConversation, ChangeSeq>,
    /// Everything appended that counts, in order.
    pub events: Vec<Appended>,
}

pub fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

impl Log {
    pub fn new(kafka: &KafkaConfig) -> Self {
        let settings = ProducerSettings {
            linger_ms: 1,
            message_timeout_ms: 60_000,
            queue_bytes: 64 << 20,
            max_message_bytes: 1_000_000,
            gapless: false,
        };
        Self {
            appender: Appender::new(kafka, &settings).unwrap(),
            topic: kafka.topic(Topic::Events),
            clock: EPOCH_MS,
            next_src: PartitionMap::new(),
            mids: BTreeMap::new(),
            ordinals: BTreeMap::new(),
            chgs: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    pub async fn send(&mut self, srcid: i64, destid: i64, msg: &str) -> Mid {
        let (srcid, destid) = (user(srcid), user(destid));
        let mid = self
            .mids
            .entry(DirectConversation::new(srcid, destid))
            .or_default();
        *mid = mid.next();
        let n = self.ordinals.entry((srcid, destid)).or_default();
        *n = n.next();
        let (mid, n) = (*mid, *n);
        let message = Message {
            srcid,
            to: Recipient::User(destid),
            client_msg_id: format!("c{}", self.events.len()).try_into().unwrap(),
            msg: msg.to_owned(),
            mid,
            ordinal: n,
        };
        self.append(Body::Message(message)).await;
        mid
    }

    /// Moves the clock of the events to come.
    pub fn move_clock(&mut self, days: i64) {
        self.clock += days * 24 * 3_600_000;
    }

    /// A read position; `n` is what the sequencer says of it.
    pub async fn read(
        &mut self,
        uid: i64,
        peer: i64,
        device: DeviceClass,
        mid: i64,
        n: Option<i64>,
    ) {
        let position = ReadPosition {
            uid: user(uid),
            to: Recipient::User(user(peer)),
            device,
            mid: mid.try_into().unwrap(),
            ordinal: n.map(|n| n.try_into().unwrap()),
        };
        self.append(Body::ReadPosition(position)).await;
    }

    /// A change to a message; `n` is what the sequencer says of a clear.
    pub async fn change(&mut self, by: i64, peer: i64, mid: Mid, change: Change, n: Option<i64>) {
        let (by, peer) = (user(by), user(peer));
        let conversation = DirectConversation::new(by, peer);
        // As under an earlier rule version, or not.
        let is_own = change.is_for_one() && self.events.len().is_multiple_of(2);
        let last = self.chgs.entry(conversation).or_default();
        *last = if is_own { *last } else { last.next() };
        let change_seq = if is_own { ChangeSeq::ZERO } else { *last };
        let change = MessageChange {
            by,
            to: Recipient::User(peer),
            mid,
            change,
            change_seq,
            ordinal: n.map(|n| n.try_into().unwrap()),
        };
        self.append(Body::MessageChange(change)).await;
    }

    /// What `uid` says about a contact.
    pub async fn contact(&mut self, uid: i64, peer: i64, flags: ContactFlags, deleted: bool) {
        let conversation = DirectConversation::new(user(uid), user(peer));
        let mid = self.mids.get(&conversation).copied().unwrap_or(Mid::ZERO);
        let n = self.ordinals.get(&(user(peer), user(uid)));
        let deleted = deleted.then(|| DeletedContact {
            mid,
            ordinal: n.copied().unwrap_or(Ordinal::ZERO),
        });
        let change = ContactChange {
            uid: user(uid),
            peer: user(peer),
            flags,
            deleted,
        };
        self.append(Body::ContactChange(change)).await;
    }

    /// What others see of `uid` from here on.
    pub async fn profile(&mut self, uid: i64, nick: &str) {
        let count = self.events.len();
        let profile = Profile {
            uid: user(uid),
            nick: nick.to_owned(),
            avatar: count
                .is_multiple_of(2)
                .then(|| format!("https://a/{count}.png")),
            extra: count
                .is_multiple_of(3)
                .then(|| format!("{{ \"count\": {count} }}")),
        };
        self.append(Body::Profile(profile)).await;
    }

    /// Something that happened in a group; its offset.
    pub async fn group(&mut self, body: Body) -> i64 {
        self.append(body).await;
        self.events.last().unwrap().offset
    }

    async fn append(&mut self, body: Body) {
        let partition = match &body {
            Body::Message(message) => message.conversation().partition(),
            Body::ReadPosition(position) => position.conversation().partition(),
            Body::MessageChange(change) => change.conversation().partition(),
            Body::ContactChange(change) => change.conversation().partition(),
            Body::GroupChange(change) => change.gid.partition(),
            Body::Profile(profile) => Partition::of_user(profile.uid),
            Body::Control(_) | Body::Progress => unreachable!("neither is sent"),
        };
        // Gaps, as those between inbound offsets that emitted nothing.
        let src = self
            .next_src
            .get_or_insert_with(partition, Default::default);
        *src += 2;
        let watermark = SourceOffset {
            epoch: 0,
            offset: *src,
        };
        self.clock += 7;
        let event = Event {
            src: Source {
                offset: watermark,
                leader_epoch: 0,
            },
            ts: TimestampMs(self.clock),
            body,
            command: None,
            words: None,
        };
        let value = event.clone().encode();
        let offset = self.put(partition, &value, event.ts).await;
        self.events.push(Appended {
            partition,
            offset,
            event,
        });
    }

    /// What a sequencer emits when a partition is drained.
    pub async fn progress(&mut self, partition: Partition) {
        let src = self
            .next_src
            .get_or_insert_with(partition, Default::default);
        *src += 1;
        let watermark = SourceOffset {
            epoch: 0,
            offset: *src,
        };
        let event = Event {
            src: Source {
                offset: watermark,
                leader_epoch: 0,
            },
            ts: TimestampMs(self.clock),
            body: Body::Progress,
            command: None,
            words: None,
        };
        let ts = event.ts;
        self.put(partition, &event.encode(), ts).await;
    }

    /// A former owner's repeat of the last `count` events of every partition, in order.
    pub async fn repeat(&mut self, count: usize) {
        for partition in Partition::all() {
            let of_partition: Vec<Appended> = self
                .events
                .iter()
                .filter(|e| e.partition == partition)
                .cloned()
                .collect();
            let skip = of_partition.len().saturating_sub(count);
            for Appended { event, .. } in of_partition.into_iter().skip(skip) {
                let ts = event.ts;
                self.put(partition, &event.encode(), ts).await;
            }
        }
    }

    pub async fn put(&self, partition: Partition, value: &[u8], ts: TimestampMs) -> i64 {
        let record = AppendRecord {
            topic: &self.topic,
            partition,
            key: b"",
            value: Some(value),
            timestamp: Some(ts),
            headers: &[],
        };
        self.appender.append(record).await.unwrap()
    }

    /// `count` events among a few users, the same ones for the same seed.
    pub async fn chatter(&mut self, seed: u64, count: usize) {
        let mut random = Random(seed);
        for i in 0..count {
            let users = [1, 2, 3, 64, 65, 130, i64::MAX];
            let src = users[random.below(users.len())];
            let dest = users[random.below(users.len())];
            let conversation = DirectConversation::new(user(src), user(dest));
            let last = self.mids.get(&conversation).map_or(0, |mid| mid.get());
            if random.below(15) == 0 {
                self.profile(src, &format!("{i}\u{1f30a}")).await;
            } else if random.below(12) == 0 {
                let flags = ContactFlags {
                    favourite: random.below(2) == 0,
                    pinned: random.below(2) == 0,
                    muted: random.below(2) == 0,
                    blocked: random.below(2) == 0,
                };
                self.contact(src, dest, flags, random.below(2) == 0).await;
            } else if last > 0 && random.below(5) == 0 {
                self.change_something(&mut random, src, dest, last).await;
            } else if random.below(4) > 0 || last == 0 {
                let texts = [
                    "hello",
                    "it's \"quoted\" \\ \n\t",
                    "\u{1f30a}".repeat(250).as_str(),
                ]
                .map(str::to_owned);
                self.send(src, dest, &format!("{} {i}", texts[random.below(3)]))
                    .await;
            } else {
                self.read_somewhere(&mut random, src, dest, last).await;
            }
            if random.below(20) == 0 {
                self.progress(conversation.partition()).await;
            }
        }
    }

    /// A position above that before it, half of them without ordinal.
    async fn read_somewhere(&mut self, random: &mut Random, uid: i64, peer: i64, last: i64) {
        let device = [DeviceClass::Pc, DeviceClass::Mobile][random.below(2)];
        let before = self
            .events
            .iter()
            .flat_map(|e| e.event.body.read_positions())
            .filter(|p| (p.uid, p.to, p.device) == (user(uid), Recipient::User(user(peer)), device))
            .map(|p| p.mid.get());
        let before = before.max().unwrap_or(0);
        if before == last {
            return;
        }
        let mid = before
            + 1
            + i64::try_from(random.below(usize::try_from(last - before).unwrap())).unwrap();
        let n = self.sent_up_to(peer, uid, mid);
        let known = random.below(2) == 0;
        self.read(uid, peer, device, mid, known.then_some(n)).await;
    }

    /// How many messages up to `mid` are from `src`.
    fn sent_up_to(&self, src: i64, dest: i64, mid: i64) -> i64 {
        let sent = self.events.iter().filter_map(|e| match &e.event.body {
            Body::Message(m)
                if (m.srcid, m.to) == (user(src), Recipient::User(user(dest)))
                    && m.mid.get() <= mid =>
            {
                Some(m.ordinal.get())
            }
            _ => None,
        });
        sent.max().unwrap_or(0)
    }

    /// A change that a sequencer could allow, half of the clears without ordinal.
    async fn change_something(&mut self, random: &mut Random, uid: i64, peer: i64, last: i64) {
        let number = 1 + i64::try_from(random.below(usize::try_from(last).unwrap())).unwrap();
        let mid = Mid::try_from(number).unwrap();
        let conversation = DirectConversation::new(user(uid), user(peer));
        let of_it = |change: &&MessageChange| {
            change.conversation() == conversation.into() && change.mid == mid
        };
        let changes = self.events.iter().filter_map(|e| match &e.event.body {
            Body::MessageChange(change) => Some(change),
            _ => None,
        });
        let is_gone = changes
            .clone()
            .filter(of_it)
            .any(|change| matches!(change.change, Change::Recall | Change::Delete));
        let is_cleared = changes
            .filter(|change| (change.by, change.to) == (user(uid), Recipient::User(user(peer))))
            .any(|change| change.change == Change::Clear && change.mid >= mid);
        let author = self.events.iter().find_map(|e| match &e.event.body {
            Body::Message(m) if (m.conversation(), m.mid) == (conversation.into(), mid) => {
                Some((m.srcid.get(), conversation.peer_of(m.srcid).get()))
            }
            _ => None,
        });
        let (author, receiver) = author.unwrap();
        let n = self.sent_up_to(peer, uid, number);
        match random.below(6) {
            dice @ (0 | 1) if !is_gone => {
                let change = [Change::Recall, Change::Delete][dice].clone();
                self.change(author, receiver, mid, change, None).await;
            }
            2 | 3 if !is_gone => {
                let text = format!("edited {}", "\u{1f30a}".repeat(random.below(250)));
                let edit = Change::Edit(text);
                self.change(author, receiver, mid, edit, None).await;
            }
            4 if !is_cleared => {
                let known = random.below(2) == 0;
                let n = known.then_some(n);
                self.change(uid, peer, mid, Change::Clear, n).await;
            }
            _ => self.change(uid, peer, mid, Change::Hide, None).await,
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }
}
