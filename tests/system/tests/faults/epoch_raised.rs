//! `tidemark epoch raise` goes on with a log that lost its end, or whose events are hard to find, without sequencing anything twice;
//! and says so where it cannot tell.

use anyhow::{Context as _, Result, ensure};
use event_log::{AppendRecord, Appender, LogReader, ProducerSettings};
use rustix::process::Signal;
use schemas::{
    InboundPosition, Partition, TimestampMs,
    command::{Command, Control},
    event::{Event, SourceOffset},
    topics::Topic,
};
use serde_json::json;
use system_tests::{DeviceClass, SERVICES, Servers, Settings, TestEnv, new_users, run, until};

use crate::history::expect_texts;

/// More than the command reads in one batch.
const MANY: usize = 4_100;

/// A raise that read all of it again would take the old ack for one that reads what came since, and double what is older than the window.
#[test]
fn a_raise_after_a_lost_end_doubles_nothing_and_leaves_unread_what_is_unread() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let send = async |id: &str| env.client.send(from, to, id, id).await;
        let first = send("1").await?;
        env.client.history(from, to, &[first]).await?;
        forget_ids_at_once(env, first.partition).await?;
        read_all(env, [from, to]).await?;
        send("2").await?;
        let third = send("3").await?;
        is_unread(env, [from, to], third, 2).await?;
        let files = env.partition_files(Topic::Inbound, first.partition);
        let copy = files.copy()?;
        let fourth = send("4").await?;
        is_unread(env, [from, to], fourth, 3).await?;
        env.client.history(from, to, &[fourth]).await?;

        // The only broker loses power, and with it the newest record, which is sequenced.
        stop_all(env).await?;
        files.put_back(&copy)?;
        env.start_servers().await?;
        let why = env.start_halted("sequencer", 1).await?.concat();
        ensure!(why.contains("tidemark epoch raise"), "{why}");
        env.end("sequencer", Signal::TERM).await?;
        env.tidemark(&["epoch", "raise"]).await?.expect(0)?;

        env.start_services(&SERVICES).await?;
        let fifth = send("5").await?;
        is_unread(env, [from, to], fifth, 4).await?;
        expect_texts(env, [from, to], fifth, &["1", "2", "3", "4", "5"]).await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

#[test]
fn a_raise_finds_the_events_behind_junk_and_repeats() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let send = async |id: &str| env.client.send(from, to, id, id).await;
        let first = send("1").await?;
        env.client.history(from, to, &[first]).await?;
        read_all(env, [from, to]).await?;
        let third = {
            send("2").await?;
            send("3").await?
        };
        is_unread(env, [from, to], third, 2).await?;
        env.end("sequencer", Signal::TERM).await?;

        let partition = first.partition;
        let repeat = first_event_record(env, partition).await?;
        append_many(env, partition, &repeat.0, Some(repeat.1)).await?;
        append_many(env, partition, b"junk", None).await?;
        env.tidemark(&["epoch", "raise"]).await?.expect(0)?;
        let expected = SourceOffset {
            epoch: 1,
            offset: third.offset,
        };
        ensure!(env.events.last_watermarks().await?[partition] == expected);
        env.start_services(&["sequencer"]).await?;
        let fourth = send("4").await?;
        is_unread(env, [from, to], fourth, 3).await
    });
}

#[test]
fn another_log_is_sequenced_from_its_start_only_on_request() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let send = async |id: &str| env.client.send(from, to, id, id).await;
        let first = send("1").await?;
        let second = send("2").await?;
        env.client.history(from, to, &[second]).await?;
        stop_all(env).await?;
        // As if the topic had been created again.
        let files = env.partition_files(Topic::Inbound, first.partition);
        files.empty()?;
        env.start_servers().await?;
        let others: Vec<&str> = SERVICES
            .into_iter()
            .filter(|name| *name != "sequencer")
            .collect();
        env.start_services(&others).await?;
        let third = send("3").await?;
        ensure!(third.offset == 0, "{third:?}");

        let refused = env.tidemark(&["epoch", "raise"]).await?.expect(2)?;
        ensure!(
            refused.stderr.contains("--from-the-beginning")
                && refused.stderr.contains(&third.partition.to_string()),
            "{refused:?}"
        );
        ensure!(env.events.last_watermarks().await?[third.partition].epoch == 0);
        let args = ["epoch", "raise", "--from-the-beginning", "--json"];
        let raised = env.tidemark(&args).await?.expect(0)?.json()?;
        ensure!(
            raised["from_the_beginning"] == json!([third.partition]),
            "{raised}"
        );
        env.start_services(&["sequencer"]).await?;
        expect_texts(env, [from, to], third, &["1", "2", "3"]).await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// Instead of waiting for three days.
async fn forget_ids_at_once(env: &TestEnv, partition: Partition) -> Result<()> {
    let control = Command::Control(Control {
        dedup_window_ms: Some(1),
        ..Control::default()
    });
    let at = env
        .events
        .append_inbound(partition, &control.encode(), &[])
        .await?;
    env.client.outcome(at).await?;
    Ok(())
}

/// "I have read all there is": the mid may be left out.
async fn read_all(env: &TestEnv, [from, to]: [i64; 2]) -> Result<()> {
    let body = json!({ "uid": to.to_string(), "peer": from.to_string(), "device": "pc" });
    let acked = env.client.post("/v1/read-acks", &body).await?;
    ensure!(acked.status == 202, "{acked:?}");
    let is_read = async || {
        let unread = env.client.unread(to, DeviceClass::Pc, &[]).await;
        let unread = unread.map_err(|error| format!("{error:#}"))?;
        match unread.get(&from) {
            None | Some(0) => Ok(()),
            Some(number) => Err(format!("{number} unread")),
        }
    };
    until("everything to be read", is_read).await
}

async fn is_unread(
    env: &TestEnv,
    [from, to]: [i64; 2],
    after: InboundPosition,
    number: i64,
) -> Result<()> {
    let unread = env.client.unread(to, DeviceClass::Pc, &[after]).await?;
    ensure!(unread.get(&from) == Some(&number), "{unread:?}");
    Ok(())
}

/// Everything that reads or writes the log, and the log. Only the broker dies: what else was killed would be a member of its group for a
/// while.
async fn stop_all(env: &TestEnv) -> Result<()> {
    for name in SERVICES {
        env.end(name, Signal::TERM).await?;
    }
    env.end("kafka", Signal::KILL).await
}

/// The value and the time of the first message of a partition of `chat.events`.
async fn first_event_record(env: &TestEnv, partition: Partition) -> Result<(Vec<u8>, TimestampMs)> {
    let reader = LogReader::new(env.events.config())?;
    let record = move || reader.record(Topic::Events, partition, 0);
    let record = tokio::task::spawn_blocking(record).await??;
    let record = record.context("the partition has a first event")?;
    Event::parse(record.bytes(), record.timestamp)?;
    Ok((record.bytes().to_vec(), record.timestamp))
}

/// Appends the same value again and again to a partition of `chat.events`.
async fn append_many(
    env: &TestEnv,
    partition: Partition,
    value: &[u8],
    timestamp: Option<TimestampMs>,
) -> Result<()> {
    let config = env.events.config();
    let appender = Appender::new(config, &ProducerSettings::WITHOUT_TIMEOUT)?;
    let topic = config.topic(Topic::Events);
    let record = || AppendRecord {
        topic: &topic,
        partition,
        key: b"",
        value: Some(value),
        timestamp,
        headers: &[],
    };
    let appended = (0..MANY).map(|_| appender.append(record()));
    futures::future::try_join_all(appended).await?;
    Ok(())
}
