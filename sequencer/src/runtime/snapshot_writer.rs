//! Encodes snapshots and puts them into their producer's queue, on a thread of its own: both take time that the worker
//! does not have.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use event_log::{AppendRecord, EventLogError, KafkaConfig, LogProducer, QueueFull};
use prost::Message as _;
use schemas::{Partition, proto::SnapshotChunk, topics::Topic};

use super::effects::{self, Delivery, Effect, Report, Run};
use crate::{
    core::snapshot::Snapshot,
    shell::{CHUNK_BYTES, SnapshotWriteId, WriteFailed, split},
};

/// What may wait in the producer; a snapshot that is larger waits outside.
const QUEUE_BYTES: usize = 32 << 20;
/// How long a full queue is left alone.
const FULL_PAUSE: Duration = Duration::from_millis(20);
/// How long the last pieces may take when the sequencer ends.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// A snapshot to be stored, and for whom.
pub(super) struct Job {
    pub(super) partition: Partition,
    pub(super) run: Run,
    pub(super) ticket: SnapshotWriteId,
    pub(super) snapshot: Snapshot,
}

pub(super) struct SnapshotWriter {
    jobs: mpsc::Sender<Job>,
    reports: mpsc::Sender<Report>,
    /// Nobody waits for what is not queued yet.
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
            producer: LogProducer::new(kafka, &effects::never_given_up(QUEUE_BYTES))?,
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

    /// Stores it in pieces, each of which is reported.
    pub(super) fn store(&self, job: Job) {
        if let Err(mpsc::SendError(job)) = self.jobs.send(job) {
            let effect = Effect::SnapshotChunk {
                ticket: job.ticket,
                of: 1,
            };
            let _ = self.reports.send(Report {
                partition: job.partition,
                run: job.run,
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

/// The thread's part.
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
                let delivery = Delivery::new(job.partition, job.run, effect, self.reports.clone());
                self.append(job.partition, &chunk, delivery);
            }
        }
        if let Err(fault) = self.producer.flush(FLUSH_PATIENCE) {
            tracing::debug!(%fault, "the last snapshots are lost; the next start folds more of the log");
        }
    }

    /// Waits while the queue is full; that ends with the process at the latest.
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
                return effects::not_queued(back, "the sequencer ends");
            }
            delivery = back;
            thread::sleep(FULL_PAUSE);
        }
    }
}
