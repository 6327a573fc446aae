//! One swap: read the log into shadow tables, compare them with it, replace the live tables.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use audit::{Check, ShadowAudit};
use futures::{TryFutureExt as _, try_join};
use message_store::{
    Fence, MessageStore, RebuildLock, ShadowState, Shadows, Shard, Sink as StoreSink,
};
use projection::{Replay, Sink, SinkError};
use schemas::PartitionMap;
use tokio::sync::{Mutex, RwLock};

use crate::{Context, Progress, RebuildError};

/// The fence is acquired when at most this many records are left to read.
const SHORT_TAIL: i64 = 500;
/// The fence is acquired after this many rounds in any case.
const MAX_ROUNDS: usize = 5;

/// How long to wait for open snapshots while the fence is held: blocked writers fail after 10 s.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(4);

/// How long to wait for the messages that ordinals need, and how often to check.
const UNRESOLVED_READS_TIMEOUT: Duration = Duration::from_secs(60);
const UNRESOLVED_READS_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long the swap is retried, and how often.
const SWAP_TIMEOUT: Duration = Duration::from_secs(120);
const SWAP_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// State shared by concurrent builds.
pub(crate) struct SharedState {
    pub(crate) locks: Mutex<Vec<RebuildLock>>,
    /// A comparison opens a snapshot, and a fence waits until all snapshots of the server are closed. So builds do not compare while a fence is held.
    pub(crate) snapshots: RwLock<()>,
}

pub(crate) struct Outcome {
    pub(crate) compared: u64,
    pub(crate) held: Duration,
}

