//! The sequencer's decisions, without I/O, clock or randomness: [`step()`] decides, and only [`apply`](State::apply) changes the state.
//!
//! The state of a partition is the fold of [`State::apply`] over that partition's own output (PROTOCOL S1): nothing in
//! it depends on a record that emitted nothing, on a timer or on the binary.
//!
//! # Memory
//! An idle conversation takes a slot of 81 bytes in the hash table, which is between 7/16 and 7/8 full: 93 to 185
//! bytes. A dedup entry takes 40 bytes in a queue, and a slot of 5 bytes in a table that is as full: 46 to 52 bytes.
//! Rule version 1 remembers at most a million entries, so 52 MB per partition at the very most.

mod chunked_queue;
mod control;
mod conversation;
mod dedup;
pub mod snapshot;
mod state;
mod step;

pub use state::State;
pub use step::{Decision, Inbound, NoOp, Refusal, step};

#[cfg(test)]
mod properties;
