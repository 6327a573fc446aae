//! The swaps to be made, and the remains of an earlier run.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use message_store::{RebuildLock, ShadowState, Shadows, Sink};
use schemas::{Partition, TableNumber};

use crate::{Context, RebuildError};

/// The swaps to be made, in order, and the locks for them.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Shadows>,
    pub(crate) left_over: Option<usize>,
    pub(crate) locks: Vec<RebuildLock>,
}

impl Plan {
    /// Creates the missing shadow tables; tables that an earlier run began to fill are continued. At the next run, existing shadow tables are those
    /// not swapped in yet.
    pub(crate) async fn make(
        context: &Context,
        sink: Sink,
        only: Option<TableNumber>,
    ) -> Result<Self, RebuildError> {
        let requested = Shadows::of(context.store.layout(), sink, only);
        let locks = lock(context, sink, &requested).await?;
        // The marker of a full rebuild stays unset until all shadow tables exist again: after a crash all tables are built again, and a run for one
        // table, which discards other tables' shadows, leaves no marker that says those are done.
        let marked = context.store.end_full_rebuild(sink, &context.topic).await?;
        let mut unfinished = Vec::new();
        for shadows in &requested {
            match context
                .store
                .recover_shadows(shadows, &context.topic)
                .await?
            {
                ShadowState::Absent => {}
                ShadowState::Unfinished | ShadowState::LiveMissing => {
                    unfinished.push(shadows.clone());
                }
            }
        }
        let whole = only.is_none();
        let continues = whole && marked;
        let left_over = continues.then_some(unfinished.len());
        let steps = if continues { unfinished } else { requested };
        // The store creates months up to some time after `now`.
        let now = SystemTime::now().into();
        for shadows in &steps {
            context.store.create_shadows(shadows, now).await?;
        }
        if whole {
            context
                .store
                .begin_full_rebuild(sink, &context.topic)
                .await?;
        }
        Ok(Self {
            steps,
            left_over,
            locks,
        })
    }

    pub(crate) fn partitions(&self) -> Vec<Partition> {
        let partitions = self.steps.iter().flat_map(|shadows| &shadows.partitions);
        let partitions: BTreeSet<Partition> = partitions.copied().collect();
        partitions.into_iter().collect()
    }

    pub(crate) fn tables(&self) -> usize {
        self.steps.iter().map(|shadows| shadows.tables.len()).sum()
    }
}

/// Takes one lock on each server.
async fn lock(
    context: &Context,
    sink: Sink,
    requested: &[Shadows],
) -> Result<Vec<RebuildLock>, RebuildError> {
    let layout = context.store.layout();
    let servers: BTreeMap<usize, _> = requested
        .iter()
        .map(|shadows| (layout.server_of(shadows.shard), shadows.shard))
        .collect();
    let mut locks = Vec::new();
    for shard in servers.into_values() {
        let lock = RebuildLock::take(&context.store, shard, sink.name()).await?;
        locks.push(lock.ok_or(RebuildError::Busy { what: sink.name() })?);
    }
    Ok(locks)
}
