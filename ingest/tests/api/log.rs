//! `chat.inbound` as the tests see it.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    thread,
};

use dev_stack::TestServers;
use event_log::{Admin, KafkaConfig, LogReader, Record};
use schemas::{Partition, PartitionMap, command::Command, topics::Topic};

/// The tests' Kafka, with topics under a prefix of this process's own. The tests share the topics and look only at records whose place
/// they were told.
pub fn kafka() -> &'static KafkaConfig {
    static KAFKA: OnceLock<KafkaConfig> = OnceLock::new();
    KAFKA.get_or_init(|| with_topics(&TestServers::shared().kafka_brokers))
}

/// Topics of their own on the given brokers.
pub fn with_topics(brokers: &str) -> KafkaConfig {
    let config = KafkaConfig {
        brokers: brokers.to_owned(),
        prefix: format!("ingest-{}.", uuid::Uuid::now_v7().simple()),
        ..KafkaConfig::default()
    };
    let applied = config.clone();
    // Tests call this from inside a runtime, which must not block on another.
    thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { Admin::new(&applied).unwrap().apply().await.unwrap() });
    })
    .join()
    .expect("the topics are applied");
    config
}

/// Two users that no other test writes for.
pub fn fresh_pair() -> (i64, i64) {
    static NEXT: AtomicI64 = AtomicI64::new(1_000);
    let first = NEXT.fetch_add(2, Ordering::Relaxed);
    (first, first + 1)
}

/// The record at a place that an answer named.
pub fn record(partition: i64, offset: i64) -> Record {
    let place = (partition, offset);
    records(&[place]).remove(&place).expect("it is on the log")
}

/// The command at a place that an answer named.
pub fn command(partition: i64, offset: i64) -> Command {
    Command::parse(record(partition, offset).bytes()).unwrap()
}

/// The records at the given places.
pub fn records(places: &[(i64, i64)]) -> BTreeMap<(i64, i64), Record> {
    let mut ranges: PartitionMap<std::ops::Range<i64>> = PartitionMap::new();
    for (partition, offset) in places {
        let partition = Partition::try_from(*partition).unwrap();
        let range = ranges.get_or_insert_with(partition, || *offset..*offset);
        *range = range.start.min(*offset)..range.end.max(*offset + 1);
    }
    let ranges: Vec<_> = ranges.into_iter().collect();
    let mut found = BTreeMap::new();
    let reader = LogReader::new(kafka()).unwrap();
    reader
        .scan(Topic::Inbound, &ranges, |record| {
            let place = (i64::from(record.partition.get()), record.offset);
            if places.contains(&place) {
                found.insert(place, record);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}
