//! The calls.

pub(crate) mod events;
pub(crate) mod single;
