//! This process's membership of the consumer group, which assigns partitions.

use event_log::{EventLogError, GroupEvent, GroupMember, KafkaConfig};
use schemas::{NextOffset, PartitionMap, topics::Topic};
use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedReceiver, error::TryRecvError},
};

/// The consumer group, without the deployment's prefix.
pub const GROUP: &str = "sequencer";

pub(super) struct Group {
    member: GroupMember,
    events: UnboundedReceiver<GroupEvent>,
}

impl Group {
    pub(super) fn join(kafka: &KafkaConfig) -> Result<Self, EventLogError> {
        let (member, events) = GroupMember::join(kafka, GROUP, Topic::Inbound)?;
        Ok(Self { member, events })
    }

    /// The next change of the assignment, if there is one.
    ///
    /// # Errors
    /// The membership has ended: the process must end, since it may have lost its partitions.
    pub(super) fn next_event(&mut self) -> anyhow::Result<Option<GroupEvent>> {
        try_next(&mut self.events)
    }

    /// Commits offsets, for lag only.
    pub(super) fn commit(&self, offsets: PartitionMap<NextOffset>) {
        self.member.commit_offsets(offsets);
    }

    /// Releases all partitions. Every revoke guard must have been dropped.
    pub(super) fn leave(self, runtime: &Handle) {
        drop(self.events);
        runtime.block_on(self.member.leave());
    }
}

fn try_next(events: &mut UnboundedReceiver<GroupEvent>) -> anyhow::Result<Option<GroupEvent>> {
    match events.try_recv() {
        Ok(GroupEvent::Failed(why)) => anyhow::bail!("consumer group: {why}"),
        Ok(event) => Ok(Some(event)),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => {
            anyhow::bail!(
                "consumer group: its thread has ended, so a loss of partitions would not be noticed"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn the_end_of_the_member_thread_is_an_error() {
        let (sender, mut events) = mpsc::unbounded_channel();
        assert!(matches!(try_next(&mut events), Ok(None)));
        sender.send(GroupEvent::Assigned(Vec::new())).unwrap();
        assert!(matches!(
            try_next(&mut events),
            Ok(Some(GroupEvent::Assigned(_)))
        ));
        drop(sender);
        assert!(try_next(&mut events).is_err());
    }
}
