use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event_log::{FetchError, GroupEvent, HaltedPartitions};
use schemas::Partition;
use service_runtime::ReadinessCheck;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{ProjectionError, brokers::Brokers, channels::WorkerCommand, lag::StoredOffsets};

/// The coordinator's ends of a worker's channels.
pub(crate) struct WorkerHandle {
    pub(crate) commands: mpsc::UnboundedSender<WorkerCommand>,
    pub(crate) fault: watch::Receiver<Option<String>>,
}

/// Passes assignments and revokes on to the workers, and sets the gate by their faults and halted partitions.
pub(crate) struct Coordinator<F> {
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) worker_of: F,
    pub(crate) brokers: Brokers,
    pub(crate) gate: ReadinessCheck,
    /// Whether the group has assigned partitions.
    pub(crate) joined: bool,
    /// The partitions of the first assignment that have no position yet. A store that begins at the log's end may take no notice of records that are appended
    /// before these partitions have a position.
    pub(crate) resuming: Vec<Partition>,
    /// The partitions that have resumed, with their positions.
    pub(crate) stored: watch::Receiver<StoredOffsets>,
    pub(crate) soft: CancellationToken,
    pub(crate) halted: HaltedPartitions,
}

impl<F: Fn(Partition) -> usize> Coordinator<F> {
    /// Runs until one of the parts ends.
    pub(crate) async fn run(
        mut self,
        mut group_events: mpsc::UnboundedReceiver<GroupEvent>,
        mut fetch_end: oneshot::Receiver<Result<(), FetchError>>,
        mut tasks: JoinSet<Result<(), String>>,
    ) -> Result<(), ProjectionError> {
        let mut ticks = tokio::time::interval(Duration::from_millis(200));
        let mut leaving = false;
        loop {
            // A part that ends makes others end, so causes are checked before their consequences.
            tokio::select! {
                biased;
                ended = tasks.join_next() => match ended {
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => return Err(ProjectionError::Sink(error)),
                    Some(Err(error)) => return Err(ProjectionError::Sink(error.to_string())),
                    // The workers end when the fetch thread does, so its error counts.
                    None => {
                        let ended = fetch_end.await;
                        return reading_ended(ended);
                    }
                },
                ended = &mut fetch_end => {
                    reading_ended(ended)?;
                    return drain(tasks).await;
                }
                event = group_events.recv(), if !leaving => match event {
                    Some(event) => self.handle_group_event(event)?,
                    // The member leaves the group when all workers have ended, which is expected only after a cancellation.
                    None if self.soft.is_cancelled() => leaving = true,
                    None => {
                        let why = "the thread of the group member has ended";
                        return Err(ProjectionError::Group(why.to_owned()));
                    }
                },
                _ = ticks.tick() => self.update_gate(),
            }
        }
    }

    fn handle_group_event(&mut self, event: GroupEvent) -> Result<(), ProjectionError> {
        match event {
            GroupEvent::Assigned(partitions) => {
                if !self.joined {
                    self.resuming.clone_from(&partitions);
                }
                self.send_to_workers(partitions, WorkerCommand::Assign);
                self.joined = true;
                self.update_gate();
            }
            GroupEvent::Revoked { partitions, guard } => {
                let guard = Arc::new(guard);
                self.resuming.retain(|one| !partitions.contains(one));
                self.send_to_workers(partitions, |share| {
                    WorkerCommand::Revoke(share, Arc::clone(&guard))
                });
            }
            GroupEvent::Failed(why) => return Err(ProjectionError::Group(why)),
        }
        Ok(())
    }

    fn send_to_workers(
        &self,
        partitions: Vec<Partition>,
        command: impl Fn(Vec<Partition>) -> WorkerCommand,
    ) {
        let mut shares: BTreeMap<usize, Vec<Partition>> = BTreeMap::new();
        for partition in partitions {
            shares
                .entry((self.worker_of)(partition))
                .or_default()
                .push(partition);
        }
        for (worker, share) in shares {
            // A worker that has ended is noticed by its task.
            let _ = self.workers[worker].commands.send(command(share));
        }
    }

    fn update_gate(&mut self) {
        let stored = self.stored.borrow();
        self.resuming.retain(|one| !stored.contains(*one));
        drop(stored);
        match self.unready_reason() {
            Some(reason) => self.gate.not_ready(reason),
            None => self.gate.ready(),
        }
    }

    /// Why this projection is not ready, if it is not. A halted partition does not hide why the others make no progress.
    fn unready_reason(&self) -> Option<String> {
        let mut workers = self.workers.iter();
        let of_others = workers
            .find_map(|worker| worker.fault.borrow().clone())
            .or_else(|| self.brokers.fault())
            .or_else(|| (!self.joined).then(|| "waiting for partitions".to_owned()))
            .or_else(|| {
                let partition = self.resuming.first()?;
                Some(format!("partition {partition} has no position yet"))
            });
        self.halted.reason_with(of_others)
    }
}

