//! The author and conversation of a command, and its partition. Both are derived independently of `schemas`, which the sequencer uses.

use schemas::{CommandScope, Partition, Recipient, command::Command};

/// Who asks, and for which conversation. A control record has neither, a profile no conversation.
pub(super) fn scope_of(command: &Command) -> CommandScope {
    let (author, to) = match command {
        Command::Send(send) => (Some(send.srcid), Some(send.to)),
        Command::ReadAck(ack) => (Some(ack.uid), Some(ack.to)),
        Command::ChangeMessage(asked) => (Some(asked.by), Some(asked.to)),
        Command::ChangeContact(asked) => (Some(asked.uid), Some(Recipient::User(asked.peer))),
        Command::ChangeGroup(asked) => (Some(asked.by), Some(Recipient::Group(asked.gid))),
        Command::SetProfile(asked) => (Some(asked.uid), None),
        Command::Control(_) => (None, None),
    };
    CommandScope { author, to }
}

/// Whether the records of the command's conversation or user are in this partition. Control records are in all.
pub(super) fn belongs_to(partition: Partition, command: &Command) -> bool {
    let scope = scope_of(command);
    let Some(author) = scope.author.map(|uid| i128::from(uid.get())) else {
        return true;
    };
    let sum = match scope.to {
        Some(Recipient::User(peer)) => author + i128::from(peer.get()),
        Some(Recipient::Group(gid)) => i128::from(gid.get()),
        None => author,
    };
    sum % 64 == i128::from(partition.get())
}
