//! What goes over a connection: one JSON object a text frame (see the README). The types are those of `api`.

mod json;
mod of_hub;

#[cfg(test)]
mod tests;

pub(crate) use self::json::{NoFrame, encode, parse};
