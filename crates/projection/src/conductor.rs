use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize, mpsc as sync_mpsc},
    thread,
    time::Duration,
};

use event_log::{Fetcher, GroupEvent, GroupMember, KafkaConfig, KafkaFault};
use schemas::{Partition, topics::Topic};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Sink,
    brokers::Brokers,
    dead_letters::DeadLetters,
    fetch::{FetchLoop, FetchLoopError, LaneFeed},
    lag,
    lane::{Connections, Lane, LaneCommand},
};

/// How a projection runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The consumer group, without the deployment's prefix.
    pub group: String,
    /// A lane flushes when its sink's pending reaches this, in the sink's own unit.
    pub max_pending: usize,
    /// A lane flushes when something has waited this long.
    pub interval: Duration,
    /// How often an idle lane asks its sink whether the store still stands where it was left.
    pub verify_every: Duration,
    /// How much may wait in front of a lane before its partitions are paused, bytes.
    pub max_queued_bytes: usize,
}

/// What a projection is at, for readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether the group has given it its share.
    pub joined: bool,
    /// What keeps lanes from going on, or does without a part of a store; and what is wrong with the brokers.
    pub faults: Vec<String>,
}

/// Why a projection ended.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// Kafka refused at start.
    #[error(transparent)]
    Kafka(#[from] KafkaFault),
    /// Reading cannot go on; the text says what to do where somebody can do something.
    #[error("reading chat.events: {0}")]
    Reading(String),
    /// The group cannot be a member's any more.
    #[error("consumer group: {0}")]
    Group(String),
    /// A sink cannot go on.
    #[error("{0}")]
    Sink(String),
}

struct LaneHandle {
    commands: mpsc::UnboundedSender<LaneCommand>,
    fault: watch::Receiver<Option<String>>,
}

/// Runs a projection until `soft` is cancelled: lane `i` has `sinks[i]`, and `lane_of` says which partition is whose.
///
/// # Errors
/// [`ProjectionError`]: the process should end, another member takes over.
pub async fn run<S: Sink>(
    kafka: &KafkaConfig,
    settings: Settings,
    sinks: Vec<S>,
    lane_of: impl Fn(Partition) -> usize + Copy + Send + 'static,
    status: watch::Sender<Status>,
    soft: CancellationToken,
) -> Result<(), ProjectionError> {
    let dead_letters = Arc::new(DeadLetters::new(kafka, &settings.group)?);
    let (member, group_events) = GroupMember::join(kafka, &settings.group, Topic::Events)?;
    let (fetch_commands, fetch_queue) = sync_mpsc::channel();
    let (done, done_receiver) = watch::channel(lag::Done::new());
    let mut tasks = JoinSet::new();
    let (mut handles, mut feeds) = (Vec::new(), Vec::new());
    for sink in sinks {
        let (commands, command_queue) = mpsc::unbounded_channel();
        let (sender, feed_queue) = mpsc::unbounded_channel();
        let (fault, fault_receiver) = watch::channel(None);
        let queued = Arc::new(AtomicUsize::new(0));
        let connections = Connections {
            commands: command_queue,
            feeds: feed_queue,
            queued: Arc::clone(&queued),
            fetch: fetch_commands.clone(),
            done: done.clone(),
            dead_letters: Arc::clone(&dead_letters),
            fault,
        };
        tasks.spawn(Lane::new(sink, settings.clone(), connections).run(soft.clone()));
        handles.push(LaneHandle {
            commands,
            fault: fault_receiver,
        });
        feeds.push(LaneFeed {
            sender,
            queued,
            paused: false,
        });
    }
    drop((done, fetch_commands));
    let fetcher = Fetcher::new(kafka, Topic::Events)?;
    let brokers = Brokers::default();
    let fetch_loop = FetchLoop::new(
        fetcher,
        fetch_queue,
        feeds,
        lane_of,
        settings.max_queued_bytes,
        brokers.clone(),
    );
    let fetch_end = spawn_fetch_thread(&settings.group, fetch_loop);
    let reporter = tokio::spawn(lag::report(
        kafka.clone(),
        settings.group,
        member,
        brokers.clone(),
        done_receiver,
    ));
    let conductor = Conductor {
        lanes: handles,
        lane_of,
        brokers,
        status,
        soft,
    };
    let outcome = conductor.run(group_events, fetch_end, tasks).await;
    if let Ok(Err(error)) = reporter.await {
        tracing::warn!(%error, "lag was not reported");
    }
    outcome
}

fn spawn_fetch_thread<F>(
    group: &str,
    fetch_loop: FetchLoop<F>,
) -> oneshot::Receiver<Result<(), FetchLoopError>>
where
    F: Fn(Partition) -> usize + Send + 'static,
{
    let (end, ended) = oneshot::channel();
    thread::Builder::new()
        .name(format!("fetch-{group}"))
        .spawn(move || {
            let _ = end.send(fetch_loop.run());
        })
        .expect("the system has a thread to spare at start");
    ended
}

/// Passes the group's changes on to the lanes, and faults to whoever asks.
struct Conductor<F> {
    lanes: Vec<LaneHandle>,
    lane_of: F,
    brokers: Brokers,
    status: watch::Sender<Status>,
    soft: CancellationToken,
}

impl<F: Fn(Partition) -> usize> Conductor<F> {
    /// Until one of the parts ends.
    async fn run(
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
                    None => return Ok(()),
                },
                ended = &mut fetch_end => return match ended {
                    Ok(Err(error)) => Err(ProjectionError::Reading(error.to_string())),
                    Ok(Ok(())) => drain(tasks).await,
                    Err(_) => Err(ProjectionError::Reading("the fetch thread panicked".to_owned())),
                },
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
    use super::*;

    /// A conductor of no lanes, one task that goes on for ever, and a membership that ends at once.
    async fn without_membership(soft: CancellationToken) -> Result<(), ProjectionError> {
        let (status, _) = watch::channel(Status::default());
        let conductor = Conductor {
            lanes: Vec::new(),
            lane_of: |_| 0,
            brokers: Brokers::default(),
            status,
            soft: soft.clone(),
        };
        let (_, group_events) = mpsc::unbounded_channel();
        let (_end, fetch_end) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            soft.cancelled().await;
            Ok(())
        });
        let run = conductor.run(group_events, fetch_end, tasks);
        tokio::time::timeout(Duration::from_secs(20), run)
            .await
            .unwrap()
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