/// Shadow tables that are being built.
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
        max_pending: usize,
        progress: &'a P,
    ) -> Result<Self, RebuildError> {
        let reader = Arc::clone(&context.reader);
        Ok(Self {
            context,
            shadows,
            progress,
            replay: Replay::begin(sink, reader, &shadows.partitions, max_pending).await?,
            proof: ShadowAudit::new(context.shadow_sources(shadows.sink), &shadows.partitions)?,
            compared: 0,
        })
    }

    /// Builds the shadow tables and swaps them in. Tables that differ from the log are dropped.
    pub(crate) async fn run(mut self, shared: &SharedState) -> Result<Outcome, RebuildError> {
        let ended = self.build(shared).await;
        let Context { store, topic, .. } = self.context;
        match ended {
            Ok(held) => {
                store.drop_replaced(self.shadows).await?;
                let compared = self.compared;
                Ok(Outcome { compared, held })
            }
            Err(error @ RebuildError::Mismatch(_)) => {
                // The marker goes first; otherwise the next run would take these tables for swapped.
                let sink = self.shadows.sink;
                store.end_full_rebuild(sink, topic).await?;
                store.discard_shadows(self.shadows, topic).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn build(&mut self, shared: &SharedState) -> Result<Duration, RebuildError> {
        self.say("reading the log for");
        self.read_to_end().await?;
        self.say("comparing");
        self.compare_in(shared).await?;
        self.say("swapping");
        let deadline = Instant::now() + SWAP_TIMEOUT;
        loop {
            self.shorten_tail(shared).await?;
            for lock in &mut *shared.locks.lock().await {
                lock.check().await?;
            }
            let swapped = {
                let _no_snapshots = shared.snapshots.write().await;
                self.swap().await
            };
            match swapped {
                Ok(held) => return Ok(held),
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "not swapped yet");
                    if self.is_swapped().await {
                        return Ok(Duration::ZERO);
                    }
                    if Instant::now() > deadline {
                        return Err(RebuildError::NotSwapped(error.to_string()));
                    }
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(SWAP_RETRY_INTERVAL).await;
        }
    }

    fn say(&self, what: &str) {
        (self.progress)(Progress::At(format!("{what} {}", name(self.shadows))));
    }

    /// Reads up to the present end of the log. The expected values are folded at the same time.
    async fn read_to_end(&mut self) -> Result<(), RebuildError> {
        let ends = self
            .context
            .ends_of_complete_log(&self.shadows.partitions)
            .await?;
        let built = read(&mut self.replay, &ends, self.progress);
        // The comparison continues from here and reports errors of the log.
        let folded = self.proof.fold_to(&ends).err_into();
        try_join!(built, folded)?;
        self.fill_unresolved_reads().await
    }

    async fn read(&mut self, ends: &PartitionMap<i64>) -> Result<(), RebuildError> {
        read(&mut self.replay, ends, self.progress).await?;
        self.fill_unresolved_reads().await
    }

    /// Looks up the ordinals that the shadow tables lack, and waits for the messages needed for that.
    async fn fill_unresolved_reads(&self) -> Result<(), RebuildError> {
        let Shadows { sink, shard, .. } = self.shadows;
        if *sink != StoreSink::Contacts {
            return Ok(());
        }
        let store = self.context.store.shadow(*sink);
        fill_unresolved_reads(&store, *shard, &self.context.topic).await
    }

    async fn compare_in(&mut self, shared: &SharedState) -> Result<(), RebuildError> {
        let _snapshot = shared.snapshots.read().await;
        self.compare().await
    }

    /// Compares the shadow tables with the log; after the first time, only what was added.
    async fn compare(&mut self) -> Result<(), RebuildError> {
        let mut checks = vec![self.proof.fold_to(&self.ends()).await?];
        match self.shadows.sink {
            StoreSink::Messages => {
                for partition in &self.shadows.partitions {
                    checks.push(self.proof.messages(*partition).await?);
                }
            }
            StoreSink::Reads => {
                for table in &self.shadows.tables {
                    checks.push(self.proof.reads(*table).await?);
                }
            }
            StoreSink::Contacts => {
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
        Err(RebuildError::Mismatch(checks))
    }

    /// Reads and compares what was appended meanwhile, until little is left to read under the fence.
    async fn shorten_tail(&mut self, shared: &SharedState) -> Result<(), RebuildError> {
        for _ in 0..MAX_ROUNDS {
            let ends = self
                .context
                .ends_of_complete_log(&self.shadows.partitions)
                .await?;
            let at = self.ends();
            let left: i64 = ends
                .iter()
                .map(|(partition, end)| end - at[partition])
                .sum();
            self.read(&ends).await?;
            self.compare_in(shared).await?;
            if left <= SHORT_TAIL {
                break;
            }
        }
        Ok(())
    }

    /// Blocks writers, reads up to the live tables' positions, and swaps.
    async fn swap(&mut self) -> Result<Duration, RebuildError> {
        let Context { store, topic, .. } = self.context;
        let mut fence = Fence::acquire(store, self.shadows, topic).await?;
        if self.catch_up(&fence).await? {
            fence.keep_alive().await?;
            self.compare().await?;
        }
        fence.keep_alive().await?;
        fence.wait_for_snapshots(SNAPSHOT_TIMEOUT).await?;
        let built = self.replay.positions().clone().into_iter().collect();
        Ok(fence.swap(&built).await?)
    }

    /// Reads up to the live tables' positions, if those are further; returns whether any was.
    async fn catch_up(&mut self, fence: &Fence) -> Result<bool, RebuildError> {
        let at = self.ends();
        let live = fence.live_positions().iter();
        let ahead: PartitionMap<i64> = live
            .filter(|(partition, live)| live.next.get() > at[*partition])
            .map(|(partition, live)| (partition, live.next.get()))
            .collect();
        if ahead.is_empty() {
            return Ok(false);
        }
        let ends = self
            .context
            .ends_of_complete_log(&self.shadows.partitions)
            .await?;
        if let Some((partition, live)) = ahead.iter().find(|(p, live)| ends[*p] < **live) {
            return Err(RebuildError::LogTruncated {
                topic: self.context.topic.clone(),
                partition,
                end: ends[partition],
                live: *live,
            });
        }
        self.read(&ahead).await?;
        Ok(true)
    }

    fn ends(&self) -> PartitionMap<i64> {
        let positions = self.replay.positions().iter();
        positions
            .map(|(partition, at)| (partition, at.next.get()))
            .collect()
    }

    /// Whether a swap that reported an error has nevertheless happened.
    async fn is_swapped(&self) -> bool {
        let Context { store, topic, .. } = self.context;
        matches!(
            store.recover_shadows(self.shadows, topic).await,
            Ok(ShadowState::Absent)
        )
    }
}

/// Looks up the ordinals that the contacts of a database lack, and waits for the messages needed for that.
pub(crate) async fn fill_unresolved_reads(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
) -> Result<(), RebuildError> {
    let deadline = Instant::now() + UNRESOLVED_READS_TIMEOUT;
    for messages in store.layout().shards() {
        while let Some(why) =
            mysql_sinks::fill_unresolved_reads(store, shard, messages, topic).await?
        {
            if Instant::now() > deadline {
                return Err(SinkError::Transient(why).into());
            }
            tokio::time::sleep(UNRESOLVED_READS_POLL_INTERVAL).await;
        }
    }
    Ok(())
}

async fn read<S: Sink>(
    replay: &mut Replay<S>,
    ends: &PartitionMap<i64>,
    progress: &impl Fn(Progress),
) -> Result<(), RebuildError> {
    let report = |records| progress(Progress::Advanced(records));
    Ok(replay.up_to(ends, report).await?)
}

fn name(shadows: &Shadows) -> String {
    let what = shadows.sink.name();
    match shadows.tables.as_slice() {
        [table] => format!("{what} {table}"),
        tables => format!("{} tables of {what}", tables.len()),
    }
}
