//! A projection: its settings, and how its parts are connected.

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
    coordinator::{Coordinator, WorkerHandle},
    dead_letters::DeadLetters,
    fetch_loop::{FetchCommand, FetchLoop, FetchLoopError, WorkerQueue},
    lag,
    truncation_check::{self, Found, Truncation},
    worker::{PartitionWorker, WorkerChannels},
};

/// How a projection runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The consumer group, without the deployment's prefix.
    pub group: String,
    /// A worker flushes when its sink's pending count reaches this.
    pub max_pending: usize,
    /// A worker flushes when its oldest batch has waited this long.
    pub interval: Duration,
    /// How often a worker has its sink verify that the store is as it was left.
    pub verify_every: Duration,
    /// How much may be queued for a worker before its partitions are paused, bytes.
    pub max_queued_bytes: usize,
    /// The remedy in the error about records that were deleted before they were read.
    pub if_deleted: &'static str,
    /// The remedy in the error about these partitions, the end of whose log was lost; it follows "To go on: ".
    pub if_truncated: fn(&[Partition]) -> String,
}

/// The longest time that brokers may delay an empty fetch response.
const LONGEST_FETCH_WAIT: Duration = Duration::from_millis(250);

impl Settings {
    /// The settings of the fetcher. Records that wait for the next flush anyway need not come at once, and every response costs the broker
    /// the same.
    fn fetcher_config(&self, kafka: &KafkaConfig) -> KafkaConfig {
        let wait = (self.interval / 2).min(LONGEST_FETCH_WAIT);
        KafkaConfig {
            fetch_wait_ms: kafka.fetch_wait_ms.max(wait.as_millis() as u32),
            ..kafka.clone()
        }
    }

    /// The error about positions that the log does not agree with.
    pub(crate) fn truncation_error(&self, truncations: &[Truncation]) -> String {
        let partitions: Vec<Partition> = truncations.iter().map(|found| found.partition).collect();
        let remedy = (self.if_truncated)(&partitions);
        let is_shorter = |truncation: &Truncation| matches!(truncation.found, Found::End(_));
        let when = if truncations.iter().any(is_shorter) {
            ", once the log is as long again"
        } else {
            ""
        };
        let error = truncation_check::describe(truncations);
        format!("{error}. To go on{when}: {remedy}")
    }
}

/// Why a projection ended.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// A Kafka client could not be created.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// The log cannot be read any further. The text says what an operator can do about it.
    #[error("reading chat.events: {0}")]
    Reading(String),
    /// The membership in the group has ended.
    #[error("consumer group: {0}")]
    Group(String),
    /// A sink cannot continue.
    #[error("{0}")]
    Sink(String),
}

/// Runs a projection until `soft` is cancelled: worker `i` writes to `sinks[i]`, and `worker_of` assigns partitions to workers. `gate` is open
/// while the group has assigned partitions, every worker can write all of its store, and the brokers answer.
///
/// # Errors
/// [`ProjectionError`]: the process should end, another member takes over.
pub async fn run<S: Sink>(
    kafka: &KafkaConfig,
    settings: Settings,
    sinks: Vec<S>,
    worker_of: impl Fn(Partition) -> usize + Copy + Send + 'static,
    gate: ReadinessCheck,
    soft: CancellationToken,
) -> Result<(), ProjectionError> {
    let dead_letters = Arc::new(DeadLetters::new(kafka, &settings.group)?);
    let log = Arc::new(LogReader::new(kafka)?);
    let (member, group_events) = GroupMember::join(kafka, &settings.group, Topic::Events)?;
    let (fetch_commands, fetch_queue) = sync_mpsc::channel();
    let (stored, stored_receiver) = watch::channel(lag::StoredOffsets::new());
    let channels = SharedChannels {
        fetch: fetch_commands,
        stored,
        dead_letters,
        log: Arc::clone(&log),
        events: lag::events_counter(kafka, &settings.group),
    };
    let Workers {
        tasks,
        handles,
        queues,
    } = start_workers(sinks, &settings, channels, &soft);
    let fetcher = Fetcher::new(&settings.fetcher_config(kafka), Topic::Events)?;
    let brokers = Brokers::default();
    let fetch_loop = FetchLoop::new(
        fetcher,
        fetch_queue,
        queues,
        worker_of,
        settings.max_queued_bytes,
        brokers.clone(),
    );
    let fetch_end = spawn_fetch_thread(&settings.group, fetch_loop);
    let reporter = tokio::spawn(lag::report(
        (log, kafka.clone()),
        settings.group.clone(),
        member,
        brokers.clone(),
        stored_receiver,
    ));
    let coordinator = Coordinator {
        workers: handles,
        worker_of,
        brokers,
        joined: false,
        gate,
        soft,
        settings,
    };
    let outcome = coordinator.run(group_events, fetch_end, tasks).await;
    if let Err(error) = reporter.await {
        tracing::warn!(%error, "the lag report failed");
    }
    outcome
}

/// The channels and clients that all workers share.
struct SharedChannels {
    fetch: sync_mpsc::Sender<FetchCommand>,
    stored: watch::Sender<lag::StoredOffsets>,
    dead_letters: Arc<DeadLetters>,
    log: Arc<LogReader>,
    events: Counter,
}

/// The running workers, and the coordinator's and the fetch thread's ends of their channels.
struct Workers {
    tasks: JoinSet<Result<(), String>>,
    handles: Vec<WorkerHandle>,
    queues: Vec<WorkerQueue>,
}

fn start_workers<S: Sink>(
    sinks: Vec<S>,
    settings: &Settings,
    channels: SharedChannels,
    soft: &CancellationToken,
) -> Workers {
    let mut tasks = JoinSet::new();
    let (mut handles, mut queues) = (Vec::new(), Vec::new());
    for sink in sinks {
        let (commands, command_queue) = mpsc::unbounded_channel();
        let (sender, batch_queue) = mpsc::unbounded_channel();
        let (fault, fault_receiver) = watch::channel(None);
        let queued = Arc::new(AtomicUsize::new(0));
        let channels = WorkerChannels {
            commands: command_queue,
            batches: batch_queue,
            queued: Arc::clone(&queued),
            fetch: channels.fetch.clone(),
            stored: channels.stored.clone(),
            dead_letters: Arc::clone(&channels.dead_letters),
            log: Arc::clone(&channels.log),
            events: channels.events.clone(),
            fault,
        };
        tasks.spawn(PartitionWorker::new(sink, settings.clone(), channels).run(soft.clone()));
        handles.push(WorkerHandle {
            commands: commands.clone(),
            fault: fault_receiver,
        });
        queues.push(WorkerQueue {
            sender,
            commands,
            queued,
            paused: false,
        });
    }
    Workers {
        tasks,
        handles,
        queues,
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
    fn a_fetch_waits_for_half_of_the_flush_interval_at_most() {
        let wait = |interval_ms| {
            let settings = Settings {
                group: "test".to_owned(),
                max_pending: 1,
                interval: Duration::from_millis(interval_ms),
                verify_every: Duration::from_secs(1),
                max_queued_bytes: 1,
                if_deleted: "",
                if_truncated: |_| String::new(),
            };
            let kafka = KafkaConfig {
                fetch_wait_ms: 5,
                ..KafkaConfig::default()
            };
            settings.fetcher_config(&kafka).fetch_wait_ms
        };
        assert_eq!([5, 50, 30_000].map(wait), [5, 25, 250]);
    }
}
