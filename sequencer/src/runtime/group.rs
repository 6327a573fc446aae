//! This process's membership of the consumer group, which only says who works on which partition.

use event_log::{EventLogError, GroupEvent, GroupMember, KafkaConfig};
use schemas::{NextOffset, Partition, topics::Topic};
use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedReceiver, error::TryRecvError},
};

/// The consumer group, without the deployment's prefix.
pub const GROUP: &str = "sequencer";

pub(super) struct Group {
    member: GroupMember,
    changes: UnboundedReceiver<GroupEvent>,
}

impl Group {
    pub(super) fn join(kafka: &KafkaConfig) -> Result<Self, EventLogError> {
        let (member, changes) = GroupMember::join(kafka, GROUP, Topic::Inbound)?;
        Ok(Self { member, changes })
    }

    /// What has changed, if anything has.
    ///
    /// # Errors
    /// Where nobody would tell: partitions may be lost, so the process must end.
    pub(super) fn next_change(&mut self) -> anyhow::Result<Option<GroupEvent>> {
        next_of(&mut self.changes)
    }

    /// Commits how far partitions are done, for lag only.
    pub(super) fn commit(&self, done: impl IntoIterator<Item = (Partition, i64)>) {
        for (partition, next) in done {
            self.member.note(partition, NextOffset::new(next));
        }
        self.member.commit_noted();
    }

    /// Gives all partitions up; every barrier must be open.
    pub(super) fn leave(self, runtime: &Handle) {
        drop(self.changes);
        runtime.block_on(self.member.leave());
    }
}

fn next_of(changes: &mut UnboundedReceiver<GroupEvent>) -> anyhow::Result<Option<GroupEvent>> {
    match changes.try_recv() {
        Ok(GroupEvent::Failed(why)) => anyhow::bail!("consumer group: {why}"),
        Ok(change) => Ok(Some(change)),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => {
            anyhow::bail!(
                "consumer group: its thread has ended, so a loss of partitions would go unheard"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a_group_that_nobody_follows_any_more_is_no_quiet_group() {
        let (sender, mut changes) = mpsc::unbounded_channel();
        assert!(matches!(next_of(&mut changes), Ok(None)));
        sender.send(GroupEvent::Assigned(Vec::new())).unwrap();
        assert!(matches!(
            next_of(&mut changes),
            Ok(Some(GroupEvent::Assigned(_)))
        ));
        drop(sender);
        assert!(next_of(&mut changes).is_err());
    }
}
