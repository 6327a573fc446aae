//! The expected results for an inbound log: a second implementation of the protocol, as naive as possible and without code of the core. It
//! looks everything up in the list of events so far.

use schemas::{
    HashKey, Mid, Ordinal, Partition, TimestampMs, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Event, Message, ReadPosition, Rules, Source, SourceOffset},
};

use crate::shell::InboundRecord;

/// The expected result for one inbound record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Event(Event),
    NoOp,
    DeadLetter(Reason),
}

const DAY_MS: i64 = 86_400_000;

/// The expected result for each record of a log, by one owner that is never interrupted.
pub(crate) fn expected_results(partition: Partition, inbound: &[InboundRecord]) -> Vec<Expected> {
    let mut oracle = Oracle {
        partition,
        clock: 0,
        rules: Rules::VERSION_1,
        events: Vec::new(),
        remembered: Vec::new(),
        round: Vec::new(),
        own: Vec::new(),
        begun: Vec::new(),
    };
    inbound.iter().map(|record| oracle.next(record)).collect()
}

struct Oracle {
    partition: Partition,
    clock: i64,
    rules: Rules,
    events: Vec<Event>,
    /// Messages whose repeats are recognised, with their times, oldest first.
    remembered: Vec<(i64, Message)>,
    /// The senders of the messages of this round.
    round: Vec<UserId>,
    /// Messages of senders who had their share of the round.
    own: Vec<(UserId, Vec<(i64, Message)>)>,
    /// The days on which conversations were begun while that was limited, and by whom.
    begun: Vec<(i64, UserId)>,
}

impl Oracle {
    fn next(&mut self, record: &InboundRecord) -> Expected {
        let Ok(command) = Command::parse(record.value.as_deref().unwrap_or_default()) else {
            return Expected::DeadLetter(Reason::Malformed);
        };
        let ts = self.clock.max(record.ts.0);
        let decided = match command {
            Command::Send(send) => self.send(ts, send),
            Command::ReadAck(ack) => self.read_ack(&ack),
            Command::Control(control) => self.control(&control),
        };
        match decided {
            Err(reason) => Expected::DeadLetter(reason),
            Ok(None) => Expected::NoOp,
            Ok(Some(body)) => {
                let event = Event {
                    src: Source {
                        offset: SourceOffset {
                            epoch: 0,
                            offset: record.offset,
                        },
                        leader_epoch: record.leader_epoch,
                    },
                    ts: TimestampMs(ts),
                    body,
                };
                self.record(event.clone());
                Expected::Event(event)
            }
        }
    }

    fn record(&mut self, event: Event) {
        let second_before = self.clock / 1000;
        self.clock = event.ts.0;
        if let Body::Control(rules) = &event.body {
            self.rules = *rules;
        }
        let (clock, window) = (self.clock, self.rules.dedup_window_ms);
        let is_live = |(ts, _): &(i64, Message)| clock - ts <= window;
        self.remembered.retain(is_live);
        if clock / 1000 != second_before {
            self.own.iter_mut().for_each(|(_, own)| own.retain(is_live));
            self.own.retain(|(_, own)| !own.is_empty());
        }
        if let Body::Message(message) = &event.body {
            self.remember(message);
            if message.mid == Mid::ZERO.next() && self.rules.new_conversations_per_day > 0 {
                self.begun.push((clock / DAY_MS, message.srcid));
            }
        }
        keep_newest(&mut self.remembered, self.rules.dedup_max_entries);
        self.events.push(event);
    }

    fn remember(&mut self, message: &Message) {
        let (all, of_one) = (
            self.rules.dedup_max_entries,
            self.rules.dedup_max_per_sender,
        );
        let (sender, entry) = (message.srcid, (self.clock, message.clone()));
        if self.rules.rule_version == 1 || of_one >= all {
            self.remembered.push(entry);
            return;
        }
        if self.round.len() as i64 >= all / 64 {
            self.round.clear();
        }
        let in_round = self.round.iter().filter(|one| **one == sender).count();
        if in_round == 0 || (in_round as i64) < of_one / 64 {
            self.round.push(sender);
            self.remembered.push(entry);
            return;
        }
        if !self.own.iter().any(|(one, _)| *one == sender) {
            self.own.push((sender, Vec::new()));
        }
        let most = of_one.min((all / self.own.len() as i64).max(1));
        let of_sender = self.own.iter_mut().find(|(one, _)| *one == sender);
        let (_, own) = of_sender.unwrap();
        own.retain(|(ts, _)| self.clock - ts <= self.rules.dedup_window_ms);
        own.push(entry);
        keep_newest(own, most);
    }

