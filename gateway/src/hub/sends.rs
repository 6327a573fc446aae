//! Sends of devices whose outcome is not known yet.
//!
//! The log shows the outcome. The event of a send names the inbound record that caused it. If an event with a higher source offset comes first, the
//! send has no event: either it was refused, and its dead letter was acknowledged before that event was appended (PROTOCOL S7, S8), or it repeats an
//! earlier send. So once the dead letters are read up to the end that they had then, and none of them is of the send, the send is a repeat.

use std::{collections::BTreeMap, sync::Arc};

use schemas::{
    ClientMsgId, InboundPosition, Mid, NextOffset, OffsetRange, Partition, PartitionMap, Recipient,
    TimestampMs,
    dead_letter::Reason,
    event::{Event, SourceOffset},
};

use super::{Connection, RingEvent, body::message_of, ring::PartitionRing};

/// How many events of the ring are looked at for the message that a send repeats.
const LOOKED_AT: usize = 1_000;

const ANSWER_BYTES: usize = 100;

/// A send that is on `chat.inbound`.
pub(crate) struct PostedSend {
    pub(crate) at: InboundPosition,
    pub(crate) connection: Arc<Connection>,
    /// The device's own name for it.
    pub(crate) reference: String,
    pub(crate) client_msg_id: Option<ClientMsgId>,
    pub(crate) to: Recipient,
    /// The source offset up to which its partition was decided before the send was appended.
    pub(crate) decided_before: Option<SourceOffset>,
}

/// Why a send is refused, as its dead letter says.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

/// What has become of a send, for the device that waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The device's own name for it.
    pub(crate) reference: String,
    pub(crate) outcome: Outcome,
}

/// What has become of a send.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The mid and the time of the message; `None` for a repeat whose first message is no longer here.
    Sent(Option<(Mid, TimestampMs)>),
    Refused(Refusal),
    /// `chat.inbound` was created again, or dead letters were lost.
    Unknown,
}

impl Answer {
    /// About what its frame takes.
    pub(super) fn bytes(&self) -> usize {
        let detail = match &self.outcome {
            Outcome::Refused(refusal) => refusal.detail.len(),
            Outcome::Sent(_) | Outcome::Unknown => 0,
        };
        ANSWER_BYTES + self.reference.len() + detail
    }
}

struct Waiting {
    send: PostedSend,
    /// The end of the dead letters, read after it was known that the send has no event.
    dead_letters_to: Option<NextOffset>,
}

/// The sends of all connections.
#[derive(Default)]
pub(super) struct Sends {
    /// By offset in `chat.inbound`.
    waiting: PartitionMap<BTreeMap<i64, Waiting>>,
    /// The source offset of the newest event.
    decided: PartitionMap<SourceOffset>,
    /// Dead letters that were read before their sends were added, with the time: a device's append may be confirmed later than its dead letter is read.
    early: PartitionMap<BTreeMap<i64, (Refusal, u64)>>,
    /// How far dead letters are read.
    dead_letters: PartitionMap<NextOffset>,
}

impl Sends {
    /// Takes a send, which may be decided already.
    pub(super) fn add(&mut self, send: PostedSend, ring: &PartitionRing) {
        let InboundPosition { partition, offset } = send.at;
        // No record is decided before it is appended. So `chat.inbound` was created again, and its offsets are below those of the old one.
        if send
            .decided_before
            .is_some_and(|before| offset <= before.offset)
        {
            return send.answer(Outcome::Unknown);
        }
        let early = self.early.get_mut(partition);
        if let Some((refusal, _)) = early.and_then(|early| early.remove(&offset)) {
            return send.answer(Outcome::Refused(refusal));
        }
        let is_decided = self.is_decided(send.at);
        let is_its_own = |event: &Event| event.src.offset.offset == offset;
        if is_decided && let Some(event) = find(ring, send.key(), is_its_own) {
            return send.sent(Some(event));
        }
        send.connection.begin_send(send.at);
        let waiting = Waiting {
            send,
            dead_letters_to: None,
        };
        self.of(partition).insert(offset, waiting);
    }

    /// An event was read: everything up to its cause is decided.
    pub(super) fn decide(&mut self, partition: Partition, event: &Event) {
        let source = event.src.offset;
        let before = self.decided.insert(partition, source).unwrap_or(source);
        if before.epoch != source.epoch {
            // In a new epoch the offsets begin again.
            self.answer_unknown(partition);
        }
        if message_of(event).is_none() {
            return;
        }
        let waiting = self.waiting.get_mut(partition);
        if let Some(waiting) = waiting.and_then(|all| all.remove(&source.offset)) {
            waiting.send.sent(Some(event));
        }
    }

    /// The source offset of the newest event of a partition.
    pub(super) fn decided(&self, partition: Partition) -> Option<SourceOffset> {
        self.decided.get(partition).copied()
    }

