//! Prints topics, decoded, and follows them.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use event_log::{EventLogError, LogReader, Record, Scanned};
use schemas::{OffsetRange, Partition, PartitionMap, topics::Topic};
use serde_json::{Value, json};

use crate::{
    args::TailArgs,
    context::CommandContext,
    decoder::{self, Decoder},
    failure::Failure,
    log_point::LogPoint,
    times,
};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// # Errors
/// Two partitions are named, or `--to` is not after `--from`.
pub(super) fn check(args: &TailArgs) -> Result<(), Failure> {
    if let (Some(one), Some(other)) = (args.partition, args.from.partition)
        && one != other
    {
        return Err(Failure::Usage(format!(
            "--from names partition {other} and --partition {one}: leave --partition out"
        )));
    }
    let is_empty = match (args.from.point, args.to) {
        (LogPoint::Latest, Some(_)) | (_, Some(LogPoint::Earliest)) => true,
        (LogPoint::Offset(from), Some(LogPoint::Offset(to))) => from >= to,
        (LogPoint::Time(from), Some(LogPoint::Time(to))) => from >= to,
        _ => false,
    };
    if is_empty {
        let why = "there is nothing from --from, which is `latest` if it is absent, up to --to: --from must be before it";
        return Err(Failure::Usage(why.to_owned()));
    }
    Ok(())
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
        let partition = args.partition.or(args.from.partition);
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
            from: args.from.point,
            to: args.to.unwrap_or(LogPoint::Latest),
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
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn arguments_that_show_nothing_are_refused() {
        let check = |flags: &str| {
            let line = ["tidemark", "tail"]
                .into_iter()
                .chain(flags.split_whitespace());
            let args = Args::try_parse_from(line).map_err(|error| error.to_string())?;
            let Command::Tail(args) = args.command else {
                panic!("it is tail");
            };
            check(&args).map_err(|error| error.to_string())
        };
        for (flags, why) in [
            ("--from yesterday", "must be an offset, `earliest`"),
            ("--from 64:1", "0 to 63"),
            ("--to tomorrow", "must be an offset, `earliest`"),
            ("--to 17:42", "must be an offset, `earliest`"),
            ("--from 17:42 -p 3", "leave --partition out"),
            ("--to 5", "--from must be before it"),
            ("--from 5 --to 5", "--from must be before it"),
            (
                "--from 2026-11-02T00:00:00Z --to 2026-11-01T00:00:00Z",
                "--from must be before it",
            ),
        ] {
            let refused = check(flags).unwrap_err();
            assert!(refused.contains(why), "{flags}: {refused}");
        }
        for flags in [
            "",
            "--from 17:42 -p 17",
            "--from earliest --to 5",
            "--from 3 --to latest",
        ] {
            check(flags).unwrap();
        }
    }
}
