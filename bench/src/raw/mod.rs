//! The raw parts, used as plainly as possible: the baselines for ours.

pub(crate) mod bare;
pub(crate) mod broadcast;
pub(crate) mod copier;
pub(crate) mod hincrby;
pub(crate) mod in_flight;
pub(crate) mod load_data;
pub(crate) mod producer;
pub(crate) mod server;
