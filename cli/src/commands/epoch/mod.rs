//! Raises the source epoch (PROTOCOL S13, `docs/adr/0005`): appends the source (epoch + 1, offset) to every partition of `chat.events`, where
//! `offset` is the one before the record of `chat.inbound` that is sequenced next. The sequencer continues from there.

mod comparison;
mod logs;
mod plan;
mod resume;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use event_log::{AppendRecord, Appender, KafkaConfig, LogReader, ProducerSettings};
use schemas::{Partition, event::Event, topics::Topic};

use self::plan::Raise;
use crate::{answers, context::CommandContext, failure::Failure};

/// How long an append may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A killed sequencer is a member of its group until its session times out after 10 s.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn raise(
    context: &CommandContext,
    from_the_beginning: bool,
    json: bool,
) -> anyhow::Result<()> {
    let kafka = context.kafka()?;
    let reader = Arc::new(LogReader::new(&kafka)?);
    let raise = reader.blocking(move |reader| {
        wait_until_stopped(reader)?;
        Raise::plan(reader, from_the_beginning)
    });
    let Raise {
        epoch,
        starts,
        from_the_beginning,
    } = raise.await?;
    append_all(&kafka, &starts).await?;
    let partitions = starts.len();
    let raised = serde_json::json!({
        "epoch": epoch,
        "partitions": partitions,
        "from_the_beginning": from_the_beginning,
    });
    let text = format!(
        "the source epoch is {epoch} now, raised in {partitions} partitions; the sequencers may be started"
    );
    answers::show(json, raised, text);
    Ok(())
}

fn wait_until_stopped(reader: &LogReader) -> anyhow::Result<()> {
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    let mut is_announced = false;
    loop {
        let members = reader.group_members(sequencer::GROUP)?;
        if members == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = format!("sequencers still running: {members}; stop every one first");
            return Err(Failure::Usage(why).into());
        }
        if !is_announced {
            let wait = LEAVE_TIMEOUT.as_secs();
            eprintln!(
                "sequencers in their group: {members}; waiting up to {wait} s, since one that was killed is a member \
                 until its session ends"
            );
            is_announced = true;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

async fn append_all(kafka: &KafkaConfig, starts: &[(Partition, Event)]) -> anyhow::Result<()> {
    let appender = Appender::new(kafka, &ProducerSettings::WITHOUT_TIMEOUT)?;
    let topic = kafka.topic(Topic::Events);
    for (partition, event) in starts {
        append(&appender, &topic, *partition, event.clone()).await?;
    }
    Ok(())
}

async fn append(
    appender: &Appender,
    topic: &str,
    partition: Partition,
    event: Event,
) -> anyhow::Result<()> {
    let timestamp = Some(event.ts);
    let value = event.encode();
    let record = AppendRecord {
        topic,
        partition,
        key: b"",
        value: Some(&value),
        timestamp,
        headers: &[],
    };
    let retry = "run the command again: it continues where it stopped";
    tokio::time::timeout(TIMEOUT, appender.append(record))
        .await
        .map_err(|_| {
            Failure::Timeout(format!(
                "{topic} partition {partition} accepts no record; {retry}"
            ))
        })?
        .with_context(|| format!("appending to {topic} partition {partition}; {retry}"))?;
    Ok(())
}
