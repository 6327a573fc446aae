//! The partition to which a command belongs. It is computed independently of `schemas`, which the sequencer uses.

use schemas::{Partition, Recipient, UserId, command::Command};

/// Whether the records of the command's conversation or user are in this partition. Control records are in all.
pub(super) fn belongs_to(partition: Partition, command: &Command) -> bool {
    let number = match command {
        Command::Send(send) => number_with(send.srcid, send.to),
        Command::ReadAck(ack) => number_with(ack.uid, ack.to),
        Command::ChangeMessage(asked) => number_with(asked.by, asked.to),
        Command::ChangeContact(asked) => number_of_users(asked.uid, asked.peer),
        Command::ChangeGroup(asked) => i128::from(asked.gid.get()) % 64,
        Command::SetProfile(asked) => i128::from(asked.uid.get()) % 64,
        Command::Control(_) => return true,
    };
    number == i128::from(partition.get())
}

/// The number of the partition of the conversation of `uid` with `to`.
fn number_with(uid: UserId, to: Recipient) -> i128 {
    match to {
        Recipient::User(peer) => number_of_users(uid, peer),
        Recipient::Group(gid) => i128::from(gid.get()) % 64,
    }
}

/// The number of the partition of two users' conversation.
fn number_of_users(one: UserId, other: UserId) -> i128 {
    (i128::from(one.get()) + i128::from(other.get())) % 64
}
