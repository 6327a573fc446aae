//! Looks up the events of `chat.events` on which a redrive depends.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::ControlFlow,
};

use event_log::{EventLogError, LogReader, Scanned};
use schemas::{
    ConversationId, EventPosition, Mid, OffsetRange, Partition, SourceWatermark, TimestampMs,
    event::{Body, Message},
    topics::Topic,
};

use super::candidate::{Candidate, RecordTime, SendKey};

pub(super) struct Sequenced {
    pub(super) at: EventPosition,
    pub(super) msg: String,
}

/// The events of `chat.events` that concern the candidates.
#[derive(Default)]
pub(super) struct EventLookup {
    sequenced: HashMap<SendKey, Sequenced>,
    last_mids: HashMap<RecordTime, Mid>,
    /// The partitions whose log does not begin at 0: a message that is not found there may have been deleted.
    without_start: HashSet<Partition>,
}

/// What to look up, and in which partitions.
#[derive(Default)]
struct LookupKeys {
    partitions: BTreeSet<Partition>,
    sends: HashSet<SendKey>,
    times: HashMap<ConversationId, HashSet<TimestampMs>>,
}

impl LookupKeys {
    fn by(candidates: &[Candidate]) -> Self {
        let mut keys = Self::default();
        for candidate in candidates {
            let conversation = match candidate {
                Candidate::Message { key, .. } => {
                    keys.sends.insert(key.clone());
                    key.conversation
                }
                Candidate::AboutMessage { time, .. } => {
                    let times = keys.times.entry(time.conversation).or_default();
                    times.insert(time.appended_at);
                    time.conversation
                }
                Candidate::NotPostable(_) => continue,
            };
            keys.partitions.insert(conversation.partition());
        }
        keys
    }
}

impl EventLookup {
    /// Reads the candidates' partitions from their start: a dead letter may be much younger than the message with its id.
    pub(super) fn read(
        reader: &LogReader,
        candidates: &[Candidate],
    ) -> Result<Self, EventLogError> {
        let (keys, mut lookup) = (LookupKeys::by(candidates), Self::default());
        for &partition in &keys.partitions {
            let OffsetRange { start, end } = reader.bounds(Topic::Events, &[partition])?[partition];
            let mut is_whole = start == 0;
            let mut watermarks = SourceWatermark::from_anywhere();
            reader.scan_remaining(Topic::Events, &[(partition, start..end)], |scanned| {
                match scanned {
                    Scanned::Removed { .. } => is_whole = false,
                    Scanned::Record(record) => {
                        if let Ok(event) = record.event()
                            && watermarks.admit(event.src.offset)
                            && let Body::Message(message) = event.body
                        {
                            let offset = record.offset;
                            let at = EventPosition { partition, offset };
                            lookup.add(&keys, at, event.ts, message);
                        }
                    }
                }
                ControlFlow::Continue(())
            })?;
            if !is_whole {
                lookup.without_start.insert(partition);
            }
        }
        Ok(lookup)
    }

    pub(super) fn sequenced(&self, key: &SendKey) -> Option<&Sequenced> {
        self.sequenced.get(key)
    }

    /// Whether a message that was not found may have been deleted.
    pub(super) fn lacks_start(&self, key: &SendKey) -> bool {
        self.without_start.contains(&key.conversation.partition())
    }

    /// The mid of the newest message before a record; zero if there was none. Messages of the same millisecond are not before it.
    pub(super) fn last_mid(&self, time: RecordTime) -> Mid {
        self.last_mids.get(&time).copied().unwrap_or_default()
    }

    /// Adds a message. Messages are added in log order.
    fn add(&mut self, keys: &LookupKeys, at: EventPosition, ts: TimestampMs, message: Message) {
        let conversation = message.conversation();
        for appended_at in keys.times.get(&conversation).into_iter().flatten() {
            if ts < *appended_at {
                let time = RecordTime {
                    conversation,
                    appended_at: *appended_at,
                };
                self.last_mids.insert(time, message.mid);
            }
        }
        let key = SendKey {
            conversation,
            srcid: message.srcid,
            client_msg_id: message.client_msg_id,
        };
        if keys.sends.contains(&key) {
            let msg = message.msg;
            self.sequenced.insert(key, Sequenced { at, msg });
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DirectConversation, Recipient, UserId};

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn message(mid: i64) -> Message {
        Message {
            srcid: user(1),
            to: Recipient::User(user(2)),
            client_msg_id: format!("c-{mid}").try_into().unwrap(),
            msg: "hi".to_owned(),
            mid: mid.try_into().unwrap(),
            ordinal: mid.try_into().unwrap(),
        }
    }

    #[test]
    fn the_newest_message_before_a_record_is_found() {
        let at = |appended_at| RecordTime {
            conversation: DirectConversation::new(user(2), user(1)).into(),
            appended_at: TimestampMs(appended_at),
        };
        let candidates: Vec<Candidate> = [10, 11, 30, 99]
            .map(|appended_at| Candidate::AboutMessage {
                time: at(appended_at),
                mid: Mid::ZERO,
                line: serde_json::Value::Null,
            })
            .into();
        let partition = at(0).conversation.partition();
        let keys = LookupKeys::by(&candidates);
        let mut lookup = EventLookup::default();
        for (offset, ts) in [(0, 10), (1, 20), (2, 30)] {
            let position = EventPosition { partition, offset };
            lookup.add(&keys, position, TimestampMs(ts), message(offset + 1));
        }
        let last_mids = [10, 11, 30, 99].map(|appended_at| lookup.last_mid(at(appended_at)).get());
        assert_eq!(last_mids, [0, 1, 2, 3]);
    }
}
