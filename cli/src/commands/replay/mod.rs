//! Replays the log.

mod decisions;
mod judge;

pub(super) use decisions::{check, run as decisions};
