//! `DATETIME(3)` in UTC on one side, milliseconds of log time on the other.

use schemas::TimestampMs;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime};

use crate::StoreError;

const NANOS_PER_MILLI: i128 = 1_000_000;

/// The value of a column for a time of the log.
pub(crate) fn to_column(ts: TimestampMs) -> Result<PrimitiveDateTime, StoreError> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ts.0) * NANOS_PER_MILLI)
        .ok()
        .filter(|at| (1..=9999).contains(&at.year()))
        .map(|at| PrimitiveDateTime::new(at.date(), at.time()))
        .ok_or_else(|| {
            StoreError::fatal(format!(
                "the time {} ms is not within the years 1 to 9999",
                ts.0
            ))
        })
}

/// The log's time for the value of a column.
pub(crate) fn from_column(at: PrimitiveDateTime) -> TimestampMs {
    let millis = at
        .assume_utc()
        .unix_timestamp_nanos()
        .div_euclid(NANOS_PER_MILLI);
    TimestampMs(i64::try_from(millis).expect("every year of a DATETIME fits"))
}

/// The same day of the month before, or that month's last day: MySQL's `- INTERVAL 1 MONTH`.
pub(crate) fn a_month_before(at: PrimitiveDateTime) -> PrimitiveDateTime {
    let month = at.month().previous();
    let year = if month == Month::December {
        at.year() - 1
    } else {
        at.year()
    };
    let day = at.day().min(month.length(year));
    let date = Date::from_calendar_date(year, month, day);
    at.replace_date(date.expect("the day is within the month"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip_to_the_end_of_the_calendar() {
        for ts in [0, 1, 999, -1, 1_763_712_000_123, 253_402_300_799_999] {
            assert_eq!(
                from_column(to_column(TimestampMs(ts)).unwrap()),
                TimestampMs(ts)
            );
        }
    }

    #[test]
    fn a_time_beyond_the_calendar_is_refused() {
        for ts in [253_402_300_800_000, i64::MAX, i64::MIN] {
            assert!(to_column(TimestampMs(ts)).is_err(), "{ts}");
        }
    }

    #[test]
    fn a_month_before_stays_within_the_month() {
        use time::macros::datetime;

        for (at, before) in [
            (datetime!(2026-03-31 12:00), datetime!(2026-02-28 12:00)),
            (datetime!(2024-03-30 0:00), datetime!(2024-02-29 0:00)),
            (
                datetime!(2026-01-15 1:02:03.004),
                datetime!(2025-12-15 1:02:03.004),
            ),
            (datetime!(2026-11-30 23:59), datetime!(2026-10-30 23:59)),
        ] {
            assert_eq!(a_month_before(at), before);
        }
    }
}
