//! Commands with users and groups of a stage's choice.

use anyhow::Result;
use message_store::Sink;
use schemas::{ChangeGroup, CreateGroup, GroupAction, Recipient, UserId, command::Command};
use system_tests::TestEnv;

use crate::progress::{Progress, Projection};

const LINES: usize = 500;
pub(crate) const TEXT: &str = "A message of the usual length, which is somewhere around a hundred and forty bytes, so that it costs what most of them cost, more or less.";

/// Posts commands, and waits until they are in all stores except the store of read positions: there are no read positions.
pub(crate) async fn store(env: &TestEnv, commands: &[Command]) -> Result<()> {
    for part in commands.chunks(LINES) {
        env.client.post_events(part).await?;
    }
    env.check_all_partitions().await?;
    let progress = Progress::of(env).await?;
    let end = progress.appended().await?;
    for projection in [
        Projection::Unread,
        Projection::Tables(Sink::Messages),
        Projection::Tables(Sink::Contacts),
    ] {
        progress.has_written(projection, end).await?;
    }
    Ok(())
}

/// The creation of a group by the owner, with `others` others whose uids follow the owner's. The number of the group is its owner's uid.
pub(crate) fn creation(owner: i64, others: i64) -> Result<Command> {
    let members = (owner + 1..=owner + others).map(UserId::try_from);
    let action = GroupAction::Create(CreateGroup {
        name: format!("group {owner}"),
        members: members.collect::<Result<_, _>>()?,
        open: false,
        whole_history: false,
        client_id: None,
    });
    Ok(Command::ChangeGroup(ChangeGroup {
        gid: owner.try_into()?,
        by: owner.try_into()?,
        by_user: false,
        action,
    }))
}

/// A message of the usual length for each pair.
pub(crate) fn messages(pairs: impl Iterator<Item = (i64, i64)>) -> Result<Vec<Command>> {
    let message = |(from, to): (i64, i64)| {
        let message = client::message(from.try_into()?, to.try_into()?, TEXT);
        Ok(Command::Send(message))
    };
    pairs.map(message).collect()
}

/// A message of the usual length from the owner of a group to the group.
pub(crate) fn send(owner: i64) -> Result<Command> {
    let to = Recipient::Group(owner.try_into()?);
    Ok(Command::Send(client::message_to(
        owner.try_into()?,
        to,
        TEXT,
    )))
}
