//! Prints topics, decoded, and follows them.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use event_log::{LogReader, Record, Scanned};
use schemas::{Partition, topics::Topic};
use serde_json::{Value, json};

use crate::{
    args::TailArgs,
    context::CommandContext,
    decoder::{self, Decoder},
    failure::Failure,
    log_point::{self, LogPoint},
    times,
};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// # Errors
/// Two partitions are named, or `--to` is not after `--from`.
pub(super) fn check(args: &TailArgs) -> Result<(), Failure> {
    log_point::partitions(&[args.partition, args.from.partition])?;
    if args
        .to
        .is_some_and(|to| args.from.point.leaves_nothing_up_to(to))
    {
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
        Ok(Self {
            reader,
            decoder: Decoder::new()?,
            topics: if topics.is_empty() {
                vec![Topic::Events]
            } else {
                topics
            },
            partitions: log_point::partitions(&[args.partition, args.from.partition])?,
            from: args.from.point,
            to: args.to.unwrap_or(LogPoint::Latest),
            left: args.max.unwrap_or(u64::MAX),
            json,
        })
    }

    fn run(mut self, follow: bool) -> anyhow::Result<()> {
        let mut next: BTreeMap<(usize, Partition), i64> = BTreeMap::new();
        for (i, topic) in self.topics.clone().into_iter().enumerate() {
            let starts = self.from.offsets(&self.reader, topic, &self.partitions)?;
            next.extend(
                starts
                    .into_iter()
                    .map(|(partition, offset)| ((i, partition), offset)),
            );
        }
        loop {
            for (i, topic) in self.topics.clone().into_iter().enumerate() {
                let ends = self.to.offsets(&self.reader, topic, &self.partitions)?;
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
            ("--from yesterday", "must be a time with its zone"),
            ("--from 64:1", "0 to 63"),
            ("--to tomorrow", "must be a time with its zone"),
            ("--to 17:42", "must be a time with its zone"),
            ("--from 17:42 -p 3", "name one of them"),
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
