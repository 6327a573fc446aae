//! The real hub with a model of everything around it: gateways that lag and restart, rings that run over, stores that lag and coalesce, devices that
//! come and go with whatever waits for them, members who join and leave. No device misses an event that its token covers, none gets one below its
//! token, and each gets on: once all is quiet it knows what there is.

mod conversation;
mod device;
mod log;
mod stores;
mod told;
mod vector;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use schemas::{DeviceClass, EventPosition, NextOffset, Partition, PartitionMap, SyncToken};

use self::{
    device::Device,
    log::{Log, USERS},
    stores::Stores,
    vector::Recording,
};
use super::{
    Adoption, Connection, DeviceOf, Hub, HubLimits, Next, NoStream, Outgoing, Replay,
    test_events::event,
};

const GATEWAYS: usize = 2;
const STEPS: usize = 600;
/// How often a device is checked, milliseconds.
const CHECK_INTERVAL: u64 = 4;
const LIMITS: HubLimits = HubLimits {
    ring_ms: 120,
    ring_bytes: 60_000,
    ring_bytes_of_account: 30_000,
    max_devices: 3,
    dead_letters_ms: 60,
    turn: 7,
};
const QUEUE_BYTES: usize = 2_000;
/// How often devices come back once all is quiet.
const ROUNDS: usize = 20;
/// How many pages a device asks for without a pause.
const MAX_PAGES: usize = 10;
/// A device that handles seldom does so about every `SLEEP_STEPS` steps.
const SLEEP_STEPS: u32 = 60;

struct Simulation {
    rng: StdRng,
    log: Log,
    hubs: Vec<Hub>,
    stores: Stores,
    devices: Vec<Device>,
    now_ms: u64,
    /// Until when a gateway, or the stores, stand still.
    frozen_ms: [u64; GATEWAYS + 1],
    outcomes: BTreeSet<Outcome>,
    connections: u64,
    /// Nothing happens any more.
    is_settling: bool,
}

/// What happens in a run, so that it is known to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Resumed,
    /// Something happened between two turns of a replay.
    Interrupted,
    /// A page of a sync.
    Synced,
    /// Another page follows.
    Paged,
    /// An event came that a page of a sync had before.
    Overtaken,
    /// MySQL's memberships are behind the rings.
    Behind,
    Head,
    Closed,
    /// A message of a group came after a sync that said that the user has left it.
    ToldWhatItHadLeft,
    /// Something that happened in a group after its dissolution was handed to a device.
    ToldAfterDissolution,
}

