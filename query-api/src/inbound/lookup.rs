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
    fate::{self, Fate},
    outcome::Outcome,
    readers::{Budget, LookupError},
};
use crate::{deadline::Deadline, error::QueryError, service::QueryApi};

/// What the log alone tells.
enum Told {
    Outcome(Outcome),
    /// The log has never had it.
    NotThere,
    /// A send that neither took a number nor was refused.
    Repeat {
        send: SendMessage,
        /// Its original is below this offset of `chat.events`.
        before: i64,
    },
}

/// Says what became of the inbound record at `position`, to whom it concerns.
///
/// # Errors
/// 404 where there is none yet, or none that concerns `caller`, in the same words; [`QueryError`] where the log or MySQL do not tell in time.
pub(crate) async fn lookup(
    api: &QueryApi,
    caller: &Caller,
    position: InboundPosition,
    deadline: Deadline,
) -> Result<Outcome, QueryError> {
    let (topic, epoch) = (api.inbound_topic.clone(), api.epoch.get());
    let caller = caller.clone();
    let look = move |reader: &LogReader, budget: &mut Budget| {
        ask_log(reader, &caller, &topic, position, epoch, budget)
    };
    match api.readers.with_reader(deadline, look).await? {
        Told::Outcome(outcome) => Ok(outcome),
        Told::NotThere => {
            let what = format!("a record at {position} of chat.inbound");
            Err(Problem::not_found(what).into())
        }
        Told::Repeat { send, before } => deadline.bound(repeat(&api.store, send, before)).await?,
    }
}

fn ask_log(
    reader: &LogReader,
    caller: &Caller,
    topic: &str,
    position: InboundPosition,
    epoch: u32,
    budget: &mut Budget,
) -> Result<Told, LookupError> {
    let InboundPosition { partition, offset } = position;
    let bounds = reader.bounds(Topic::Inbound, &[partition])?;
    if bounds
        .get(&partition)
        .is_none_or(|bounds| offset >= bounds.end)
    {
        return Ok(Told::NotThere);
    }
    // Retention may take it between the two questions, so only this one decides.
    let Some(record) = reader.record(Topic::Inbound, partition, offset)? else {
        return Ok(Told::Outcome(Outcome::Expired));
    };
    if !caller.is_one_of(&concerned(record.bytes())) {
        return Ok(Told::NotThere);
    }
    let fate = fate::find(reader, position, record.timestamp, epoch, budget)?;
    let before = match fate {
        Fate::Pending => return Ok(Told::Outcome(Outcome::Pending)),
        Fate::Emitted(outcome) => return Ok(Told::Outcome(outcome)),
        Fate::Silent { before } => before,
    };
    // Dead letters are acknowledged before anything later is produced (PROTOCOL S7), so by now it is there.
    let refused = dead_letter::find(reader, topic, position, record.timestamp, budget)?;
    Ok(match refused {
        Some(refused) => Told::Outcome(refused),
        None => without_trace(record.bytes(), before),
    })
}

/// Whom a record concerns. How far somebody has read is nobody else's business, and what is no command is nobody's.
fn concerned(value: &[u8]) -> Vec<UserId> {
    match Command::parse(value) {
        Ok(Command::Send(send)) => vec![send.srcid, send.destid],
        Ok(Command::ReadAck(ack)) => vec![ack.uid],
        Ok(Command::Control(_)) | Err(_) => vec![],
    }
}

/// What a record meant that left neither an event nor a dead letter that is still retained.
fn without_trace(value: &[u8], before: i64) -> Told {
    match Command::parse(value) {
        Ok(Command::Send(send)) => Told::Repeat { send, before },
        Ok(Command::ReadAck(ack)) => {
            Told::Outcome(Outcome::ReadPositionKept { reader: ack.into() })
        }
        Ok(Command::Control(_)) => Told::Outcome(Outcome::Refused {
            reason: Reason::InvalidControl.to_string(),
            detail: "its dead letter is no longer retained".to_owned(),
        }),
        Err(malformed) => Told::Outcome(Outcome::Refused {
            reason: Reason::Malformed.to_string(),
            detail: malformed.to_string(),
        }),
    }
}

/// Finds the message that `send` repeats: the newest before it with the same id and text. An id may come again after the dedup window.
async fn repeat(
    store: &MessageStore,
    send: SendMessage,
    before: i64,
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
        .rfind(|row| row.id < before && row.message.msg == send.msg);
    let of_mid = original.map(|row| row.message.mid.get());
    let client_msg_id = send.client_msg_id.into_string();
    Ok(Outcome::repeat(conversation, client_msg_id, of_mid))
}