fn reading_ended(
    ended: Result<Result<(), FetchError>, oneshot::error::RecvError>,
) -> Result<(), ProjectionError> {
    let reason = match ended {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the fetch thread panicked".to_owned(),
    };
    Err(ProjectionError::Reading(reason))
}

async fn drain(mut tasks: JoinSet<Result<(), String>>) -> Result<(), ProjectionError> {
    while let Some(ended) = tasks.join_next().await {
        ended
            .map_err(|error| error.to_string())
            .and_then(|outcome| outcome)
            .map_err(ProjectionError::Sink)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use event_log::{FetchError, KafkaConfig};
    use schemas::NextOffset;
    use service_runtime::Health;

    use super::*;

    fn without_workers(soft: CancellationToken) -> Coordinator<impl Fn(Partition) -> usize> {
        Coordinator {
            workers: Vec::new(),
            worker_of: |_| 0,
            brokers: Brokers::default(),
            gate: Health::new().check("test"),
            joined: false,
            resuming: Vec::new(),
            stored: watch::channel(StoredOffsets::new()).1,
            soft,
            halted: HaltedPartitions::new(&KafkaConfig::default(), "test"),
        }
    }

    /// A coordinator without workers, with a task that runs until it is cancelled, and a membership that ends at once.
    async fn without_membership(soft: CancellationToken) -> Result<(), ProjectionError> {
        let coordinator = without_workers(soft.clone());
        let (_, group_events) = mpsc::unbounded_channel();
        let (end, fetch_end) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            soft.cancelled().await;
            let _ = end.send(Ok(()));
            Ok(())
        });
        let run = coordinator.run(group_events, fetch_end, tasks);
        tokio::time::timeout(Duration::from_secs(20), run)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn the_error_of_the_fetch_thread_is_reported_if_the_workers_end_first() {
        let (_group, group_events) = mpsc::unbounded_channel();
        let (end, fetch_end) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let workers_end = tasks.spawn(async { Ok(()) });
        tokio::spawn(async move {
            while !workers_end.is_finished() {
                tokio::task::yield_now().await;
            }
            let why = FetchError::Fatal("why".to_owned());
            end.send(Err(why)).unwrap();
        });
        let coordinator = without_workers(CancellationToken::new());
        let ended = coordinator.run(group_events, fetch_end, tasks).await;
        assert!(matches!(ended, Err(ProjectionError::Reading(why)) if why == "why"));
    }

    #[test]
    fn a_fault_of_a_worker_or_of_the_brokers_closes_the_gate() {
        let mut coordinator = without_workers(CancellationToken::new());
        let (fault, receiver) = watch::channel(None);
        coordinator.workers.push(WorkerHandle {
            commands: mpsc::unbounded_channel().0,
            fault: receiver,
        });
        let reason =
            |coordinator: &Coordinator<_>| coordinator.unready_reason().unwrap_or_default();
        assert_eq!(reason(&coordinator), "waiting for partitions");
        coordinator.joined = true;
        assert_eq!(reason(&coordinator), "");
        coordinator.brokers.failed("no broker answers".to_owned());
        assert_eq!(reason(&coordinator), "no broker answers");
        fault.send_replace(Some("a dead letter cannot be appended".to_owned()));
        assert_eq!(reason(&coordinator), "a dead letter cannot be appended");
        let partition = 3.try_into().unwrap();
        coordinator.halted.halt(partition, None, "why".to_owned());
        assert_eq!(
            reason(&coordinator),
            "partition 3 is halted: why; a dead letter cannot be appended"
        );
    }

    #[test]
    fn a_projection_is_not_ready_before_its_partitions_have_positions() {
        let mut coordinator = without_workers(CancellationToken::new());
        let (stored, receiver) = watch::channel(StoredOffsets::new());
        coordinator.stored = receiver;
        coordinator.workers.push(WorkerHandle {
            commands: mpsc::unbounded_channel().0,
            fault: watch::channel(None).1,
        });
        let first: [Partition; 2] = [3, 4].map(|number| number.try_into().unwrap());
        let assigned = GroupEvent::Assigned(first.to_vec());
        coordinator.handle_group_event(assigned).unwrap();
        for (partition, reason) in first.into_iter().zip([3, 4]) {
            let expected = format!("partition {reason} has no position yet");
            assert_eq!(coordinator.unready_reason().unwrap(), expected);
            stored.send_modify(|stored| {
                stored.insert(partition, NextOffset::new(0));
            });
            coordinator.update_gate();
        }
        assert_eq!(coordinator.unready_reason(), None);
        // Partitions that a rebalance brings are resumed while the others continue.
        let further = GroupEvent::Assigned(vec![5.try_into().unwrap()]);
        coordinator.handle_group_event(further).unwrap();
        assert_eq!(coordinator.unready_reason(), None);
    }

    #[tokio::test]
    async fn a_membership_that_ends_by_itself_ends_the_projection() {
        let ended = without_membership(CancellationToken::new()).await;
        assert!(matches!(ended, Err(ProjectionError::Group(_))), "{ended:?}");
        let stopped = CancellationToken::new();
        stopped.cancel();
        assert!(without_membership(stopped).await.is_ok());
    }
}
