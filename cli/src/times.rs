//! The wall clock, and times as text.

use std::time::SystemTime;

use schemas::TimestampMs;
use time::{
    Date, OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description,
};

/// The wall clock. Code that derives state from the log must not use it.
pub(crate) fn now() -> TimestampMs {
    SystemTime::now().into()
}

/// RFC 3339 in UTC with three decimals; the plain number if it is beyond the calendar.
pub(crate) fn rfc3339(time: TimestampMs) -> String {
    time.rfc3339().unwrap_or_else(|| time.0.to_string())
}

/// Reads RFC 3339, with any offset and any number of decimals, or a date: its beginning in UTC.
pub(crate) fn parse(text: &str) -> Option<TimestampMs> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    let date = || Date::parse(text, format_description!("[year]-[month]-[day]")).ok();
    time.or_else(|| Some(date()?.midnight().assume_utc()))
        .map(millis)
}

/// Reads an argument of the command line.
pub(crate) fn argument(text: &str) -> Result<TimestampMs, String> {
    parse(text).ok_or_else(|| {
        "must be a time like 2026-11-21T08:00:00Z, or a date like 2026-11-21".to_owned()
    })
}

fn millis(time: OffsetDateTime) -> TimestampMs {
    let ms = time.unix_timestamp_nanos().div_euclid(1_000_000);
    TimestampMs(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_decimals_and_are_read_back() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_500, "1970-01-01T00:00:01.500Z"),
            (1_763_712_000_042, "2025-11-21T08:00:00.042Z"),
        ] {
            assert_eq!(rfc3339(TimestampMs(ms)), text);
            assert_eq!(parse(text), Some(TimestampMs(ms)));
        }
        assert_eq!(parse("1970-01-01T01:00:01+01:00"), Some(TimestampMs(1_000)));
        assert_eq!(parse("1970-01-02"), Some(TimestampMs(86_400_000)));
        for wrong in ["yesterday", "1970-01-02T00:00:00", "1970-1-2", "1970-02-30"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(rfc3339(TimestampMs(i64::MAX)), i64::MAX.to_string());
    }
}
