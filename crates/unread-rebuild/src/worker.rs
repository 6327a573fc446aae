//! Gathers what is asked of one database, and runs it in rounds.

use std::{sync::Arc, time::Duration};

use schemas::UserId;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::sleep,
};
use unread_store::SharedConnection;

use crate::{
    ContactCounts, RebuildConfig, UnreadRebuildError, barrier::Barrier, flights::Ticket,
    round::Round,
};

/// What can be asked for.
pub(crate) enum Request {
    /// That a user is complete in Redis.
    Rebuild(Ticket),
    /// A user's counts, from the rows alone.
    Count(
        UserId,
        oneshot::Sender<Result<ContactCounts, UnreadRebuildError>>,
    ),
}

/// What the rounds of one database work with.
pub(crate) struct Tools {
    pub(crate) config: RebuildConfig,
    pub(crate) redis: Arc<SharedConnection>,
    pub(crate) barrier: Arc<Barrier>,
    /// Where to put what is to be tried again. Weak, since the worker ends when nobody can ask any more.
    pub(crate) again: mpsc::WeakUnboundedSender<Request>,
}

/// How long a round waits for company before it begins.
const GATHER: Duration = Duration::from_millis(2);

/// Runs until nobody can ask any more; unfinished rounds end with it.
pub(crate) async fn serve(tools: Arc<Tools>, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut rounds = JoinSet::new();
    loop {
        let may_begin = rounds.len() < tools.config.rounds_per_database;
        tokio::select! {
            Some(ended) = rounds.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a round of rebuilds ended badly");
                }
            }
            first = requests.recv(), if may_begin => {
                let Some(first) = first else { return };
                let gathered = gather(first, &mut requests, tools.config.users_per_round).await;
                rounds.spawn(Round::new(Arc::clone(&tools)).run(gathered));
            }
        }
    }
}

async fn gather(
    first: Request,
    requests: &mut mpsc::UnboundedReceiver<Request>,
    most: usize,
) -> Vec<Request> {
    sleep(GATHER).await;
    let mut gathered = vec![first];
    while gathered.len() < most
        && let Ok(request) = requests.try_recv()
    {
        gathered.push(request);
    }
    gathered
}
