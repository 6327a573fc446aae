//! Posts originals once more, through the door that all producers use.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    time::Duration,
};

use event_log::{KafkaFault, LogReader, Scanned};
use schemas::{InboundPosition, Partition, TimestampMs, event::Body, topics::Topic};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    letters::DeadLetter,
    prospect::{Prospect, SendKey},
};
use crate::{client::Client, posting};

/// How much earlier than its dead letter, by the brokers' clocks, what was sent once more may seem to be.
const CLOCK_SKEW_MS: i64 = 24 * 3_600_000;
/// How many originals are posted in one request.
const BATCH: usize = 500;
/// How long the sequencer may take to say what became of a record.
const PATIENCE: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What was, or would be, done for a letter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fate {
    /// Nothing: it is of no use.
    Left(&'static str),
    /// Nothing: it was sequenced since, at this offset of its conversation's partition of `chat.events`.
    AlreadySequenced(InboundPosition),
    /// A dry run would post this line.
    WouldPost(Value),
    /// It is on `chat.inbound` again, and this became of it.
    Posted(InboundPosition, Value),
    /// Ingest did not take it.
    Rejected(Value),
}

impl Fate {
    /// Whether somebody has to look at it.
    pub(super) fn has_failed(&self) -> bool {
        match self {
            Self::Rejected(_) => true,
            Self::Posted(_, outcome) => outcome["state"] == "refused",
            _ => false,
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Left(why) => format!("left: {why}"),
            Self::AlreadySequenced(at) => format!("left: sequenced since, chat.events {at}"),
            Self::WouldPost(_) => "would be posted".to_owned(),
            Self::Rejected(problem) => format!("rejected by ingest: {}", problem["detail"]),
            Self::Posted(at, outcome) => {
                let word = |name: &str| outcome[name].as_str().unwrap_or_default().to_owned();
                match outcome["state"].as_str() {
                    Some("refused") => {
                        format!("posted as {at}, refused again: {}", word("detail"))
                    }
                    Some(state) => format!("posted as {at}: {}", state.replace('_', " ")),
                    None => format!("posted as {at}"),
                }
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Self::Left(why) => json!({ "fate": "left", "why": why }),
            Self::AlreadySequenced(at) => {
                json!({ "fate": "already_sequenced", "partition": at.partition, "events_offset": at.offset })
            }
            Self::WouldPost(line) => json!({ "fate": "would_post", "line": line }),
            Self::Rejected(problem) => json!({ "fate": "rejected", "problem": problem }),
            Self::Posted(_, outcome) => json!({ "fate": "posted", "outcome": outcome }),
        }
    }
}

/// What a redrive would do, letter by letter: the log says which messages were sequenced since. Beyond the dedup window
/// nothing else would keep one from being sequenced twice.
pub(super) fn plan(
    reader: &LogReader,
    inbound: &str,
    letters: &[DeadLetter],
) -> Result<Vec<Fate>, KafkaFault> {
    let prospects: Vec<Prospect> = letters
        .iter()
        .map(|letter| Prospect::of(letter, inbound))
        .collect();
    let sequenced = sequenced_since(reader, letters, &prospects)?;
    let fate = |prospect| match prospect {
        Prospect::Hopeless(why) => Fate::Left(why),
        Prospect::ReadAck { line } => Fate::WouldPost(line),
        Prospect::Message { key, line } => match sequenced.get(&key) {
            Some(at) => Fate::AlreadySequenced(*at),
            None => Fate::WouldPost(line),
        },
    };
    Ok(prospects.into_iter().map(fate).collect())
}

/// Which of the messages are on `chat.events` behind their dead letters, and where.
fn sequenced_since(
    reader: &LogReader,
    letters: &[DeadLetter],
    prospects: &[Prospect],
) -> Result<HashMap<SendKey, InboundPosition>, KafkaFault> {
    let mut wanted: HashMap<Partition, (TimestampMs, HashSet<SendKey>)> = HashMap::new();
    for (letter, prospect) in letters.iter().zip(prospects) {
        if let Prospect::Message { key, .. } = prospect {
            let since = TimestampMs(letter.record.timestamp.0.saturating_sub(CLOCK_SKEW_MS));
            let (first, keys) = wanted
                .entry(Partition::of(key.conversation))
                .or_insert_with(|| (since, HashSet::new()));
            *first = since.min(*first);
            keys.insert(key.clone());
        }
    }
    let mut found = HashMap::new();
    for (partition, (since, keys)) in wanted {
        let start = reader.offsets_at(Topic::Events, &[partition], since)?[&partition];
        let end = reader.bounds(Topic::Events, &[partition])?[&partition].end;
        reader.scan_remaining(Topic::Events, &[(partition, start..end)], |scanned| {
            if let Scanned::Record(record) = scanned
                && let Ok(event) = record.event()
                && let Body::Message(message) = event.body
            {
                let key = SendKey {
                    conversation: message.conversation(),
                    srcid: message.srcid,
                    client_msg_id: message.client_msg_id,
                };
                if keys.contains(&key) {
                    let offset = record.offset;
                    found.insert(key, InboundPosition { partition, offset });
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}

/// Posts what the plan says, and waits for what becomes of it.
pub(super) async fn carry_out(client: &Client, plan: Vec<Fate>) -> anyhow::Result<Vec<Fate>> {
    let (mut fates, mut lines, mut of_line) = (plan, Vec::new(), Vec::new());
    for (index, fate) in fates.iter().enumerate() {
        if let Fate::WouldPost(line) = fate {
            lines.push(line.to_string());
            of_line.push(index);
        }
    }
    let posted = posting::post(client, &lines, BATCH, |_| ()).await?;
    for one in posted.rejected {
        fates[of_line[one.line - 1]] = Fate::Rejected(one.problem);
    }
    for one in posted.accepted {
        let outcome = outcome(client, one.position).await?;
        fates[of_line[one.line - 1]] = Fate::Posted(one.position, outcome);
    }
    Ok(fates)
}

/// What became of a record of `chat.inbound`; pending if the sequencer takes too long.
async fn outcome(client: &Client, at: InboundPosition) -> anyhow::Result<Value> {
    let path = format!("/v1/inbound/{}/{}", at.partition, at.offset);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let outcome = client.get(&path, &[]).await?;
        if outcome["state"] != "pending" || Instant::now() >= deadline {
            return Ok(outcome);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
