//! The places of a listener. If all are taken, a connection on which the service is not working gives its place to a new one, so a silent connection cannot
//! hold a place. Some places are for probes only, so probes do not wait for other requests. Addresses are not counted: behind a proxy there is only
//! one.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// Places beyond `http.max_connections`: probes are answered there, and all other requests are refused.
const FOR_PROBES: usize = 64;

pub(crate) struct Places {
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
    is_taken: CancellationToken,
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

/// The place of a connection, until it is dropped.
pub(crate) struct Place {
    activity: Activity,
    is_taken: CancellationToken,
}

/// The phase of a place's connection. This may outlive the place: a WebSocket has no place.
#[derive(Clone)]
pub(crate) struct Activity {
    places: Arc<Places>,
    number: u64,
}

/// Marks a request as in progress, until it is dropped.
pub(crate) struct Busy(Activity);

impl Places {
    pub(crate) fn new(max_busy: usize) -> Arc<Self> {
        Arc::new(Self {
            max_busy,
            state: Mutex::default(),
        })
    }

    /// A free place, or that of a connection that gives way; `None` if the service works on all connections.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Place> {
        let mut state = self.state();
        if state.held.len() >= self.max_busy + FOR_PROBES {
            let (_, _, number) = state.yielding.pop_first()?;
            let held = state.held.remove(&number)?;
            held.is_taken.cancel();
        }
        let (number, is_taken) = (state.tick(), CancellationToken::new());
        let held = Held {
            phase: Phase::Silent,
            since: number,
            is_taken: is_taken.clone(),
        };
        state.held.insert(number, held);
        state.yielding.insert((Phase::Silent, number, number));
        let places = Arc::clone(self);
        Some(Place {
            activity: Activity { places, number },
            is_taken,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Place {
    pub(crate) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Waits until another connection has taken the place.
    pub(crate) async fn taken(&self) {
        self.is_taken.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Activity { places, number } = &self.activity;
        places.state().remove(*number);
    }
}

impl Activity {
    /// Begins a request. `None` if the place is taken, or if as many requests are handled as may be and this is not a probe.
    pub(crate) fn begin_request(&self, is_probe: bool) -> Option<Busy> {
        let mut state = self.places.state();
        if state.busy >= self.places.max_busy && !is_probe {
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

    /// Notes that the request waits for the client. Returns whether the connection still has its place.
    pub(crate) fn stall(&self) -> bool {
        let mut state = self.places.state();
        state.change(self.number, &[Phase::Busy], Phase::Stalled);
        state.held.contains_key(&self.number)
    }

    /// Notes that the request no longer waits for the client. Returns whether the connection still has its place.
    pub(crate) fn go_on(&self) -> bool {
        let mut state = self.places.state();
        state.change(self.number, &[Phase::Stalled], Phase::Busy);
        state.held.contains_key(&self.number)
    }

    fn phase(&self) -> Option<Phase> {
        let state = self.places.state();
        state.held.get(&self.number).map(|held| held.phase)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Activity { places, number } = &self.0;
        let from = [Phase::Busy, Phase::Stalled];
        places.state().change(*number, &from, Phase::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(place: &Place) -> bool {
        place.is_taken.is_cancelled()
    }

    #[test]
    fn who_says_nothing_gives_way_before_who_did_and_the_first_of_them_first() {
        let places = Places::new(1);
        let all: Vec<Place> = (0..=FOR_PROBES).map(|_| places.take().unwrap()).collect();
        let mut busy = all[0].activity().begin_request(false);
        let _probe = all[2].activity().begin_request(true).unwrap();
        let next = places.take().unwrap();
        assert!(is_taken(&all[1]) && !is_taken(&all[0]) && !is_taken(&all[3]));
        busy.take();
        let _others: Vec<Place> = (3..=FOR_PROBES).map(|_| places.take().unwrap()).collect();
        assert!(all[3..].iter().all(is_taken) && !is_taken(&next));
        // Takes `next`, and then the idle connection once no connection is silent.
        let silent = places.take().unwrap();
        assert!(is_taken(&next) && !is_taken(&all[0]));
        assert!(silent.activity().is_silent());
    }

    #[test]
    fn probes_are_answered_whatever_all_others_wait_for() {
        let places = Places::new(2);
        let all: Vec<Place> = (0..4).map(|_| places.take().unwrap()).collect();
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
        let places = Places::new(1);
        let mut all: Vec<Place> = (0..=FOR_PROBES).map(|_| places.take().unwrap()).collect();
        let busy: Vec<_> = all
            .iter()
            .map(|place| place.activity().begin_request(true))
            .collect();
        assert!(places.take().is_none());
        drop((busy, all.pop()));
        assert_eq!(places.state().busy, 0);
        assert!(places.take().is_some());
        assert!(!all.iter().any(is_taken));
    }
}
