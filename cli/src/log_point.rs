//! Points in a log, as given on the command line.

use std::{fmt, ops::Range};

use event_log::{EventLogError, LogReader};
use schemas::{InboundPosition, OffsetRange, Partition, PartitionMap, TimestampMs, topics::Topic};

use crate::{args::partition, failure::Failure, times};

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

/// A range of a log, as flags.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LogRange {
    /// From this time (RFC 3339) or date, this partition and offset (17:42), or `earliest`
    #[arg(long, default_value = "earliest", value_parser = LogStart::argument)]
    pub(crate) from: LogStart,
    /// Up to and excluding this time or date, this partition and offset, or `now`
    #[arg(long, default_value = "now", value_parser = LogStart::argument)]
    pub(crate) to: LogStart,
    /// Only this partition
    #[arg(long, short, value_parser = partition)]
    partition: Option<Partition>,
}

impl LogRange {
    /// # Errors
    /// Two partitions are named, or `--to` is not after `--from`.
    pub(crate) fn check(self) -> Result<(), Failure> {
        self.partitions()?;
        if self.from.point.leaves_nothing_up_to(self.to.point) {
            let why = "--from must be before --to";
            return Err(Failure::Usage(why.to_owned()));
        }
        Ok(())
    }

    /// `--from` and `--partition`, for people.
    pub(crate) fn beginning(self) -> String {
        match self.partition {
            Some(partition) => format!("{} of partition {partition}", self.from),
            None => self.from.to_string(),
        }
    }

    /// The offsets of a topic. Blocks.
    ///
    /// # Errors
    /// Records at or after `--from` were deleted, unless it is `earliest`; Kafka does not answer.
    pub(crate) fn offsets(
        self,
        reader: &LogReader,
        topic: Topic,
    ) -> anyhow::Result<PartitionMap<Range<i64>>> {
        let partitions = self.partitions()?;
        let starts = self.from.point.offsets(reader, topic, &partitions)?;
        self.check_retained(reader, topic, &starts)?;
        let ends = self.to.point.offsets(reader, topic, &partitions)?;
        let range = |(partition, start): (_, i64)| (partition, start..ends[partition].max(start));
        Ok(starts.into_iter().map(range).collect())
    }

    fn check_retained(
        self,
        reader: &LogReader,
        topic: Topic,
        starts: &PartitionMap<i64>,
    ) -> anyhow::Result<()> {
        if matches!(self.from.point, LogPoint::Earliest | LogPoint::Latest) {
            return Ok(());
        }
        let partitions: Vec<Partition> = starts.partitions().collect();
        for (partition, OffsetRange { start, .. }) in reader.bounds(topic, &partitions)? {
            if start == 0 || starts[partition] > start {
                continue;
            }
            let lacks = match self.from.point {
                LogPoint::Earliest | LogPoint::Latest => false,
                LogPoint::Offset(from) => from < start,
                LogPoint::Time(from) => {
                    let first = reader.record(topic, partition, start)?;
                    first.is_none_or(|first| from < first.timestamp)
                }
            };
            if lacks {
                return Err(Failure::NotFound(format!(
                    "partition {partition} begins at offset {start}: what came before was deleted by retention. `--from earliest` is all that is left"
                ))
                .into());
            }
        }
        Ok(())
    }

    fn partitions(self) -> Result<Vec<Partition>, Failure> {
        partitions(&[self.partition, self.from.partition, self.to.partition])
    }
}

impl LogPoint {
    /// Reads an argument of the command line.
    pub(crate) fn argument(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => return Ok(Self::Earliest),
            "latest" | "now" => return Ok(Self::Latest),
            _ => {}
        }
        if let Ok(offset @ 0..) = text.parse() {
            return Ok(Self::Offset(offset));
        }
        times::parse(text).map(Self::Time).ok_or_else(|| {
            "must be a time with its zone like 2026-11-21T08:00:00Z, a date like 2026-11-21, `now`, `earliest`, or an offset"
                .to_owned()
        })
    }

    /// The time of a point, which must have passed: until then, later records can still change the state at that time. `what` names the argument.
    ///
    /// # Errors
    /// It is no time, or has not passed.
    pub(crate) fn past(self, what: &str) -> Result<TimestampMs, Failure> {
        let now = times::now();
        match self {
            Self::Latest => Ok(now),
            Self::Time(time) if time <= now => Ok(time),
            _ => Err(Failure::Usage(format!(
                "{what} must be a time that is past, a date, or `now`"
            ))),
        }
    }

    /// The offset of this point in partitions of a topic. Blocks.
    ///
    /// # Errors
    /// [`EventLogError`].
    pub(crate) fn offsets(
        self,
        reader: &LogReader,
        topic: Topic,
        partitions: &[Partition],
    ) -> Result<PartitionMap<i64>, EventLogError> {
        if let Self::Time(ts) = self {
            return reader.offsets_at(topic, partitions, ts);
        }
        let pick = |OffsetRange { start, end }| match self {
            Self::Earliest => start,
            Self::Offset(offset) => offset.clamp(start, end),
            Self::Latest | Self::Time(_) => end,
        };
        Ok(reader
            .bounds(topic, partitions)?
            .into_iter()
            .map(|(partition, bounds)| (partition, pick(bounds)))
            .collect())
    }

    /// Whether no record can be between this point and `to`.
    pub(crate) fn leaves_nothing_up_to(self, to: Self) -> bool {
        match (self, to) {
            (Self::Latest, _) | (_, Self::Earliest) => true,
            (Self::Offset(from), Self::Offset(to)) => from >= to,
            (Self::Time(from), Self::Time(to)) => from >= to,
            _ => false,
        }
    }
}

impl fmt::Display for LogPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::Offset(offset) => offset.fmt(f),
            Self::Time(time) => f.write_str(&times::rfc3339(*time)),
        }
    }
}

impl fmt::Display for LogStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(partition) = self.partition {
            write!(f, "{partition}:")?;
        }
        self.point.fmt(f)
    }
}

/// The partitions that these bounds are about: all, or the one that they name.
///
/// # Errors
/// Two are named.
pub(crate) fn partitions(named: &[Option<Partition>]) -> Result<Vec<Partition>, Failure> {
    let mut named = named.iter().flatten();
    let Some(one) = named.next() else {
        return Ok(Partition::all().collect());
    };
    if let Some(other) = named.find(|other| *other != one) {
        return Err(Failure::Usage(format!(
            "partition {one} is named, and partition {other}: name one of them"
        )));
    }
    Ok(vec![*one])
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
