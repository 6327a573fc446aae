use std::{sync::mpsc as sync_mpsc, thread, time::Duration};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    bindings::rd_kafka_resp_err_t as RespErr,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext},
    error::KafkaError,
};
use schemas::{NextOffset, Partition, PartitionMap, topics::Topic};
use tokio::sync::{mpsc, oneshot};

use crate::{
    EventLogError, KafkaConfig, config::OwnSettings as _, context, reconnect::ReconnectingClient,
};

/// How long a revoke waits for its partitions to be released. Heartbeats continue meanwhile, so the session does not expire before
/// `max.poll.interval.ms` (300 s). After the deadline the next owner starts anyway: two owners overlap, which the readers' rule allows for.
const RELEASE_DEADLINE: Duration = Duration::from_secs(20);

/// How long leaving may take; after that, the session has to time out.
const LEAVE_DEADLINE: Duration = Duration::from_secs(5);

/// To be dropped when the partitions of a [`GroupEvent::Revoked`] are no longer worked on.
#[derive(Debug)]
pub struct RevokeGuard(
    #[expect(dead_code, reason = "its drop is the message")] sync_mpsc::SyncSender<()>,
);

/// A change of the partitions that this member owns.
#[derive(Debug)]
pub enum GroupEvent {
    /// This member owns these partitions from now on; none in a group with more members than partitions.
    Assigned(Vec<Partition>),
    /// This member must release these partitions; no other member gets them before `guard` is dropped, or 20 s have passed.
    Revoked {
        /// The partitions to release.
        partitions: Vec<Partition>,
        /// To be dropped once they are released.
        guard: RevokeGuard,
    },
    /// The membership has ended for good; the process should end.
    Failed(String),
}

struct Context {
    events: mpsc::UnboundedSender<GroupEvent>,
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        context::report("group member", &error, reason);
    }

    fn log(&self, level: RDKafkaLogLevel, _facility: &str, message: &str) {
        context::log("group member", level, message);
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        err: RespErr,
        list: &mut TopicPartitionList,
    ) {
        let partitions = partitions_of(list);
        let done = match err {
            RespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                self.assign(consumer, list, partitions)
            }
            RespErr::RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS => {
                self.await_release(partitions);
                consumer.incremental_unassign(list)
            }
            other => {
                tracing::error!(?other, "rebalance");
                consumer.unassign()
            }
        };
        if let Err(error) = done {
            let _ = self
                .events
                .send(GroupEvent::Failed(format!("rebalance: {error}")));
        }
    }
}

impl Context {
    /// The member never fetches: its partitions stay paused.
    fn assign(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &mut TopicPartitionList,
        partitions: Vec<Partition>,
    ) -> Result<(), KafkaError> {
        list.set_all_offsets(Offset::Offset(0))?;
        consumer.incremental_assign(list)?;
        consumer.pause(list)?;
        let _ = self.events.send(GroupEvent::Assigned(partitions));
        Ok(())
    }

    fn await_release(&self, partitions: Vec<Partition>) {
        if partitions.is_empty() {
            return;
        }
        let (release, released) = sync_mpsc::sync_channel(1);
        let event = GroupEvent::Revoked {
            partitions,
            guard: RevokeGuard(release),
        };
        if self.events.send(event).is_ok()
            && released.recv_timeout(RELEASE_DEADLINE) == Err(sync_mpsc::RecvTimeoutError::Timeout)
        {
            tracing::warn!("revoked partitions were not released in time");
        }
    }
}

fn partitions_of(list: &TopicPartitionList) -> Vec<Partition> {
    list.elements()
        .iter()
        .filter_map(|element| i64::from(element.partition()).try_into().ok())
        .collect()
}

/// Membership of a consumer group, which assigns partitions to the member. [`crate::Fetcher`] reads them.
///
/// The polling thread does nothing else, so a revoke may wait on it.
pub struct GroupMember {
    commands: sync_mpsc::Sender<Command>,
    left: oneshot::Receiver<()>,
}

