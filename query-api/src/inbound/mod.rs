//! What became of a record of `chat.inbound`.

mod dead_letter;
mod fate;
mod lookup;
mod outcome;
mod readers;

pub(crate) use lookup::lookup;
pub(crate) use outcome::InboundOutcome;
pub(crate) use readers::Readers;
