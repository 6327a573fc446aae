//! Owns the workers of a process: a worker that dies stops all the others, and a stop has a deadline.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError};
use tokio::time::timeout;
use tracing::{Instrument as _, error, error_span, info, warn};

use crate::{Shutdown, with_causes};

/// How long workers have to return once the hard stage has begun.
const HARD_GRACE: Duration = Duration::from_secs(2);

/// Runs workers until the process should stop or one of them ends.
#[derive(Debug)]
pub struct Supervisor {
    name: String,
    deadline: Duration,
    shutdown: Shutdown,
    running: Mutex<BTreeMap<WorkerId, Running>>,
    // Unbounded, but every worker sends exactly one message.
    ended: mpsc::UnboundedSender<(WorkerId, Outcome)>,
    endings: mpsc::UnboundedReceiver<(WorkerId, Outcome)>,
}

type WorkerId = usize;

#[derive(Debug)]
struct Running {
    name: String,
    /// `None` for a thread, which cannot be made to stop.
    abort: Option<AbortHandle>,
}

#[derive(Debug)]
enum Outcome {
    Finished,
    Failed(anyhow::Error),
    Panicked(String),
    Aborted,
}

/// Why the process must end with a non-zero exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerFailed {
    /// A worker returned although nothing had asked it to.
    #[error("worker {worker} ended before it was asked to")]
    Ended {
        /// The worker's name.
        worker: String,
    },
    /// A worker returned an error.
    #[error("worker {worker} failed: {}", with_causes(error))]
    Failed {
        /// The worker's name.
        worker: String,
        /// The error.
        error: anyhow::Error,
    },
    /// A worker panicked.
    #[error("worker {worker} panicked: {message}")]
    Panicked {
        /// The worker's name.
        worker: String,
        /// The message of the panic.
        message: String,
    },
    /// Workers were still running after the deadline and the hard stage.
    #[error("still running {waited:?} after the stop: {}", workers.join(", "))]
    Stuck {
        /// The workers' names.
        workers: Vec<String>,
        /// How long the supervisor waited for them.
        waited: Duration,
    },
    /// A second request to stop came before the workers had finished.
    #[error("stopped at once by a second signal; still running: {}", workers.join(", "))]
    Aborted {
        /// The workers' names.
        workers: Vec<String>,
    },
}

impl Supervisor {
    /// A supervisor without workers. `deadline` is how long the soft stage of a stop may take.
    pub fn new(name: impl Into<String>, deadline: Duration) -> Self {
        let (ended, endings) = mpsc::unbounded_channel();
        Self {
            name: name.into(),
            deadline,
            shutdown: Shutdown::new(),
            running: Mutex::default(),
            ended,
            endings,
        }
    }

    /// The shutdown signal that the workers watch.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Starts a task. It must run until the soft stage begins; its log lines carry `worker`.
    pub fn spawn(
        &self,
        worker: impl Into<String>,
        future: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let worker = worker.into();
        let span = error_span!("worker", worker = %worker);
        let task = tokio::spawn(future.instrument(span));
        let id = self.register(worker, Some(task.abort_handle()));
        let ended = self.ended.clone();
        tokio::spawn(async move {
            let outcome = Outcome::of_task(task.await);
            // The receiver is gone once `run` has returned.
            let _ = ended.send((id, outcome));
        });
    }

    /// Starts a thread of its own, for work that blocks. It must run until the soft stage begins.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn spawn_thread(
        &self,
        worker: impl Into<String>,
        work: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> std::io::Result<()> {
        let worker = worker.into();
        let span = error_span!("worker", worker = %worker);
        let thread = std::thread::Builder::new().name(worker.clone());
        let id = self.register(worker, None);
        let ended = self.ended.clone();
        let started = thread.spawn(move || {
            let outcome =
                span.in_scope(|| Outcome::of_thread(catch_unwind(AssertUnwindSafe(work))));
            let _ = ended.send((id, outcome));
        });
        if let Err(error) = started {
            self.running.lock().remove(&id);
            return Err(error);
        }
        Ok(())
    }

    /// Runs until `stop` returns, the soft stage begins by other means, or a worker ends; then stops all workers. `stop` is awaited again meanwhile:
    /// if it returns a second time, the wait ends at once.
    ///
    /// # Errors
    /// The first worker that ended early, failed or panicked (while stopping, too), or those that did not stop.
    pub async fn run(mut self, mut stop: impl AsyncFnMut()) -> Result<(), WorkerFailed> {
        let early = self.until_stop(&mut stop).await;
        self.shutdown.begin();
        let stopped = tokio::select! {
            stopped = self.stop_workers() => stopped,
            () = stop() => {
                self.shutdown.force();
                Err(self.logged(WorkerFailed::Aborted { workers: self.names() }))
            }
        };
        early.and(stopped)
    }

