//! The sequencer over a real Kafka.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use dev_stack::TestServers;
use event_log::{
    Admin, AppendRecord, DeliveryFailure, KafkaConfig, LogProducer, LogReader, ProducerSettings,
    TestTopics,
};
use schemas::{
    ConversationId, Mid, Partition, PartitionMap, Recipient, SourceWatermark, TimestampMs, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    dead_letter,
    event::{Body, Event},
    topics::Topic,
};
use sequencer::{Config, SequencerConfig};
use service_runtime::{Health, Supervisor};
use tokio::{sync::oneshot, task::JoinHandle};

const PATIENCE: Duration = Duration::from_secs(60);

/// A running sequencer; stopped softly by [`Running::stop`].
struct Running {
    health: Health,
    stop: oneshot::Sender<()>,
    /// Whether it went well.
    ended: JoinHandle<bool>,
}

impl Running {
    async fn start(kafka: &KafkaConfig) -> Self {
        let often = SequencerConfig {
            snapshot_events: 1000,
            ..SequencerConfig::default()
        };
        Self::start_with(kafka, often).await
    }

    async fn start_with(kafka: &KafkaConfig, sequencer: SequencerConfig) -> Self {
        let config = Config {
            kafka: kafka.clone(),
            sequencer,
        };
        let supervisor = Supervisor::new("sequencer", Duration::from_secs(20));
        let health = Health::new();
        let _api = sequencer::start(config, &supervisor, &health)
            .await
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(async move {
            let mut stopped = Some(stopped);
            let stop = async move || match stopped.take() {
                Some(stopped) => drop(stopped.await),
                None => std::future::pending().await,
            };
            supervisor.run(stop).await.is_ok()
        });
        Self {
            health,
            stop,
            ended,
        }
    }

    /// Waits until it is not ready for a reason with this text, or ready where there is none.
    async fn says(&self, text: Option<&str>) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reason = self.health.readiness().checks[0].reason.clone();
            let is_it = match (&reason, text) {
                (Some(reason), Some(text)) => reason.contains(text),
                (reason, text) => reason.is_none() && text.is_none(),
            };
            if is_it {
                return reason.unwrap_or_default();
            }
            assert!(Instant::now() < deadline, "{reason:?} instead of {text:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        assert!(self.ended.await.unwrap());
    }
}

/// A deployment of its own on the shared broker, and both ends of the log.
struct Simulation {
    kafka: KafkaConfig,
    producer: LogProducer<oneshot::Sender<Result<i64, DeliveryFailure>>>,
    reader: Arc<LogReader>,
    _topics: TestTopics,
}

impl Simulation {
    async fn new() -> Self {
        let topics = TestTopics::create(&TestServers::shared().kafka_brokers).await;
        let kafka = topics.config().clone();
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 30_000,
            queue_bytes: 64 << 20,
            // Compressed, the broker takes far larger ones than it says.
            max_message_bytes: 8_000_000,
            gapless: false,
        };
        let producer = LogProducer::new(&kafka, &settings).unwrap();
        let reader = Arc::new(LogReader::new(&kafka).unwrap());
        Self {
            kafka,
            producer,
            reader,
            _topics: topics,
        }
    }

    /// Appends raw bytes to `chat.inbound`; the answer comes when it is on the log.
    fn append(
        &self,
        partition: Partition,
        value: &[u8],
    ) -> oneshot::Receiver<Result<i64, DeliveryFailure>> {
        self.append_to(&self.kafka.topic(Topic::Inbound), partition, value, None)
    }

    fn append_to(
        &self,
        topic: &str,
        partition: Partition,
        value: &[u8],
        timestamp: Option<TimestampMs>,
    ) -> oneshot::Receiver<Result<i64, DeliveryFailure>> {
        let (delivery, outcome) = oneshot::channel();
        let record = AppendRecord {
            topic,
            partition,
            key: b"",
            value: Some(value),
            timestamp,
            headers: &[("trace".to_owned(), Some(b"abc".to_vec()))],
        };
        self.producer.append(record, delivery).unwrap();
        outcome
    }

    async fn post(&self, command: Command) -> i64 {
        let conversation = command
            .conversation()
            .expect("a control goes to every partition");
        self.append(conversation.partition(), &command.encode())
            .await
            .unwrap()
            .unwrap()
    }

    /// Waits until every inbound record is answered for, and reads the events as readers do, by partition.
    async fn settled(&self) -> PartitionMap<Vec<Event>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let inbound = self.reader.ends(Topic::Inbound).await.unwrap();
            let (events, answered) = self.events().await;
            let open = inbound
                .iter()
                .find(|(p, end)| **end > 0 && answered.get(*p).is_none_or(|src| src + 1 < **end));
            let Some(open) = open else { return events };
            assert!(
                Instant::now() < deadline,
                "not answered for in time: {open:?} {answered:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn events(&self) -> (PartitionMap<Vec<Event>>, PartitionMap<i64>) {
        let ends = self.reader.ends(Topic::Events).await.unwrap();
        let ranges: Vec<_> = ends.into_iter().map(|(p, end)| (p, 0..end)).collect();
        let reader = Arc::clone(&self.reader);
        tokio::task::spawn_blocking(move || {
            let mut watermarks: PartitionMap<SourceWatermark> = PartitionMap::new();
            let mut events: PartitionMap<Vec<Event>> = PartitionMap::new();
            reader
                .scan(Topic::Events, &ranges, |record| {
                    let event = Event::parse(record.bytes(), record.timestamp).unwrap();
                    let rising = watermarks
                        .get_or_insert_with(record.partition, SourceWatermark::from_anywhere);
                    if rising.admit(event.src.offset) && event.body != Body::Progress {
                        events
                            .get_or_insert_with(record.partition, Vec::new)
                            .push(event);
                    }
                    ControlFlow::Continue(())
                })
                .unwrap();
            let answered = watermarks
                .into_iter()
                .map(|(p, m)| (p, m.highest().unwrap().offset))
                .collect();
            (events, answered)
        })
        .await
        .unwrap()
    }
}

fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

fn send(from: i64, to: i64, id: &str, msg: &str) -> Command {
    Command::Send(SendMessage {
        by_user: false,
        srcid: user(from),
        to: Recipient::User(user(to)),
        client_msg_id: id.to_owned().try_into().unwrap(),
        msg: msg.to_owned(),
    })
}

fn read(uid: i64, peer: i64, mid: Option<i64>) -> Command {
    Command::ReadAck(ReadAck {
        uid: user(uid),
        to: Recipient::User(user(peer)),
        device: schemas::DeviceClass::Mobile,
        mid: mid.map(|mid| Mid::try_from(mid).unwrap()),
    })
}

fn mids(events: &[Event]) -> Vec<i64> {
    events
        .iter()
        .filter_map(|event| match &event.body {
            Body::Message(message) => Some(message.mid.get()),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_numbered_once_and_refusals_are_dead_letters() {
    let simulation = Simulation::new().await;
    let sequencer = Running::start(&simulation.kafka).await;
    simulation.post(send(1001, 1000, "a", "one")).await;
    simulation
        .post(send(
            1000,
            1001,
            "a",
            "two, by the other side with the same id",
        ))
        .await;
    simulation.post(send(1001, 1000, "a", "one")).await;
    let conflict = simulation.post(send(1001, 1000, "a", "another text")).await;
    simulation.post(read(1000, 1001, Some(99))).await;
    simulation.post(read(1000, 1001, None)).await;
    let partition = "1000,1001".parse::<ConversationId>().unwrap().partition();
    let junk = simulation
        .append(partition, b"junk")
        .await
        .unwrap()
        .unwrap();
    let events = simulation.settled().await;
    let of_partition = &events[partition];
    assert_eq!(mids(of_partition), [1, 2]);
    let Body::ReadPosition(position) = &of_partition[2].body else {
        panic!("{of_partition:?}")
    };
    assert_eq!(
        (position.mid.get(), position.ordinal.unwrap().get()),
        (2, 1),
        "clamped to what there is"
    );
    assert_eq!(
        of_partition.len(),
        3,
        "repeats and acks that move nothing are silent"
    );

    let ends = simulation.reader.ends(Topic::DeadLetters).await.unwrap();
    assert_eq!(ends[partition], 2);
    let reader = Arc::clone(&simulation.reader);
    let letters = tokio::task::spawn_blocking(move || {
        [0, 1].map(|offset| {
            reader
                .record(Topic::DeadLetters, partition, offset)
                .unwrap()
                .unwrap()
        })
    })
    .await
    .unwrap();
    let reason = |i: usize| letters[i].header(dead_letter::HEADER_REASON).unwrap();
    let offset = |i: usize| letters[i].header(dead_letter::HEADER_OFFSET).unwrap();
    assert_eq!(
        (reason(0), offset(0)),
        ("conflict", conflict.to_string().as_str())
    );
    assert_eq!(
        (reason(1), offset(1)),
        ("malformed", junk.to_string().as_str())
    );
    assert_eq!(letters[1].bytes(), b"junk");
    assert_eq!(
        letters[1].header("trace"),
        Some("abc"),
        "the original headers stay"
    );
    sequencer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_unpacks_too_large_is_one_dead_letter_and_no_more() {
    let simulation = Simulation::new().await;
    let sequencer = Running::start(&simulation.kafka).await;
    let partition = "1000,1001".parse::<ConversationId>().unwrap().partition();
    let bomb = vec![0xff; 3_000_000];
    simulation.append(partition, &bomb).await.unwrap().unwrap();
    simulation.post(send(1001, 1000, "a", "behind it")).await;
    assert_eq!(mids(&simulation.settled().await[partition]), [1]);

    let reader = Arc::clone(&simulation.reader);
    let found = move || reader.record(Topic::DeadLetters, partition, 0);
    let letter = tokio::task::spawn_blocking(found).await.unwrap();
    let letter = letter.unwrap().unwrap();
    let length = letter.header(dead_letter::HEADER_VALUE_BYTES);
    assert_eq!(length, Some("3000000"));
    assert!(bomb.starts_with(letter.bytes()) && letter.bytes().len() < 100_000);
    sequencer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_stepped_halts_its_partition_only() {
    let simulation = Simulation::new().await;
    let sequencer = Running::start(&simulation.kafka).await;
    sequencer.says(None).await;
    let partition = "1,2".parse::<ConversationId>().unwrap().partition();
    let unknown = Command::Control(Control {
        rule_version: Some(99),
        ..Control::default()
    });
    let records = [
        send(1, 2, "before", "x").encode(),
        unknown.encode(),
        send(1, 2, "behind", "x").encode(),
    ];
    for delivery in records.map(|value| simulation.append(partition, &value)) {
        delivery.await.unwrap().unwrap();
    }
    let halted =
        format!("partition {partition} is halted: chat.inbound at offset 1: rule version 99");
    let why = sequencer.says(Some(&halted)).await;
    assert!(why.contains("run a newer one"), "{why}");
    let other = simulation.post(send(1, 3, "other", "x")).await;
    let elsewhere = "1,3".parse::<ConversationId>().unwrap().partition();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (events, answered) = simulation.events().await;
        let is_answered = |partition, offset| answered.get(partition) == Some(&offset);
        if is_answered(elsewhere, other) && is_answered(partition, 0) {
            assert_eq!(mids(&events[partition]), [1], "what came before");
            break;
        }
        assert!(Instant::now() < deadline, "{answered:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sequencer.says(Some(&halted)).await;
    sequencer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_log_does_not_allow_a_start_keeps_no_other_from_it() {
    let simulation = Simulation::new().await;
    let partition = "1,2".parse::<ConversationId>().unwrap().partition();
    for id in ["a", "b"] {
        simulation.post(send(1, 2, id, "x")).await;
    }
    let admin = Admin::new(&simulation.kafka).unwrap();
    admin
        .delete_before(Topic::Inbound, partition, 1)
        .await
        .unwrap();
    let sequencer = Running::start(&simulation.kafka).await;
    let why = sequencer.says(Some("is halted")).await;
    let named = why.contains("records were deleted unread") && why.contains("epoch raise");
    assert!(
        named && why.contains(&format!("partition {partition}")),
        "{why}"
    );
    simulation.post(send(1, 3, "other", "x")).await;
    let elsewhere = "1,3".parse::<ConversationId>().unwrap().partition();
    let deadline = Instant::now() + PATIENCE;
    while simulation.events().await.0.get(elsewhere).is_none() {
        assert!(Instant::now() < deadline, "another partition stands still");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sequencer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_does_not_move_while_its_log_grows_is_not_ready() {
    let simulation = Simulation::new().await;
    let never_appends = SequencerConfig {
        linger_ms: 900_000,
        ..SequencerConfig::default()
    };
    let sequencer = Running::start_with(&simulation.kafka, never_appends).await;
    sequencer.says(None).await;
    simulation.post(send(1, 2, "a", "x")).await;
    let partition = "1,2".parse::<ConversationId>().unwrap().partition();
    let stands = format!("partition {partition} has stood at offset 0 of chat.inbound for");
    let why = sequencer.says(Some(&stands)).await;
    assert!(why.ends_with("and the log ends at 1"), "{why}");
    sequencer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_posts_of_one_id_are_one_message() {
    let simulation = Simulation::new().await;
    let sequencer = Running::start(&simulation.kafka).await;
    let value = send(7, 8, "only", "once").encode();
    let partition = "7,8".parse::<ConversationId>().unwrap().partition();
    let deliveries: Vec<_> = (0..1000)
        .map(|_| simulation.append(partition, &value))
        .collect();
    for delivery in deliveries {
        delivery.await.unwrap().unwrap();
    }
    let events = simulation.settled().await;
    assert_eq!(mids(&events[partition]), [1]);
    sequencer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_from_snapshot_and_log() {
    let simulation = Simulation::new().await;
    let partition = "1,2".parse::<ConversationId>().unwrap().partition();
    let mut sent = 0;
    for round in 0..3 {
        let sequencer = Running::start(&simulation.kafka).await;
        for _ in 0..1500 {
            sent += 1;
            let delivery =
                simulation.append(partition, &send(1, 2, &format!("{sent}"), "x").encode());
            if sent % 500 == 0 {
                delivery.await.unwrap().unwrap();
            }
        }
        // A repeat from before the restart is still known.
        simulation.post(send(1, 2, "1", "x")).await;
        let events = simulation.settled().await;
        assert_eq!(
            mids(&events[partition]),
            (1..=sent).collect::<Vec<i64>>(),
            "round {round}"
        );
        sequencer.stop().await;
    }
    let snapshots = simulation.reader.ends(Topic::Snapshots).await.unwrap();
    assert!(snapshots[partition] >= 2, "snapshots are stored");
}

/// Rule version 2 begins in the middle: what was sent before is known until it expires, also to the next owner.
#[tokio::test(flavor = "multi_thread")]
async fn repeats_are_recognised_across_rule_versions() {
    let simulation = Simulation::new().await;
    let partition = "1,2".parse::<ConversationId>().unwrap().partition();
    let version_2 = Command::Control(Control {
        rule_version: Some(2),
        hash_key: Some(vec![7; 16]),
        ..Control::default()
    });
    let post = async |id: &str| simulation.post(send(1, 2, id, "x")).await;
    let sequencer = Running::start(&simulation.kafka).await;
    post("before").await;
    let raised = simulation.append(partition, &version_2.encode());
    raised.await.unwrap().unwrap();
    post("before").await;
    post("behind").await;
    simulation.settled().await;
    sequencer.stop().await;
    let sequencer = Running::start(&simulation.kafka).await;
    for id in ["before", "behind", "last"] {
        post(id).await;
    }
    let events = simulation.settled().await;
    assert_eq!(mids(&events[partition]), [1, 2, 3]);
    let reader = Arc::clone(&simulation.reader);
    let states = tokio::task::spawn_blocking(move || sequencer::states(&reader, &[partition]));
    let states = states.await.unwrap().unwrap();
    assert_eq!(states[partition].rules().rule_version, 2);
    sequencer.stop().await;
}

/// What a former owner appends makes a partition start anew in the middle of its work, while it is paused.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_appends_under_load_leave_no_partition_behind() {
    let simulation = Simulation::new().await;
    let sequencer = Running::start(&simulation.kafka).await;
    let partition = "1,2".parse::<ConversationId>().unwrap().partition();
    let events = simulation.kafka.topic(Topic::Events);
    simulation.post(send(1, 2, "0", "x")).await;
    simulation.settled().await;
    let reader = Arc::clone(&simulation.reader);
    let first = move || reader.record(Topic::Events, partition, 0).unwrap().unwrap();
    let first = tokio::task::spawn_blocking(first).await.unwrap();
    for round in 0..40 {
        for n in 0..50 {
            let id = format!("{round}-{n}");
            drop(simulation.append(partition, &send(1, 2, &id, "x").encode()));
        }
        let again = simulation.append_to(&events, partition, first.bytes(), Some(first.timestamp));
        again.await.unwrap().unwrap();
    }
    let last = simulation.post(send(1, 2, "last", "x")).await;
    assert_eq!(last, 2001);
    let settled = simulation.settled().await;
    assert_eq!(mids(&settled[partition]), (1..=2002).collect::<Vec<i64>>());
    sequencer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_come_and_go_without_a_gap() {
    let simulation = Simulation::new().await;
    let first = Running::start(&simulation.kafka).await;
    let conversations: Vec<(i64, i64)> = (0..16).map(|i| (100 + i, 900 + 3 * i)).collect();
    let mut others = Vec::new();
    for round in 0..4 {
        for n in 0..100 {
            for (from, to) in &conversations {
                let partition =
                    schemas::DirectConversation::new(user(*from), user(*to)).partition();
                drop(simulation.append(
                    partition,
                    &send(*from, *to, &format!("{round}-{n}"), "x").encode(),
                ));
            }
        }
        if round % 2 == 0 {
            others.push(Running::start(&simulation.kafka).await);
        } else if let Some(other) = others.pop() {
            other.stop().await;
        }
    }
    // A last one that is waited for, so that all are on the log.
    simulation.post(send(1, 2, "last", "x")).await;
    let events = simulation.settled().await;
    for (from, to) in conversations {
        let id = schemas::DirectConversation::new(user(from), user(to));
        let own: Vec<Event> = events[id.partition()]
            .iter()
            .filter(|event| event.conversation() == Some(id.into()))
            .cloned()
            .collect();
        assert_eq!(mids(&own), (1..=400).collect::<Vec<i64>>(), "{id}");
    }
    first.stop().await;
}