impl Outcome {
    /// In how many percent of the runs each outcome happens at least.
    const LEAST: [(Self, u64); 10] = [
        (Self::Resumed, 99),
        (Self::Interrupted, 90),
        (Self::Synced, 99),
        (Self::Paged, 99),
        (Self::Overtaken, 75),
        (Self::Behind, 4),
        (Self::Head, 40),
        (Self::Closed, 90),
        (Self::ToldWhatItHadLeft, 3),
        (Self::ToldAfterDissolution, 20),
    ];
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let start = PartitionMap::full(|_| NextOffset::START);
        Self {
            rng: StdRng::seed_from_u64(seed),
            log: Log::new(),
            hubs: (0..GATEWAYS).map(|_| Hub::new(LIMITS, 0, &start)).collect(),
            stores: Stores::new(),
            devices: (1..=USERS).chain(1..=USERS).map(Device::new).collect(),
            now_ms: 0,
            frozen_ms: [0; GATEWAYS + 1],
            outcomes: BTreeSet::new(),
            connections: 0,
            is_settling: false,
        }
    }

    fn run(mut self) -> BTreeSet<Outcome> {
        self.run_all();
        self.outcomes
    }

    /// What one of the devices got, and what it made of it.
    fn recorded(mut self, which: usize) -> Device {
        let which = which % self.devices.len();
        self.devices[which].recording = Some(Recording::default());
        self.run_all();
        self.devices.swap_remove(which)
    }

    fn run_all(&mut self) {
        for _ in 0..STEPS {
            self.now_ms += 1;
            match self.rng.random_range(0..16) {
                0..=3 => self.log.step(&mut self.rng),
                4..=8 => self.read(),
                9..=10 => self.apply(),
                11..=12 => self.connect_one(),
                13 => self.lose(),
                14 => self.ping_or_fetch(),
                _ => self.disturb(),
            }
            self.handle();
            if self.now_ms.is_multiple_of(CHECK_INTERVAL) {
                let which = self.rng.random_range(0..self.devices.len());
                self.devices[which].check(&self.log);
            }
        }
        self.settle();
    }

    fn is_frozen(&self, which: usize) -> bool {
        self.now_ms < self.frozen_ms[which]
    }

    /// A gateway reads on in one partition.
    fn read(&mut self) {
        let which = self.rng.random_range(0..GATEWAYS);
        if !self.is_frozen(which) {
            let behind = self.behind(which);
            if !behind.is_empty() {
                let partition = behind[self.rng.random_range(0..behind.len())];
                for _ in 0..self.rng.random_range(1..6) {
                    self.read_next(which, partition);
                }
            }
        }
        self.hubs[which].drop_old(self.now_ms);
    }

    fn behind(&self, which: usize) -> Vec<Partition> {
        let read_to = self.hubs[which].read_to();
        let used = self.log.used();
        used.filter(|partition| read_to[*partition] < self.log.end(*partition))
            .collect()
    }

    fn read_next(&mut self, which: usize, partition: Partition) {
        let next = self.hubs[which].read_to()[partition];
        if next < self.log.end(partition) {
            let offset = next.get();
            let body = self
                .log
                .event(EventPosition { partition, offset })
                .body
                .clone();
            self.hubs[which].apply(event(partition, offset, body), self.now_ms);
        }
    }

    fn apply(&mut self) {
        if !self.is_frozen(GATEWAYS) {
            self.stores.apply(&self.log, &mut self.rng);
        }
    }

    fn connect_one(&mut self) {
        let which = self.rng.random_range(0..self.devices.len());
        let gateway = self.rng.random_range(0..GATEWAYS);
        self.connect(which, gateway, |simulation| {
            simulation.log.step(&mut simulation.rng);
            simulation.apply();
        });
    }

    /// A device comes back, and syncs if it has to; mostly page by page, until it has its stream. Something may happen between two pages.
    fn connect(&mut self, which: usize, gateway: usize, mut between: impl FnMut(&mut Self)) {
        if self.devices[which].connection.is_some() {
            return;
        }
        for _ in 0..MAX_PAGES {
            if !self.say_hello(which, gateway) || self.rng.random_ratio(1, 8) {
                return;
            }
            between(self);
        }
    }

    /// Says hello. Returns whether the device got a page of a sync, and has to say hello again.
    fn say_hello(&mut self, which: usize, gateway: usize) -> bool {
        let device = &mut self.devices[which];
        let of = DeviceOf {
            uid: device.user(),
            id: format!("device-{which}").try_into().unwrap(),
            class: DeviceClass::Pc,
        };
        self.connections += 1;
        let connection = Arc::new(Connection::new(of, self.connections, QUEUE_BYTES));
        let welcomed = match device.token().cloned() {
            Some(token) if token.page().is_none() => self.replay(gateway, &connection, token),
            _ => Err(NoStream::SyncRequired),
        };
        let device = &mut self.devices[which];
        match welcomed {
            Ok(()) => {
                self.outcomes.insert(Outcome::Resumed);
                device.connection = Some((gateway, connection));
            }
            Err(NoStream::MembershipsBehind | NoStream::LogEndUnknown) => {
                self.outcomes.insert(Outcome::Behind);
            }
            Err(NoStream::SyncRequired) => {
                let (user, token) = (device.user(), device.token());
                if let Some(answer) = self.stores.sync(&self.log, user, token) {
                    self.outcomes.insert(Outcome::Synced);
                    if device.synced(answer) {
                        self.outcomes.insert(Outcome::Paged);
                    }
                    return true;
                }
            }
        }
        false
    }

    /// Replays as a gateway does. Between two turns of the hub something may happen.
    fn replay(
        &mut self,
        gateway: usize,
        connection: &Arc<Connection>,
        since: SyncToken,
    ) -> Result<(), NoStream> {
        let uid = connection.uid();
        if !self.hubs[gateway].knows(uid) {
            let mut adoption = Adoption::new(uid, self.stores.memberships(&self.log, uid));
            while !self.hubs[gateway].adopt(&mut adoption, self.now_ms)? {
                adoption.settle();
                self.between_turns(gateway);
            }
        }
        let mut replay = Replay::new(uid, since, QUEUE_BYTES);
        while !self.hubs[gateway].welcome(&mut replay, connection)? {
            replay.settle()?;
            self.between_turns(gateway);
        }
        Ok(())
    }

    fn between_turns(&mut self, gateway: usize) {
        if self.is_settling || self.rng.random() {
            return;
        }
        self.outcomes.insert(Outcome::Interrupted);
        self.now_ms += 1;
        self.log.step(&mut self.rng);
        let behind = self.behind(gateway);
        if let Some(partition) = behind.first() {
            self.read_next(gateway, *partition);
        }
        self.hubs[gateway].drop_old(self.now_ms);
    }

    /// A connection breaks, with whatever waits.
    fn lose(&mut self) {
        let which = self.rng.random_range(0..self.devices.len());
        self.close(which);
    }

    fn close(&mut self, which: usize) {
        if let Some((gateway, connection)) = self.devices[which].connection.take() {
            self.hubs[gateway].close(&connection, self.now_ms);
        }
    }

    fn ping_or_fetch(&mut self) {
        let which = self.rng.random_range(0..self.devices.len());
        let device = &mut self.devices[which];
        match &device.connection {
            Some((gateway, connection)) if self.rng.random() => {
                self.hubs[*gateway].ping(connection);
            }
            _ => {
                let (chat, pages) = (self.rng.random_range(0..10), self.rng.random_range(1..9));
                device.fetch(chat, &self.log, &self.stores, pages);
            }
        }
    }

    /// A gateway comes back, and begins where MySQL is; or something stands still, for longer than the rings last.
    fn disturb(&mut self) {
        match self.rng.random_range(0..8) {
            0 if self.rng.random_ratio(1, 4) => {
                let which = self.rng.random_range(0..GATEWAYS);
                self.hubs[which] = Hub::new(LIMITS, 0, &self.stores.contacts);
                for device in &mut self.devices {
                    device.connection.take_if(|(gateway, _)| *gateway == which);
                }
            }
            1 => {
                let which = self.rng.random_range(0..=GATEWAYS);
                self.frozen_ms[which] = self.now_ms + self.rng.random_range(0..400);
            }
            _ => {}
        }
    }

    /// Some devices handle some of what waits; every other one sleeps long, and then handles much.
    fn handle(&mut self) {
        for which in 0..self.devices.len() {
            let at_most = match which % 2 {
                0 => self.rng.random_range(0..3),
                _ if self.rng.random_ratio(1, SLEEP_STEPS) => self.rng.random_range(5..20),
                _ => 0,
            };
            for _ in 0..at_most {
                if !self.handle_next(which) {
                    break;
                }
            }
        }
    }

    fn handle_next(&mut self, which: usize) -> bool {
        let device = &mut self.devices[which];
        let Some((_, connection)) = &device.connection else {
            return false;
        };
        match connection.next() {
            Next::Wait => false,
            Next::Close(_) => {
                self.outcomes.insert(Outcome::Closed);
                self.close(which);
                false
            }
            Next::Write(item) => {
                match &item {
                    Outgoing::Head(_) => _ = self.outcomes.insert(Outcome::Head),
                    Outgoing::Event(event) if self.log.is_after_dissolution(event.at) => {
                        self.outcomes.insert(Outcome::ToldAfterDissolution);
                    }
                    _ => {}
                }
                if device.take(&item, &self.log) {
                    self.outcomes.insert(Outcome::Overtaken);
                }
                true
            }
        }
    }

    /// Nothing happens any more, and everything catches up: so does every device.
    fn settle(&mut self) {
        self.is_settling = true;
        for which in 0..GATEWAYS {
            while let Some(partition) = self.behind(which).first() {
                self.read_next(which, *partition);
            }
        }
        self.stores = Stores::at_end(&self.log);
        for which in 0..self.devices.len() {
            let is_done = (0..ROUNDS).any(|round| {
                self.connect(which, (which + round / 5) % GATEWAYS, |_| ());
                while self.handle_next(which) {}
                if let Some((gateway, connection)) = &self.devices[which].connection {
                    self.hubs[*gateway].ping(connection);
                }
                while self.handle_next(which) {}
                self.devices[which].check(&self.log)
            });
            assert!(is_done, "device {which} does not get on");
            self.devices[which].settle(&self.log, &self.stores);
        }
        if self.devices.iter().any(Device::was_told_what_it_had_left) {
            self.outcomes.insert(Outcome::ToldWhatItHadLeft);
        }
    }
}

/// A seed decides everything.
fn run(seed: u64) -> BTreeSet<Outcome> {
    let run = std::panic::catch_unwind(|| Simulation::new(seed).run());
    run.unwrap_or_else(|_| panic!("this was seed {seed}"))
}

#[test]
fn no_device_misses_what_its_token_covers_and_each_gets_on() {
    let seeds = std::env::var("TIDEMARK_SIM_SEEDS");
    let seeds = seeds.map_or(300, |seeds| seeds.parse().unwrap());
    let mut runs = BTreeMap::new();
    for seed in 0..seeds {
        for outcome in run(seed) {
            *runs.entry(outcome).or_insert(0) += 1;
        }
    }
    for (outcome, least) in Outcome::LEAST {
        let percent = runs.get(&outcome).map_or(0, |runs| 100 * runs / seeds);
        assert!(
            percent >= least,
            "{outcome:?} in {percent} % of the runs only"
        );
    }
}
