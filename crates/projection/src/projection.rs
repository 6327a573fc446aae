//! A projection: how its parts are connected.

use std::{
    sync::{Arc, atomic::AtomicUsize, mpsc as sync_mpsc},
    thread,
};

use event_log::{FetchError, Fetcher, GroupMember, HaltedPartitions, KafkaConfig, LogReader};
use metrics::Counter;
use schemas::{Partition, topics::Topic};
use service_runtime::ReadinessCheck;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    ProjectionError, Settings, Sink,
    brokers::Brokers,
    channels::FetchCommand,
    coordinator::{Coordinator, WorkerHandle},
    dead_letters::DeadLetters,
    fetch_loop::{FetchLoop, WorkerQueue},
    lag,
    worker::{PartitionWorker, WorkerChannels},
};

/// Runs a projection until `soft` is cancelled: worker `i` writes to `sinks[i]`, and `worker_of` assigns partitions to workers. `gate` is open
/// while the group has assigned partitions, the first of them have positions, every worker can write all of its store, and the brokers answer.
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
    let halted = HaltedPartitions::new(kafka, &settings.group);
    let channels = SharedChannels {
        fetch: fetch_commands,
        stored,
        dead_letters,
        log: Arc::clone(&log),
        events: lag::events_counter(kafka, &settings.group),
        halted: halted.clone(),
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
        settings.clone(),
        brokers.clone(),
    );
    let fetch_end = spawn_fetch_thread(&settings.group, fetch_loop);
    let reporter = tokio::spawn(lag::report(
        (log, kafka.clone()),
        settings.group.clone(),
        member,
        brokers.clone(),
        stored_receiver.clone(),
    ));
    let coordinator = Coordinator {
        workers: handles,
        worker_of,
        brokers,
        joined: false,
        resuming: Vec::new(),
        stored: stored_receiver,
        gate,
        soft,
        halted,
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
    halted: HaltedPartitions,
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
            halted: channels.halted.clone(),
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
) -> oneshot::Receiver<Result<(), FetchError>>
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
