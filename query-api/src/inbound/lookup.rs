use access::Caller;
use api::{Outcome, Reader};
use event_log::LogReader;
use message_store::MessageState;
use problem::Problem;
use schemas::{
    ConversationId, InboundPosition, Mid, Partition, Recipient, TimestampMs, UserId,
    command::{Command, InboundValue, Malformed, SendMessage},
    dead_letter::Reason,
    topics::Topic,
};

use super::{
    dead_letter::DeadLetterSearch,
    event::{self, EventLookup},
    original, outcome,
    reader_pool::{LookupError, ScanBudget},
};
use crate::{call::Call, deadline::Deadline, error::QueryError};

/// The result of the lookup in the logs.
enum LogLookup {
    Outcome(Outcome),
    /// `chat.inbound` has no such record, or the record does not concern the caller.
    NotFound,
    /// A send that caused no event and whose dead letter was not found: most often a repeat.
    WithoutEvent {
        send: SendMessage,
        appended: TimestampMs,
        /// The offset of `chat.events` below which the original of a repeat is.
        below: i64,
    },
}

/// Looks up the outcome of the inbound record at `position`, for a caller that the record concerns.
///
/// # Errors
/// 404 if there is no such record yet, and with the same words if the record does not concern `caller`; [`QueryError`] if Kafka or MySQL fail.
pub(crate) async fn lookup(
    call: &Call,
    caller: &Caller,
    position: InboundPosition,
    deadline: Deadline,
) -> Result<Outcome, QueryError> {
    let (topic, epoch) = (call.inbound_topic.clone(), call.epoch.get());
    let of_caller = caller.clone();
    let look_up = move |reader: &LogReader, budget: &mut ScanBudget| {
        look_up_in_log(reader, &of_caller, &topic, position, epoch, budget)
    };
    let looked_up = call.reader_pool.with_reader(caller, deadline, look_up);
    match call.waiting(looked_up).await? {
        LogLookup::Outcome(outcome) => Ok(outcome),
        LogLookup::NotFound => {
            let what = format!("a record at {position} of chat.inbound");
            Err(Problem::not_found(what).into())
        }
        LogLookup::WithoutEvent {
            send,
            appended,
            below,
        } => {
            let original = deadline
                .bound(stored_original(call, &send, below))
                .await??;
            let refused = match original {
                Some(_) => None,
                None => {
                    let conversation = send.conversation();
                    refused(call, caller, position, (appended, conversation), deadline).await?
                }
            };
            Ok(refused.unwrap_or_else(|| outcome::repeat_of_message(&send, original)))
        }
    }
}

/// The refusal of the record, if it has one after all. Reads all dead letters since the record.
async fn refused(
    call: &Call,
    caller: &Caller,
    position: InboundPosition,
    (appended, conversation): (TimestampMs, ConversationId),
    deadline: Deadline,
) -> Result<Option<Outcome>, QueryError> {
    let topic = call.inbound_topic.clone();
    let scan = move |reader: &LogReader, budget: &mut ScanBudget| {
        let mut search = DeadLetterSearch {
            reader,
            topic: &topic,
            position,
            appended,
            budget,
        };
        scan_all(&mut search, conversation)
    };
    let scanned = call.reader_pool.with_reader(caller, deadline, scan);
    call.waiting(scanned).await
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
    let appended = record.timestamp;
    let below = match event::find(reader, position, appended, epoch, budget)? {
        EventLookup::NotSequenced => return Ok(LogLookup::Outcome(Outcome::Pending)),
        EventLookup::Event(outcome) => return Ok(LogLookup::Outcome(outcome)),
        EventLookup::NoEvent { below } => below,
    };
    let value = InboundValue::parse(record.bytes());
    // A dead letter is acknowledged before any later event is produced (PROTOCOL S7), so it exists by now.
    let mut search = DeadLetterSearch {
        reader,
        topic,
        position,
        appended,
        budget,
    };
    if let Some(refused) = search.bisect()? {
        return Ok(LogLookup::Outcome(refused));
    }
    if let Ok(value) = &value
        && value.command.partition().is_none_or(|p| p == partition)
        && let Some(original) = original::find(reader, partition, value, below, search.budget)?
    {
        return Ok(LogLookup::Outcome(outcome::repeat(original)));
    }
    let command = value.map(|value| value.command);
    if let Ok(Command::ReadAck(ack)) = command
        && let Recipient::User(peer) = ack.to
        && ack.conversation().partition() == partition
    {
        // The sequencer refuses such a command only if its id belongs to another command.
        let reader = Reader {
            uid: ack.uid,
            peer,
            device: ack.device,
        };
        return Ok(LogLookup::Outcome(Outcome::ReadPositionKept { reader }));
    }
    if let Ok(command) = &command
        && let Some(conversation) = changed_conversation(command)
        && conversation.partition() == partition
    {
        let refused = scan_all(&mut search, conversation)?;
        let outcome = refused.unwrap_or_else(|| outcome::without_event(command, conversation));
        return Ok(LogLookup::Outcome(outcome));
    }
    Ok(match command {
        Ok(Command::Send(send)) if send.conversation().partition() == partition => {
            LogLookup::WithoutEvent {
                send,
                appended,
                below,
            }
        }
        other => LogLookup::Outcome(refused_without_letter(other, partition)),
    })
}

