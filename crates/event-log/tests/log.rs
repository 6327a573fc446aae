//! The log against a real broker.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    future::poll_fn,
    ops::ControlFlow,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use dev_stack::TestServers;
use event_log::{
    Admin, AppendRecord, DeliveryFailure, FetchError, Fetched, Fetcher, GroupEvent, GroupMember,
    KafkaConfig, LogEnds, LogProducer, LogReader, PostClient, PostProducer, ProducerSettings,
    Record, Scanned, TestTopics, TopicDifference,
};
use schemas::{
    NextOffset, Partition, PartitionMap, SyncPage, SyncToken, TimestampMs, topics::Topic,
};
use tokio::{sync::oneshot, time::sleep};

type Outcome = Result<i64, DeliveryFailure>;

const SETTINGS: ProducerSettings = ProducerSettings {
    linger_ms: 0,
    message_timeout_ms: 10_000,
    queue_bytes: 1 << 20,
    max_message_bytes: 1_000_000,
    gapless: false,
};

/// Topics of its own on the shared broker, and a producer for `chat.events`.
struct Log {
    topics: TestTopics,
    producer: LogProducer<oneshot::Sender<Outcome>>,
}

impl Log {
    async fn new() -> Self {
        let topics = TestTopics::create(&TestServers::shared().kafka_brokers).await;
        let producer = LogProducer::new(topics.config(), &SETTINGS).unwrap();
        Self { topics, producer }
    }

    fn config(&self) -> KafkaConfig {
        self.topics.config().clone()
    }

    async fn append(&self, to: Partition, value: &str, ts: i64) -> Outcome {
        let (sender, outcome) = oneshot::channel();
        let record = AppendRecord {
            topic: &self.topics.config().topic(Topic::Events),
            partition: to,
            key: b"k",
            value: Some(value.as_bytes()),
            timestamp: Some(TimestampMs(ts)),
            headers: &[("h".to_owned(), Some(b"v".to_vec()))],
        };
        self.producer.append(record, sender).unwrap();
        outcome.await.unwrap()
    }

    async fn append_all(&self, to: Partition, values: &[&str]) {
        for value in values {
            self.append(to, value, 1).await.unwrap();
        }
    }
}

