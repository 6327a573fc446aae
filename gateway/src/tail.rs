//! Reads all partitions of `chat.events` into the hub, on a thread of its own: it never waits for a connection (W7).

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use event_log::{FetchError, Fetched, Fetcher, HaltedPartitions, LogReader, RecordRef};
use message_store::Sink;
use schemas::{
    EventPosition, LogPosition, NextOffset, Partition, PartitionMap, SourceWatermark, TimestampMs,
    event::{Event, ReadError},
    topics::Topic,
};
use service_runtime::ReadinessCheck;
use tokio::{
    runtime::Handle,
    sync::oneshot::{self, error::TryRecvError},
    task::spawn_blocking,
};

use crate::{
    hub::{Hub, RingEvent},
    reading::poll,
    state::Gateway,
};

const POLL: Duration = Duration::from_millis(100);
/// After how many records connections are woken at the latest: less than a millisecond's work.
const WOKEN_FOR: usize = 64;
/// How often old events are dropped, milliseconds.
const DROP_EVERY_MS: u64 = 1_000;
/// Connections are taken once the rings are read up to where MySQL is, at the latest after this time.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Where the reader begins.
pub(crate) struct TailStart {
    /// The position of MySQL's contacts, in the database that lags most. The watermark that is stored with the position says which records after it
    /// count (PROTOCOL S10), and every membership is known from there on (W2).
    stored: PartitionMap<LogPosition>,
    /// Where the rings begin: at `stored`, or at the first record since `since` if that is earlier.
    rings: PartitionMap<NextOffset>,
    since: TimestampMs,
}

/// The hub before anything was read.
pub(crate) fn hub(gateway: &Gateway, begin: &TailStart) -> Hub {
    let positions = begin.stored.values();
    let epoch = positions.map(|position| position.watermark.epoch).max();
    let limits = gateway
        .config
        .limits(gateway.poster.config().request_deadline());
    Hub::new(limits, epoch.unwrap_or_default(), &begin.rings)
}

/// Where to begin: the rings of a gateway that has just started have what devices missed while it was away, too.
pub(crate) async fn begin(gateway: &Gateway, reader: &Arc<LogReader>) -> anyhow::Result<TailStart> {
    let stored = stored(gateway).await?;
    let ring = Duration::from_secs(gateway.config.ring_seconds);
    let since = TimestampMs::from(SystemTime::now() - ring);
    let reader = Arc::clone(reader);
    let all: Vec<Partition> = Partition::all().collect();
    let at = spawn_blocking(move || reader.offsets_at(Topic::Events, &all, since)).await??;
    let rings = PartitionMap::full(|partition| {
        let stored = stored.get(partition).map(|position| position.next);
        let at = at.get(partition).copied().map(NextOffset::new);
        let stored = stored.unwrap_or_default();
        at.map_or(stored, |at| at.min(stored))
    });
    Ok(TailStart {
        stored,
        rings,
        since,
    })
}

async fn stored(gateway: &Gateway) -> anyhow::Result<PartitionMap<LogPosition>> {
    let all: Vec<Partition> = Partition::all().collect();
    let topic = gateway.kafka.topic(Topic::Events);
    let mut lowest: PartitionMap<LogPosition> = PartitionMap::new();
    let store = &gateway.store;
    for shard in store.layout().shards() {
        let read = store.read_resume_offsets(shard, Sink::Contacts, &topic, &all);
        for (partition, position) in read.await? {
            let known = lowest.get_or_insert_with(partition, || position);
            *known = position.min(*known);
        }
    }
    Ok(lowest)
}

/// Reads until the shutdown. Blocks.
///
/// # Errors
/// Kafka's client is no longer usable.
pub(crate) fn run(
    gateway: &Arc<Gateway>,
    reader: &Arc<LogReader>,
    begin: TailStart,
    check: &ReadinessCheck,
) -> anyhow::Result<()> {
    let mut tail = Tail::new(gateway, reader, begin, check)?;
    while !gateway.shutdown.soft().is_cancelled() {
        tail.step()?;
    }
    Ok(())
}

struct Tail<'a> {
    gateway: &'a Arc<Gateway>,
    reader: &'a Arc<LogReader>,
    check: &'a ReadinessCheck,
    fetcher: Fetcher,
    begin: TailStart,
    begun: Instant,
    watermarks: PartitionMap<SourceWatermark>,
    halted: HaltedPartitions,
    /// The halted partitions, and when to look whether they can be read again; `None` if a record needs another program.
    retries: PartitionMap<Option<Instant>>,
    /// Where a halted partition can be read from again, once that is known.
    found: Option<oneshot::Receiver<PartitionMap<LogPosition>>>,
    dropped_ms: u64,
    /// Records for which no connection has been woken yet.
    unwoken: usize,
}

