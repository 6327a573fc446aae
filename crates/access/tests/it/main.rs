//! Callers as they come: tokens, key sets over HTTP, files of service keys, and requests to a guarded router.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guarded;
mod key_sets;
mod service_keys;
mod settings;
mod test_env;
mod tokens;
