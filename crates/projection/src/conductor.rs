use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event_log::GroupEvent;
use schemas::Partition;
use service_runtime::ReadinessCheck;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    brokers::Brokers,
    fetch::FetchLoopError,
    lane::LaneCommand,
    projection::{ProjectionError, Settings},
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
    pub(crate) gate: ReadinessCheck,
    /// Whether the group has assigned partitions.
    pub(crate) joined: bool,
    pub(crate) soft: CancellationToken,
    pub(crate) settings: Settings,
}

impl<F: Fn(Partition) -> usize> Conductor<F> {
    /// Until one of the parts ends.
    pub(crate) async fn run(
        mut self,
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
                _ = ticks.tick() => self.update_gate(),
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

    fn pass_on(&mut self, event: GroupEvent) -> Result<(), ProjectionError> {
        match event {
            GroupEvent::Assigned(partitions) => {
                self.deal(partitions, LaneCommand::Assign);
                self.joined = true;
                self.update_gate();
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

    fn update_gate(&self) {
        match self.unready_reason() {
            Some(reason) => self.gate.not_ready(reason),
            None => self.gate.ready(),
        }
    }

    /// Why this projection is not ready, where it is not.
    fn unready_reason(&self) -> Option<String> {
        let mut lanes = self.lanes.iter();
        lanes
            .find_map(|lane| lane.fault.borrow().clone())
            .or_else(|| self.brokers.fault())
            .or_else(|| (!self.joined).then(|| "waiting for partitions".to_owned()))
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
    use service_runtime::Health;

    use super::*;

    fn of_no_lanes(soft: CancellationToken) -> Conductor<impl Fn(Partition) -> usize> {
        Conductor {
            lanes: Vec::new(),
            lane_of: |_| 0,
            brokers: Brokers::default(),
            gate: Health::new().check("test"),
            joined: false,
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

    #[test]
    fn a_fault_of_a_lane_or_of_the_brokers_goes_before_readiness() {
        let mut conductor = of_no_lanes(CancellationToken::new());
        let (fault, receiver) = watch::channel(None);
        conductor.lanes.push(LaneHandle {
            commands: mpsc::unbounded_channel().0,
            fault: receiver,
        });
        let reason = |conductor: &Conductor<_>| conductor.unready_reason().unwrap_or_default();
        assert_eq!(reason(&conductor), "waiting for partitions");
        conductor.joined = true;
        assert_eq!(reason(&conductor), "");
        conductor.brokers.failed("no broker answers".to_owned());
        assert_eq!(reason(&conductor), "no broker answers");
        fault.send_replace(Some("a dead letter cannot be appended".to_owned()));
        assert_eq!(reason(&conductor), "a dead letter cannot be appended");
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
