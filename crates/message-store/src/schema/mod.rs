//! Databases, tables and months.

mod apply;
mod lock;
mod migrations;
mod month;
mod months;
mod orphans;
mod retention;
mod room;

pub use apply::SchemaReport;
pub(crate) use apply::{apply, create_shadow, ensure_database};
pub(crate) use lock::SchemaLock;
pub use month::Month;
pub(crate) use months::{ensure_months, extend_shadow, missing_months};
pub use retention::MonthSize;
pub(crate) use retention::{drop_months, expect_past, keep_months, kept_from, list_months};
pub(crate) use room::make_room;

/// How many months after the first one a new schema has.
pub const MONTHS_AHEAD: u8 = 2;
