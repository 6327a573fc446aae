//! Checks of messages and conversations that are the same between users and in groups.

use schemas::{TimestampMs, UserId, dead_letter::Reason};

use super::{
    State,
    decision::{EventStamp, NoEvent, NoOp, refuse},
    dedup::{CommandFields, Known, SendFields},
};

/// The decision about a send whose client_msg_id is known.
pub(super) fn check_send_id(
    state: &State,
    stamp: EventStamp,
    send: SendFields<'_>,
) -> Result<(), NoEvent> {
    // An expired entry stays until the next event evicts it, because a record without an event must not change the state.
    let known = state.dedup.find(send, state.clock, stamp.ts, &state.rules);
    check_known(
        known,
        "client_msg_id is that of an earlier message with other contents",
    )
}

/// The decision about a command that is not a send and whose id is known.
pub(super) fn check_command_id(
    state: &State,
    stamp: EventStamp,
    command: CommandFields<'_>,
) -> Result<(), NoEvent> {
    let dedup = &state.dedup;
    let known = dedup.find_command(command, state.clock, stamp.ts, &state.rules);
    check_known(
        known,
        "command_id is that of an earlier command with other contents",
    )
}

fn check_known(known: Option<Known>, conflict: &str) -> Result<(), NoEvent> {
    match known {
        None => Ok(()),
        Some(Known::Repeat) => Err(NoOp::Repeat.into()),
        Some(Known::Conflict) => Err(refuse(Reason::Conflict, conflict.to_owned())),
    }
}

/// The decision about a text that is too large.
pub(super) fn check_msg_bytes(state: &State, msg: &str) -> Result<(), NoEvent> {
    let (bytes, most) = (msg.len(), state.rules.max_msg_bytes);
    if i64::try_from(bytes).is_ok_and(|bytes| bytes > most) {
        let detail = format!("`msg` has {bytes} bytes: at most {most} are allowed");
        return Err(refuse(Reason::TooLarge, detail));
    }
    Ok(())
}

/// Whether a user who begins another conversation would exceed the limit for a day (PROTOCOL S14).
pub(super) fn begins_too_many(state: &State, now: TimestampMs, user: UserId) -> bool {
    let most = state.rules.new_conversations_per_day;
    most > 0 && i64::from(state.begun(user, now)) >= most
}
