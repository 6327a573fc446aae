//! The slots of a listener. If all are taken, a connection on which the service is not working gives its slot to a new one, so a silent connection cannot
//! hold a slot. Some slots are for probes only, so probes do not wait for other requests. Addresses are not counted: behind a proxy there is only
//! one.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Slots beyond `http.max_connections`: probes are answered there, and all other requests are refused.
const FOR_PROBES: usize = 64;

pub(crate) struct ConnectionSlots {
    /// How many requests are handled at a time, not counting probes.
    max_busy: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: HashMap<u64, Held>,
    /// The connections that give way: by phase, then by the time when they entered it.
    yielding: BTreeSet<(Phase, u64, u64)>,
    busy: usize,
    /// Counts connections and changes of their phases.
    clock: u64,
}

struct Held {
    phase: Phase,
    since: u64,
    is_evicted: CancellationToken,
}

/// The phase of a connection. All phases but the last give way to others, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The connection has not sent a request yet.
    Silent,
    /// The last request is answered.
    Idle,
    /// A request is being handled and waits for the client: to send more of its body, or to take more of the answer.
    Stalled,
    /// A request is being handled.
    Busy,
}

/// The slot of a connection, until it is dropped.
pub(crate) struct Slot {
    activity: Activity,
    is_evicted: CancellationToken,
}

/// The phase of a slot's connection. This may outlive the slot: a WebSocket has no slot.
#[derive(Clone)]
pub(crate) struct Activity {
    slots: Arc<ConnectionSlots>,
    number: u64,
}

/// Marks a request as in progress, until it is dropped.
pub(crate) struct Busy(Activity);

impl ConnectionSlots {
    pub(crate) fn new(max_busy: usize) -> Arc<Self> {
        Arc::new(Self {
            max_busy,
            state: Mutex::default(),
        })
    }

    /// A free slot, or that of a connection that gives way; `None` if the service works on all connections.
    pub(crate) fn acquire(self: &Arc<Self>) -> Option<Slot> {
        let mut state = self.state.lock();
        if state.held.len() >= self.max_busy + FOR_PROBES {
            let (_, _, number) = state.yielding.pop_first()?;
            let held = state.held.remove(&number)?;
            held.is_evicted.cancel();
        }
        let (number, is_evicted) = (state.tick(), CancellationToken::new());
        let held = Held {
            phase: Phase::Silent,
            since: number,
            is_evicted: is_evicted.clone(),
        };
        state.held.insert(number, held);
        state.yielding.insert((Phase::Silent, number, number));
        let slots = Arc::clone(self);
        Some(Slot {
            activity: Activity { slots, number },
            is_evicted,
        })
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Moves a connection from one of these phases to another one. Returns whether it was in one of them.
    fn change(&mut self, number: u64, from: &[Phase], to: Phase) -> bool {
        let now = self.tick();
        let held = self.held.get_mut(&number);
        let Some(held) = held.filter(|held| from.contains(&held.phase)) else {
            return false;
        };
        self.yielding.remove(&(held.phase, held.since, number));
        self.busy -= usize::from(held.phase == Phase::Busy);
        (held.phase, held.since) = (to, now);
        match to {
            Phase::Busy => self.busy += 1,
            _ => _ = self.yielding.insert((to, now, number)),
        }
        true
    }

    fn remove(&mut self, number: u64) {
        if let Some(held) = self.held.remove(&number) {
            self.yielding.remove(&(held.phase, held.since, number));
            self.busy -= usize::from(held.phase == Phase::Busy);
        }
    }
}

impl Slot {
    pub(crate) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Waits until another connection has taken the slot.
    pub(crate) async fn evicted(&self) {
        self.is_evicted.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Activity { slots, number } = &self.activity;
        slots.state.lock().remove(*number);
    }
}

impl Activity {
    /// Begins a request. `None` if the slot is taken, or if as many requests are handled as may be and this is not a probe.
    pub(crate) fn begin_request(&self, is_probe: bool) -> Option<Busy> {
        let mut state = self.slots.state.lock();
        if state.busy >= self.slots.max_busy && !is_probe {
            return None;
        }
        let from = [Phase::Silent, Phase::Idle];
        let begins = state.change(self.number, &from, Phase::Busy);
        begins.then(|| Busy(self.clone()))
    }

