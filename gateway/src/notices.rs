//! Notices of all gateways, this one included. Without Redis none arrive, and everything else goes on.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::time::sleep;
use unread_store::{Notice, UnreadError};

use crate::{metrics, state::Gateway, typing};

const RETRY: Duration = Duration::from_millis(500);

/// Listens until the shutdown.
pub(crate) async fn listen(gateway: Arc<Gateway>) -> anyhow::Result<()> {
    let mut attempt = 0;
    let mut failure_is_known = false;
    while !gateway.shutdown.soft().is_cancelled() {
        let following = follow(&gateway, attempt, &mut failure_is_known);
        tokio::select! {
            Err(error) = following => {
                metrics::redis_up(false);
                if !failure_is_known {
                    failure_is_known = true;
                    tracing::warn!(%error, "notices of gateways do not arrive: no typing, and presence is late");
                }
            }
            () = gateway.shutdown.soft().cancelled() => break,
        }
        sleep(RETRY).await;
        attempt += 1;
    }
    Ok(())
}

async fn follow(
    gateway: &Gateway,
    attempt: usize,
    failure_is_known: &mut bool,
) -> Result<Infallible, UnreadError> {
    // In a cluster each attempt asks the node of the next slot, since all nodes have all notices.
    let mut subscription = gateway.redis.store().subscribe(attempt).await?;
    metrics::redis_up(true);
    if std::mem::take(failure_is_known) {
        tracing::info!("notices of gateways arrive again");
    }
    loop {
        match subscription.next().await? {
            Notice::Typing { from, to } => {
                metrics::notice("typing");
                let focus = &gateway.focus;
                let receivers = gateway.typing.receivers(&gateway.hub(), focus, from, to);
                typing::notify(&receivers, from, to);
            }
            Notice::Presence(uid) => {
                metrics::notice("presence");
                gateway.presence.mark_stale_if_watched(uid);
            }
            Notice::Replaced(uid, id) => {
                metrics::notice("replaced");
                gateway.presence.replace(uid, &id);
            }
        }
    }
}