fn partition(n: i64) -> Partition {
    n.try_into().unwrap()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Polls until `take` is satisfied; panics after 30 s.
fn poll_until(
    fetcher: &mut Fetcher,
    mut take: impl FnMut(Result<Fetched<'_>, FetchError>) -> bool,
) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        let polled = fetcher.poll(Duration::from_millis(50), |fetched| take(Ok(fetched)));
        let satisfied = match polled {
            Ok(taken) => taken.unwrap_or(false),
            Err(error) => take(Err(error)),
        };
        if satisfied {
            return;
        }
    }
    panic!("not within 30 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_applied_once_and_differences_are_named() {
    let log = Log::new().await;
    let config = log.config();
    let admin = Admin::new(&config).unwrap();
    assert_eq!(admin.diff().await.unwrap(), []);
    assert_eq!(admin.apply().await.unwrap(), []);
    let retention = admin.setting(Topic::DeadLetters, "retention.ms");
    assert_eq!(retention.await.unwrap().as_deref(), Some("7776000000"));
    let other = KafkaConfig {
        prefix: format!("{}x.", config.prefix),
        ..config
    };
    let missing = Admin::new(&other).unwrap().diff().await.unwrap();
    assert_eq!(missing.len(), 4);
    assert!(
        missing
            .iter()
            .all(|d| matches!(d, TopicDifference::Missing { .. }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn single_posts_keep_their_order_and_give_back_what_they_hold_with_either_library() {
    for client in [PostClient::Krafka, PostClient::Librdkafka] {
        let log = Log::new().await;
        let config = KafkaConfig {
            single_post_client: client,
            ..log.config()
        };
        let topic = config.topic(Topic::Events);
        let record = AppendRecord {
            topic: &topic,
            partition: partition(5),
            key: b"k",
            value: Some(b"v"),
            timestamp: None,
            headers: &[],
        };
        let producer = PostProducer::new(&config, &SETTINGS).unwrap();
        let held = Arc::new(());
        for offset in 0..20 {
            let appended = producer.append(record, Arc::clone(&held)).await;
            assert_eq!(appended, Ok(offset));
            assert_eq!(Arc::strong_count(&held), 1, "{client:?}");
        }
        // A caller who goes at once.
        let mut appending = Box::pin(producer.append(record, Arc::clone(&held)));
        let polled = poll_fn(|context| Poll::Ready(appending.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "{polled:?}");
        drop(appending);
        let deadline = Instant::now() + Duration::from_secs(30);
        while Arc::strong_count(&held) > 1 {
            assert!(
                Instant::now() < deadline,
                "{client:?} keeps what a record held"
            );
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(producer.append(record, held).await, Ok(21), "{client:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_appended_is_read_back_whole() {
    let log = Log::new().await;
    let config = log.config();
    for (offset, text) in ["one", "two", "three"].into_iter().enumerate() {
        let outcome = log.append(partition(5), text, 1000 + offset as i64).await;
        assert_eq!(outcome, Ok(offset as i64));
    }
    let reader = Arc::new(LogReader::new(&config).unwrap());
    let ends = reader.ends(Topic::Events).await.unwrap();
    assert_eq!(ends.len(), 64);
    assert_eq!(
        ends.iter()
            .filter(|(_, end)| **end > 0)
            .collect::<BTreeMap<_, _>>()
            .len(),
        1
    );
    assert_eq!(ends[partition(5)], 3);
    blocking(move || {
        let mut texts = Vec::new();
        reader
            .scan(
                Topic::Events,
                &[(partition(5), 1..3), (partition(6), 0..0)],
                |record| {
                    assert_eq!(record.header("h"), Some("v"));
                    assert_eq!(record.timestamp, TimestampMs(1000 + record.offset));
                    texts.push(String::from_utf8(record.value.unwrap()).unwrap());
                    ControlFlow::Continue(())
                },
            )
            .unwrap();
        assert_eq!(texts, ["two", "three"]);
        let at = |ts| {
            reader
                .offsets_at(Topic::Events, &[partition(5)], TimestampMs(ts))
                .unwrap()
        };
        assert_eq!(at(1001)[partition(5)], 1);
        assert_eq!(at(9999)[partition(5)], 3);
        assert_eq!(
            reader
                .record(Topic::Events, partition(5), 0)
                .unwrap()
                .unwrap()
                .bytes(),
            b"one"
        );
        assert_eq!(reader.record(Topic::Events, partition(5), 3).unwrap(), None);
        // One leader wrote all of it.
        let record = reader
            .record(Topic::Events, partition(5), 2)
            .unwrap()
            .unwrap();
        assert!(record.leader_epoch >= 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_of_a_log_that_is_as_long() {
    let log = Log::new().await;
    let ends = LogEnds::new(Arc::new(LogReader::new(&log.config()).unwrap()));
    let (of, other) = (partition(9), partition(10));
    let token = |next| SyncToken::new(0, &[(of, NextOffset::new(next))].into());
    let nothing = SyncToken::new(0, &PartitionMap::new());
    assert!(ends.reach(&nothing).await.unwrap());
    for next in 1..=3 {
        assert!(!ends.reach(&token(next)).await.unwrap(), "{next}");
        log.append_all(of, &["one"]).await;
        assert!(ends.reach(&token(next)).await.unwrap(), "{next}");
    }
    // What is fixed for the partition that a page ends in counts, too.
    for (partition, applied, reached) in [(of, 3, true), (of, 4, false), (other, 1, false)] {
        let page = SyncPage {
            partition,
            in_groups: false,
            after: 0,
            applied: NextOffset::new(applied),
            full: false,
        };
        let token = token(1).with_page(Some(page));
        assert_eq!(ends.reach(&token).await.unwrap(), reached, "{page:?}");
    }
    let token = token(3);
    let ask = || ends.reach(&token);
    let (a, b, c) = tokio::join!(ask(), ask(), ask());
    assert!(a.unwrap() && b.unwrap() && c.unwrap());
}

/// Each record is more than a broker is asked for where few are wanted.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_scan_finds_large_records() {
    let log = Log::new().await;
    let config = log.config();
    let ranges = [3, 4, 5].map(|n| (partition(n), 2..4));
    // Digits that are not compressed to next to nothing.
    let text: String = (0..20_000_u64)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string())
        .collect();
    for (to, _) in &ranges {
        for offset in 0..5 {
            let outcome = log.append(*to, &text, 1000 + offset).await;
            assert_eq!(outcome, Ok(offset));
        }
    }
    let found = blocking(move || {
        let reader = LogReader::new(&config).unwrap();
        let mut found = BTreeMap::<_, Vec<_>>::new();
        let take = |record: Record| {
            assert_eq!(record.value.as_deref(), Some(text.as_bytes()));
            found
                .entry(record.partition)
                .or_default()
                .push(record.offset);
            ControlFlow::Continue(())
        };
        reader.scan(Topic::Events, &ranges, take).unwrap();
        found
    });
    let expected = [3, 4, 5].map(|n| (partition(n), vec![2, 3]));
    assert_eq!(found.await, BTreeMap::from(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetcher_can_be_restarted_anywhere_and_reports_a_position_out_of_range() {
    let log = Log::new().await;
    let config = log.config();
    log.append_all(partition(1), &["a", "b", "c"]).await;
    blocking(move || {
        let mut fetcher = Fetcher::new(&config, Topic::Events).unwrap();
        for start in [0, 2, 1] {
            fetcher.start(partition(1), NextOffset::new(start));
            let mut expected = start;
            poll_until(&mut fetcher, |fetched| match fetched.unwrap() {
                Fetched::Record(record) => {
                    assert_eq!(record.offset, expected);
                    expected += 1;
                    false
                }
                Fetched::EndOfPartition(drained) => {
                    assert_eq!(drained, partition(1));
                    expected == 3
                }
                Fetched::BackInRange(partition) => panic!("{partition} was never out of range"),
            });
        }
        fetcher.start(partition(1), NextOffset::new(77));
        poll_until(&mut fetcher, |fetched| match fetched {
            Err(FetchError::OutOfRange {
                partition: at,
                position,
                start: 0,
                end: 3,
                ..
            }) => {
                assert_eq!((at, position.get()), (partition(1), 77));
                true
            }
            other => panic!("{other:?}"),
        });
    })
    .await;
}

/// Records that come one by one for a while, then many at once, then one by one again: a fetcher asks by long polls and at intervals in turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetcher_reads_each_record_once_however_it_asks() {
    const ROUNDS: i64 = 2;
    const BURST: i64 = 300;
    // Longer than a window of `Pace` and the warming up of long polls.
    const ONE_BY_ONE: i64 = 17;
    const APART: Duration = Duration::from_millis(100);
    let log = Log::new().await;
    let config = log.config();
    let (read, paused) = (partition(1), partition(2));
    let (offsets, mut positions) = tokio::sync::mpsc::unbounded_channel();
    let mut fetcher = blocking(move || {
        let mut fetcher = Fetcher::new(&config, Topic::Events).unwrap();
        for partition in [read, paused] {
            fetcher.start(partition, NextOffset::new(0));
        }
        poll_until(
            &mut fetcher,
            |fetched| matches!(fetched, Ok(Fetched::EndOfPartition(at)) if at == paused),
        );
        fetcher.set_paused(paused, true);
        fetcher
    })
    .await;
    let reading = blocking(move || {
        let mut of_paused = 0;
        poll_until(&mut fetcher, |fetched| {
            if let Fetched::Record(record) = fetched.unwrap() {
                assert_eq!(record.partition, read, "the other is paused");
                offsets.send(record.offset).unwrap();
                return record.offset + 1 == ROUNDS * (1 + BURST + 2 * ONE_BY_ONE);
            }
            false
        });
        fetcher.set_paused(paused, false);
        poll_until(&mut fetcher, |fetched| {
            if let Fetched::Record(record) = fetched.unwrap() {
                assert_eq!((record.partition, record.offset), (paused, of_paused));
                of_paused += 1;
            }
            of_paused == ROUNDS
        });
    });
    let reading = tokio::spawn(reading);
    let mut expected = 0..;
    for _ in 0..ROUNDS {
        log.append_all(paused, &["held back"]).await;
        for burst in [1, BURST] {
            for _ in 0..burst {
                log.append_all(read, &["one"]).await;
            }
            for _ in 0..ONE_BY_ONE {
                log.append_all(read, &["one"]).await;
                sleep(APART).await;
            }
            for _ in 0..burst + ONE_BY_ONE {
                assert_eq!(positions.recv().await, expected.next());
            }
        }
    }
    reading.await.unwrap();
}

/// What the next records of `partition` are, until it is drained at `end`.
fn read_to(fetcher: &mut Fetcher, of: Partition, end: i64) -> Vec<i64> {
    let mut offsets = Vec::new();
    poll_until(fetcher, |fetched| match fetched {
        Ok(Fetched::Record(record)) => {
            offsets.push(record.offset);
            false
        }
        Ok(Fetched::EndOfPartition(drained)) => {
            drained == of && offsets.last().is_some_and(|last| last + 1 == end)
        }
        Ok(Fetched::BackInRange(_)) | Err(_) => false,
    });
    offsets
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_comes_back_into_range_is_read_on_from() {
    let log = Log::new().await;
    let config = log.config();
    log.append_all(partition(1), &["a"]).await;
    let mut fetcher = {
        let config = config.clone();
        blocking(move || {
            let mut fetcher = Fetcher::new(&config, Topic::Events).unwrap();
            fetcher.start(partition(1), NextOffset::new(2));
            poll_until(&mut fetcher, |fetched| {
                matches!(fetched, Err(FetchError::OutOfRange { .. }))
            });
            fetcher
        })
        .await
    };
    log.append_all(partition(1), &["b", "c", "d"]).await;
    blocking(move || {
        let mut reported = false;
        let mut offsets = Vec::new();
        poll_until(&mut fetcher, |fetched| {
            match fetched {
                Ok(Fetched::Record(record)) => {
                    assert!(reported, "the log may have been truncated");
                    offsets.push(record.offset);
                }
                Ok(Fetched::BackInRange(resumed)) => reported |= resumed == partition(1),
                Ok(Fetched::EndOfPartition(_)) | Err(_) => {}
            }
            offsets.len() == 2
        });
        assert_eq!((reported, offsets), (true, vec![2, 3]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_partition_is_read_after_a_restart() {
    let log = Log::new().await;
    let config = log.config();
    log.append_all(partition(1), &["a", "b"]).await;
    blocking(move || {
        let mut fetcher = Fetcher::new(&config, Topic::Events).unwrap();
        fetcher.start(partition(1), NextOffset::START);
        assert_eq!(read_to(&mut fetcher, partition(1), 2), [0, 1]);
        for is_polled in [true, false] {
            fetcher.set_paused(partition(1), true);
            if is_polled {
                fetcher
                    .poll(Duration::ZERO, |_| panic!("it is paused"))
                    .unwrap();
            }
            fetcher.stop(partition(1));
            fetcher.start(partition(1), NextOffset::START);
            assert_eq!(read_to(&mut fetcher, partition(1), 2), [0, 1]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_reports_removed_offsets_and_skips_them_only_on_request() {
    let log = Log::new().await;
    let config = log.config();
    log.append_all(partition(5), &["a", "b", "c", "d"]).await;
    let admin = Admin::new(&config).unwrap();
    admin
        .delete_before(Topic::Events, partition(5), 2)
        .await
        .unwrap();
    blocking(move || {
        let reader = LogReader::new(&config).unwrap();
        let ranges = [(partition(5), 0..4)];
        let fault = reader
            .scan(Topic::Events, &ranges, |record| panic!("{record:?}"))
            .unwrap_err()
            .to_string();
        assert!(
            fault.contains("offsets 0 to 2 of partition 5 were removed"),
            "{fault}"
        );
        let mut seen = Vec::new();
        reader
            .scan_remaining(Topic::Events, &ranges, |scanned| {
                seen.push(match scanned {
                    Scanned::Record(record) => record.offset..record.offset + 1,
                    Scanned::Removed {
                        partition: of,
                        offsets,
                    } => {
                        assert_eq!(of, partition(5));
                        offsets
                    }
                });
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen, [0..2, 2..3, 3..4]);
        assert_eq!(reader.record(Topic::Events, partition(5), 1).unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_shares_the_partitions_and_a_revoke_waits_for_its_guard() {
    let log = Log::new().await;
    let config = log.config();
    let (_first, mut events) = GroupMember::join(&config, "g", Topic::Events).unwrap();
    let Some(GroupEvent::Assigned(all)) = events.recv().await else {
        panic!("an assignment")
    };
    assert_eq!(all.len(), 64);
    let (_second, mut others) = GroupMember::join(&config, "g", Topic::Events).unwrap();
    let Some(GroupEvent::Revoked { partitions, guard }) = events.recv().await else {
        panic!("a revoke")
    };
    assert_eq!(partitions.len(), 32);
    let mut taken = Vec::new();
    while let Ok(event) = others.try_recv() {
        let GroupEvent::Assigned(some) = event else {
            panic!("{event:?}")
        };
        taken.extend(some);
    }
    assert_eq!(taken, [], "nothing is handed on before it is released");
    drop(guard);
    while taken.is_empty() {
        let Some(GroupEvent::Assigned(some)) = others.recv().await else {
            panic!("an assignment")
        };
        taken.extend(some);
    }
    taken.sort();
    let mut given = partitions;
    given.sort();
    assert_eq!(taken, given);
}