    /// Whether no request has come yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.phase() == Some(Phase::Silent)
    }

    /// Whether a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.phase(), Some(Phase::Busy | Phase::Stalled))
    }

    /// Notes that the request waits for the client. Returns whether the connection still has its slot.
    pub(crate) fn stall(&self) -> bool {
        let mut state = self.slots.state.lock();
        state.change(self.number, &[Phase::Busy], Phase::Stalled);
        state.held.contains_key(&self.number)
    }

    /// Notes that the request no longer waits for the client. Returns whether the connection still has its slot.
    pub(crate) fn go_on(&self) -> bool {
        let mut state = self.slots.state.lock();
        state.change(self.number, &[Phase::Stalled], Phase::Busy);
        state.held.contains_key(&self.number)
    }

    fn phase(&self) -> Option<Phase> {
        let state = self.slots.state.lock();
        state.held.get(&self.number).map(|held| held.phase)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Activity { slots, number } = &self.0;
        let from = [Phase::Busy, Phase::Stalled];
        slots.state.lock().change(*number, &from, Phase::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(slot: &Slot) -> bool {
        slot.is_evicted.is_cancelled()
    }

    #[test]
    fn who_says_nothing_gives_way_before_who_did_and_the_first_of_them_first() {
        let slots = ConnectionSlots::new(1);
        let all: Vec<Slot> = (0..=FOR_PROBES).map(|_| slots.acquire().unwrap()).collect();
        let mut busy = all[0].activity().begin_request(false);
        let _probe = all[2].activity().begin_request(true).unwrap();
        let next = slots.acquire().unwrap();
        assert!(is_evicted(&all[1]) && !is_evicted(&all[0]) && !is_evicted(&all[3]));
        busy.take();
        let _others: Vec<Slot> = (3..=FOR_PROBES).map(|_| slots.acquire().unwrap()).collect();
        assert!(all[3..].iter().all(is_evicted) && !is_evicted(&next));
        // Takes `next`, and then the idle connection once no connection is silent.
        let silent = slots.acquire().unwrap();
        assert!(is_evicted(&next) && !is_evicted(&all[0]));
        assert!(silent.activity().is_silent());
    }

    #[test]
    fn probes_are_answered_whatever_all_others_wait_for() {
        let slots = ConnectionSlots::new(2);
        let all: Vec<Slot> = (0..4).map(|_| slots.acquire().unwrap()).collect();
        let begin = |nth: usize, is_probe| all[nth].activity().begin_request(is_probe);
        let _busy = [begin(0, false).unwrap(), begin(1, false).unwrap()];
        assert!(begin(2, false).is_none());
        let probe = begin(2, true).unwrap();
        assert!(begin(3, false).is_none());
        drop(probe);
        // An answer that its client does not take no longer counts.
        assert!(all[0].activity().stall());
        let third = begin(3, false).unwrap();
        all[0].activity().go_on();
        drop(third);
        assert!(begin(3, false).is_none());
    }

    #[test]
    fn where_all_are_busy_nobody_gives_way_and_what_is_dropped_is_free() {
        let slots = ConnectionSlots::new(1);
        let mut all: Vec<Slot> = (0..=FOR_PROBES).map(|_| slots.acquire().unwrap()).collect();
        let busy: Vec<_> = all
            .iter()
            .map(|slot| slot.activity().begin_request(true))
            .collect();
        assert!(slots.acquire().is_none());
        drop((busy, all.pop()));
        assert_eq!(slots.state.lock().busy, 0);
        assert!(slots.acquire().is_some());
        assert!(!all.iter().any(is_evicted));
    }
}