impl<'a> Tail<'a> {
    fn new(
        gateway: &'a Arc<Gateway>,
        reader: &'a Arc<LogReader>,
        begin: TailStart,
        check: &'a ReadinessCheck,
    ) -> anyhow::Result<Self> {
        let mut fetcher = Fetcher::new(&gateway.kafka, Topic::Events)?;
        let mut watermarks = PartitionMap::new();
        for (partition, next) in begin.rings.iter() {
            fetcher.start(partition, *next);
            watermarks.insert(partition, SourceWatermark::from_anywhere());
        }
        Ok(Self {
            gateway,
            reader,
            check,
            fetcher,
            begin,
            begun: Instant::now(),
            watermarks,
            halted: HaltedPartitions::new(&gateway.kafka, "gateway"),
            retries: PartitionMap::new(),
            found: None,
            dropped_ms: 0,
            unwoken: 0,
        })
    }

    fn step(&mut self) -> anyhow::Result<()> {
        // Records that are fetched already are handed out before connections are woken for them, at most `WOKEN_FOR` at a time.
        let timeout = if self.unwoken > 0 {
            Duration::ZERO
        } else {
            POLL
        };
        let has_taken = self.take_next(timeout)?;
        self.unwoken += usize::from(has_taken);
        if self.unwoken == WOKEN_FOR || (self.unwoken > 0 && !has_taken) {
            self.unwoken = 0;
            self.gateway.hub().wake();
        }
        let now_ms = self.gateway.now_ms();
        if now_ms - self.dropped_ms >= DROP_EVERY_MS && self.gateway.hub().drop_old(now_ms) {
            self.dropped_ms = now_ms;
        }
        if self.unwoken == 0 && !self.gateway.is_reading() {
            self.open();
        }
        self.retry();
        Ok(())
    }

    /// Takes connections once the rings reach what MySQL has, or after [`CATCH_UP`]: before that every device would be ahead of the rings.
    fn open(&self) {
        let read_to = self.gateway.hub().read_to();
        let stored = |(partition, next): (Partition, &NextOffset)| {
            let stored = self.begin.stored.get(partition);
            stored.is_none_or(|stored| stored.next <= *next)
        };
        if read_to.iter().all(stored) || self.begun.elapsed() >= CATCH_UP {
            self.gateway.open();
            self.say_what_is_halted();
        }
    }

