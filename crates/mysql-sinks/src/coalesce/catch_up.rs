use event_log::KafkaConfig;
use futures::FutureExt as _;
use projection::{ReplayError, Settings};
use schemas::{LogPosition, Partition, PartitionMap};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{CoalescingSink, MergedRow};
use crate::destination::Destination;

/// Brings databases that were left out up to the positions of those in use, one after the other: each takes memory beside the projection's own.
pub struct CatchUp {
    kafka: KafkaConfig,
    settings: Settings,
    /// The positions of the databases in use.
    ends: watch::Sender<PartitionMap<LogPosition>>,
    /// The database that is being caught up, by its index.
    running: Option<(usize, AbortOnDropHandle<Outcome>)>,
}

/// The partitions that stay behind, and why.
type Outcome = Result<PartitionMap<String>, ReplayError>;

impl CatchUp {
    /// `settings` are the projection's.
    #[must_use]
    pub fn new(kafka: KafkaConfig, settings: Settings) -> Self {
        Self {
            kafka,
            settings,
            ends: watch::Sender::default(),
            running: None,
        }
    }

    pub(crate) fn set_ends(&self, ends: PartitionMap<LogPosition>) {
        self.ends.send_replace(ends);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn start<R: MergedRow>(
        &mut self,
        index: usize,
        destination: Destination,
        partitions: Vec<Partition>,
    ) {
        let (kafka, settings) = (self.kafka.clone(), self.settings.clone());
        let ends = self.ends.subscribe();
        let sink = CoalescingSink::<R>::for_catch_up(destination);
        let task =
            async move { projection::catch_up(sink, &kafka, &partitions, ends, &settings).await };
        self.running = Some((index, AbortOnDropHandle::new(tokio::spawn(task))));
    }

    /// The outcome for a database, if it is no longer being caught up.
    pub(crate) fn ended(&mut self) -> Option<(usize, Outcome)> {
        let (index, task) = self.running.as_mut()?;
        let outcome = task.now_or_never()?;
        let index = *index;
        self.running = None;
        Some((index, outcome.expect("catching up does not panic")))
    }

    /// Stops catching up. Rows that were not written are read again the next time.
    pub(crate) fn abort(&mut self) {
        self.running = None;
    }
}
