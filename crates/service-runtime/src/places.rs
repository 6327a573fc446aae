//! The places of a listener. A connection without a request in progress gives its place to another one where all are taken, so nobody holds one by
//! saying nothing; and some are for probes, whatever all requests wait for. It counts no addresses: behind a proxy there is one.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// Places beyond `http.max_connections`, in which probes are answered and all other requests refused.
const FOR_PROBES: usize = 64;

pub(crate) struct Places {
    /// So many requests are handled at a time, besides probes.
    max_busy: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: HashMap<u64, Held>,
    /// The connections that give way: by phase, then since when they are in it.
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

/// What a connection does. All but the last give way to others, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// It has not sent a request yet.
    Silent,
    /// Its last one is answered.
    Idle,
    /// A request is handled, and waits for the client: for more of its body, or until it takes more of the answer.
    Stalled,
    /// A request is handled.
    Busy,
}

/// The place of a connection, until it is dropped.
pub(crate) struct Place {
    activity: Activity,
    is_taken: CancellationToken,
}

/// What the connection of a place does. It may outlive the place: a WebSocket has none.
#[derive(Clone)]
pub(crate) struct Activity {
    places: Arc<Places>,
    number: u64,
}

/// A request in progress, until it is dropped.
pub(crate) struct Busy(Activity);

impl Places {
    pub(crate) fn new(max_busy: usize) -> Arc<Self> {
        Arc::new(Self {
            max_busy,
            state: Mutex::default(),
        })
    }

    /// A free place, or that of a connection that gives way; `None` where all have requests in progress.
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

    /// Moves a connection from one of these phases to another one; whether it was in one of them.
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

    /// Waits until another connection has taken it.
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
    /// A request begins. `None` where as many are handled as may be and it is no probe, or where the place is taken.
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

    /// The request waits for the client. Whether the connection still has its place.
    pub(crate) fn stall(&self) -> bool {
        let mut state = self.places.state();
        state.change(self.number, &[Phase::Busy], Phase::Stalled);
        state.held.contains_key(&self.number)
    }

    /// It does not any more. Whether the connection still has its place.
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
        // `next`, and then the idle one as soon as nobody is silent.
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
        // An answer that nobody takes is no longer in the way.
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