    /// Takes what Kafka has next; false if there was nothing.
    fn take_next(&mut self, timeout: Duration) -> anyhow::Result<bool> {
        let Self {
            gateway,
            fetcher,
            begin,
            watermarks,
            ..
        } = self;
        let mut read = None;
        let polled = poll(Topic::Events, fetcher, timeout, |fetched| {
            match fetched {
                Fetched::Record(record) => {
                    let watermark = &mut watermarks[record.partition];
                    let taken = take(gateway, begin, watermark, &record);
                    read = Some((record.partition, taken));
                }
                Fetched::EndOfPartition(partition) => read = Some((partition, Ok(()))),
                // The log may have been truncated meanwhile (PROTOCOL S13): a device that goes on from an event that is gone has to sync.
                Fetched::BackInRange(partition) => gateway.hub().forget_events(partition),
            }
            Ok(())
        });
        match (polled, read) {
            (Ok(taken), Some((partition, Ok(())))) => {
                self.goes_on(partition);
                Ok(taken)
            }
            (Ok(taken), Some((partition, Err(unknown)))) => {
                self.halt(partition, None, unknown);
                Ok(taken)
            }
            (Ok(taken), None) => Ok(taken),
            (Err(error), _) => match error.downcast_ref() {
                Some(FetchError::OutOfRange { partition, .. }) => {
                    let why = format!("{error:#}; it goes on where MySQL's projection does");
                    let retry = Instant::now() + HaltedPartitions::RETRY;
                    self.halt(*partition, Some(retry), why);
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }

    /// Stops reading a partition, while the others go on: no token moves beyond the offset at which the partition stopped.
    fn halt(&mut self, partition: Partition, retry: Option<Instant>, why: String) {
        self.fetcher.stop(partition);
        self.retries.insert(partition, retry);
        self.halted.halt(partition, None, why);
        self.say_what_is_halted();
    }

    fn goes_on(&mut self, partition: Partition) {
        if self.retries.remove(partition).is_some() {
            self.halted.release(partition);
            self.say_what_is_halted();
        }
    }

    fn say_what_is_halted(&self) {
        match self.halted.reason() {
            Some(reason) => self.check.not_ready(reason),
            None if self.gateway.is_reading() => self.check.ready(),
            None => {}
        }
    }

    /// Looks whether halted partitions can be read from MySQL's present position.
    fn retry(&mut self) {
        if let Some(found) = &mut self.found {
            match found.try_recv() {
                Ok(found) => {
                    self.found = None;
                    self.begin_again(found);
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Closed) => self.found = None,
            }
            return;
        }
        let now = Instant::now();
        let mut due = Vec::new();
        for (partition, retry) in self.retries.iter_mut() {
            if retry.is_some_and(|at| at <= now) {
                *retry = Some(now + HaltedPartitions::RETRY);
                due.push(partition);
            }
        }
        if !due.is_empty() {
            let (tell, found) = oneshot::channel();
            self.found = Some(found);
            let (gateway, reader) = (Arc::clone(self.gateway), Arc::clone(self.reader));
            Handle::current().spawn(async move {
                match readable(&gateway, reader, due).await {
                    Ok(found) => drop(tell.send(found)),
                    Err(error) => tracing::debug!(%error, "halted partitions stay so"),
                }
            });
        }
    }

    /// Halted partitions are read on from MySQL's position. Connected devices missed the events before it.
    fn begin_again(&mut self, found: PartitionMap<LogPosition>) {
        for (partition, position) in found {
            let mut hub = self.gateway.hub();
            if hub.next(partition) != position.next {
                hub.begin_again(partition, position.next);
            }
            drop(hub);
            self.begin.stored.insert(partition, position);
            self.watermarks
                .insert(partition, SourceWatermark::above(position.watermark));
            self.fetcher.start(partition, position.next);
        }
    }
}

/// The partitions whose position in MySQL is on the log, with that position.
async fn readable(
    gateway: &Gateway,
    reader: Arc<LogReader>,
    partitions: Vec<Partition>,
) -> anyhow::Result<PartitionMap<LogPosition>> {
    let stored = stored(gateway).await?;
    let bounds = spawn_blocking(move || reader.bounds(Topic::Events, &partitions)).await??;
    let on_log = bounds.iter().filter_map(|(partition, bounds)| {
        let position = *stored.get(partition)?;
        let next = position.next.get();
        (bounds.start <= next && next <= bounds.end).then_some((partition, position))
    });
    Ok(on_log.collect())
}

/// # Errors
/// Why the record cannot be read: a newer program wrote it.
fn take(
    gateway: &Gateway,
    begin: &TailStart,
    watermark: &mut SourceWatermark,
    record: &RecordRef<'_>,
) -> Result<(), String> {
    let mut hub = gateway.hub();
    let partition = record.partition;
    let at = EventPosition {
        partition,
        offset: record.offset,
    };
    match record.event() {
        Ok(event) if admits(begin, watermark, at, &event) => {
            if let Some(uid) = gateway.contacts.learn(&event) {
                gateway.presence.mark_stale_if_watched(uid);
            }
            gateway.typing.learn(&event);
            let event = RingEvent::new(at, event, record.bytes().len());
            hub.apply(event, gateway.now_ms());
        }
        // The projections report records that are not events.
        Ok(_) | Err(ReadError::Skipped(_)) => {
            hub.advance(partition, NextOffset::after(record.offset));
        }
        Err(ReadError::UnknownRules(rules)) => {
            return Err(format!("{rules}; the gateway has to be of a newer version"));
        }
    }
    Ok(())
}

/// Whether an event counts (PROTOCOL S10). Below MySQL's position no watermark is known at first. A repeat there of a record from before the ring has
/// the time of that record, which is before `since`, where the ring begins.
fn admits(
    begin: &TailStart,
    watermark: &mut SourceWatermark,
    at: EventPosition,
    event: &Event,
) -> bool {
    match begin.stored.get(at.partition) {
        Some(stored) if at.offset < stored.next.get() => {
            event.ts >= begin.since && watermark.admit(event.src.offset)
        }
        stored => {
            if let Some(stored) = stored {
                watermark.admit(stored.watermark);
            }
            watermark.admit(event.src.offset)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::test_events::{event, message_body};

    /// An event's offset, cause and time are the same, but for the repeats of a former owner, which appends its decisions once more.
    #[test]
    fn below_mysqls_position_repeats_of_what_was_before_the_ring_do_not_count() {
        let stored = LogPosition {
            next: NextOffset::new(20),
            watermark: event(Partition::FIRST, 17, message_body(1, 2, "a", 1))
                .event
                .src
                .offset,
        };
        let begin = TailStart {
            stored: PartitionMap::full(|_| stored),
            rings: PartitionMap::full(|_| NextOffset::new(10)),
            since: TimestampMs(10),
        };
        let mut watermark = SourceWatermark::from_anywhere();
        let mut counts = |offset, of| {
            let at = EventPosition {
                partition: Partition::FIRST,
                offset,
            };
            let record = event(Partition::FIRST, of, message_body(1, 2, "a", 1)).event;
            admits(&begin, &mut watermark, at, &record)
        };
        assert!(counts(10, 10) && counts(11, 11));
        for repeated in 8..=11 {
            assert!(!counts(4 + repeated, repeated), "{repeated}");
        }
        assert!(counts(16, 12) && counts(17, 13));
        // From MySQL's position on its watermark counts.
        assert!(!counts(20, 16) && counts(21, 18) && !counts(22, 18));
    }
}
