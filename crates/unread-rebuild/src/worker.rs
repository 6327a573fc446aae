//! Gathers the requests of one database and runs them in batches.

use std::{sync::Arc, time::Duration};

use schemas::UserId;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::sleep,
};
use unread_store::SharedConnection;

use crate::{
    ContactCounts, RebuildConfig, UnreadRebuildError, barrier::Barrier, batch::Batch,
    single_flight::PendingRebuild,
};

pub(crate) enum Request {
    /// Make a user complete in Redis.
    Rebuild(PendingRebuild),
    /// Read a user's counts from the rows alone.
    Count(
        UserId,
        oneshot::Sender<Result<ContactCounts, UnreadRebuildError>>,
    ),
}

/// What the batches of one database share.
pub(crate) struct Context {
    pub(crate) config: RebuildConfig,
    pub(crate) redis: Arc<SharedConnection>,
    pub(crate) barrier: Arc<Barrier>,
    /// Takes retries. Weak, so that the worker ends when all handles are dropped.
    pub(crate) requests: mpsc::WeakUnboundedSender<Request>,
}

/// How long a batch waits for more requests before it begins.
const LINGER: Duration = Duration::from_millis(2);

/// Runs until all handles are dropped; unfinished batches end with it.
pub(crate) async fn serve(context: Arc<Context>, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut batches = JoinSet::new();
    loop {
        let may_begin = batches.len() < context.config.rounds_per_database;
        tokio::select! {
            Some(ended) = batches.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a batch of rebuilds has panicked");
                }
            }
            first = requests.recv(), if may_begin => {
                let Some(first) = first else { return };
                let gathered = gather(first, &mut requests, context.config.users_per_round).await;
                batches.spawn(Batch::new(Arc::clone(&context)).run(gathered));
            }
        }
    }
}

async fn gather(
    first: Request,
    requests: &mut mpsc::UnboundedReceiver<Request>,
    limit: usize,
) -> Vec<Request> {
    sleep(LINGER).await;
    let mut gathered = vec![first];
    while gathered.len() < limit
        && let Ok(request) = requests.try_recv()
    {
        gathered.push(request);
    }
    gathered
}
