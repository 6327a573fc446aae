//! Load: generated messages, and clients that post them.

pub(crate) mod closed;
pub(crate) mod commands;
pub(crate) mod connection;
pub(crate) mod devices;
pub(crate) mod fill;
pub(crate) mod paced;
pub(crate) mod post;
pub(crate) mod reading;
pub(crate) mod real;
pub(crate) mod socket;
pub(crate) mod traffic;
