//! What `chat.events` says about what dead letters hold.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::ControlFlow,
};

use event_log::{Bounds, EventLogError, LogReader, Scanned};
use schemas::{
    DirectConversation, InboundPosition, Mid, Partition, SourceWatermark, TimestampMs,
    event::{Body, Message},
    topics::Topic,
};

use super::prospect::{Moment, Prospect, SendKey};

/// A message of `chat.events`.
pub(super) struct Sequenced {
    /// Its place there.
    pub(super) at: InboundPosition,
    /// Its text.
    pub(super) msg: String,
}

/// What was found of what prospects depend on.
#[derive(Default)]
pub(super) struct History {
    sequenced: HashMap<SendKey, Sequenced>,
    last_mids: HashMap<Moment, Mid>,
    /// The partitions whose log does not begin at 0: what is not found there may be gone.
    beheaded: HashSet<Partition>,
}

/// What is looked for, and where.
#[derive(Default)]
struct Wanted {
    partitions: BTreeSet<Partition>,
    keys: HashSet<SendKey>,
    moments: HashMap<DirectConversation, HashSet<TimestampMs>>,
}

impl Wanted {
    fn by(prospects: &[Prospect]) -> Self {
        let mut wanted = Self::default();
        for prospect in prospects {
            let conversation = match prospect {
                Prospect::Message { key, .. } => {
                    wanted.keys.insert(key.clone());
                    key.conversation
                }
                Prospect::ReadAck { moment, .. } => {
                    let times = wanted.moments.entry(moment.conversation).or_default();
                    times.insert(moment.came);
                    moment.conversation
                }
                Prospect::Hopeless(_) => continue,
            };
            wanted.partitions.insert(conversation.partition());
        }
        wanted
    }
}

impl History {
    /// All of the partitions that matter is read: a record that was written again, long after it was sequenced, has a letter that is
    /// younger than its message.
    pub(super) fn read(reader: &LogReader, prospects: &[Prospect]) -> Result<Self, EventLogError> {
        let (wanted, mut history) = (Wanted::by(prospects), Self::default());
        for &partition in &wanted.partitions {
            let Bounds { start, end } = reader.bounds(Topic::Events, &[partition])?[&partition];
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
                            let at = InboundPosition { partition, offset };
                            history.take(&wanted, at, event.ts, message);
                        }
                    }
                }
                ControlFlow::Continue(())
            })?;
            if !is_whole {
                history.beheaded.insert(partition);
            }
        }
        Ok(history)
    }

    /// The message with this id.
    pub(super) fn sequenced(&self, key: &SendKey) -> Option<&Sequenced> {
        self.sequenced.get(key)
    }

    /// Whether a message that was not found may have been there all the same.
    pub(super) fn is_beheaded(&self, key: &SendKey) -> bool {
        self.beheaded.contains(&key.conversation.partition())
    }

    /// The number of the last message that was there at a moment; zero where there was none. What came in the same millisecond was not
    /// there yet.
    pub(super) fn last_mid(&self, moment: Moment) -> Mid {
        self.last_mids.get(&moment).copied().unwrap_or_default()
    }

    /// Messages come in the order of the log.
    fn take(&mut self, wanted: &Wanted, at: InboundPosition, ts: TimestampMs, message: Message) {
        let conversation = message.conversation();
        for came in wanted.moments.get(&conversation).into_iter().flatten() {
            if ts < *came {
                let moment = Moment {
                    conversation,
                    came: *came,
                };
                self.last_mids.insert(moment, message.mid);
            }
        }
        let key = SendKey {
            conversation,
            srcid: message.srcid,
            client_msg_id: message.client_msg_id,
        };
        if wanted.keys.contains(&key) {
            let msg = message.msg;
            self.sequenced.insert(key, Sequenced { at, msg });
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::UserId;

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn message(mid: i64) -> Message {
        Message {
            srcid: user(1),
            destid: user(2),
            client_msg_id: format!("c-{mid}").try_into().unwrap(),
            msg: "hi".to_owned(),
            mid: mid.try_into().unwrap(),
            n: mid.try_into().unwrap(),
        }
    }

    #[test]
    fn what_was_there_at_a_moment_came_before_it() {
        let at = |came| Moment {
            conversation: DirectConversation::new(user(2), user(1)),
            came: TimestampMs(came),
        };
        let prospects: Vec<Prospect> = [10, 11, 30, 99]
            .map(|came| Prospect::ReadAck {
                moment: at(came),
                mid: Mid::ZERO,
                line: serde_json::Value::Null,
            })
            .into();
        let partition = at(0).conversation.partition();
        let wanted = Wanted::by(&prospects);
        let mut history = History::default();
        for (offset, ts) in [(0, 10), (1, 20), (2, 30)] {
            let place = InboundPosition { partition, offset };
            history.take(&wanted, place, TimestampMs(ts), message(offset + 1));
        }
        let last_mids = [10, 11, 30, 99].map(|came| history.last_mid(at(came)).get());
        assert_eq!(last_mids, [0, 1, 2, 3]);
    }
}
