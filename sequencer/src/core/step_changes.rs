//! The decisions about changes to messages and contacts (PROTOCOL C, K).

use schemas::{
    Change, ChangeContact, ChangeMessage, ChangeSeq, ContactChange, DeletedContact,
    DirectConversation, MessageChange, Mid, Side, TimestampMs, dead_letter::Reason, event::Body,
};

use super::{
    State,
    checks::{begins_too_many, check_msg_bytes},
    conversation::Conversation,
    decision::{Decision, EventStamp, NoEvent, NoOp, refuse},
};

pub(super) fn step_message_change(
    state: &State,
    stamp: EventStamp,
    id: DirectConversation,
    asked: ChangeMessage,
) -> Decision {
    let unknown = Conversation::default();
    let conversation = state.conversations.get(&id).unwrap_or(&unknown);
    if asked.mid > conversation.last_mid {
        let last = conversation.last_mid;
        let detail = format!("mid is {}: the conversation has {last} messages", asked.mid);
        return refuse(Reason::UnknownMessage, detail).into();
    }
    let side = id.side_of(asked.by);
    let n = match asked.change {
        Change::Hide => None,
        Change::Clear if asked.mid <= conversation.contact(side).cleared => {
            return Decision::NoOp(NoOp::AlreadyCleared);
        }
        Change::Clear => conversation.count_at(id.side_of(id.peer_of(asked.by)), asked.mid),
        Change::React(_) => {
            if let Err(no_event) = may_react(conversation, side, asked.mid) {
                return no_event.into();
            }
            None
        }
        Change::Recall | Change::Delete | Change::Edit(_) => {
            if let Err(no_event) = may_change(state, stamp.ts, conversation, side, &asked) {
                return no_event.into();
            }
            None
        }
    };
    let change = asked.change;
    stamp.emit(Body::MessageChange(MessageChange {
        by: asked.by,
        to: asked.to,
        mid: asked.mid,
        change_seq: number(state, &change, conversation.change_seq()),
        change,
        ordinal: n,
    }))
}

/// The number of a change that follows `last`; 0 from rule version 4 on if the change concerns its author alone (PROTOCOL C1).
pub(super) fn number(state: &State, change: &Change, last: ChangeSeq) -> ChangeSeq {
    match change.is_for_one() && state.rules.rule_version >= 4 {
        true => ChangeSeq::ZERO,
        false => last.next(),
    }
}

/// Whether a user may react to an existing message; if not, why (PROTOCOL C6). A recall is remembered for as long as the author is.
fn may_react(conversation: &Conversation, side: Side, mid: Mid) -> Result<(), NoEvent> {
    if conversation.author(mid).is_some() && conversation.is_recalled(mid) {
        return Err(recalled());
    }
    check_not_blocked(conversation, side)
}

/// Whether a user may recall, delete or edit an existing message; if not, why.
fn may_change(
    state: &State,
    now: TimestampMs,
    conversation: &Conversation,
    side: Side,
    asked: &ChangeMessage,
) -> Result<(), NoEvent> {
    let refused = |reason, detail: &str| Err(refuse(reason, detail.to_owned()));
    if asked.change == Change::Delete && !state.rules.delete_for_all {
        return refused(
            Reason::NotAllowed,
            "the rules do not allow to delete a message for both sides",
        );
    }
    let Some(author) = conversation.author(asked.mid) else {
        return refused(
            Reason::TooOld,
            "mid is too far behind the newest message: who wrote it is remembered for the newest 4,096",
        );
    };
    if author != side {
        return refused(Reason::NotTheAuthor, "`by` did not write the message");
    }
    let is_recalled = conversation.is_recalled(asked.mid);
    match &asked.change {
        Change::Edit(_) if is_recalled => Err(recalled()),
        Change::Edit(msg) => may_edit(state, conversation, side, msg),
        _ if is_recalled => Err(NoOp::AlreadyRecalled.into()),
        _ => {
            let steps = conversation.last_mid.get() - asked.mid.get();
            check_recall_window(state, now, conversation.last_place, steps)
        }
    }
}

fn may_edit(
    state: &State,
    conversation: &Conversation,
    side: Side,
    msg: &str,
) -> Result<(), NoEvent> {
    check_msg_bytes(state, msg)?;
    check_not_blocked(conversation, side)
}

/// The refusal of a change to a recalled message.
pub(super) fn recalled() -> NoEvent {
    refuse(Reason::Recalled, "the message was recalled".to_owned())
}

fn check_not_blocked(conversation: &Conversation, side: Side) -> Result<(), NoEvent> {
    if conversation.is_blocked(side) {
        let detail = "peer has blocked by";
        return Err(refuse(Reason::Blocked, detail.to_owned()));
    }
    Ok(())
}

/// Whether a message can still be recalled; if not, why. The message is `steps` messages of its conversation before the one at the place `last`.
pub(super) fn check_recall_window(
    state: &State,
    now: TimestampMs,
    last: u64,
    steps: i64,
) -> Result<(), NoEvent> {
    let window = state.rules.recall_window_ms;
    match window {
        0 => {
            let detail = "the rules do not allow to recall messages";
            return Err(refuse(Reason::NotAllowed, detail.to_owned()));
        }
        ..0 => return Ok(()),
        1.. => {}
    }
    let written = state.recent.time_of(last, steps, state.clock);
    if written.is_some_and(|written| now.0.saturating_sub(written.0) <= window) {
        return Ok(());
    }
    let detail = format!("a message can be recalled for {window} ms");
    Err(refuse(Reason::TooLate, detail))
}

pub(super) fn step_contact_change(
    state: &State,
    stamp: EventStamp,
    asked: &ChangeContact,
) -> Decision {
    let id = asked.conversation();
    let known = state.conversations.get(&id);
    let unknown = Conversation::default();
    let conversation = known.unwrap_or(&unknown);
    let contact = conversation.contact(id.side_of(asked.uid));
    let flags = asked.applied_to(contact.flags);
    let deletes = asked.deleted && conversation.last_mid > contact.deleted;
    if flags == contact.flags && !deletes {
        return Decision::NoOp(NoOp::ContactUnchanged);
    }
    if known.is_none() && asked.by_user && begins_too_many(state, stamp.ts, asked.uid) {
        let detail = "uid has begun as many conversations in this partition today as a user may";
        return refuse(Reason::TooManyConversations, detail.to_owned()).into();
    }
    stamp.emit(Body::ContactChange(ContactChange {
        uid: asked.uid,
        peer: asked.peer,
        flags,
        deleted: asked.deleted.then(|| DeletedContact {
            mid: conversation.last_mid,
            ordinal: conversation.count(id.side_of(asked.peer)),
        }),
    }))
}
