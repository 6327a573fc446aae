//! Log readers for calls: few of them, each used by one call at a time, which reads a bounded number of records.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use access::{Caller, CallerQuota};
use event_log::{EventLogError, KafkaConfig, LogReader};
use parking_lot::Mutex;
use schemas::event::UnknownRules;

use crate::{deadline::Deadline, error::QueryError};

/// A pool of readers. A call opens a reader if all others are in use, and returns it to the pool afterwards.
pub(crate) struct ReaderPool {
    kafka: KafkaConfig,
    places: Arc<CallerQuota>,
    idle: Mutex<Vec<LogReader>>,
    max_records: usize,
}

/// Limits how many records of the log one call reads.
pub(super) struct ScanBudget {
    max_records: usize,
    spent: usize,
    deadline: Instant,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    /// The call has read as many records as it may.
    #[error("nothing found within {0} records")]
    TooLong(usize),
    #[error("not within the time given")]
    TooLate,
    #[error(transparent)]
    NewerEvent(#[from] UnknownRules),
    #[error(transparent)]
    Kafka(#[from] EventLogError),
}

impl ReaderPool {
    /// At most `max_readers` readers, a quarter of them for one user; each call reads up to `max_records` records.
    pub(crate) fn new(kafka: KafkaConfig, max_readers: usize, max_records: usize) -> Arc<Self> {
        Arc::new(Self {
            kafka,
            places: CallerQuota::new(max_readers, max_readers.div_ceil(4)),
            idle: Mutex::default(),
            max_records,
        })
    }

    /// Runs `look_up`, which blocks, with a reader of its own. At the deadline the caller gets its response, and the reader returns to the
    /// pool once `look_up` has noticed the deadline.
    pub(super) async fn with_reader<T: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        deadline: Deadline,
        look_up: impl FnOnce(&LogReader, &mut ScanBudget) -> Result<T, LookupError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let permit = deadline.bound(self.places.acquire(caller, 1)).await?;
        let this = Arc::clone(self);
        let mut budget = ScanBudget {
            max_records: self.max_records,
            spent: 0,
            deadline: deadline.at().into_std(),
        };
        let running = tokio::task::spawn_blocking(move || {
            let reader = this.take()?;
            let outcome = look_up(&reader, &mut budget);
            this.put_back(reader);
            drop(permit);
            outcome
        });
        deadline
            .bound(running)
            .await?
            .map_err(|panic| QueryError::Defect(panic.to_string()))?
            .map_err(|error| match error {
                LookupError::TooLong(records) => QueryError::ScanTooLong { records },
                LookupError::TooLate => deadline.timed_out(),
                LookupError::NewerEvent(newer) => newer.into(),
                LookupError::Kafka(fault) => fault.into(),
            })
    }

    fn take(&self) -> Result<LogReader, EventLogError> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| LogReader::new(&self.kafka), Ok)
    }

    fn put_back(&self, reader: LogReader) {
        let mut idle = self.idle.lock();
        idle.push(reader);
    }
}

impl ScanBudget {
    /// Counts one record; breaks the scan when the budget is spent.
    pub(super) fn spend(&mut self) -> ControlFlow<()> {
        self.spent += 1;
        match self.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Fails when the budget is spent.
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

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc::unbounded_channel, watch};

    use super::*;
    use crate::parameters::TimeoutMs;

    #[tokio::test]
    async fn a_user_who_looks_up_a_lot_leaves_a_reader_to_others() {
        let pool = ReaderPool::new(KafkaConfig::default(), 2, 1);
        let deadline = Deadline::in_time(Some(TimeoutMs::MAX));
        let caller = |uid: i64| Caller::User(uid.try_into().unwrap());
        let (started, mut seen) = unbounded_channel();
        let (release, held) = watch::channel(());
        let of_first = [(); 2].map(|()| {
            let (pool, caller) = (Arc::clone(&pool), caller(1));
            let (started, mut held) = (started.clone(), held.clone());
            let look_up = move |_: &LogReader, _: &mut ScanBudget| {
                started.send(()).unwrap();
                // The reader waits until `release` is dropped.
                let _ = tokio::runtime::Handle::current().block_on(held.changed());
                Ok(())
            };
            tokio::spawn(async move { pool.with_reader(&caller, deadline, look_up).await })
        });
        seen.recv().await.unwrap();
        pool.with_reader(&caller(2), deadline, |_, _| Ok(()))
            .await
            .unwrap();
        drop(release);
        for look_up in of_first {
            look_up.await.unwrap().unwrap();
        }
    }
}
