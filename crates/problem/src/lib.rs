#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod extract;
pub mod json;
mod kind;
mod problem;
mod response;
mod serde_words;

pub use extract::{Path, Query};
pub use kind::ProblemKind;
pub use problem::{FieldError, Problem};
pub use response::{PROBLEM_JSON, fallback, method_not_allowed};
