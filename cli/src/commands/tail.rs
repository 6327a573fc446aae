//! Prints topics, decoded, and follows them.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use event_log::{EventLogError, LogReader, Record, Scanned};
use schemas::{InboundPosition, OffsetRange, Partition, PartitionMap, TimestampMs, topics::Topic};
use serde_json::{Value, json};

use crate::{
    args::TailArgs,
    context::CommandContext,
    decoder::{self, Decoder},
    failure::Failure,
    times,
};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A point in a log, as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPoint {
    Earliest,
    Latest,
    Offset(i64),
    Time(TimestampMs),
}

pub(super) async fn run(
    context: &CommandContext,
    args: TailArgs,
    json: bool,
) -> anyhow::Result<()> {
    let reader = LogReader::new(&context.kafka()?)?;
    let tail = Tail::new(reader, &args, json)?;
    let follow = !args.no_follow && args.to.is_none();
    tokio::task::spawn_blocking(move || tail.run(follow)).await?
}

struct Tail {
    reader: LogReader,
    decoder: Decoder,
    topics: Vec<Topic>,
    partitions: Vec<Partition>,
    from: LogPoint,
    to: LogPoint,
    left: u64,
    json: bool,
}

impl Tail {
    fn new(reader: LogReader, args: &TailArgs, json: bool) -> anyhow::Result<Self> {
        let topics: Vec<Topic> = args.topics.iter().map(|topic| (*topic).into()).collect();
        let (partition, from) = parse_from(&args.from, args.partition)?;
        let partitions = partition.map_or_else(|| Partition::all().collect(), |one| vec![one]);
        Ok(Self {
            reader,
            decoder: Decoder::new()?,
            topics: if topics.is_empty() {
                vec![Topic::Events]
            } else {
                topics
            },
            partitions,
            from,
            to: args
                .to
                .as_deref()
                .map_or(Ok(LogPoint::Latest), |to| parse_point("--to", to))?,
            left: args.max.unwrap_or(u64::MAX),
            json,
        })
    }

    fn run(mut self, follow: bool) -> anyhow::Result<()> {
        let mut next: BTreeMap<(usize, Partition), i64> = BTreeMap::new();
        for (i, topic) in self.topics.clone().into_iter().enumerate() {
            let starts = self.offsets(topic, self.from)?;
            next.extend(
                starts
                    .into_iter()
                    .map(|(partition, offset)| ((i, partition), offset)),
            );
        }
        loop {
            for (i, topic) in self.topics.clone().into_iter().enumerate() {
                let ends = self.offsets(topic, self.to)?;
                let ranges: Vec<_> = ends
                    .iter()
                    .filter_map(|(p, end)| Some((p, *next.get(&(i, p))?..*end)))
                    .collect();
                self.print_ranges(topic, &ranges)?;
                for (partition, range) in ranges {
                    next.insert((i, partition), range.end.max(range.start));
                }
            }
            if !follow || self.left == 0 {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn offsets(&self, topic: Topic, point: LogPoint) -> Result<PartitionMap<i64>, EventLogError> {
        let bounds = self.reader.bounds(topic, &self.partitions)?;
        if let LogPoint::Time(ts) = point {
            let found = self.reader.offsets_at(topic, &self.partitions, ts)?;
            return Ok(found);
        }
        let pick = |OffsetRange { start, end }| match point {
            LogPoint::Earliest => start,
            LogPoint::Offset(offset) => offset.clamp(start, end),
            LogPoint::Latest | LogPoint::Time(_) => end,
        };
        Ok(bounds
            .into_iter()
            .map(|(partition, bounds)| (partition, pick(bounds)))
            .collect())
    }

    fn print_ranges(
        &mut self,
        topic: Topic,
        ranges: &[(Partition, std::ops::Range<i64>)],
    ) -> anyhow::Result<()> {
        let Self {
            reader,
            decoder,
            left,
            json,
            ..
        } = self;
        reader.scan_remaining(topic, ranges, |scanned| {
            let record = match scanned {
                Scanned::Record(record) => record,
                Scanned::Removed { partition, offsets } => {
                    eprintln!(
                        "{} {partition}: offsets {} to {} were removed before they could be shown",
                        topic.name(),
                        offsets.start,
                        offsets.end
                    );
                    return ControlFlow::Continue(());
                }
            };
            if *left == 0 {
                return ControlFlow::Break(());
            }
            *left -= 1;
            let decoded = decoder.record(topic, &record);
            print(topic, &record, decoded, *json);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}

/// The only partition, if one is named, and where to begin.
fn parse_from(
    from: &str,
    only: Option<Partition>,
) -> Result<(Option<Partition>, LogPoint), Failure> {
    let Ok(InboundPosition { partition, offset }) = from.parse() else {
        return Ok((only, parse_point("--from", from)?));
    };
    if only.is_some_and(|only| only != partition) {
        let wrong = format!("--from {from}: --partition is another one; leave it out");
        return Err(Failure::Usage(wrong));
    }
    Ok((Some(partition), LogPoint::Offset(offset)))
}

fn parse_point(flag: &str, text: &str) -> Result<LogPoint, Failure> {
    match text {
        "earliest" => return Ok(LogPoint::Earliest),
        "latest" => return Ok(LogPoint::Latest),
        _ => {}
    }
    if let Ok(offset) = text.parse() {
        return Ok(LogPoint::Offset(offset));
    }
    let time = times::parse(text).ok_or_else(|| {
        Failure::Usage(format!(
            "{flag} {text:?}: an offset, earliest, latest, a time like 2026-11-21T08:00:00Z, or for --from a position like 17:42 is right"
        ))
    })?;
    Ok(LogPoint::Time(time))
}

fn print(topic: Topic, record: &Record, decoded: Value, json: bool) {
    let time = times::rfc3339(record.timestamp);
    if json {
        let mut line = json!({
            "topic": topic.name(),
            "partition": record.partition,
            "offset": record.offset,
            "ts": time,
            "key": record.key.as_deref().map(String::from_utf8_lossy),
            "value": decoded,
        });
        if !record.headers.is_empty() {
            line["headers"] = decoder::headers(record);
        }
        println!("{line}");
    } else {
        println!(
            "{} {}:{} {time} {decoded}",
            topic.name(),
            record.partition,
            record.offset
        );
        for (name, value) in decoder::headers(record).as_object().into_iter().flatten() {
            println!("    {name}: {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_times_are_parsed() {
        assert_eq!(
            parse_point("--from", "earliest").unwrap(),
            LogPoint::Earliest
        );
        assert_eq!(parse_point("--from", "42").unwrap(), LogPoint::Offset(42));
        assert_eq!(
            parse_point("--from", "1970-01-01T00:00:01.5Z").unwrap(),
            LogPoint::Time(TimestampMs(1500))
        );
        assert!(parse_point("--from", "yesterday").is_err());
    }

    #[test]
    fn a_position_names_its_partition() {
        let at = |from, only: Option<i64>| {
            parse_from(from, only.map(|only| only.try_into().unwrap())).ok()
        };
        let there = Some((17.try_into().ok(), LogPoint::Offset(42)));
        assert_eq!(at("17:42", None), there);
        assert_eq!(at("17:42", Some(17)), there);
        assert_eq!(at("17:42", Some(3)), None);
        assert_eq!(at("64:42", None), None);
        let time = LogPoint::Time(TimestampMs(0));
        assert_eq!(at("1970-01-01T00:00:00Z", None), Some((None, time)));
    }
}
