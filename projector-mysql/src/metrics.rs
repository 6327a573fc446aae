//! Metrics of the janitor. The sinks have theirs.

use metrics::gauge;

const MISSING_MONTHS: &str = "tidemark_mysql_missing_months";

pub(crate) fn describe() {
    metrics::describe_gauge! { MISSING_MONTHS, "Months that tables of messages lack within the configured time ahead" }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
pub(crate) fn missing_months(count: usize) {
    gauge!(MISSING_MONTHS).set(count as f64);
}
