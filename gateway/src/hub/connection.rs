//! A device's connection, as the hub sees it: what waits to be written, and below which offsets nothing is sent.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use schemas::{
    DeviceClass, DeviceId, InboundPosition, NextOffset, PartitionMap, SyncToken, UserId,
};
use tokio::sync::Notify;

use super::{
    Answer,
    queue::{Outgoing, Queue},
    ring_event::RingEvent,
};
use crate::encoded::Encoded;

/// A device of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceOf {
    pub(crate) uid: UserId,
    /// The device's own id.
    pub(crate) id: DeviceId,
    pub(crate) class: DeviceClass,
}

/// A connection of a device. The hub adds items to the connection's queue, and one task writes them.
pub(crate) struct Connection {
    device: DeviceOf,
    /// Connections that began later have higher numbers.
    number: u64,
    /// The connection only reads as its user, and is not one of the user's devices.
    is_reader: bool,
    state: Mutex<State>,
    /// Signals that something waits, or that the connection is to end.
    changed: Notify,
}

struct State {
    queue: Queue,
    /// The partitions in which the device is ahead of the gateway: it has handled everything below the offset (W9).
    ahead: PartitionMap<NextOffset>,
    /// Events were added, and the task that writes is to be woken for all of them at once.
    has_unwoken_events: bool,
    /// Sends whose outcome is not known yet.
    sends: BTreeSet<InboundPosition>,
    ends: Option<End>,
}

impl State {
    /// Adds an item, unless the connection is ending.
    fn add(&mut self, item: Outgoing) {
        if self.ends.is_none() && self.queue.push(item).is_err() {
            self.ends = Some(End::QueueFull);
        }
    }
}

/// Why the hub ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// More than `queue_bytes` wait: the device is to come back with its token (W5).
    QueueFull,
    /// Another connection of the device, or of its class, has taken its place.
    Replaced,
    /// Its stream cannot continue from where it was (W1).
    Forgotten,
}

/// What the task that writes has to do.
#[derive(Debug)]
pub(crate) enum Next {
    /// Write this.
    Write(Outgoing),
    /// Wait.
    Wait,
    /// Close.
    Close(End),
}

impl Connection {
    /// A connection without a stream, for which `queue_bytes` may wait.
    pub(crate) fn new(device: DeviceOf, number: u64, queue_bytes: usize) -> Self {
        Self {
            number,
            is_reader: false,
            state: Mutex::new(State {
                queue: Queue::new(device.uid, queue_bytes),
                ahead: PartitionMap::new(),
                has_unwoken_events: false,
                sends: BTreeSet::new(),
                ends: None,
            }),
            changed: Notify::new(),
            device,
        }
    }

    /// A connection of a caller who may read as the user, but not act.
    pub(crate) fn of_reader(self) -> Self {
        Self {
            is_reader: true,
            ..self
        }
    }

    pub(crate) fn is_reader(&self) -> bool {
        self.is_reader
    }

    pub(crate) fn uid(&self) -> UserId {
        self.device.uid
    }

    pub(crate) fn device(&self) -> &DeviceOf {
        &self.device
    }

    /// Unique among the connections of this gateway.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn began_before(&self, other: &Self) -> bool {
        self.number < other.number
    }

    /// What to write next.
    pub(crate) fn next(&self) -> Next {
        let mut state = self.state.lock();
        if let Some(end) = state.ends {
            return Next::Close(end);
        }
        state.queue.pop().map_or(Next::Wait, Next::Write)
    }

    /// Waits until [`Self::next`] has something.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Makes [`Self::changed`] return, since something still waits.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Adds a frame for this connection alone.
    pub(crate) fn push_encoded(&self, frame: Encoded) {
        self.push(&mut self.state.lock(), Outgoing::Frame(frame));
    }

    /// Adds a frame if it fits after what waits. Returns whether it was added.
    pub(crate) fn push_if_it_fits(&self, frame: Encoded) -> bool {
        let mut state = self.state.lock();
        let fits = state.queue.has_room_for(frame.len());
        if fits {
            self.push(&mut state, Outgoing::Frame(frame));
        }
        fits
    }

    /// How many sends have no outcome yet.
    pub(crate) fn sends_under_way(&self) -> usize {
        self.state.lock().sends.len()
    }

    /// A send waits for its outcome.
    pub(super) fn begin_send(&self, at: InboundPosition) {
        self.state.lock().sends.insert(at);
    }

    /// The outcome of a send.
    pub(super) fn end_send(&self, at: InboundPosition, answer: Answer) {
        let mut state = self.state.lock();
        state.sends.remove(&at);
        self.push(&mut state, Outgoing::Answer(Box::new(answer)));
    }

    /// Takes the sends without an outcome; afterwards there are none.
    pub(super) fn take_sends(&self) -> BTreeSet<InboundPosition> {
        std::mem::take(&mut self.state.lock().sends)
    }

    /// Begins the stream: `missed` is queued before what already waits.
    pub(super) fn begin(
        &self,
        read_to: PartitionMap<NextOffset>,
        since: &SyncToken,
        missed: Queue,
    ) {
        let mut state = self.state.lock();
        state.ahead = read_to
            .into_iter()
            .map(|(partition, read)| (partition, since.get(partition), read))
            .filter(|(_, since, read)| since > read)
            .map(|(partition, since, _)| (partition, since))
            .collect();
        let waited = std::mem::replace(&mut state.queue, missed);
        for item in waited {
            state.add(item);
        }
        self.changed.notify_one();
    }

    /// Adds an event, without waking the task that writes unless much waits. Returns whether this is the first since [`Self::wake_for_events`].
    pub(super) fn push_event(&self, event: &Arc<RingEvent>) -> bool {
        let mut state = self.state.lock();
        if let Some(ahead) = state.ahead.get(event.at.partition).copied() {
            if event.at.offset < ahead.get() {
                return false;
            }
            state.ahead.remove(event.at.partition);
        }
        state.add(Outgoing::Event(Arc::clone(event)));
        if state.queue.is_half_full() {
            self.wake();
        }
        !std::mem::replace(&mut state.has_unwoken_events, true)
    }

    /// Makes the task write the events that were added.
    pub(super) fn wake_for_events(&self) {
        self.state.lock().has_unwoken_events = false;
        self.wake();
    }

    pub(super) fn ping(&self, epoch: u32, read_to: &PartitionMap<NextOffset>) {
        let mut state = self.state.lock();
        let ahead = |partition| state.ahead.get(partition).copied().unwrap_or_default();
        let covered = PartitionMap::full(|p| read_to[p].max(ahead(p)));
        let token = SyncToken::new(epoch, &covered).to_string();
        self.push(&mut state, Outgoing::Ping(token.into()));
    }

    /// Another connection takes its place.
    pub(crate) fn replace(&self) {
        self.end(End::Replaced);
    }

    /// Its stream cannot go on.
    pub(super) fn forget(&self) {
        self.end(End::Forgotten);
    }

    fn end(&self, why: End) {
        self.state.lock().ends.get_or_insert(why);
        self.changed.notify_one();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.state.lock().ends.is_some()
    }

    fn push(&self, state: &mut State, item: Outgoing) {
        state.add(item);
        self.changed.notify_one();
    }
}