enum Command {
    Commit(PartitionMap<NextOffset>),
    Leave,
}

impl GroupMember {
    /// Joins `group` for `topic`; changes arrive in order on the receiver.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses a setting.
    pub fn join(
        config: &KafkaConfig,
        group: &str,
        topic: Topic,
    ) -> Result<(Self, mpsc::UnboundedReceiver<GroupEvent>), EventLogError> {
        config.require_present("joining a consumer group")?;
        let (events, receiver) = mpsc::unbounded_channel();
        let session_ms = config.session_timeout_ms;
        let consumer: ReconnectingClient<BaseConsumer<Context>> = config
            .consumer(&config.group(group))
            .own("partition.assignment.strategy", "cooperative-sticky")
            .own("session.timeout.ms", session_ms.to_string())
            .own("heartbeat.interval.ms", (session_ms / 5).to_string())
            .own("enable.partition.eof", "false")
            .own("queued.max.messages.kbytes", "64")
            .create_with_context(Context { events })
            .map(|consumer| ReconnectingClient::new(consumer, &config.brokers))
            .map_err(|e| EventLogError::new("creating a group member", e))?;
        let topic = config.topic(topic);
        consumer
            .subscribe(&[&topic])
            .map_err(|e| EventLogError::new(format!("subscribing to {topic}"), e))?;
        let (commands, queue) = sync_mpsc::channel();
        let (leaving, left) = oneshot::channel();
        thread::Builder::new()
            .name("group-member".to_owned())
            .spawn(move || {
                poll_loop(&consumer, &topic, &queue);
                // Closing leaves the group; otherwise the other members wait for the session to time out.
                drop(consumer);
                drop(leaving);
            })
            .expect("the system has a thread to spare at start");
        Ok((Self { commands, left }, receiver))
    }

    /// Commits offsets in the background. They only show the lag; nothing resumes from them.
    pub fn commit_offsets(&self, offsets: PartitionMap<NextOffset>) {
        if !offsets.is_empty() {
            // A member that has left commits nothing.
            let _ = self.commands.send(Command::Commit(offsets));
        }
    }

    /// Leaves the group, and waits a few seconds for that. Every [`RevokeGuard`] must be dropped, and the receiver of changes must be dropped or
    /// still be read, since a last revoke may come.
    pub async fn leave(mut self) {
        let _ = self.commands.send(Command::Leave);
        if tokio::time::timeout(LEAVE_DEADLINE, &mut self.left)
            .await
            .is_err()
        {
            tracing::warn!("the group was not left in time");
        }
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Leave);
    }
}

fn poll_loop(
    consumer: &BaseConsumer<Context>,
    topic: &str,
    commands: &sync_mpsc::Receiver<Command>,
) {
    loop {
        // Partitions are paused: a record or an error that comes before the pause is ignored.
        if let Some(Err(KafkaError::MessageConsumptionFatal(code))) =
            consumer.poll(Duration::from_millis(100))
        {
            let _ = consumer
                .context()
                .events
                .send(GroupEvent::Failed(code.to_string()));
        }
        loop {
            match commands.try_recv() {
                Ok(Command::Commit(offsets)) => commit(consumer, topic, &offsets),
                Ok(Command::Leave) | Err(sync_mpsc::TryRecvError::Disconnected) => return,
                Err(sync_mpsc::TryRecvError::Empty) => break,
            }
        }
    }
}

fn commit(consumer: &BaseConsumer<Context>, topic: &str, offsets: &PartitionMap<NextOffset>) {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    let committed = offsets
        .iter()
        .try_for_each(|(partition, next)| {
            list.add_partition_offset(topic, partition.get().into(), Offset::Offset(next.get()))
        })
        .and_then(|()| consumer.commit(&list, CommitMode::Async));
    if let Err(error) = committed {
        tracing::debug!(%error, "lag was not committed");
    }
}
