//! Posts originals once more, through the door that all producers use.

use std::time::Duration;

use event_log::{EventLogError, LogReader};
use schemas::{InboundPosition, TimestampMs, topics::Topic};
use serde_json::{Value, json};
use service_runtime::with_causes;
use tokio::time::Instant;

use super::{
    history::History,
    letters::DeadLetter,
    prospect::{ABOVE_THE_LAST, ID_TAKEN, Prospect},
};
use crate::{client::Client, posting};

/// How many originals are posted in one request.
const BATCH: usize = 500;
/// How long the sequencer may take to say what became of the records.
const PATIENCE: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What was, or would be, done for a letter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fate {
    /// Nothing: it is of no use.
    Left(&'static str),
    /// Nothing: it is sequenced, at this offset of its conversation's partition of `chat.events`.
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
            Self::Posted(_, outcome) => {
                outcome["state"] == "refused" || outcome["state"] == "unknown"
            }
            _ => false,
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Left(why) => format!("left: {why}"),
            Self::AlreadySequenced(at) => format!("left: already sequenced, chat.events {at}"),
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

const BEHEADED: &str = "its message may be sequenced already: the beginning of its partition of chat.events is gone, where that \
                        would be said";

/// What a redrive would do, letter by letter. The log says which messages are sequenced: beyond the dedup window nothing else would keep
/// one from being sequenced twice, so that none is posted that the log cannot speak of. It says as well how far a conversation had
/// come when a read position came.
pub(super) fn plan(
    reader: &LogReader,
    inbound: &str,
    letters: &[DeadLetter],
) -> Result<Vec<Fate>, EventLogError> {
    let prospects: Vec<Prospect> = letters
        .iter()
        .map(|letter| Prospect::of(letter, inbound, || came(reader, letter)))
        .collect::<Result<_, _>>()?;
    let history = History::read(reader, &prospects)?;
    let fate = |prospect| match prospect {
        Prospect::Hopeless(why) => Fate::Left(why),
        Prospect::ReadAck { moment, mid, .. } if mid > history.last_mid(moment) => {
            Fate::Left(ABOVE_THE_LAST)
        }
        Prospect::ReadAck { line, .. } => Fate::WouldPost(line),
        Prospect::Message { key, msg, line } => match history.sequenced(&key) {
            Some(sequenced) if sequenced.msg != msg => Fate::Left(ID_TAKEN),
            Some(sequenced) => Fate::AlreadySequenced(sequenced.at),
            None if history.is_beheaded(&key) => Fate::Left(BEHEADED),
            None => Fate::WouldPost(line),
        },
    };
    Ok(prospects.into_iter().map(fate).collect())
}

/// When a letter's original came to `chat.inbound`, if that still has it. The letter itself may be much younger: the sequencer may have
/// been away.
fn came(reader: &LogReader, letter: &DeadLetter) -> Result<Option<TimestampMs>, EventLogError> {
    let original = reader.record(Topic::Inbound, letter.told.partition, letter.told.offset)?;
    // Where the topic was made anew, something else lies there, or the same again.
    let original = original.filter(|original| original.value == letter.record.value);
    Ok(original.map(|original| original.timestamp.min(letter.record.timestamp)))
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
    let posted = posting::post(client, &lines, BATCH).await?;
    for one in posted.rejected {
        fates[of_line[one.line - 1]] = Fate::Rejected(one.problem);
    }
    let deadline = Instant::now() + PATIENCE;
    for one in posted.accepted {
        let outcome = outcome(client, one.position, deadline).await;
        fates[of_line[one.line - 1]] = Fate::Posted(one.position, outcome);
    }
    Ok(fates)
}

/// What became of a record of `chat.inbound`; pending if the sequencer takes too long, and unknown if nobody says: it was posted all
/// the same.
async fn outcome(client: &Client, at: InboundPosition, deadline: Instant) -> Value {
    let path = format!("/v1/inbound/{}/{}", at.partition, at.offset);
    loop {
        match client.get(&path, &[]).await {
            Ok(outcome) if outcome["state"] != "pending" || Instant::now() >= deadline => {
                return outcome;
            }
            Err(error) if Instant::now() >= deadline => {
                return json!({ "state": "unknown", "detail": with_causes(&error) });
            }
            Ok(_) | Err(_) => tokio::time::sleep(ASK_EVERY).await,
        }
    }
}