/// The refusal of the record, from all dead letters since then. If these are too many, the outcome says only that there is no event.
fn scan_all(
    search: &mut DeadLetterSearch<'_>,
    conversation: ConversationId,
) -> Result<Option<Outcome>, LookupError> {
    match search.scan() {
        Err(LookupError::TooLong(_)) => Ok(Some(outcome::no_event(conversation))),
        found => found,
    }
}

/// The conversation of a change to a message or to a contact, and of every command in a group.
fn changed_conversation(command: &Command) -> Option<ConversationId> {
    let is_change = matches!(
        command,
        Command::ChangeMessage(_) | Command::ChangeContact(_)
    );
    let is_looked_for = |id: &ConversationId| is_change || matches!(id, ConversationId::Group(_));
    command.conversation().filter(is_looked_for)
}

/// The users who may look a record up; none if it is not a command.
fn concerned(value: &[u8]) -> Vec<UserId> {
    Command::parse(value).map_or_else(|_| vec![], |command| command.kind().concerned())
}

/// The outcome of a record that can only have been refused, if its dead letter is not found: for example, it is no longer retained.
fn refused_without_letter(command: Result<Command, Malformed>, partition: Partition) -> Outcome {
    let (reason, detail) = match command {
        Err(malformed) => (Reason::Malformed, malformed.to_string()),
        Ok(command) => {
            let reason = match command.partition() {
                None => Reason::InvalidControl,
                Some(home) if home != partition => Reason::WrongPartition,
                // In its own partition a profile is refused below rule version 3 only.
                Some(_) => Reason::Malformed,
            };
            (reason, "its dead letter is not found".to_owned())
        }
    };
    Outcome::Refused {
        reason: reason.to_string(),
        detail,
    }
}

/// The number of the message that `send` repeats: the newest below `below` with the same id, if it has the same text, or had another one before
/// it was changed. An id may be used again after the dedup window.
async fn stored_original(
    call: &Call,
    send: &SendMessage,
    below: i64,
) -> Result<Option<Mid>, QueryError> {
    let ConversationId::Direct(conversation) = send.conversation() else {
        return Ok(None);
    };
    let shard = call.store.layout().shard_of(conversation.partition());
    let rows = call
        .snapshot(shard)
        .await?
        .find_by_client_msg_id(conversation, send.srcid, &send.client_msg_id)
        .await?;
    let newest = rows.into_iter().rfind(|row| row.id < below);
    let repeated = newest.filter(|row| {
        let is_changed = row.state != MessageState::Shown || row.edited_ts.is_some();
        is_changed || row.msg == send.msg
    });
    Ok(repeated.map(|row| row.mid))
}
