//! What events and commands say about the record that the caller asks for.

use api::{Outcome, Reader, utc};
use schemas::{
    ConversationId, Mid, Recipient,
    command::{Command, SendMessage},
    event::{Body, Event},
};

use super::original::Original;

/// What an event says about the record that caused it; `None` for progress, which no record causes.
pub(super) fn of_event(events_offset: i64, event: Event) -> Option<Outcome> {
    let ts = utc(event.ts);
    Some(match event.body {
        Body::Message(message) => Outcome::Sequenced {
            conversation: message.conversation().to_string(),
            mid: message.mid,
            events_offset,
            ts,
        },
        Body::ReadPosition(position) => match position.to {
            Recipient::User(peer) => Outcome::ReadPositionMoved {
                reader: Reader {
                    uid: position.uid,
                    peer,
                    device: position.device,
                },
                mid: position.mid,
                events_offset,
                ts,
            },
            Recipient::Group(gid) => Outcome::GroupReadPositionMoved {
                gid,
                uid: position.uid,
                device: position.device,
                mid: position.mid,
                events_offset,
                ts,
            },
        },
        Body::Control(_) => Outcome::RulesChanged { events_offset, ts },
        Body::MessageChange(change) => Outcome::MessageChanged {
            conversation: change.conversation().to_string(),
            mid: change.mid,
            kind: change.change.kind().into(),
            change_seq: change.change_seq,
            events_offset,
            ts,
        },
        Body::ContactChange(change) => Outcome::ContactChanged {
            uid: change.uid,
            peer: change.peer,
            flags: change.flags.into(),
            deleted: change.deleted.is_some(),
            events_offset,
            ts,
        },
        Body::GroupChange(change) => Outcome::GroupChanged {
            gid: change.gid,
            kind: change.kind.as_str().into(),
            member_count: change.member_count,
            events_offset,
            ts,
        },
        Body::Profile(profile) => Outcome::ProfileSet {
            uid: profile.uid,
            events_offset,
            ts,
        },
        Body::Progress => return None,
    })
}

/// The outcome of a change, or of a command in a group, that was not refused and has no event.
pub(super) fn without_event(command: &Command, conversation: ConversationId) -> Outcome {
    match command {
        Command::Send(send) => repeat_of_message(send, None),
        _ => Outcome::WithoutEffect {
            conversation: conversation.to_string(),
        },
    }
}

pub(super) fn no_event(conversation: ConversationId) -> Outcome {
    Outcome::NoEvent {
        conversation: conversation.to_string(),
    }
}

/// The outcome of a message that was sent before, with the number `original` if that is found.
pub(super) fn repeat_of_message(send: &SendMessage, original: Option<Mid>) -> Outcome {
    Outcome::Repeat {
        conversation: Some(send.conversation().to_string()),
        of_mid: original.map(Mid::get),
        client_msg_id: Some(send.client_msg_id.to_string()),
        command_id: None,
        of_offset: None,
        events_offset: None,
    }
}

/// The same for any command, if the event of the original is found in the log.
pub(super) fn repeat(original: Original) -> Outcome {
    let Original {
        at,
        events_offset,
        event,
    } = original;
    let conversation = event.conversation().map(|id| id.to_string());
    let (of_mid, client_msg_id) = match event.body {
        Body::Message(message) => (
            Some(message.mid.get()),
            Some(message.client_msg_id.into_string()),
        ),
        _ => (None, None),
    };
    Outcome::Repeat {
        conversation,
        of_mid,
        client_msg_id,
        command_id: event.command.map(|command| command.id.into_string()),
        of_offset: Some(at.offset),
        events_offset: Some(events_offset),
    }
}
