//! What is to be built, and what of it a former run has left.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use message_store::{Leftover, RebuildLock, Shadows, Sink};
use schemas::{Partition, TableNumber};

use crate::{Context, RebuildError};

/// The switches to be made, in order, and the right to make them.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Shadows>,
    pub(crate) left_over: Option<usize>,
    pub(crate) locks: Vec<RebuildLock>,
}

impl Plan {
    /// Makes all shadows that are to be built and are not there; those that a former run began to fill go on where that stopped. Whichever
    /// are there at the next run have not taken their place yet.
    pub(crate) async fn make(
        context: &Context,
        sink: Sink,
        only: Option<TableNumber>,
    ) -> Result<Self, RebuildError> {
        let wanted = Shadows::of(context.store.layout(), sink, only);
        let locks = lock(context, sink, &wanted).await?;
        // From here until all shadows are there again nothing is noted of a run for all: after a crash all tables are built once more,
        // and a run for one table, which discards others' shadows, leaves nothing that says those are done.
        let noted = context
            .store
            .end_rebuild_of_all(sink, &context.topic)
            .await?;
        let mut undone = Vec::new();
        for shadows in &wanted {
            match context.store.find_shadows(shadows, &context.topic).await? {
                Leftover::Nothing => {}
                Leftover::Begun | Leftover::Missing => undone.push(shadows.clone()),
            }
        }
        let whole = only.is_none();
        let goes_on = whole && noted;
        let left_over = goes_on.then_some(undone.len());
        let steps = if goes_on { undone } else { wanted };
        // Months are made up to some time after this.
        let now = SystemTime::now().into();
        for shadows in &steps {
            context.store.create_shadows(shadows, now).await?;
        }
        if whole {
            context
                .store
                .begin_rebuild_of_all(sink, &context.topic)
                .await?;
        }
        Ok(Self {
            steps,
            left_over,
            locks,
        })
    }

    /// The partitions of the log that have to be read.
    pub(crate) fn partitions(&self) -> Vec<Partition> {
        let partitions = self.steps.iter().flat_map(|shadows| &shadows.partitions);
        let partitions: BTreeSet<Partition> = partitions.copied().collect();
        partitions.into_iter().collect()
    }

    pub(crate) fn tables(&self) -> usize {
        self.steps.iter().map(|shadows| shadows.tables.len()).sum()
    }
}

/// One lock for each server.
async fn lock(
    context: &Context,
    sink: Sink,
    wanted: &[Shadows],
) -> Result<Vec<RebuildLock>, RebuildError> {
    let layout = context.store.layout();
    let servers: BTreeMap<usize, _> = wanted
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
