//! After any history of events, rebuilds and losses Redis has the right state.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use schemas::{
    DeviceClass::{self, Mobile, Pc},
    Ordinal, PerDevice, UserId,
};
use unread_store::{BeginOutcome, PeerOrdinals, Rebuild, UserState, UserUpdate};

use crate::test_env::{LEASE_MS, ME, TestEnv, messages, n, read, user};

/// One step of a history of one user.
#[derive(Clone, Debug)]
enum Step {
    Message {
        peer: i64,
    },
    Read {
        peer: i64,
        device: DeviceClass,
        share: f64,
        known: bool,
    },
    Redeliver {
        event: prop::sample::Index,
    },
    Begin {
        lease_ms: u64,
    },
    /// With the latest rebuild, or any.
    Complete {
        rebuild: Option<prop::sample::Index>,
        rows_at_begin: bool,
    },
    Flush,
    ForgetScripts,
}

fn any_step() -> impl Strategy<Value = Step> {
    let peer = || 2001..2004_i64;
    let device = prop_oneof![Just(Pc), Just(Mobile)];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => peer().prop_map(|peer| Step::Message { peer }),
        6 => (peer(), device, 0.0..=1.0, prop::bool::weighted(0.7))
            .prop_map(|(peer, device, share, known)| Step::Read { peer, device, share, known }),
        4 => index().prop_map(|event| Step::Redeliver { event }),
        4 => prop_oneof![Just(0), Just(LEASE_MS)].prop_map(|lease_ms| Step::Begin { lease_ms }),
        4 => (prop::option::of(index()), any::<bool>())
            .prop_map(|(rebuild, rows_at_begin)| Step::Complete { rebuild, rows_at_begin }),
        1 => Just(Step::Flush),
        1 => Just(Step::ForgetScripts),
    ]
}

type Rows = BTreeMap<UserId, PeerOrdinals>;

/// The history so far, and what follows from it.
struct History {
    env: TestEnv,
    /// What the contact rows say once they are up to date.
    rows: Rows,
    /// Read ordinals, also those that the events do not have.
    really_read: BTreeMap<(i64, &'static str), i64>,
    events: Vec<UserUpdate>,
    rebuilds: Vec<(Rebuild, Rows)>,
}

impl History {
    async fn begin() -> Self {
        Self {
            env: TestEnv::new().await,
            rows: Rows::new(),
            really_read: BTreeMap::new(),
            events: vec![],
            rebuilds: vec![],
        }
    }

    /// Forgets everything and keeps the server.
    async fn restart(&mut self) {
        self.rows.clear();
        self.really_read.clear();
        self.events.clear();
        self.rebuilds.clear();
        self.flush().await;
    }

    async fn flush(&mut self) {
        self.env.redis::<String>("FLUSHALL").await;
        self.env.generation = self.env.initialise_at(0).await;
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Message { peer } => self.message(*peer).await,
            Step::Read {
                peer,
                device,
                share,
                known,
            } => {
                self.read(*peer, *device, *share, *known).await;
            }
            Step::Redeliver { event } if !self.events.is_empty() => {
                let event = event.get(&self.events).clone();
                self.env.apply(event).await;
            }
            Step::Begin { lease_ms } => self.begin_rebuild(*lease_ms).await,
            Step::Complete {
                rebuild,
                rows_at_begin,
            } if !self.rebuilds.is_empty() => {
                let latest = self.rebuilds.len() - 1;
                let index = rebuild.map_or(latest, |any| any.index(latest + 1));
                let (rebuild, rows) = &self.rebuilds[index];
                self.complete(rebuild, if *rows_at_begin { rows } else { &self.rows })
                    .await;
            }
            Step::Redeliver { .. } | Step::Complete { .. } => {}
            Step::Flush => self.flush().await,
            Step::ForgetScripts => drop(self.env.redis::<String>("SCRIPT FLUSH").await),
        }
    }

    async fn message(&mut self, peer: i64) {
        let row = self.row(peer);
        row.ordinal = row.ordinal.next();
        let newest = row.ordinal.get();
        self.happen(messages(ME, peer, newest)).await;
    }

