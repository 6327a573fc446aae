//! Encodes snapshots and puts them into their producer's queue, on its own thread: the worker has no time for either.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use event_log::{
    AppendRecord, AssignmentGeneration, EventLogError, KafkaConfig, LogProducer, QueueFull,
};
use prost::Message as _;
use schemas::{Partition, proto::SnapshotChunk, topics::Topic};

use super::producers::{Delivery, Effect, Report, not_queued, without_timeout};
use crate::{
    core::snapshot::Snapshot,
    shell::{CHUNK_BYTES, SnapshotWriteId, WriteFailed, split},
};

/// The producer's queue size; the rest of a larger snapshot waits outside.
const QUEUE_BYTES: usize = 32 << 20;
/// The pause before an append to a full queue is retried.
const FULL_PAUSE: Duration = Duration::from_millis(20);
/// How long the last chunks may take when the sequencer ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A snapshot to be stored, and its shell.
pub(super) struct Job {
    pub(super) partition: Partition,
    pub(super) generation: AssignmentGeneration,
    pub(super) ticket: SnapshotWriteId,
    pub(super) snapshot: Snapshot,
}

pub(super) struct SnapshotWriter {
    jobs: mpsc::Sender<Job>,
    reports: mpsc::Sender<Report>,
    /// Set when the sequencer ends: chunks that are not queued yet are dropped.
    ends: Arc<AtomicBool>,
}

impl SnapshotWriter {
    pub(super) fn start(
        kafka: &KafkaConfig,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, EventLogError> {
        let (jobs, queue) = mpsc::channel();
        let ends = Arc::new(AtomicBool::new(false));
        let writing = Writing {
            producer: LogProducer::new(kafka, &without_timeout(QUEUE_BYTES))?,
            topic: kafka.topic(Topic::Snapshots),
            reports: reports.clone(),
            ends: Arc::clone(&ends),
        };
        thread::Builder::new()
            .name("sequencer-snapshots".to_owned())
            .spawn(move || writing.run(&queue))
            .expect("the system has a thread to spare at start");
        Ok(Self {
            jobs,
            reports,
            ends,
        })
    }

    /// Stores a snapshot in chunks, each of which is reported.
    pub(super) fn store(&self, job: Job) {
        if let Err(mpsc::SendError(job)) = self.jobs.send(job) {
            let effect = Effect::SnapshotChunk {
                ticket: job.ticket,
                of: 1,
            };
            let _ = self.reports.send(Report {
                partition: job.partition,
                generation: job.generation,
                effect,
                outcome: Err(WriteFailed(
                    "the thread that stores snapshots has ended".to_owned(),
                )),
            });
        }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
    }
}

/// The state of the writing thread.
struct Writing {
    producer: LogProducer<Delivery>,
    topic: String,
    reports: mpsc::Sender<Report>,
    ends: Arc<AtomicBool>,
}

impl Writing {
    fn run(self, queue: &mpsc::Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            let chunks = split(&job.snapshot.into_message(), CHUNK_BYTES);
            let effect = Effect::SnapshotChunk {
                ticket: job.ticket,
                of: chunks.len(),
            };
            for chunk in chunks {
                let delivery =
                    Delivery::new(job.partition, job.generation, effect, self.reports.clone());
                self.append(job.partition, &chunk, delivery);
            }
        }
        if let Err(fault) = self.producer.flush(FLUSH_TIMEOUT) {
            tracing::debug!(%fault, "the last snapshots are lost; the next start folds more of the log");
        }
    }

    /// Appends a chunk. Waits while the queue is full, at most until the process ends.
    fn append(&self, partition: Partition, chunk: &SnapshotChunk, mut delivery: Delivery) {
        let value = chunk.encode_to_vec();
        let record = AppendRecord {
            topic: &self.topic,
            partition,
            key: chunk.snapshot_id.as_bytes(),
            value: Some(&value),
            timestamp: None,
            headers: &[],
        };
        while let Err(QueueFull(back)) = self.producer.append(record, delivery) {
            if self.ends.load(Ordering::SeqCst) {
                return not_queued(back, "the sequencer ends");
            }
            delivery = back;
            thread::sleep(FULL_PAUSE);
        }
    }
}
