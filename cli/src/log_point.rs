//! Points in a log, as given on the command line.

use schemas::{InboundPosition, Partition, TimestampMs};

use crate::times;

/// A point in each partition of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogPoint {
    Earliest,
    Latest,
    Offset(i64),
    Time(TimestampMs),
}

/// The point to begin at, in one partition if the point names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogStart {
    pub(crate) partition: Option<Partition>,
    pub(crate) point: LogPoint,
}

impl LogStart {
    /// Reads an argument of the command line.
    pub(crate) fn argument(text: &str) -> Result<Self, String> {
        if let Ok(InboundPosition { partition, offset }) = text.parse() {
            return Ok(Self {
                partition: Some(partition),
                point: LogPoint::Offset(offset),
            });
        }
        let point = LogPoint::argument(text).map_err(|right| {
            format!("{right}, or a partition from 0 to 63 and an offset, like 17:42")
        })?;
        Ok(Self {
            partition: None,
            point,
        })
    }
}

impl LogPoint {
    /// Reads an argument of the command line.
    pub(crate) fn argument(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => return Ok(Self::Earliest),
            "latest" => return Ok(Self::Latest),
            _ => {}
        }
        if let Ok(offset @ 0..) = text.parse() {
            return Ok(Self::Offset(offset));
        }
        times::parse(text).map(Self::Time).ok_or_else(|| {
            "must be an offset, `earliest`, `latest`, or a time like 2026-11-21T08:00:00Z"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_times_are_read() {
        for (text, point) in [
            ("earliest", LogPoint::Earliest),
            ("42", LogPoint::Offset(42)),
            ("1970-01-01T00:00:01.5Z", LogPoint::Time(TimestampMs(1500))),
        ] {
            assert_eq!(LogPoint::argument(text), Ok(point));
        }
        for text in ["yesterday", "", "-1", "17:42", "99999999999999999999"] {
            assert!(LogPoint::argument(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_position_names_its_partition() {
        let start = LogStart::argument("17:42").unwrap();
        assert_eq!(start.partition, 17.try_into().ok());
        assert_eq!(start.point, LogPoint::Offset(42));
        assert!(LogStart::argument("64:42").unwrap_err().contains("0 to 63"));
        let time = LogStart::argument("1970-01-01T00:00:00Z").unwrap();
        assert_eq!(time.partition, None);
    }
}