    async fn read(&mut self, peer: i64, device: DeviceClass, share: f64, known: bool) {
        let newest = self.row(peer).ordinal.get();
        let really = self.really_read.entry((peer, device.as_str())).or_default();
        *really += ((newest - *really) as f64 * share).round() as i64;
        let known = known.then_some(*really);
        let row = self.row(peer);
        row.read[device] = known.map(n);
        self.happen(read(ME, peer, device, known)).await;
    }

    async fn happen(&mut self, event: UserUpdate) {
        self.events.push(event.clone());
        self.env.apply(event).await;
    }

    async fn begin_rebuild(&mut self, lease_ms: u64) {
        let begun = self.env.conn.begin_rebuild(user(ME), lease_ms).await;
        if let BeginOutcome::Begun(rebuild) = begun.unwrap() {
            self.rebuilds.push((rebuild, self.rows.clone()));
        }
    }

    async fn complete(&self, rebuild: &Rebuild, rows: &Rows) -> bool {
        let rows: Vec<_> = rows.iter().map(|(peer, row)| (*peer, *row)).collect();
        self.env
            .conn
            .complete_rebuild(rebuild, &rows)
            .await
            .unwrap()
    }

    fn row(&mut self, peer: i64) -> &mut PeerOrdinals {
        self.rows.entry(user(peer)).or_insert(PeerOrdinals::NONE)
    }

    /// Redis must be consistent, and equal to the history where the state is complete.
    async fn check(&self) {
        let raw = self.env.raw(ME).await;
        let expiry = raw.state.as_ref().map(|key| key.expires_at_ms);
        for view in [&raw.views.pc, &raw.views.mobile].into_iter().flatten() {
            assert_eq!(Some(view.expires_at_ms), expiry);
        }
        let views = raw
            .views
            .map(|view| view.map(|key| key.value).unwrap_or_default());
        match raw.state.map(|key| key.value) {
            Some(state) if state.rebuilding.is_none() => {
                for (device, view) in views.iter() {
                    assert_eq!(*view, state.counts(device));
                }
                self.check_state(&state);
            }
            _ => assert_eq!(views, PerDevice::default()),
        }
    }

    fn check_state(&self, state: &UserState) {
        assert!(state.peers.keys().eq(self.rows.keys()), "{state:?}");
        for (peer, row) in &self.rows {
            let held = state.peers[peer];
            assert_eq!(held.ordinal, row.ordinal, "{peer}");
            for device in DeviceClass::ALL {
                // Of a first position, at 0, Redis cannot tell that it came after one that was unknown.
                let unsure = held.read[device].is_none() && row.read[device] == Some(Ordinal::ZERO);
                assert!(
                    unsure || held.read[device] == row.read[device],
                    "{peer} {device}"
                );
            }
        }
    }

    /// After any history a rebuild makes the state complete and right.
    async fn end(&mut self) {
        for _ in 0..3 {
            match self.env.conn.begin_rebuild(user(ME), 0).await.unwrap() {
                BeginOutcome::Begun(rebuild) => drop(self.complete(&rebuild, &self.rows).await),
                BeginOutcome::Complete => break,
                BeginOutcome::InProgress { .. } => {
                    let (rebuild, _) = self.rebuilds.last().unwrap();
                    self.complete(rebuild, &self.rows).await;
                }
            }
        }
        self.check().await;
        let complete = self.env.conn.begin_rebuild(user(ME), 0).await.unwrap();
        assert_eq!(complete, BeginOutcome::Complete);
    }
}

#[test]
fn any_history_leaves_the_right_state() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let history = std::cell::RefCell::new(runtime.block_on(History::begin()));
    proptest!(ProptestConfig::with_cases(300), |(steps in vec(any_step(), 1..50))| {
        let mut history = history.borrow_mut();
        runtime.block_on(async {
            history.restart().await;
            for step in &steps {
                history.take(step).await;
                history.check().await;
            }
            history.end().await;
        });
    });
}
