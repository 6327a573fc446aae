//! Databases, tables and months.

mod apply;
mod lock;
mod migrations;
mod month;
mod months;
mod orphans;
mod retention;

pub use apply::SchemaReport;
pub(crate) use apply::{
    create_empty_database, create_shadow, ensure_database, expect_no_newer_version,
};
pub(crate) use lock::SchemaLock;
pub use month::Month;
pub use months::MonthSize;
pub(crate) use months::{create_requested_months, extend_shadow};
pub use retention::RetentionRow;
use retention::{credible_kept_from, kept_from};

/// How many months after the first one a new schema has.
pub const MONTHS_AHEAD: u8 = 2;