    fn send(&self, ts: i64, send: SendMessage) -> Result<Option<Body>, Reason> {
        let conversation = send.conversation();
        self.belongs_here(conversation.partition())?;
        let own = self.own.iter().flat_map(|(_, own)| own);
        let before = self.remembered.iter().chain(own).find(|(then, message)| {
            ts - then <= self.rules.dedup_window_ms
                && message.conversation() == conversation
                && message.srcid == send.srcid
                && message.client_msg_id == send.client_msg_id
        });
        if let Some((_, message)) = before {
            let same = message.destid == send.destid && message.msg == send.msg;
            return if same {
                Ok(None)
            } else {
                Err(Reason::Conflict)
            };
        }
        if send.msg.len() as i64 > self.rules.max_msg_bytes {
            return Err(Reason::TooLarge);
        }
        let messages = || self.messages().filter(|m| m.conversation() == conversation);
        let begun = self.begun.iter();
        let begun = begun.filter(|begun| **begun == (ts / DAY_MS, send.srcid));
        let limit = self.rules.new_conversations_per_day;
        let is_limited = send.by_user && limit > 0 && messages().count() == 0;
        if is_limited && begun.count() as i64 >= limit {
            return Err(Reason::TooManyConversations);
        }
        let own = messages().filter(|m| m.srcid == send.srcid).count();
        Ok(Some(Body::Message(Message {
            mid: Mid::try_from(messages().count() as i64 + 1).unwrap(),
            n: Ordinal::try_from(own as i64 + 1).unwrap(),
            srcid: send.srcid,
            destid: send.destid,
            client_msg_id: send.client_msg_id,
            msg: send.msg,
        })))
    }

    fn read_ack(&self, ack: &ReadAck) -> Result<Option<Body>, Reason> {
        let conversation = ack.conversation();
        self.belongs_here(conversation.partition())?;
        if ack.uid == ack.peer {
            return Ok(None);
        }
        let messages = || self.messages().filter(|m| m.conversation() == conversation);
        let last = Mid::try_from(messages().count() as i64).unwrap();
        let mid = ack.mid.map_or(last, |mid| mid.min(last));
        let positions = self.events.iter().filter_map(|event| match &event.body {
            Body::ReadPosition(position) => Some(position),
            _ => None,
        });
        let before = positions
            .filter(|p| p.uid == ack.uid && p.peer == ack.peer && p.device == ack.device)
            .map(|p| p.mid)
            .max();
        if mid <= before.unwrap_or(Mid::ZERO) {
            return Ok(None);
        }
        let from_peer = messages().filter(|m| m.srcid == ack.peer && m.mid <= mid);
        let known = last.get() - mid.get() <= 128;
        Ok(Some(Body::ReadPosition(ReadPosition {
            uid: ack.uid,
            peer: ack.peer,
            device: ack.device,
            mid,
            n: known.then(|| Ordinal::try_from(from_peer.count() as i64).unwrap()),
        })))
    }

    fn control(&self, control: &Control) -> Result<Option<Body>, Reason> {
        let version = control.rule_version.unwrap_or(self.rules.rule_version);
        let key = control.hash_key.as_deref().map(HashKey::try_from);
        let rules = Rules {
            rule_version: version,
            dedup_window_ms: control
                .dedup_window_ms
                .unwrap_or(self.rules.dedup_window_ms),
            dedup_max_entries: control
                .dedup_max_entries
                .unwrap_or(self.rules.dedup_max_entries),
            max_msg_bytes: control.max_msg_bytes.unwrap_or(self.rules.max_msg_bytes),
            hash_key: match (&key, self.rules.hash_key) {
                _ if version == 1 => None,
                (Some(Ok(key)), None) => Some(*key),
                (_, in_force) => in_force,
            },
            dedup_max_per_sender: match (control.dedup_max_per_sender, self.rules.rule_version) {
                _ if version == 1 => 0,
                (Some(most), _) => most,
                (None, 1) => 100_000,
                (None, _) => self.rules.dedup_max_per_sender,
            },
            new_conversations_per_day: match control.new_conversations_per_day {
                _ if version == 1 => 0,
                Some(most) => most,
                None if self.rules.rule_version == 1 => 20,
                None => self.rules.new_conversations_per_day,
            },
        };
        let key_is_right = match key {
            _ if version == 1 => true,
            None => rules.hash_key.is_some(),
            Some(key) => key.is_ok_and(|key| Some(key) == rules.hash_key),
        };
        let longest_window = if version == 1 {
            36_500 * 86_400_000
        } else {
            49 * 86_400_000
        };
        let in_bounds = (self.rules.rule_version..=2).contains(&version)
            && key_is_right
            && (version == 1 || (1..=10_000_000).contains(&rules.dedup_max_per_sender))
            && rules.new_conversations_per_day <= 1_000_000
            && rules.dedup_window_ms <= longest_window
            && (1..=10_000_000).contains(&rules.dedup_max_entries)
            && (1..=65_535).contains(&rules.max_msg_bytes);
        if in_bounds {
            Ok(Some(Body::Control(rules)))
        } else {
            Err(Reason::InvalidControl)
        }
    }

    fn belongs_here(&self, partition: Partition) -> Result<(), Reason> {
        if partition == self.partition {
            Ok(())
        } else {
            Err(Reason::WrongPartition)
        }
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.events.iter().filter_map(|event| match &event.body {
            Body::Message(message) => Some(message),
            _ => None,
        })
    }
}

fn keep_newest(remembered: &mut Vec<(i64, Message)>, most: i64) {
    let gone = (remembered.len() as i64 - most).max(0);
    remembered.drain(..gone as usize);
}