    async fn until_stop(&mut self, stop: &mut impl AsyncFnMut()) -> Result<(), WorkerFailed> {
        let soft = self.shutdown.soft().clone();
        tokio::select! {
            // In this order, a worker that ended because of the soft stage is never taken for one that ended early.
            biased;
            () = soft.cancelled() => info!(process = %self.name, "stopping: asked to"),
            () = stop() => info!(process = %self.name, "stopping: signal"),
            (worker, outcome) = self.next_ending() => {
                return Err(self.logged(outcome.before_stop(worker)));
            }
        }
        Ok(())
    }

    /// Waits for all workers: through the soft stage, then through the hard one.
    async fn stop_workers(&mut self) -> Result<(), WorkerFailed> {
        let mut first = Ok(());
        if timeout(self.deadline, self.collect(&mut first))
            .await
            .is_ok()
        {
            return first;
        }
        warn!(process = %self.name, workers = ?self.names(), "not stopped within {:?}: forcing", self.deadline);
        self.shutdown.force();
        if timeout(HARD_GRACE, self.collect(&mut first)).await.is_ok() {
            return first;
        }
        self.abort_tasks();
        let stuck = self.logged(WorkerFailed::Stuck {
            workers: self.names(),
            waited: self.deadline + HARD_GRACE,
        });
        first.and(Err(stuck))
    }

    /// Receives endings until no worker is left; keeps the first failure, and logs all.
    async fn collect(&mut self, first: &mut Result<(), WorkerFailed>) {
        while !self.running.lock().is_empty() {
            let (worker, outcome) = self.next_ending().await;
            if let Err(failed) = outcome.while_stopping(worker) {
                let failed = self.logged(failed);
                if first.is_ok() {
                    *first = Err(failed);
                }
            }
        }
    }

    async fn next_ending(&mut self) -> (String, Outcome) {
        let (id, outcome) = self
            .endings
            .recv()
            .await
            .expect("the supervisor itself holds a sender");
        let worker = self.running.lock().remove(&id);
        (worker.map_or_else(String::new, |w| w.name), outcome)
    }

    /// Logged here, at once: the stop that follows may take its time, and only the first failure is returned.
    fn logged(&self, failed: WorkerFailed) -> WorkerFailed {
        error!(process = %self.name, "{failed}");
        failed
    }

    fn register(&self, name: String, abort: Option<AbortHandle>) -> WorkerId {
        let mut running = self.running.lock();
        let id = running.last_key_value().map_or(0, |(last, _)| last + 1);
        running.insert(id, Running { name, abort });
        id
    }

    fn abort_tasks(&self) {
        let running = self.running.lock();
        for abort in running.values().filter_map(|w| w.abort.as_ref()) {
            abort.abort();
        }
    }

    fn names(&self) -> Vec<String> {
        let running = self.running.lock();
        running.values().map(|w| w.name.clone()).collect()
    }
}

impl Outcome {
    fn of_task(ended: Result<anyhow::Result<()>, JoinError>) -> Self {
        match ended {
            Ok(Ok(())) => Self::Finished,
            Ok(Err(error)) => Self::Failed(error),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Self::Panicked(panic_message(&*panic)),
                Err(_cancelled) => Self::Aborted,
            },
        }
    }

    fn of_thread(ended: std::thread::Result<anyhow::Result<()>>) -> Self {
        match ended {
            Ok(Ok(())) => Self::Finished,
            Ok(Err(error)) => Self::Failed(error),
            Err(panic) => Self::Panicked(panic_message(&*panic)),
        }
    }

    /// The failure of a worker that ended before the stop: every such ending is one.
    fn before_stop(self, worker: String) -> WorkerFailed {
        match self.while_stopping(worker.clone()) {
            Ok(()) => WorkerFailed::Ended { worker },
            Err(failed) => failed,
        }
    }

    fn while_stopping(self, worker: String) -> Result<(), WorkerFailed> {
        match self {
            Self::Finished | Self::Aborted => Ok(()),
            Self::Failed(error) => Err(WorkerFailed::Failed { worker, error }),
            Self::Panicked(message) => Err(WorkerFailed::Panicked { worker, message }),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    if let Some(message) = panic.downcast_ref::<&str>() {
        (*message).to_owned()
    } else if let Some(message) = panic.downcast_ref::<String>() {
        message.clone()
    } else {
        "no message".to_owned()
    }
}
