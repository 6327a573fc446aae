//! Databases, tables and months.

mod apply;
mod lock;
mod migrations;
mod month;
mod months;

pub use apply::SchemaReport;
pub(crate) use apply::apply;
pub use month::Month;
pub(crate) use months::{ensure_months, missing_months};

/// How many months after the first one a new schema has.
pub const MONTHS_AHEAD: u8 = 2;
