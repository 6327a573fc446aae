//! Gathers the requests of one database and runs them in batches.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use crate::batch::{Batch, Context, Request};

/// How long a batch waits for more requests before it begins.
const LINGER: Duration = Duration::from_millis(2);

/// Runs until all handles are dropped; unfinished batches are dropped then.
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
