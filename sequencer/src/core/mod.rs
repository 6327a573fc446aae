//! The sequencer's decisions, without I/O, clock or randomness: [`step()`] decides, and only [`apply`](State::apply) changes the state.
//!
//! The state of a partition is the fold of [`State::apply`] over that partition's own output (PROTOCOL S1): nothing in
//! it depends on a record that emitted nothing, on a timer or on the binary.
//!
//! # Memory
//! An idle conversation takes a slot of 97 bytes in the hash table, which is between 7/16 and 7/8 full: 111 to 222 bytes. From rule version 3 on a
//! conversation with more than 128 messages takes up to 750 more, and so do changes and contacts with flags; recalls take a bit for each message from
//! the first recalled one on, 520 bytes at most. A message of the recall window takes 8. A group member takes a slot of 41 bytes in such a table: 47
//! to 94. A group takes some 300, and 8 for each of its newest 4,096 messages. In the partition, a user whom others added to groups takes 20 to 40
//! more, and 29 to 58 for each of those others; a user who left a group voluntarily takes some 60. A dedup entry takes 20 bytes in a queue (40 under
//! rule version 1), and 5 to 9 in the index of that queue. By default a partition remembers at most a million entries: 29 MB (49 MB under rule version
//! 1), and at most a tenth of that for each sender who sends more than others.

mod changes;
mod checks;
mod chunked_queue;
mod control;
mod conversation;
mod decision;
mod dedup;
mod group;
mod leavers;
mod memberships;
mod recent_messages;
pub mod snapshot;
mod state;
mod step;
mod step_changes;
mod step_group;

pub use control::{InvalidRules, change};
pub use decision::{Decision, NoOp, Refusal};
pub use state::State;
pub use step::{Inbound, step};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod repeated_commands;
#[cfg(test)]
mod test_log;
