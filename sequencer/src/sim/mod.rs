//! A deterministic simulation of owners of one partition: the real loader and shell over a model of the log, with kills between any two steps,
//! pauses, late appends, lost answers, forgotten producers and torn snapshots. A seed decides everything; the logs of a run must be those that one
//! uninterrupted owner would have written, and the audit, which has a fold of its own, must find no difference in them. `make sabotage` shows that the simulation notices a program without one of the rules of PROTOCOL S1–S14;
//! the tests below show it for what the rules require of Kafka's client.
//!
//! `TIDEMARK_SIM_SEED=<seed> cargo test -p sequencer one_seed` runs one seed again and says what happened; `TIDEMARK_SIM_SEEDS=<n>` sets how
//! many `seeds_agree` runs.

mod check;
mod kafka;
mod process;
pub(crate) mod rng;
mod shared;
mod simulation;
pub(crate) mod traffic;
pub(crate) mod uninterrupted;

use std::{cell::Cell, collections::HashSet, env, fmt, str::FromStr};

use rng::Rng;
use schemas::{ConversationId, dead_letter::Reason, event::Body};
use shared::Environment;
use uninterrupted::decisions;

use crate::core::{Decision, State};

const SEEDS: u64 = 10_000;

thread_local! {
    static TRACES: Cell<bool> = const { Cell::new(false) };
}

/// Prints what happens, when one seed is run again.
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
        if let Err(wrong) = simulation::run(seed, Environment::SOUND) {
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
        if let Err(wrong) = simulation::run(seed, Environment::SOUND) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

/// The traffic reaches the limits on what strangers do to each other in groups (PROTOCOL G9 to G12), and changes in a dissolved group (G7).
#[test]
fn the_traffic_meets_the_limits_of_groups() {
    let (mut refused, mut in_ended) = (HashSet::new(), HashSet::new());
    for seed in 0..500 {
        let records = traffic::inbound(&mut Rng::new(seed), 300);
        let mut ended: HashSet<ConversationId> = HashSet::new();
        for decision in decisions(&mut State::default(), traffic::partition(), &records) {
            match decision {
                Decision::DeadLetter(refusal) => drop(refused.insert(refusal.reason)),
                Decision::NoOp(_) | Decision::Halt(_) => {}
                Decision::Emit(event) => match &event.body {
                    Body::GroupChange(change)
                        if change.settings.dissolved && !ended.insert(change.gid.into()) =>
                    {
                        in_ended.insert("leave");
                    }
                    Body::MessageChange(change) if ended.contains(&change.conversation()) => {
                        in_ended.insert(change.change.kind());
                    }
                    _ => {}
                },
            }
        }
    }
    let limits = [
        Reason::WrongGid,
        Reason::TooManyMemberships,
        Reason::HasLeft,
        Reason::NotAMember,
        Reason::Dissolved,
    ];
    for reason in limits {
        assert!(refused.contains(&reason), "{reason}: {refused:?}");
    }
    for kind in ["leave", "hide", "clear", "recall"] {
        assert!(in_ended.contains(kind), "{kind}: {in_ended:?}");
    }
}

fn some_seed_differs(environment: Environment) -> bool {
    (0..3000).any(|seed| simulation::run(seed, environment).is_err())
}

/// PROTOCOL S6.
#[test]
fn a_producer_that_goes_on_after_a_failure_is_noticed() {
    assert!(some_seed_differs(Environment {
        gapless_producer: false,
        ..Environment::SOUND
    }));
}

/// PROTOCOL S9.
#[test]
fn a_start_at_the_groups_offset_is_noticed() {
    assert!(some_seed_differs(Environment {
        starts_at_the_groups_offset: true,
        ..Environment::SOUND
    }));
}
