//! One switch: read, compare, take the place.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use audit::{Check, ShadowAudit};
use futures::{TryFutureExt as _, try_join};
use message_store::{Fence, Leftover, RebuildLock, Shadows, Sink as Kind};
use projection::{Replay, Sink};
use schemas::Partition;
use tokio::sync::{Mutex, RwLock};

use crate::{Context, Progress, RebuildError};

/// The fence is put up when no more than this is to be read behind it.
const SHORT_TAIL: i64 = 500;
/// Even if it never gets as short as that.
const MOST_ROUNDS: usize = 5;

/// How long those who read may keep the fence up; writers give up waiting after 10 s.
const READERS_PATIENCE: Duration = Duration::from_secs(4);

/// How long the moment for a switch is waited for.
const SWITCH_PATIENCE: Duration = Duration::from_secs(120);
const SWITCH_AGAIN: Duration = Duration::from_secs(1);

/// What builds beside each other share.
pub(crate) struct Company {
    pub(crate) locks: Mutex<Vec<RebuildLock>>,
    /// Comparing takes a snapshot, and a fence waits for all that the server has: nobody compares while one is up.
    pub(crate) snapshots: RwLock<()>,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) compared: u64,
    pub(crate) held: Duration,
}

/// Shadows that are being built.
pub(crate) struct Build<'a, S, P> {
    context: &'a Context,
    shadows: &'a Shadows,
    progress: &'a P,
    replay: Replay<S>,
    proof: ShadowAudit,
    compared: u64,
}

impl<'a, S: Sink, P: Fn(Progress) + Sync> Build<'a, S, P> {
    pub(crate) async fn begin(
        context: &'a Context,
        shadows: &'a Shadows,
        sink: S,
        at_once: usize,
        progress: &'a P,
    ) -> Result<Self, RebuildError> {
        let reader = Arc::clone(&context.reader);
        Ok(Self {
            context,
            shadows,
            progress,
            replay: Replay::begin(sink, reader, &shadows.partitions, at_once).await?,
            proof: ShadowAudit::new(context.shadow_sources(shadows.sink), &shadows.partitions)?,
            compared: 0,
        })
    }

