//! Posts the originals of dead letters again, through ingest's HTTP API.

use std::time::Duration;

use client::{Client, Problem};
use event_log::{EventLogError, LogReader};
use schemas::{EventPosition, InboundPosition, TimestampMs, topics::Topic};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    candidate::{ABOVE_NEWEST, Candidate, ID_TAKEN},
    dead_letters::DeadLetter,
    event_lookup::EventLookup,
};
use crate::failure;

/// How many originals go into one request.
const BATCH: usize = 500;
/// How long to wait for the outcomes of the posted records.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The outcome of a redrive for one dead letter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RedriveOutcome {
    /// Not posted, for this reason.
    Left(&'static str),
    /// Not posted: it is sequenced at this position of `chat.events`.
    AlreadySequenced(EventPosition),
    /// A dry run would post this line.
    WouldPost(Value),
    /// Posted to this position of `chat.inbound`, with this outcome.
    Posted(InboundPosition, Value),
    /// Rejected by ingest with this problem.
    Rejected(Problem),
}

impl RedriveOutcome {
    /// Whether an operator has to look at the outcome.
    pub(super) fn has_failed(&self) -> bool {
        match self {
            Self::Rejected(_) => true,
            Self::Posted(_, outcome) => {
                outcome["state"] == "refused" || outcome["state"] == "unknown"
            }
            _ => false,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Left(why) => format!("left: {why}"),
            Self::AlreadySequenced(at) => format!("left: already sequenced, chat.events {at}"),
            Self::WouldPost(_) => "would be posted".to_owned(),
            Self::Rejected(problem) => format!("rejected by ingest: {}", problem.detail),
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

const START_DELETED: &str =
    "the message may be sequenced already: the part of chat.events that would show it was deleted";

/// Decides for each dead letter what a redrive does. `chat.events` shows which messages are sequenced already. Outside the dedup window nothing else
/// prevents duplicates, so a message that is not found is not posted if the beginning of its partition was deleted. For read-acks and changes
/// `chat.events` shows which message was the newest at their time.
pub(super) fn plan(
    reader: &LogReader,
    inbound: &str,
    dead_letters: &[DeadLetter],
) -> Result<Vec<RedriveOutcome>, EventLogError> {
    let candidates: Vec<Candidate> = dead_letters
        .iter()
        .map(|dead_letter| Candidate::of(dead_letter, inbound, || appended_at(reader, dead_letter)))
        .collect::<Result<_, _>>()?;
    let lookup = EventLookup::read(reader, &candidates)?;
    let decide = |candidate| match candidate {
        Candidate::NotPostable(why) => RedriveOutcome::Left(why),
        Candidate::AboutMessage { time, mid, .. } if mid > lookup.last_mid(time) => {
            RedriveOutcome::Left(ABOVE_NEWEST)
        }
        Candidate::AboutMessage { line, .. } => RedriveOutcome::WouldPost(line),
        Candidate::Message { key, msg, line } => match lookup.sequenced(&key) {
            Some(sequenced) if sequenced.msg != msg => RedriveOutcome::Left(ID_TAKEN),
            Some(sequenced) => RedriveOutcome::AlreadySequenced(sequenced.at),
            None if lookup.lacks_start(&key) => RedriveOutcome::Left(START_DELETED),
            None => RedriveOutcome::WouldPost(line),
        },
    };
    Ok(candidates.into_iter().map(decide).collect())
}

/// When a dead letter's original was appended to `chat.inbound`, if the original is still retained. The dead letter may be much younger, since the
/// sequencer may have been down.
fn appended_at(
    reader: &LogReader,
    dead_letter: &DeadLetter,
) -> Result<Option<TimestampMs>, EventLogError> {
    let original = reader.record(
        Topic::Inbound,
        dead_letter.headers.partition,
        dead_letter.headers.offset,
    )?;
    // If the topic was created again, another record may be at this offset.
    let original = original.filter(|original| original.value == dead_letter.record.value);
    // Or a later copy of the same record: its original is no younger than the dead letter.
    Ok(original.map(|original| original.timestamp.min(dead_letter.record.timestamp)))
}

/// Posts the planned originals and waits for their outcomes.
pub(super) async fn execute(
    client: &Client,
    plan: Vec<RedriveOutcome>,
) -> anyhow::Result<Vec<RedriveOutcome>> {
    let (mut outcomes, mut lines, mut index_of_line) = (plan, Vec::new(), Vec::new());
    for (index, outcome) in outcomes.iter().enumerate() {
        if let RedriveOutcome::WouldPost(line) = outcome {
            lines.push(line.to_string());
            index_of_line.push(index);
        }
    }
    let posted = client.post_batch(&lines, BATCH, |_| ()).await?;
    for one in posted.rejected {
        outcomes[index_of_line[one.line - 1]] = RedriveOutcome::Rejected(one.problem);
    }
    let deadline = Instant::now() + TIMEOUT;
    for one in posted.accepted {
        let outcome = wait_for_outcome(client, one.position, deadline).await;
        outcomes[index_of_line[one.line - 1]] = RedriveOutcome::Posted(one.position, outcome);
    }
    Ok(outcomes)
}

/// The outcome of a record of `chat.inbound`: pending if the sequencer takes too long, unknown if query-api does not answer.
async fn wait_for_outcome(client: &Client, at: InboundPosition, deadline: Instant) -> Value {
    let path = format!("/v1/inbound/{}/{}", at.partition, at.offset);
    loop {
        match client.get::<Value>(&path).await {
            Ok(outcome) if outcome["state"] != "pending" || Instant::now() >= deadline => {
                return outcome;
            }
            Err(error) if Instant::now() >= deadline => {
                return json!({ "state": "unknown", "detail": failure::text(&error.into()) });
            }
            Ok(_) | Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}
