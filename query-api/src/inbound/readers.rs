//! Readers of the log for calls that look into it: few of them, each used by one call at a time, each call bounded.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use event_log::{EventLogError, KafkaConfig, LogReader};
use tokio::sync::Semaphore;

use crate::{deadline::Deadline, error::QueryError};

/// The readers of one process. A reader is made when it is needed and kept for the next call.
pub(crate) struct Readers {
    kafka: KafkaConfig,
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<LogReader>>,
    max_records: usize,
}

/// How much of the log one call may still read.
pub(super) struct Budget {
    max_records: usize,
    spent: usize,
    deadline: Instant,
}

/// Why the log did not tell.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    /// More would have to be read than one call may.
    #[error("nothing found within {0} records")]
    TooLong(usize),
    /// The time is up.
    #[error("not within the time given")]
    TooLate,
    /// Kafka failed.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
}

impl Readers {
    /// At most `at_once` readers, each call of which reads up to `max_records` records.
    pub(crate) fn new(kafka: KafkaConfig, at_once: usize, max_records: usize) -> Arc<Self> {
        Arc::new(Self {
            kafka,
            slots: Arc::new(Semaphore::new(at_once)),
            idle: Mutex::default(),
            max_records,
        })
    }

    /// Runs `look`, which blocks, with a reader of its own. At the deadline the caller is answered, and the reader comes back once `look`
    /// has noticed.
    pub(super) async fn with_reader<T: Send + 'static>(
        self: &Arc<Self>,
        deadline: Deadline,
        look: impl FnOnce(&LogReader, &mut Budget) -> Result<T, LookupError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let slot = deadline
            .bound(Arc::clone(&self.slots).acquire_owned())
            .await?
            .expect("the semaphore is never closed");
        let this = Arc::clone(self);
        let mut budget = Budget {
            max_records: self.max_records,
            spent: 0,
            deadline: deadline.at().into_std(),
        };
        let looking = tokio::task::spawn_blocking(move || {
            let reader = this.take()?;
            let outcome = look(&reader, &mut budget);
            this.give_back(reader);
            drop(slot);
            outcome
        });
        deadline
            .bound(looking)
            .await?
            .map_err(|panic| QueryError::Defect(panic.to_string()))?
            .map_err(|error| match error {
                LookupError::TooLong(records) => QueryError::ScanTooLong { records },
                LookupError::TooLate => deadline.stalled(),
                LookupError::Kafka(fault) => fault.into(),
            })
    }

    fn take(&self) -> Result<LogReader, EventLogError> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        idle.map_or_else(|| LogReader::new(&self.kafka), Ok)
    }

    fn give_back(&self, reader: LogReader) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(reader);
    }
}

impl Budget {
    /// Counts one record; breaks a scan when nothing is left.
    pub(super) fn spend(&mut self) -> ControlFlow<()> {
        self.spent += 1;
        match self.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Whether anything is left.
    pub(super) fn check(&self) -> Result<(), LookupError> {
        if self.spent >= self.max_records {
            return Err(LookupError::TooLong(self.max_records));
        }
        if Instant::now() >= self.deadline {
            return Err(LookupError::TooLate);
        }
        Ok(())
    }
}
