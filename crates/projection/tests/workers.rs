//! A projection over a real Kafka, with a sink that writes to memory and fails on demand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use dev_stack::TestServers;
use event_log::{
    Admin, AppendRecord, Appender, KafkaConfig, LogReader, ProducerSettings, TestTopics,
};
use projection::{Coverage, EventBatch, Settings, Sink, SinkError};
use schemas::{
    LogPosition, Mid, NextOffset, Ordinal, Partition, PartitionMap, Recipient, TimestampMs,
    dead_letter,
    event::{Body, Event, KNOWN_RULE_VERSION, Message, Rules, Source, SourceOffset},
    topics::Topic,
};
use service_runtime::Health;
use tokio_util::sync::CancellationToken;

/// A store in memory: rows and positions, written together.
#[derive(Default)]
struct Store {
    offsets: PartitionMap<Vec<i64>>,
    positions: PartitionMap<LogPosition>,
    /// The positions of another part of the store, which is ahead.
    ahead: PartitionMap<LogPosition>,
    /// What the next flushes return.
    faults: VecDeque<SinkError>,
    /// The partitions of every look at the positions.
    resumed: Vec<Partition>,
    /// How many batches with events were taken into memory.
    absorbed: usize,
}

struct MemorySink {
    store: Arc<Mutex<Store>>,
    held: Vec<EventBatch>,
}

impl Sink for MemorySink {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, SinkError> {
        self.release(partitions);
        let mut store = self.store.lock().unwrap();
        store.resumed.extend(partitions);
        Ok(partitions
            .iter()
            .filter_map(|p| Some((*p, *store.positions.get(*p)?)))
            .collect())
    }

    fn positions(&self, partition: Partition) -> BTreeSet<LogPosition> {
        let store = self.store.lock().unwrap();
        store.ahead.get(partition).copied().into_iter().collect()
    }

    fn absorb(&mut self, batch: EventBatch) {
        self.store.lock().unwrap().absorbed += usize::from(!batch.events.is_empty());
        self.held.push(batch);
    }

    fn pending(&self) -> usize {
        self.held.iter().map(|batch| batch.events.len()).sum()
    }

    async fn flush(&mut self) -> Result<Coverage, SinkError> {
        let mut store = self.store.lock().unwrap();
        if let Some(fault) = store.faults.pop_front() {
            return Err(fault);
        }
        for batch in self.held.drain(..) {
            store.positions.insert(batch.partition, batch.end);
            let offsets = batch.events.iter().map(|event| event.offset);
            store
                .offsets
                .get_or_insert_with(batch.partition, Vec::new)
                .extend(offsets);
        }
        Ok(Coverage::Whole)
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        self.store
            .lock()
            .unwrap()
            .faults
            .pop_front()
            .map_or(Ok(Coverage::Whole), Err)
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.held
            .retain(|batch| !partitions.contains(&batch.partition));
    }
}

struct TestEnv {
    kafka: KafkaConfig,
    health: Health,
    appender: Appender,
    _topics: TestTopics,
}

impl TestEnv {
    async fn new() -> Self {
        let topics = TestTopics::create(&TestServers::shared().kafka_brokers).await;
        let kafka = topics.config().clone();
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 30_000,
            queue_bytes: 64 << 20,
            max_message_bytes: 8_000_000,
            gapless: false,
        };
        let appender = Appender::new(&kafka, &settings).unwrap();
        Self {
            kafka,
            health: Health::new(),
            appender,
            _topics: topics,
        }
    }

    async fn append(&self, value: &[u8]) -> i64 {
        self.append_to(partition(), value).await
    }

    async fn append_to(&self, partition: Partition, value: &[u8]) -> i64 {
        let record = AppendRecord {
            topic: &self.kafka.topic(Topic::Events),
            partition,
            key: b"1,2",
            value: Some(value),
            timestamp: Some(TimestampMs(1)),
            headers: &[],
        };
        self.appender.append(record).await.unwrap()
    }

    async fn message(&self, src: i64) -> i64 {
        self.message_to(2, src).await
    }

    /// From user 1, into the partition of that conversation.
    async fn message_to(&self, destid: i64, src: i64) -> i64 {
        let message = Message {
            srcid: 1.try_into().unwrap(),
            to: Recipient::User(destid.try_into().unwrap()),
            client_msg_id: format!("{src}").try_into().unwrap(),
            msg: "x".to_owned(),
            mid: Mid::try_from(src + 1).unwrap(),
            ordinal: Ordinal::try_from(src + 1).unwrap(),
        };
        let partition = message.conversation().partition();
        let event = event(src, Body::Message(message));
        self.append_to(partition, &event.encode()).await
    }

    async fn progress(&self, src: i64) -> i64 {
        self.append(&event(src, Body::Progress).encode()).await
    }

    /// Runs one projection with two workers until `soft` is cancelled.
    fn project(&self, store: &Arc<Mutex<Store>>, soft: &CancellationToken) -> Projection {
        let often = Duration::from_millis(20);
        self.project_every(often, store, soft)
    }

    /// `interval` is how long something waits for its flush; looks at the store are a little rarer.
    fn project_every(
        &self,
        interval: Duration,
        store: &Arc<Mutex<Store>>,
        soft: &CancellationToken,
    ) -> Projection {
        let sinks = (0..2)
            .map(|_| MemorySink {
                store: Arc::clone(store),
                held: Vec::new(),
            })
            .collect();
        let settings = Settings {
            group: "p".to_owned(),
            max_pending: 50,
            interval,
            verify_every: interval * 5 / 2,
            max_queued_bytes: 4096,
            if_deleted: "skip them",
            if_truncated: |partition| format!("rebuild {partition}"),
        };
        let (kafka, soft) = (self.kafka.clone(), soft.clone());
        let gate = self.health.check("test");
        tokio::spawn(async move {
            projection::run(&kafka, settings, sinks, |p| p.index() % 2, gate, soft).await
        })
    }
}

