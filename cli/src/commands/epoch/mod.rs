//! Raises the source epoch (PROTOCOL S13, `docs/adr/0005`): appends (epoch + 1, offset) to every partition of
//! `chat.events`, where offset is the one before the record of `chat.inbound` that is to be sequenced next as that topic
//! is now. The sequencer goes on from there, and readers take what comes as new.

mod evidence;
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
use crate::{failure::Failure, handles::Handles};

/// How long an append may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A sequencer that died is a member of its group until its session ends, 10 s later.
const LEAVE_PATIENCE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn raise(
    handles: &Handles,
    from_the_beginning: bool,
    json: bool,
) -> anyhow::Result<()> {
    let kafka = handles.kafka()?;
    let reader = Arc::new(LogReader::new(&kafka)?);
    let raise = tokio::task::spawn_blocking(move || {
        wait_until_stopped(&reader)?;
        Raise::plan(&reader, from_the_beginning)
    });
    let Raise {
        epoch,
        starts,
        from_the_beginning,
    } = raise.await??;
    append_all(&kafka, &starts).await?;
    let partitions = starts.len();
    if json {
        let raised = serde_json::json!({
            "epoch": epoch,
            "partitions": partitions,
            "from_the_beginning": from_the_beginning,
        });
        println!("{raised}");
    } else {
        println!(
            "the source epoch is {epoch} now, in {partitions} partitions anew; the sequencers may be started"
        );
    }
    Ok(())
}

fn wait_until_stopped(reader: &LogReader) -> anyhow::Result<()> {
    let deadline = Instant::now() + LEAVE_PATIENCE;
    let mut told = false;
    loop {
        let members = reader.group_members(sequencer::GROUP)?;
        if members == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = format!("sequencers still running: {members}; stop every one first");
            return Err(Failure::Usage(why).into());
        }
        if !told {
            let wait = LEAVE_PATIENCE.as_secs();
            eprintln!(
                "sequencers in their group: {members}; waiting up to {wait} s, since one that died is a member \
                 until its session ends"
            );
            told = true;
        }
        thread::sleep(LOOK_EVERY);
    }
}

async fn append_all(kafka: &KafkaConfig, starts: &[(Partition, Event)]) -> anyhow::Result<()> {
    let appender = Appender::new(kafka, &ProducerSettings::PATIENT)?;
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
    let again = "run the command again: it goes on where it stopped";
    tokio::time::timeout(PATIENCE, appender.append(record))
        .await
        .map_err(|_| {
            Failure::Timeout(format!(
                "{topic} partition {partition} takes no record; {again}"
            ))
        })?
        .with_context(|| format!("appending to {topic} partition {partition}; {again}"))?;
    Ok(())
}
