//! A deterministic simulation of owners of one partition: the real loader and shell over a model of the log, with kills
//! between any two steps, pauses, late appends, lost answers, forgotten producers and torn snapshots. A seed decides
//! everything; the logs that are left must be what one uninterrupted owner would have written.
//!
//! `TIDEMARK_SIM_SEED=<seed> cargo test -p sequencer one_seed` runs one seed again and says what happened; `TIDEMARK_SIM_SEEDS=<n>` sets how
//! many `seeds_agree` runs.

mod judge;
mod kafka;
pub(crate) mod oracle;
mod process;
pub(crate) mod rng;
mod rules;
mod simulation;
pub(crate) mod traffic;

use std::{cell::Cell, env, fmt, str::FromStr};

const SEEDS: u64 = 10_000;

thread_local! {
    static TRACES: Cell<bool> = const { Cell::new(false) };
}

/// Says what happens, when one seed is run again.
fn trace(what: fmt::Arguments<'_>) {
    if TRACES.get() {
        println!("{what}");
    }
}

fn from_env<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

#[test]
fn seeds_agree() {
    for seed in 0..from_env("TIDEMARK_SIM_SEEDS").unwrap_or(SEEDS) {
        if let Err(wrong) = simulation::run(seed) {
            panic!(
                "seed {seed}: {wrong}\nrun it again: TIDEMARK_SIM_SEED={seed} cargo test -p sequencer one_seed"
            );
        }
    }
}

#[test]
fn one_seed() {
    if let Some(seed) = from_env("TIDEMARK_SIM_SEED") {
        TRACES.set(true);
        if let Err(wrong) = simulation::run(seed) {
            panic!("seed {seed}: {wrong}");
        }
    }
}