impl TestEnv {
    /// Why the projection is not ready; empty where it is.
    fn reason(&self) -> String {
        let checks = self.health.readiness().checks;
        checks[0].reason.clone().unwrap_or_default()
    }

    /// Waits until the partition of the messages is halted, and returns why. The others go on.
    async fn halted(&self, store: &Mutex<Store>) -> String {
        let halted = format!("partition {} is halted: ", partition());
        until("it is halted", || self.reason().starts_with(&halted)).await;
        let other = self.message_to(3, 0).await;
        let of_other = Partition::try_from(4_i64).unwrap();
        until("another partition goes on", || {
            let store = store.lock().unwrap();
            let offsets = store.offsets.get(of_other);
            offsets.is_some_and(|offsets| offsets.contains(&other))
        })
        .await;
        self.reason()
    }
}

type Projection = tokio::task::JoinHandle<Result<(), projection::ProjectionError>>;

fn partition() -> Partition {
    3.try_into().unwrap()
}

fn event(src: i64, body: Body) -> Event {
    let watermark = SourceOffset {
        epoch: 0,
        offset: src,
    };
    Event {
        src: Source {
            offset: watermark,
            leader_epoch: 0,
        },
        ts: TimestampMs(1),
        body,
        command: None,
        words: None,
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "not within 60 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_stored_once_through_faults_rewinds_and_restarts() {
    let env = TestEnv::new().await;
    let store = Arc::new(Mutex::new(Store::default()));
    let mut expected = Vec::new();
    let mut last = 0;
    for round in 0..3 {
        let soft = CancellationToken::new();
        let running = env.project(&store, &soft);
        for src in round * 300..(round + 1) * 300 {
            expected.push(env.message(src).await);
            if src % 100 == 50 {
                // A former owner wakes and appends decisions again.
                env.message(src - 1).await;
                last = env.message(src).await;
                store.lock().unwrap().faults.extend([
                    SinkError::Transient("away".to_owned()),
                    SinkError::Transient("still away".to_owned()),
                    SinkError::Moved("older than remembered".to_owned()),
                ]);
            }
        }
        let end = last.max(*expected.last().unwrap());
        until("all is stored", || {
            let store = store.lock().unwrap();
            store
                .positions
                .get(partition())
                .is_some_and(|at| at.next.get() > end)
        })
        .await;
        soft.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(
            store.lock().unwrap().offsets[partition()],
            expected,
            "round {round}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_moves_the_position_and_poison_is_a_dead_letter_first() {
    let env = TestEnv::new().await;
    let store = Arc::new(Mutex::new(Store::default()));
    let soft = CancellationToken::new();
    let running = env.project(&store, &soft);
    env.message(0).await;
    let poison = env.append(b"no event").await;
    // The dead letter has only the beginning of that, since it would not fit.
    env.append(&vec![0xff; 3_000_000]).await;
    env.message(5).await;
    let progress = env.progress(9).await;
    until("progress has passed", || {
        let store = store.lock().unwrap();
        store
            .positions
            .get(partition())
            .is_some_and(|at| at.next.get() > progress)
    })
    .await;
    assert_eq!(
        store.lock().unwrap().positions[partition()]
            .watermark
            .offset,
        9
    );
    assert_eq!(store.lock().unwrap().offsets[partition()], [0, 3]);
    let reader = LogReader::new(&env.kafka).unwrap();
    let letter = tokio::task::spawn_blocking(move || {
        reader
            .record(Topic::DeadLetters, partition(), 0)
            .unwrap()
            .unwrap()
    })
    .await
    .unwrap();
    assert_eq!(letter.bytes(), b"no event");
    assert_eq!(
        letter.header(dead_letter::HEADER_OFFSET),
        Some(poison.to_string().as_str())
    );
    soft.cancel();
    running.await.unwrap().unwrap();
}

/// Why the projection halts a partition in which `newer` follows two messages, before another one.
async fn halted_before(newer: Vec<u8>) -> String {
    let env = TestEnv::new().await;
    let store = Arc::new(Mutex::new(Store::default()));
    let soft = CancellationToken::new();
    let running = env.project(&store, &soft);
    env.message(0).await;
    env.message(1).await;
    env.append(&newer).await;
    env.message(3).await;
    let why = env.halted(&store).await;
    soft.cancel();
    running.await.unwrap().unwrap();
    let stored = store.lock().unwrap().positions[partition()].next;
    assert_eq!(stored, NextOffset::new(2), "what came before is written");
    assert_eq!(store.lock().unwrap().offsets[partition()], [0, 1]);
    let reader = Arc::new(LogReader::new(&env.kafka).unwrap());
    let dead_letters = reader.ends(Topic::DeadLetters).await.unwrap();
    assert_eq!(dead_letters[partition()], 0);
    why
}

fn newer_rules() -> Rules {
    Rules {
        rule_version: KNOWN_RULE_VERSION + 1,
        ..Rules::VERSION_1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_newer_program_wrote_is_not_read_past() {
    let why = halted_before(event(2, Body::Control(newer_rules())).encode()).await;
    assert!(
        why.contains(&format!(
            "offset 2: rule version {} is in force",
            KNOWN_RULE_VERSION + 1
        )),
        "{why}"
    );
    // For an older program that goes on behind the control event.
    let mut kind = event(2, Body::Progress).encode();
    let number = kind.len() - 2;
    assert_eq!(
        kind[number..],
        [5 << 3 | 2, 0],
        "the field of progress, empty"
    );
    kind[number] = 15 << 3 | 2;
    let why = halted_before(kind).await;
    assert!(
        why.contains("of a kind that this program does not know: run a newer one"),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_behind_what_a_newer_program_wrote_is_refused() {
    let env = TestEnv::new().await;
    env.message(0).await;
    env.append(&event(1, Body::Control(newer_rules())).encode())
        .await;
    let store = Arc::new(Mutex::new(Store::default()));
    store
        .lock()
        .unwrap()
        .positions
        .insert(partition(), position(2, 1));
    let soft = CancellationToken::new();
    let running = env.project(&store, &soft);
    let why = env.halted(&store).await;
    assert!(
        why.contains(&format!(
            "up to offset 2, and below that, rule version {} is in force",
            KNOWN_RULE_VERSION + 1
        )),
        "{why}"
    );
    soft.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_partition_goes_on_once_its_position_is_right() {
    let env = TestEnv::new().await;
    for src in 0..3 {
        env.message(src).await;
    }
    let store = Arc::new(Mutex::new(Store::default()));
    store
        .lock()
        .unwrap()
        .positions
        .insert(partition(), position(2, 7));
    let soft = CancellationToken::new();
    let running = env.project(&store, &soft);
    let why = env.halted(&store).await;
    assert!(why.contains("rebuild 3"), "{why}");
    store
        .lock()
        .unwrap()
        .positions
        .insert(partition(), position(2, 1));
    until("it goes on", || env.reason().is_empty()).await;
    until("the rest is stored", || {
        store.lock().unwrap().offsets.get(partition()).is_some()
    })
    .await;
    assert_eq!(store.lock().unwrap().offsets[partition()], [2]);
    soft.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_were_deleted_unread_halt_their_partition() {
    let env = TestEnv::new().await;
    for src in 0..3 {
        env.message(src).await;
    }
    let admin = Admin::new(&env.kafka).unwrap();
    admin
        .delete_before(Topic::Events, partition(), 2)
        .await
        .unwrap();
    let store = Arc::new(Mutex::new(Store::default()));
    let soft = CancellationToken::new();
    let running = env.project(&store, &soft);
    let why = env.halted(&store).await;
    assert!(
        why.contains("records were deleted unread. skip them"),
        "{why}"
    );
    let mut others = store.lock().unwrap().resumed.clone();
    others.retain(|other| *other != partition());
    others.sort_unstable();
    assert!(others.is_sorted_by(|a, b| a < b), "disturbed: {others:?}");
    soft.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fatal_error_of_a_sink_ends_the_projection() {
    let env = TestEnv::new().await;
    let store = Arc::new(Mutex::new(Store::default()));
    store
        .lock()
        .unwrap()
        .faults
        .push_back(SinkError::Fatal("the tables are of another env".to_owned()));
    let running = env.project(&store, &CancellationToken::new());
    let error = running.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("another env"), "{error}");
}

fn position(next: i64, src: i64) -> LogPosition {
    let watermark = event(src, Body::Progress).src.offset;
    let next = NextOffset::new(next);
    LogPosition { next, watermark }
}

/// Why a projection halts a partition that finds its store at `at`, and a part of it at `ahead`, on a log with the sources 0, 2, 4 … 10.
async fn refused(at: LogPosition, ahead: Option<LogPosition>) -> String {
    let env = TestEnv::new().await;
    for src in [0, 2, 4, 6, 8, 10] {
        env.message(src).await;
    }
    let store = Arc::new(Mutex::new(Store::default()));
    store.lock().unwrap().positions.insert(partition(), at);
    let part = ahead.map(|ahead| (partition(), ahead));
    store.lock().unwrap().ahead.extend(part);
    let soft = CancellationToken::new();
    let running = env.project(&store, &soft);
    let why = env.halted(&store).await;
    assert!(store.lock().unwrap().offsets.get(partition()).is_none());
    assert!(why.contains("rebuild 3"), "{why}");
    soft.cancel();
    running.await.unwrap().unwrap();
    why
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_the_log_does_not_agree_with_is_refused() {
    for (at, ahead, why) in [
        (position(4, 5), None, "was 0:5, and is 0:6 now"),
        (position(4, 7), None, "was 0:7, and is 0:6 now"),
        (position(7, 12), None, "offset 7, and ends at 6 now"),
        (position(2, 2), Some(position(5, 7)), "offset 5, where"),
        (position(2, 2), Some(position(9, 7)), "ends at 6 now"),
    ] {
        let error = refused(at, ahead).await;
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeats_and_malformed_records_below_a_position_are_ignored() {
    /// More than one widening of the truncation check.
    const REPEATS: i64 = 70_000;
    let env = TestEnv::new().await;
    for src in [0, 2, 4] {
        env.message(src).await;
    }
    futures::future::join_all((0..REPEATS).map(|_| env.message(2))).await;
    env.append(b"no event").await;
    let store = Arc::new(Mutex::new(Store::default()));
    let at = BTreeMap::from([(partition(), position(REPEATS + 4, 4))]);
    store.lock().unwrap().positions.extend(at.clone());
    store.lock().unwrap().ahead.extend(at);
    let soft = CancellationToken::new();
    let running = env.project(&store, &soft);
    let next = env.message(5).await;
    until("it is stored", || !store.lock().unwrap().offsets.is_empty()).await;
    assert_eq!(store.lock().unwrap().offsets[partition()], [next]);
    soft.cancel();
    running.await.unwrap().unwrap();
}

/// Two members, of which the first holds events of all partitions, nothing flushed, when the second takes its share.
/// The last flushes of its workers answer with `faults`.
async fn a_revoke_with_faults(
    env: &TestEnv,
    store: &Arc<Mutex<Store>>,
    faults: Vec<SinkError>,
) -> [(Projection, CancellationToken); 2] {
    let never = Duration::from_secs(3600);
    let member = || {
        let soft = CancellationToken::new();
        (env.project_every(never, store, &soft), soft)
    };
    let first = member();
    for destid in 1..=64 {
        assert_eq!(env.message_to(destid, 0).await, 0);
    }
    until("all is absorbed", || store.lock().unwrap().absorbed == 64).await;
    store.lock().unwrap().faults.extend(faults);
    let second = member();
    until("the faults have been met", || {
        store.lock().unwrap().faults.is_empty()
    })
    .await;
    [first, second]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_last_flush_counts_for_the_partitions_that_stay() {
    let env = TestEnv::new().await;
    let store = Arc::new(Mutex::new(Store::default()));
    let moved = || SinkError::Moved("a part of the store is back".to_owned());
    let members = a_revoke_with_faults(&env, &store, vec![moved(), moved()]).await;
    until("all is read again, by whoever has it now", || {
        store.lock().unwrap().absorbed >= 128
    })
    .await;
    for (running, soft) in members {
        soft.cancel();
        running.await.unwrap().unwrap();
    }
    let store = store.lock().unwrap();
    assert_eq!(store.offsets.len(), 64);
    assert!(store.offsets.values().all(|offsets| *offsets == [0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fatal_error_of_a_last_flush_ends_the_projection() {
    let env = TestEnv::new().await;
    let store = Arc::new(Mutex::new(Store::default()));
    // One: the worker that meets it may end the other before that is flushed.
    let fatal = SinkError::Fatal("the tables are of another env".to_owned());
    let [(first, _), (second, soft)] = a_revoke_with_faults(&env, &store, vec![fatal]).await;
    let error = first.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("another env"), "{error}");
    soft.cancel();
    second.await.unwrap().unwrap();
}
