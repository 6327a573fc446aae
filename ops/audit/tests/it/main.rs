//! A small environment that is consistent, and then is not: the audit says zero, and then finds it.

#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod breaking_log;
mod breaking_stores;
mod living;
mod sound;
mod story;
mod test_env;