    /// Until the shadows have taken their place. What turns out to be wrong is dropped.
    pub(crate) async fn run(mut self, company: &Company) -> Result<Outcome, RebuildError> {
        let ended = self.build(company).await;
        let Context { store, topic, .. } = self.context;
        match ended {
            Ok(held) => {
                store.drop_replaced(self.shadows).await?;
                let compared = self.compared;
                Ok(Outcome { compared, held })
            }
            Err(error @ RebuildError::Wrong(_)) => {
                // First, or the next run would take it for switched.
                let sink = self.shadows.sink;
                store.end_rebuild_of_all(sink, topic).await?;
                store.discard_shadows(self.shadows, topic).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn build(&mut self, company: &Company) -> Result<Duration, RebuildError> {
        self.say("reading the log for");
        self.read_to_end().await?;
        self.say("comparing");
        self.compare_in(company).await?;
        self.say("switching");
        let deadline = Instant::now() + SWITCH_PATIENCE;
        loop {
            self.shorten_tail(company).await?;
            for lock in &mut *company.locks.lock().await {
                lock.check().await?;
            }
            let switched = {
                let _no_snapshots = company.snapshots.write().await;
                self.switch().await
            };
            match switched {
                Ok(held) => return Ok(held),
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "not switched yet");
                    if self.has_switched().await {
                        return Ok(Duration::ZERO);
                    }
                    if Instant::now() > deadline {
                        return Err(RebuildError::NotSwitched(error.to_string()));
                    }
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(SWITCH_AGAIN).await;
        }
    }

    fn say(&self, what: &str) {
        (self.progress)(Progress::At(format!("{what} {}", name(self.shadows))));
    }

    /// Reads up to where the log ends now. What that is to be compared with is read beside it, while the server writes.
    async fn read_to_end(&mut self) -> Result<(), RebuildError> {
        let ends = self.context.whole_log(&self.shadows.partitions).await?;
        let built = read(&mut self.replay, &ends, self.progress);
        // What is wrong with the log is told by the comparison, which goes on from here.
        let folded = self.proof.fold_to(&ends).err_into();
        try_join!(built, folded)?;
        Ok(())
    }

    async fn read(&mut self, ends: &BTreeMap<Partition, i64>) -> Result<(), RebuildError> {
        read(&mut self.replay, ends, self.progress).await
    }

    async fn compare_in(&mut self, company: &Company) -> Result<(), RebuildError> {
        let _snapshot = company.snapshots.read().await;
        self.compare().await
    }

    /// Compares what was built, or what came to it since, with the log.
    async fn compare(&mut self) -> Result<(), RebuildError> {
        let mut checks = vec![self.proof.fold_to(&self.ends()).await?];
        match self.shadows.sink {
            Kind::Messages => {
                for partition in &self.shadows.partitions {
                    checks.push(self.proof.messages(*partition).await?);
                }
            }
            Kind::Reads => {
                for table in &self.shadows.tables {
                    checks.push(self.proof.reads(*table).await?);
                }
            }
            Kind::Contacts => {
                for table in &self.shadows.tables {
                    checks.push(self.proof.contacts(*table).await?);
                }
            }
        }
        self.compared += checks[1..].iter().map(|check| check.compared).sum::<u64>();
        self.proof.begin_tail();
        if checks.iter().all(|check| check.differences() == 0) {
            return Ok(());
        }
        checks.retain(|check: &Check| check.differences() > 0);
        Err(RebuildError::Wrong(checks))
    }

    /// Reads and compares what has come meanwhile, until little is left for the time of the fence.
    async fn shorten_tail(&mut self, company: &Company) -> Result<(), RebuildError> {
        for _ in 0..MOST_ROUNDS {
            let ends = self.context.whole_log(&self.shadows.partitions).await?;
            let at = self.ends();
            let left: i64 = ends
                .iter()
                .map(|(partition, end)| end - at[partition])
                .sum();
            self.read(&ends).await?;
            self.compare_in(company).await?;
            if left <= SHORT_TAIL {
                break;
            }
        }
        Ok(())
    }

    /// Holds writers back, takes in what they were ahead, and switches.
    async fn switch(&mut self) -> Result<Duration, RebuildError> {
        let Context { store, topic, .. } = self.context;
        let mut fence = Fence::raise(store, self.shadows, topic).await?;
        if self.read_behind(&fence).await? {
            fence.hold().await?;
            self.compare().await?;
        }
        fence.hold().await?;
        fence.outlast_snapshots(READERS_PATIENCE).await?;
        let built = self.replay.positions().clone().into_iter().collect();
        Ok(fence.switch(&built).await?)
    }

    /// Reads up to where the live tables are, where that is further; whether it was.
    async fn read_behind(&mut self, fence: &Fence) -> Result<bool, RebuildError> {
        let at = self.ends();
        let live = fence.live().iter();
        let ahead: BTreeMap<Partition, i64> = live
            .filter(|(partition, live)| live.next.get() > at[&partition])
            .map(|(partition, live)| (partition, live.next.get()))
            .collect();
        if ahead.is_empty() {
            return Ok(false);
        }
        let ends = self.context.whole_log(&self.shadows.partitions).await?;
        if let Some((partition, live)) = ahead.iter().find(|(p, live)| ends[p] < **live) {
            return Err(RebuildError::LogWentBack {
                topic: self.context.topic.clone(),
                partition: *partition,
                end: ends[partition],
                live: *live,
            });
        }
        self.read(&ahead).await?;
        Ok(true)
    }

    fn ends(&self) -> BTreeMap<Partition, i64> {
        let positions = self.replay.positions().iter();
        positions
            .map(|(partition, at)| (*partition, at.next.get()))
            .collect()
    }

    /// Whether a switch that failed was one after all.
    async fn has_switched(&self) -> bool {
        let Context { store, topic, .. } = self.context;
        matches!(
            store.find_shadows(self.shadows, topic).await,
            Ok(Leftover::Nothing)
        )
    }
}

/// Writes what the log has up to these ends.
async fn read<S: Sink>(
    replay: &mut Replay<S>,
    ends: &BTreeMap<Partition, i64>,
    progress: &impl Fn(Progress),
) -> Result<(), RebuildError> {
    let told = |records| progress(Progress::Advanced(records));
    Ok(replay.up_to(ends, told).await?)
}

fn name(shadows: &Shadows) -> String {
    let what = shadows.sink.name();
    match shadows.tables.as_slice() {
        [table] => format!("{what} {table}"),
        tables => format!("{} tables of {what}", tables.len()),
    }
}
