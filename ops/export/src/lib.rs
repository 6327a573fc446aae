#![doc = include_str!("../README.md")]

mod columns;
mod dataset;
mod error;
mod estimate;
mod file_entry;
mod follow;
mod lake;
mod later_changes;
mod privacy;
mod run;
mod table;
mod writer;

pub use dataset::Dataset;
pub use error::ExportError;
pub use estimate::Estimate;
pub use lake::Lake;
pub use privacy::{Privacy, Pseudonyms, ShortSecret, StatedPrivacy};
pub use run::{Bounds, Export, Exported, Progress};
