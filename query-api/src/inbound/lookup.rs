use access::Caller;
use event_log::LogReader;
use message_store::MessageStore;
use problem::Problem;
use schemas::{
    InboundPosition, UserId,
    command::{Command, SendMessage},
    dead_letter::Reason,
    topics::Topic,
};

use super::{
    dead_letter,
    event::{self, EventLookup},
    outcome::Outcome,
    reader_pool::{LookupError, ScanBudget},
};
use crate::{deadline::Deadline, error::QueryError, state::QueryApi};

/// The result of the lookup in the logs.
enum LogLookup {
    Outcome(Outcome),
    /// `chat.inbound` has no such record, or none that concerns the caller.
    NotFound,
    /// A send that was neither sequenced nor refused.
    Repeat {
        send: SendMessage,
        /// The offset of `chat.events` below which its original is.
        below: i64,
    },
}

/// Looks up the outcome of the inbound record at `position`, for a caller whom it concerns.
///
/// # Errors
/// 404 where there is no such record yet, and in the same words where it does not concern `caller`; [`QueryError`] where Kafka or MySQL
/// fail.
pub(crate) async fn lookup(
    api: &QueryApi,
    caller: &Caller,
    position: InboundPosition,
    deadline: Deadline,
) -> Result<Outcome, QueryError> {
    let (topic, epoch) = (api.inbound_topic.clone(), api.epoch.get());
    let caller = caller.clone();
    let look_up = move |reader: &LogReader, budget: &mut ScanBudget| {
        look_up_in_log(reader, &caller, &topic, position, epoch, budget)
    };
    match api.reader_pool.with_reader(deadline, look_up).await? {
        LogLookup::Outcome(outcome) => Ok(outcome),
        LogLookup::NotFound => {
            let what = format!("a record at {position} of chat.inbound");
            Err(Problem::not_found(what).into())
        }
        LogLookup::Repeat { send, below } => {
            deadline.bound(repeat(&api.store, send, below)).await?
        }
    }
}

fn look_up_in_log(
    reader: &LogReader,
    caller: &Caller,
    topic: &str,
    position: InboundPosition,
    epoch: u32,
    budget: &mut ScanBudget,
) -> Result<LogLookup, LookupError> {
    let InboundPosition { partition, offset } = position;
    let bounds = reader.bounds(Topic::Inbound, &[partition])?;
    if bounds
        .get(partition)
        .is_none_or(|bounds| offset >= bounds.end)
    {
        return Ok(LogLookup::NotFound);
    }
    // Retention may delete the record after the bounds were read, so only this read decides.
    let Some(record) = reader.record(Topic::Inbound, partition, offset)? else {
        return Ok(LogLookup::Outcome(Outcome::Expired));
    };
    if !caller.is_one_of(&concerned(record.bytes())) {
        return Ok(LogLookup::NotFound);
    }
    let below = match event::find(reader, position, record.timestamp, epoch, budget)? {
        EventLookup::NotSequenced => return Ok(LogLookup::Outcome(Outcome::Pending)),
        EventLookup::Event(outcome) => return Ok(LogLookup::Outcome(outcome)),
        EventLookup::NoEvent { below } => below,
    };
    // A dead letter is acknowledged before any later event is produced (PROTOCOL S7), so it exists by now.
    let refused = dead_letter::find(reader, topic, position, record.timestamp, budget)?;
    Ok(match refused {
        Some(refused) => LogLookup::Outcome(refused),
        None => without_event(record.bytes(), below),
    })
}

/// The users whom a record concerns: a send its two sides, a read-ack its reader, other records nobody.
fn concerned(value: &[u8]) -> Vec<UserId> {
    match Command::parse(value) {
        Ok(Command::Send(send)) => vec![send.srcid, send.destid],
        Ok(Command::ReadAck(ack)) => vec![ack.uid],
        Ok(Command::Control(_)) | Err(_) => vec![],
    }
}

/// The outcome of a record without an event and without a dead letter that is still retained.
fn without_event(value: &[u8], below: i64) -> LogLookup {
    match Command::parse(value) {
        Ok(Command::Send(send)) => LogLookup::Repeat { send, below },
        Ok(Command::ReadAck(ack)) => {
            LogLookup::Outcome(Outcome::ReadPositionKept { reader: ack.into() })
        }
        Ok(Command::Control(_)) => LogLookup::Outcome(Outcome::Refused {
            reason: Reason::InvalidControl.to_string(),
            detail: "its dead letter is no longer retained".to_owned(),
        }),
        Err(malformed) => LogLookup::Outcome(Outcome::Refused {
            reason: Reason::Malformed.to_string(),
            detail: malformed.to_string(),
        }),
    }
}

/// Finds the message that `send` repeats: the newest below `below` with the same id and text. An id may be used again after the dedup
/// window.
async fn repeat(
    store: &MessageStore,
    send: SendMessage,
    below: i64,
) -> Result<Outcome, QueryError> {
    let conversation = send.conversation();
    let shard = store.layout().shard_of(conversation.partition());
    let rows = store
        .snapshot(shard)
        .await?
        .find_by_client_msg_id(conversation, send.srcid, &send.client_msg_id)
        .await?;
    let original = rows
        .iter()
        .rfind(|row| row.id < below && row.message.msg == send.msg);
    let of_mid = original.map(|row| row.message.mid.get());
    let client_msg_id = send.client_msg_id.into_string();
    Ok(Outcome::repeat(conversation, client_msg_id, of_mid))
}
