use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event_log::GroupEvent;
use schemas::Partition;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    brokers::Brokers,
    fetch::FetchLoopError,
    lane::LaneCommand,
    projection::{ProjectionError, Settings, Status},
};

/// How a lane is told things, and what it says.
pub(crate) struct LaneHandle {
    pub(crate) commands: mpsc::UnboundedSender<LaneCommand>,
    pub(crate) fault: watch::Receiver<Option<String>>,
}

/// Passes the group's changes on to the lanes, and faults to whoever asks.
pub(crate) struct Conductor<F> {
    pub(crate) lanes: Vec<LaneHandle>,
    pub(crate) lane_of: F,
    pub(crate) brokers: Brokers,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) soft: CancellationToken,
    pub(crate) settings: Settings,
}

impl<F: Fn(Partition) -> usize> Conductor<F> {
    /// Until one of the parts ends.
    pub(crate) async fn run(
        self,
        mut group_events: mpsc::UnboundedReceiver<GroupEvent>,
        mut fetch_end: oneshot::Receiver<Result<(), FetchLoopError>>,
        mut tasks: JoinSet<Result<(), String>>,
    ) -> Result<(), ProjectionError> {
        let mut ticks = tokio::time::interval(Duration::from_millis(200));
        let mut leaving = false;
        loop {
            // A part that ends takes others with it, so the causes are looked at before the consequences.
            tokio::select! {
                biased;
                ended = tasks.join_next() => match ended {
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => return Err(ProjectionError::Sink(error)),
                    Some(Err(error)) => return Err(ProjectionError::Sink(error.to_string())),
                    // Without a reader lanes end, too: what it says comes after that.
                    None => {
                        let ended = fetch_end.await;
                        return self.reading_ended(ended);
                    }
                },
                ended = &mut fetch_end => {
                    self.reading_ended(ended)?;
                    return drain(tasks).await;
                }
                event = group_events.recv(), if !leaving => match event {
                    Some(event) => self.pass_on(event)?,
                    // It leaves the group when the lanes have ended, and they end by themselves only when told to.
                    None if self.soft.is_cancelled() => leaving = true,
                    None => {
                        let why = "the thread that keeps the membership has ended";
                        return Err(ProjectionError::Group(why.to_owned()));
                    }
                },
                _ = ticks.tick() => self.publish_faults(),
            }
        }
    }

    fn reading_ended(
        &self,
        ended: Result<Result<(), FetchLoopError>, oneshot::error::RecvError>,
    ) -> Result<(), ProjectionError> {
        let reason = match ended {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.is_of_deleted_records() => {
                let remedy = self.settings.if_deleted;
                format!("{error}: records were deleted unread. {remedy}")
            }
            Ok(Err(error)) => match error.gone_back() {
                Some(gone_back) => self.settings.gone_back(&[gone_back]),
                None => error.to_string(),
            },
            Err(_) => "the fetch thread panicked".to_owned(),
        };
        Err(ProjectionError::Reading(reason))
    }

    fn pass_on(&self, event: GroupEvent) -> Result<(), ProjectionError> {
        match event {
            GroupEvent::Assigned(partitions) => {
                self.status.send_modify(|status| status.joined = true);
                self.deal(partitions, LaneCommand::Assign);
            }
            GroupEvent::Revoked {
                partitions,
                released,
            } => {
                let released = Arc::new(released);
                self.deal(partitions, |share| {
                    LaneCommand::Revoke(share, Arc::clone(&released))
                });
            }
            GroupEvent::Failed(why) => return Err(ProjectionError::Group(why)),
        }
        Ok(())
    }

    fn deal(&self, partitions: Vec<Partition>, command: impl Fn(Vec<Partition>) -> LaneCommand) {
        let mut shares: BTreeMap<usize, Vec<Partition>> = BTreeMap::new();
        for partition in partitions {
            shares
                .entry((self.lane_of)(partition))
                .or_default()
                .push(partition);
        }
        for (lane, share) in shares {
            // A lane that has ended is noticed as a task.
            let _ = self.lanes[lane].commands.send(command(share));
        }
    }

    fn publish_faults(&self) {
        let of_lanes = self
            .lanes
            .iter()
            .filter_map(|lane| lane.fault.borrow().clone());
        let faults: Vec<String> = of_lanes.chain(self.brokers.fault()).collect();
        self.status.send_if_modified(|status| {
            let changed = status.faults != faults;
            if changed {
                status.faults = faults;
            }
            changed
        });
    }
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
    use event_log::FetchError;

    use super::*;

    fn of_no_lanes(soft: CancellationToken) -> Conductor<impl Fn(Partition) -> usize> {
        let (status, _) = watch::channel(Status::default());
        Conductor {
            lanes: Vec::new(),
            lane_of: |_| 0,
            brokers: Brokers::default(),
            status,
            soft,
            settings: Settings {
                group: String::new(),
                max_pending: 1,
                interval: Duration::ZERO,
                verify_every: Duration::ZERO,
                max_queued_bytes: 1,
                if_deleted: "",
                if_gone_back: |_| String::new(),
            },
        }
    }

    /// A conductor of no lanes, one task that goes on until it is told, and a membership that ends at once.
    async fn without_membership(soft: CancellationToken) -> Result<(), ProjectionError> {
        let conductor = of_no_lanes(soft.clone());
        let (_, group_events) = mpsc::unbounded_channel();
        let (end, fetch_end) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            soft.cancelled().await;
            let _ = end.send(Ok(()));
            Ok(())
        });
        let run = conductor.run(group_events, fetch_end, tasks);
        tokio::time::timeout(Duration::from_secs(20), run)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_reader_is_heard_that_ends_after_its_lanes() {
        let (_group, group_events) = mpsc::unbounded_channel();
        let (end, fetch_end) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let lanes_end = tasks.spawn(async { Ok(()) });
        tokio::spawn(async move {
            while !lanes_end.is_finished() {
                tokio::task::yield_now().await;
            }
            let why = FetchError::Fatal("why".to_owned());
            end.send(Err(why.into())).unwrap();
        });
        let conductor = of_no_lanes(CancellationToken::new());
        let ended = conductor.run(group_events, fetch_end, tasks).await;
        assert!(matches!(ended, Err(ProjectionError::Reading(why)) if why == "why"));
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
