//! The simulation of one seed: the processes and the faults.

use super::{
    check,
    process::{Exit, Process},
    rng::Rng,
    shared::{Environment, Shared},
    trace, traffic,
};

struct Simulation {
    rng: Rng,
    shared: Shared,
    processes: Vec<Process>,
    /// The process that the partition is assigned to.
    assigned: u64,
    next_id: u64,
    /// The percentage of faults that are left out.
    skipped_faults: usize,
}

const MAX_PROCESSES: usize = 3;
/// The number of steps without faults after which everything must be sequenced.
const MAX_SETTLING_STEPS: usize = 20_000;

/// Runs one seed. The error says what is wrong with the logs.
pub(crate) fn run(seed: u64, environment: Environment) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let length = 20 + rng.below(100);
    let inbound = traffic::inbound(&mut rng, length);
    let mut simulation = Simulation {
        shared: Shared::new(environment, inbound),
        processes: Vec::new(),
        assigned: 0,
        next_id: 0,
        skipped_faults: rng.below(95),
        rng,
    };
    simulation.run_with_faults()?;
    simulation.settle()?;
    check::check(&simulation.shared, &mut simulation.rng)
}

impl Simulation {
    /// Random steps and faults, in any order.
    fn run_with_faults(&mut self) -> Result<(), String> {
        self.begin_process();
        for _ in 0..1000 + self.rng.below(1000) {
            self.pass_time();
            match self.rng.below(400) {
                0..20 => self.post(),
                20..62 if !self.rng.chance(self.skipped_faults) => self.inject_fault(),
                62..80 => self.assign()?,
                80..150 => self.broker_handles(true),
                _ => self.process_acts()?,
            }
        }
        Ok(())
    }

    /// Injects a random fault.
    fn inject_fault(&mut self) {
        match self.rng.below(42) {
            0..4 => self.kill(),
            4..12 => self.pause_or_wake(),
            12..16 => self.begin_process(),
            16..19 => self.reassign(),
            19..29 => self.revoke(),
            29..32 => self.forget_producers(),
            32..36 => self.break_connection(),
            36..40 => self.lose_late_requests(),
            _ => self.delete_old_inbound(),
        }
    }

    /// Runs without faults until everything is sequenced.
    fn settle(&mut self) -> Result<(), String> {
        self.shared.posted = self.shared.inbound.len();
        self.processes.retain(|process| !process.is_paused);
        if self.rng.chance(50) || self.processes.is_empty() {
            self.processes.clear();
            self.begin_process();
        }
        self.assigned = self.processes.last().map_or(0, |process| process.id);
        let end = self.shared.inbound.len() as i64;
        for _ in 0..MAX_SETTLING_STEPS {
            if self.shared.covered() == end - 1 && self.has_owner_only() {
                return Ok(());
            }
            self.pass_time();
            match self.rng.below(20) {
                0 => self.revoke(),
                1 => self.assign()?,
                2..8 => self.broker_handles(false),
                _ => self.process_acts()?,
            }
        }
        let covered = self.shared.covered();
        Err(format!(
            "stuck at inbound offset {covered} of {end}: {:?}",
            self.processes
        ))
    }

    /// Whether only the assigned process is an owner, and no request is in flight.
    fn has_owner_only(&self) -> bool {
        let owner = |process: &Process| process.is_owner() == (process.id == self.assigned);
        self.processes.iter().all(owner) && !self.shared.broker.has_requests()
    }

    fn pass_time(&mut self) {
        self.shared.now_ms += self.rng.next() % 10;
    }

    fn post(&mut self) {
        let left = self.shared.inbound.len() - self.shared.posted;
        self.shared.posted += self.rng.below(left.min(10) + 1);
    }

    fn begin_process(&mut self) {
        if self.processes.len() == MAX_PROCESSES {
            return;
        }
        self.next_id += 1;
        let process = Process::new(
            self.next_id,
            &self.shared.environment,
            &mut self.shared.broker,
            &mut self.rng,
        );
        self.processes.push(process);
        self.assigned = self.next_id;
    }

    fn kill(&mut self) {
        if let Some(i) = self.any_process() {
            self.end_process(i);
        }
    }

    /// Ends a process. Requests that it sent may still be stored.
    fn end_process(&mut self, i: usize) {
        let ended = self.processes.remove(i);
        trace(format_args!("{ended:?} ends"));
        if self.processes.is_empty() {
            self.begin_process();
        }
        self.reassign();
    }

    /// Pauses or wakes a process. Meanwhile the partition is assigned to another, and the woken process does not know it.
    fn pause_or_wake(&mut self) {
        if let Some(i) = self.any_process() {
            self.processes[i].is_paused ^= true;
            if self.processes[i].is_paused {
                self.begin_process();
                self.reassign();
            }
        }
    }

    fn reassign(&mut self) {
        if let Some(i) = self.any_process() {
            self.assigned = self.processes[i].id;
        }
    }

    /// A former owner learns that the partition is assigned to another.
    fn revoke(&mut self) {
        let assigned = self.assigned;
        if let Some(process) = self.awake().filter(|process| process.id != assigned) {
            process.be_revoked();
        }
    }

    fn assign(&mut self) -> Result<(), String> {
        let assigned = self.assigned;
        let Some(i) = self
            .processes
            .iter()
            .position(|process| process.id == assigned)
        else {
            return Ok(());
        };
        if self.processes[i].is_paused {
            return Ok(());
        }
        let result = self.processes[i].be_assigned(&mut self.shared);
        self.handle_exit(i, result)
    }

    fn forget_producers(&mut self) {
        for process in &self.processes {
            process.be_forgotten(&mut self.shared.broker);
        }
    }

    fn break_connection(&mut self) {
        if let Some(i) = self.any_process() {
            self.processes[i].lose_connection(&mut self.shared.broker);
        }
    }

    fn lose_late_requests(&mut self) {
        let alive: Vec<u64> = self.processes.iter().map(Process::connection).collect();
        self.shared.broker.lose_requests_of(&alive, &mut self.rng);
    }

    /// Retention deletes inbound records that are sequenced.
    fn delete_old_inbound(&mut self) {
        let sequenced = self.shared.covered();
        self.shared.inbound_start = self.shared.inbound_start.max(sequenced - 2);
    }

    fn broker_handles(&mut self, faults: bool) {
        let Some(response) = self.shared.broker.handle_one(&mut self.rng, faults) else {
            return;
        };
        let mut receivers = self.processes.iter_mut();
        let receiver = receivers.find(|process| response.is_for(process.connection()));
        if let Some(process) = receiver {
            if faults && self.rng.chance(5) {
                process.lose_connection(&mut self.shared.broker);
            } else {
                process.receive(response);
            }
        }
    }

    fn process_acts(&mut self) -> Result<(), String> {
        let Some(i) = self.any_process().filter(|i| !self.processes[*i].is_paused) else {
            return Ok(());
        };
        let result = self.processes[i].act(&mut self.shared, &mut self.rng);
        self.handle_exit(i, result)
    }

    fn handle_exit(&mut self, i: usize, result: Result<(), Exit>) -> Result<(), String> {
        match result {
            Ok(()) => Ok(()),
            Err(Exit::Expected) => {
                self.end_process(i);
                Ok(())
            }
            Err(Exit::Wrong(what)) => Err(what),
        }
    }

    fn any_process(&mut self) -> Option<usize> {
        let count = self.processes.len();
        (count > 0).then(|| self.rng.below(count))
    }

    fn awake(&mut self) -> Option<&mut Process> {
        let i = self.any_process()?;
        Some(&mut self.processes[i]).filter(|process| !process.is_paused)
    }
}
