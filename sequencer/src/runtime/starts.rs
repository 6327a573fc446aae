//! Loads partitions on separate threads, so that working partitions do not wait for starting ones.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
};

use event_log::{AssignmentGeneration, EventLogError, KafkaConfig, LogReader};
use schemas::Partition;

use super::load::{LoadedPartitions, load};

/// The outcome of a load.
pub(super) struct LoadReport {
    pub(super) starts: Vec<(Partition, AssignmentGeneration)>,
    /// Has an entry for every partition of `starts`.
    pub(super) outcome: Result<LoadedPartitions, EventLogError>,
}

/// The loads in progress.
pub(super) struct Starts {
    reader: Arc<LogReader>,
    /// Held while snapshots are read, so that snapshots of few partitions are in memory at a time.
    reads_snapshots: Arc<Mutex<()>>,
    sender: mpsc::Sender<LoadReport>,
    ended: mpsc::Receiver<LoadReport>,
    last_generation: AssignmentGeneration,
}

impl Starts {
    pub(super) fn new(kafka: &KafkaConfig) -> Result<Self, EventLogError> {
        let (sender, ended) = mpsc::channel();
        Ok(Self {
            reader: Arc::new(LogReader::new(kafka)?),
            reads_snapshots: Arc::default(),
            sender,
            ended,
            last_generation: AssignmentGeneration::default(),
        })
    }

    /// Loads `partitions` together, with few requests, each with a new generation.
    pub(super) fn begin(
        &mut self,
        partitions: &[Partition],
    ) -> Vec<(Partition, AssignmentGeneration)> {
        if partitions.is_empty() {
            return Vec::new();
        }
        let starts: Vec<(Partition, AssignmentGeneration)> = partitions
            .iter()
            .map(|partition| (*partition, self.last_generation.advance()))
            .collect();
        let (reader, reports) = (Arc::clone(&self.reader), self.sender.clone());
        let reads_snapshots = Arc::clone(&self.reads_snapshots);
        let of_these = starts.clone();
        thread::Builder::new()
            .name("sequencer-load".to_owned())
            .spawn(move || {
                let partitions: Vec<Partition> = of_these.iter().map(|(p, _)| *p).collect();
                let outcome = load(&reader, &partitions, &reads_snapshots);
                // The receiver may be gone if the worker has ended.
                let _ = reports.send(LoadReport {
                    starts: of_these,
                    outcome,
                });
            })
            .expect("the system has a thread to spare");
        starts
    }

    /// A load that has ended, if there is one.
    pub(super) fn next_ended(&self) -> Option<LoadReport> {
        self.ended.try_recv().ok()
    }
}
