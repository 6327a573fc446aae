//! A projection: its settings, and how its parts are put together.

use std::{
    sync::{Arc, atomic::AtomicUsize, mpsc as sync_mpsc},
    thread,
    time::Duration,
};

use event_log::{EventLogError, Fetcher, GroupMember, KafkaConfig, LogReader};
use metrics::Counter;
use schemas::{Partition, topics::Topic};
use service_runtime::ReadinessCheck;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Sink,
    brokers::Brokers,
    conductor::{Conductor, LaneHandle},
    dead_letters::DeadLetters,
    fetch::{self, FetchLoop, FetchLoopError, LaneFeed},
    lag,
    lane::{Connections, Lane},
    look_back::{self, Found, GoneBack},
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
    /// How an operator goes on where records were deleted before they were read: the end of that error.
    pub if_deleted: &'static str,
    /// How an operator goes on where the log of these partitions is not what was read: the end of that error, after "to go on".
    pub if_gone_back: fn(&[Partition]) -> String,
}

/// Brokers hold an empty answer back no longer than this.
const LONGEST_FETCH_WAIT: Duration = Duration::from_millis(250);

impl Settings {
    /// How the log is fetched: what the lanes would only hold back need not come at once, and an answer costs the broker
    /// the same however little is in it.
    fn fetching(&self, kafka: &KafkaConfig) -> KafkaConfig {
        let wait = (self.interval / 2).min(LONGEST_FETCH_WAIT);
        KafkaConfig {
            fetch_wait_ms: kafka.fetch_wait_ms.max(wait.as_millis() as u32),
            ..kafka.clone()
        }
    }

    /// What an operator is told where positions and log disagree.
    pub(crate) fn gone_back(&self, gone_back: &[GoneBack]) -> String {
        let partitions: Vec<Partition> = gone_back.iter().map(|back| back.partition).collect();
        let remedy = (self.if_gone_back)(&partitions);
        let is_shorter = |back: &GoneBack| matches!(back.found, Found::End(_));
        let when = if gone_back.iter().any(is_shorter) {
            ", once the log is as long again"
        } else {
            ""
        };
        format!("{}. To go on{when}: {remedy}", look_back::told(gone_back))
    }
}

/// Why a projection ended.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// Kafka refused at start.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
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

/// Runs a projection until `soft` is cancelled: lane `i` has `sinks[i]`, and `lane_of` says which partition is whose. `gate` is open
/// while the group has assigned partitions, every lane can write all of its store, and the brokers answer.
///
/// # Errors
/// [`ProjectionError`]: the process should end, another member takes over.
pub async fn run<S: Sink>(
    kafka: &KafkaConfig,
    settings: Settings,
    sinks: Vec<S>,
    lane_of: impl Fn(Partition) -> usize + Copy + Send + 'static,
    gate: ReadinessCheck,
    soft: CancellationToken,
) -> Result<(), ProjectionError> {
    let dead_letters = Arc::new(DeadLetters::new(kafka, &settings.group)?);
    let log = Arc::new(LogReader::new(kafka)?);
    let (member, group_events) = GroupMember::join(kafka, &settings.group, Topic::Events)?;
    let (fetch_commands, fetch_queue) = sync_mpsc::channel();
    let (done, done_receiver) = watch::channel(lag::Done::new());
    let wires = Wires {
        fetch: fetch_commands,
        done,
        dead_letters,
        log: Arc::clone(&log),
        events: lag::events_counter(kafka, &settings.group),
    };
    let Lanes {
        tasks,
        handles,
        feeds,
    } = start_lanes(sinks, &settings, wires, &soft);
    let fetcher = Fetcher::new(&settings.fetching(kafka), Topic::Events)?;
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
        (log, kafka.clone()),
        settings.group.clone(),
        member,
        brokers.clone(),
        done_receiver,
    ));
    let conductor = Conductor {
        lanes: handles,
        lane_of,
        brokers,
        joined: false,
        gate,
        soft,
        settings,
    };
    let outcome = conductor.run(group_events, fetch_end, tasks).await;
    if let Err(error) = reporter.await {
        tracing::warn!(%error, "lag was not reported");
    }
    outcome
}

/// What all lanes are connected to.
struct Wires {
    fetch: sync_mpsc::Sender<fetch::Command>,
    done: watch::Sender<lag::Done>,
    dead_letters: Arc<DeadLetters>,
    log: Arc<LogReader>,
    events: Counter,
}

/// Lanes at work, and both ends of what leads to them.
struct Lanes {
    tasks: JoinSet<Result<(), String>>,
    handles: Vec<LaneHandle>,
    feeds: Vec<LaneFeed>,
}

fn start_lanes<S: Sink>(
    sinks: Vec<S>,
    settings: &Settings,
    wires: Wires,
    soft: &CancellationToken,
) -> Lanes {
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
            fetch: wires.fetch.clone(),
            done: wires.done.clone(),
            dead_letters: Arc::clone(&wires.dead_letters),
            log: Arc::clone(&wires.log),
            events: wires.events.clone(),
            fault,
        };
        tasks.spawn(Lane::new(sink, settings.clone(), connections).run(soft.clone()));
        handles.push(LaneHandle {
            commands: commands.clone(),
            fault: fault_receiver,
        });
        feeds.push(LaneFeed {
            sender,
            commands,
            queued,
            paused: false,
        });
    }
    Lanes {
        tasks,
        handles,
        feeds,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_at_intervals_is_fetched_no_oftener_than_twice_in_one() {
        let wait = |interval_ms| {
            let settings = Settings {
                group: "test".to_owned(),
                max_pending: 1,
                interval: Duration::from_millis(interval_ms),
                verify_every: Duration::from_secs(1),
                max_queued_bytes: 1,
                if_deleted: "",
                if_gone_back: |_| String::new(),
            };
            let kafka = KafkaConfig {
                fetch_wait_ms: 5,
                ..KafkaConfig::default()
            };
            settings.fetching(&kafka).fetch_wait_ms
        };
        assert_eq!([5, 50, 30_000].map(wait), [5, 25, 250]);
    }
}
