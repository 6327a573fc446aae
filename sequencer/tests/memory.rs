//! How much memory a start takes beyond what it leaves. It starts in a process of its own, whose largest resident set is measured.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{env, fs, process::Command, time::Duration};

use dev_stack::TestServers;
use event_log::{
    AppendRecord, DeliveryFailure, KafkaConfig, LogProducer, ProducerSettings, TestTopics,
};
use prost::Message as _;
use schemas::{
    ClientMsgId, Mid, Ordinal, Partition, Recipient, TimestampMs,
    event::{Body, Event, Message, Rules, Source, SourceOffset},
    topics::Topic,
};
use sequencer::{
    Config, SequencerConfig,
    core::{State, snapshot::Snapshot},
    shell::{CHUNK_BYTES, split},
};
use service_runtime::{Health, Supervisor};
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};

const FULL_PARTITIONS: i64 = 8;
const DEDUP_MAX_ENTRIES: i64 = 600_000;
const CONVERSATIONS: i64 = 100_000;
const MOST_OVER_STEADY: f64 = 1.3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Brokers and prefix of the process that starts; absent in the test itself.
const KAFKA: &str = "SEQUENCER_TEST_STARTS_ON";

#[tokio::test(flavor = "multi_thread")]
async fn a_start_takes_little_more_memory_than_its_state() {
    if let Ok(kafka) = env::var(KAFKA) {
        let (brokers, prefix) = kafka.split_once(' ').unwrap();
        return start(brokers, prefix).await;
    }
    let topics = TestTopics::create(&TestServers::shared().kafka_brokers).await;
    let kafka = topics.config();
    store_snapshots(kafka).await;
    let start = Command::new(env::current_exe().unwrap())
        .env(KAFKA, format!("{} {}", kafka.brokers, kafka.prefix))
        // What is freed is given back at once, so that only what is in use is resident.
        .env("MIMALLOC_PURGE_DELAY", "0")
        .arg("--nocapture")
        .status()
        .unwrap();
    assert!(start.success(), "see above");
}

/// Partitions that hold all that their rules let them hold, and nothing else on the logs.
async fn store_snapshots(kafka: &KafkaConfig) {
    let settings = ProducerSettings {
        linger_ms: 0,
        message_timeout_ms: 60_000,
        queue_bytes: 1 << 30,
        max_message_bytes: 8_000_000,
        gapless: false,
    };
    let producer: LogProducer<oneshot::Sender<Result<i64, DeliveryFailure>>> =
        LogProducer::new(kafka, &settings).unwrap();
    let topic = kafka.topic(Topic::Snapshots);
    let mut stored = JoinSet::new();
    // As many of each partition as are kept; their clocks tell them apart.
    for clock in 0..2 {
        let message = Snapshot::of(&full_state(clock), source(-1)).into_message();
        for chunk in split(&message, CHUNK_BYTES) {
            let value = chunk.encode_to_vec();
            for partition in 0..FULL_PARTITIONS {
                let (delivery, outcome) = oneshot::channel();
                let record = AppendRecord {
                    topic: &topic,
                    partition: Partition::try_from(partition).unwrap(),
                    key: chunk.snapshot_id.as_bytes(),
                    value: Some(&value),
                    timestamp: None,
                    headers: &[],
                };
                producer.append(record, delivery).map_err(drop).unwrap();
                stored.spawn(outcome);
            }
        }
    }
    for outcome in stored.join_all().await {
        outcome.unwrap().unwrap();
    }
}

/// Half of its sends were sequenced under rule version 1.
fn full_state(clock: i64) -> State {
    let mut state = State::default();
    let mut fold = |body| {
        state.apply(&Event {
            src: source(0),
            ts: TimestampMs(clock),
            body,
            command: None,
            words: None,
        });
    };
    let half = DEDUP_MAX_ENTRIES / 2;
    (0..half).for_each(|send| fold(message(send)));
    fold(Body::Control(Rules {
        rule_version: 2,
        dedup_max_entries: DEDUP_MAX_ENTRIES,
        dedup_max_per_sender: DEDUP_MAX_ENTRIES,
        hash_key: Some([7; 16].as_slice().try_into().unwrap()),
        ..Rules::VERSION_1
    }));
    (half..DEDUP_MAX_ENTRIES).for_each(|send| fold(message(send)));
    assert_eq!(state.dedup_entries() as i64, DEDUP_MAX_ENTRIES);
    assert_eq!(state.conversations() as i64, CONVERSATIONS);
    state
}

fn message(send: i64) -> Body {
    let number = send / CONVERSATIONS + 1;
    Body::Message(Message {
        srcid: (1 + send % CONVERSATIONS).try_into().unwrap(),
        to: Recipient::User((1 + CONVERSATIONS).try_into().unwrap()),
        client_msg_id: ClientMsgId::try_from(send.to_string()).unwrap(),
        msg: "x".to_owned(),
        mid: Mid::try_from(number).unwrap(),
        ordinal: Ordinal::try_from(number).unwrap(),
    })
}

fn source(offset: i64) -> Source {
    Source {
        offset: SourceOffset { epoch: 0, offset },
        leader_epoch: -1,
    }
}

/// Starts all partitions in this process.
async fn start(brokers: &str, prefix: &str) {
    let config = Config {
        kafka: KafkaConfig {
            brokers: brokers.to_owned(),
            prefix: prefix.to_owned(),
            ..KafkaConfig::default()
        },
        sequencer: SequencerConfig::default(),
    };
    let supervisor = Supervisor::new("sequencer", PATIENCE);
    let health = Health::new();
    let _api = sequencer::start(config, &supervisor, &health)
        .await
        .unwrap();
    let ready = async {
        while !health.readiness().ready {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, ready).await.unwrap();
    let [peak, steady] = ["VmHWM:", "VmRSS:"].map(memory_kib);
    println!("{peak} KiB at most, {steady} then");
    let entries = FULL_PARTITIONS * DEDUP_MAX_ENTRIES;
    assert!(
        steady * 1024.0 > 20.0 * entries as f64,
        "no state was loaded"
    );
    assert!(peak <= MOST_OVER_STEADY * steady);
}

fn memory_kib(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.unwrap().parse().unwrap()
}
