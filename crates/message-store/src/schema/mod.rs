//! Databases, tables and months.

mod apply;
mod lock;
mod migrations;
mod month;
mod months;
mod orphans;
mod requested_months;
mod retention;

pub use apply::SchemaReport;
pub(crate) use apply::{apply, create_shadow, ensure_database};
pub(crate) use lock::SchemaLock;
pub use month::Month;
pub(crate) use months::{ensure_months, extend_shadow, missing_months};
pub(crate) use requested_months::create_requested_months;
pub use retention::MonthSize;
pub(crate) use retention::{drop_months, expect_past, keep_months, kept_from, list_months};

/// How many months after the first one a new schema has.
pub const MONTHS_AHEAD: u8 = 2;