    /// A dead letter was read.
    pub(super) fn refuse(&mut self, at: InboundPosition, refusal: Refusal, now_ms: u64) {
        let waiting = self.waiting.get_mut(at.partition);
        match waiting.and_then(|all| all.remove(&at.offset)) {
            Some(waiting) => waiting.send.answer(Outcome::Refused(refusal)),
            None => {
                let early = self.early.get_or_insert_with(at.partition, BTreeMap::new);
                early.insert(at.offset, (refusal, now_ms));
            }
        }
    }

    /// Dead letters are read up to `next`: a send that has none by then is a repeat.
    pub(super) fn read_dead_letters(
        &mut self,
        ring: &PartitionRing,
        partition: Partition,
        next: NextOffset,
    ) {
        self.dead_letters.insert(partition, next);
        let Some(all) = self.waiting.get_mut(partition) else {
            return;
        };
        let is_repeat =
            |_: &i64, one: &mut Waiting| one.dead_letters_to.is_some_and(|to| to <= next);
        for (_, waiting) in all.extract_if(.., is_repeat) {
            waiting.send.repeated(ring);
        }
    }

    /// The next dead letters are not on the log: one of a send that waits may have been among them.
    pub(super) fn lose_dead_letters(
        &mut self,
        partition: Partition,
        log: OffsetRange,
    ) -> NextOffset {
        self.answer_unknown(partition);
        let next = self.dead_letters_to(partition).get();
        let next = NextOffset::new(next.clamp(log.start, log.end));
        self.dead_letters.insert(partition, next);
        next
    }

    fn answer_unknown(&mut self, partition: Partition) {
        for waiting in std::mem::take(self.of(partition)).into_values() {
            waiting.send.answer(Outcome::Unknown);
        }
    }

    /// The sends without an event for which the end up to which dead letters have to be read is not known yet.
    pub(super) fn without_event(&self) -> Vec<InboundPosition> {
        let positions = self.waiting.iter().flat_map(|(partition, all)| {
            let unknown = all.iter().filter(|(_, one)| one.dead_letters_to.is_none());
            unknown.map(move |(offset, _)| InboundPosition {
                partition,
                offset: *offset,
            })
        });
        positions.filter(|at| self.is_decided(*at)).collect()
    }

    /// `ends` are the ends of the dead letters, read after [`Self::without_event`] had returned the sends `of`.
    pub(super) fn wait_for_dead_letters(
        &mut self,
        of: &[InboundPosition],
        ends: &PartitionMap<NextOffset>,
    ) {
        for at in of {
            let waiting = self.waiting.get_mut(at.partition);
            if let Some(one) = waiting.and_then(|all| all.get_mut(&at.offset)) {
                one.dead_letters_to = ends.get(at.partition).copied();
            }
        }
    }

    /// How far dead letters are read.
    pub(super) fn dead_letters_to(&self, partition: Partition) -> NextOffset {
        self.dead_letters
            .get(partition)
            .copied()
            .unwrap_or_default()
    }

    /// Forgets the sends of a connection.
    pub(super) fn forget(&mut self, connection: &Connection) {
        for at in connection.take_sends() {
            if let Some(all) = self.waiting.get_mut(at.partition) {
                all.remove(&at.offset);
            }
        }
    }

    /// Drops the dead letters that came before `time_ms`.
    pub(super) fn drop_early(&mut self, time_ms: u64) {
        for early in self.early.values_mut() {
            early.retain(|_, (_, at_ms)| *at_ms >= time_ms);
        }
    }

    fn is_decided(&self, at: InboundPosition) -> bool {
        let decided = self.decided.get(at.partition);
        decided.is_some_and(|decided| at.offset <= decided.offset)
    }

    fn of(&mut self, partition: Partition) -> &mut BTreeMap<i64, Waiting> {
        self.waiting.get_or_insert_with(partition, BTreeMap::new)
    }
}

impl PostedSend {
    /// The key by which its message is found in a ring.
    fn key(&self) -> Recipient {
        match self.to {
            Recipient::Group(_) => self.to,
            Recipient::User(_) => Recipient::User(self.connection.uid()),
        }
    }

    /// `event` is `None` for a repeat whose first message is no longer here.
    fn sent(self, event: Option<&Event>) {
        let message = event.and_then(|event| Some((message_of(event)?.mid, event.ts)));
        self.answer(Outcome::Sent(message));
    }

    fn repeated(self, ring: &PartitionRing) {
        let author = self.connection.uid();
        let is_first = |event: &Event| {
            message_of(event).is_some_and(|message| {
                message.author == author
                    && message.to == self.to
                    && Some(message.client_msg_id) == self.client_msg_id.as_ref()
            })
        };
        let first = find(ring, self.key(), is_first);
        self.sent(first);
    }

    fn answer(self, outcome: Outcome) {
        let reference = self.reference;
        self.connection
            .end_send(self.at, Answer { reference, outcome });
    }
}

/// The newest event of a key for which `is_it` holds.
fn find(ring: &PartitionRing, key: Recipient, is_it: impl Fn(&Event) -> bool) -> Option<&Event> {
    let events = ring.newest_first(key).take(LOOKED_AT);
    let mut events = events.map(|event: &Arc<RingEvent>| &event.event);
    events.find(|event| is_it(event))
}

#[cfg(test)]
mod tests;
