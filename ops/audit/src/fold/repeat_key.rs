//! How a repeat of a command other than a send is recognised (PROTOCOL S15).

use schemas::{
    AppliedCommand, Change, Mid, Recipient,
    event::{Body, Event},
};

/// How a repeat of a command is recognised, besides its author and conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RepeatKey<'a> {
    Id(&'a str),
    Hides(Mid),
    Clears(Mid),
}

impl<'a> RepeatKey<'a> {
    /// The key of a command, with the hash of its content.
    pub(super) fn of(command: &'a AppliedCommand) -> (Self, u32) {
        (Self::Id(command.id.as_str()), command.content)
    }

    /// The key of a change to what one user sees. Clears between two users are judged by the message up to which they cleared.
    pub(super) fn of_view(to: Recipient, mid: Mid, change: &Change) -> Option<(Self, u32)> {
        match (change, to) {
            (Change::Hide, _) => Some((Self::Hides(mid), 0)),
            (Change::Clear, Recipient::Group(_)) => Some((Self::Clears(mid), 0)),
            _ => None,
        }
    }

    /// The key of the command that an event answers, if a repeat of it is remembered.
    pub(super) fn of_event(event: &'a Event) -> Option<(Self, u32)> {
        match &event.body {
            Body::MessageChange(change) if change.change.is_for_one() => {
                Self::of_view(change.to, change.mid, &change.change)
            }
            _ => event.command.as_deref().map(Self::of),
        }
    }
}
