//! Topics, decoded, as they are and as they grow.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use event_log::{Bounds, EventLogError, LogReader, Record, Scanned};
use schemas::{Partition, TimestampMs, topics::Topic};
use serde_json::{Value, json};

use crate::{
    args::TailArgs,
    decoder::{self, Decoder},
    failure::Failure,
    handles::Handles,
    times,
};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A place on a log, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Earliest,
    Latest,
    Offset(i64),
    Time(TimestampMs),
}

pub(super) async fn run(handles: &Handles, args: TailArgs, json: bool) -> anyhow::Result<()> {
    let reader = LogReader::new(&handles.kafka()?)?;
    let tail = Tail::new(reader, &args, json)?;
    let follow = !args.no_follow && args.to.is_none();
    tokio::task::spawn_blocking(move || tail.run(follow)).await?
}

struct Tail {
    reader: LogReader,
    decoder: Decoder,
    topics: Vec<Topic>,
    partitions: Vec<Partition>,
    from: Place,
    to: Place,
    left: u64,
    json: bool,
}

impl Tail {
    fn new(reader: LogReader, args: &TailArgs, json: bool) -> anyhow::Result<Self> {
        let topics: Vec<Topic> = args.topics.iter().map(|topic| (*topic).into()).collect();
        let partitions = match args.partition {
            Some(partition) => {
                vec![
                    partition
                        .try_into()
                        .map_err(|e| Failure::Usage(format!("--partition: {e}")))?,
                ]
            }
            None => Partition::all().collect(),
        };
        Ok(Self {
            reader,
            decoder: Decoder::new()?,
            topics: if topics.is_empty() {
                vec![Topic::Events]
            } else {
                topics
            },
            partitions,
            from: place("--from", &args.from)?,
            to: args
                .to
                .as_deref()
                .map_or(Ok(Place::Latest), |to| place("--to", to))?,
            left: args.max.unwrap_or(u64::MAX),
            json,
        })
    }

    fn run(mut self, follow: bool) -> anyhow::Result<()> {
        let mut next: BTreeMap<(usize, Partition), i64> = BTreeMap::new();
        for (i, topic) in self.topics.clone().into_iter().enumerate() {
            let starts = self.places(topic, self.from)?;
            next.extend(
                starts
                    .into_iter()
                    .map(|(partition, offset)| ((i, partition), offset)),
            );
        }
        loop {
            for (i, topic) in self.topics.clone().into_iter().enumerate() {
                let ends = self.places(topic, self.to)?;
                let ranges: Vec<_> = ends
                    .iter()
                    .filter_map(|(p, end)| Some((*p, *next.get(&(i, *p))?..*end)))
                    .collect();
                self.show(topic, &ranges)?;
                for (partition, range) in ranges {
                    next.insert((i, partition), range.end.max(range.start));
                }
            }
            if !follow || self.left == 0 {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn places(
        &self,
        topic: Topic,
        place: Place,
    ) -> Result<BTreeMap<Partition, i64>, EventLogError> {
        let bounds = self.reader.bounds(topic, &self.partitions)?;
        if let Place::Time(ts) = place {
            let found = self.reader.offsets_at(topic, &self.partitions, ts)?;
            return Ok(found);
        }
        let pick = |Bounds { start, end }| match place {
            Place::Earliest => start,
            Place::Offset(offset) => offset.clamp(start, end),
            Place::Latest | Place::Time(_) => end,
        };
        Ok(bounds
            .into_iter()
            .map(|(partition, bounds)| (partition, pick(bounds)))
            .collect())
    }

    fn show(
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

fn place(flag: &str, text: &str) -> Result<Place, Failure> {
    match text {
        "earliest" => return Ok(Place::Earliest),
        "latest" => return Ok(Place::Latest),
        _ => {}
    }
    if let Ok(offset) = text.parse() {
        return Ok(Place::Offset(offset));
    }
    let time = times::parse(text).ok_or_else(|| {
        Failure::Usage(format!(
            "{flag} {text:?}: an offset, earliest, latest or a time like 2026-11-21T08:00:00Z is right"
        ))
    })?;
    Ok(Place::Time(time))
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
    fn places_are_read_or_refused() {
        assert_eq!(place("--from", "earliest").unwrap(), Place::Earliest);
        assert_eq!(place("--from", "42").unwrap(), Place::Offset(42));
        assert_eq!(
            place("--from", "1970-01-01T00:00:01.5Z").unwrap(),
            Place::Time(TimestampMs(1500))
        );
        assert!(place("--from", "yesterday").is_err());
    }
}
